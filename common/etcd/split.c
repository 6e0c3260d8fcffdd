/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/split.h"

#include <errno.h>
#include <string.h>

/* Returns whether the object ends with c. */
static bool split_takes(struct etcd_split *s, char c)
{
	if (s->escaped) {
		s->escaped = false;
	} else if (s->quoted) {
		s->escaped = c == '\\';
		s->quoted = c != '"';
	} else if (c == '"') {
		s->quoted = true;
	} else if (c == '{' || c == '[') {
		s->depth++;
	} else if (c == '}' || c == ']') {
		return --s->depth == 0;
	}
	return false;
}

ssize_t etcd_split(struct etcd_split *s, const char *text, size_t len)
{
	while (s->at < len) {
		char c = text[s->at];

		if (!s->depth && c != '{' && !(c && strchr(" \t\r\n", c)))
			return -EBADMSG;
		s->at++;
		if (s->depth || c == '{')
			if (split_takes(s, c)) {
				len = s->at;
				*s = (struct etcd_split){ 0 };
				return (ssize_t)len;
			}
	}
	return 0;
}
