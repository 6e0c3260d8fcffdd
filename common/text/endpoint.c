/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/endpoint.h"

#include "common/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int error_expected(struct error *err, const char *field, const char *text)
{
	char q[QUOTE_MAX];

	return error_field(
		err, -EINVAL, field, "expected " ENDPOINT_EXPECTED ", got %s", quote_text(text, q));
}

/* The port behind the colon at at; NULL: there is none. */
static int parse_port(const char *at, int *ret)
{
	char *end;
	long n = ENDPOINT_PORT;

	if (at) {
		if (strspn(at + 1, "0123456789") != strlen(at + 1) || !at[1])
			return -EINVAL;
		n = strtol(at + 1, &end, 10);
	}
	if (n < 1 || n > 65535)
		return -EINVAL;
	*ret = (int)n;
	return 0;
}

int endpoint_parse(const char *text, const char *field, struct endpoint *ret, struct error *err)
{
	struct endpoint e = { .port = 0 };
	const char *begin = text, *end, *colon;

	if (*text == '[') {
		begin = text + 1;
		end = strchr(begin, ']');
		if (!end || (end[1] && end[1] != ':'))
			return error_expected(err, field, text);
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strrchr(text, ':');
		/* An IPv6 address without brackets has no port. */
		if (colon && colon != strchr(text, ':'))
			colon = NULL;
		end = colon ? colon : text + strlen(text);
	}
	if (end == begin || (size_t)(end - begin) >= sizeof(e.host))
		return error_expected(err, field, text);
	memcpy(e.host, begin, (size_t)(end - begin));
	if (strpbrk(e.host, " \t\r\n/@,") || parse_port(colon, &e.port) < 0)
		return error_expected(err, field, text);
	e.has_port = colon;
	*ret = e;
	return 0;
}

void endpoint_text(const struct endpoint *e, char *text)
{
	bool six = strchr(e->host, ':');

	snprintf(text, ENDPOINT_TEXT_MAX, "%s%s%s:%d", six ? "[" : "", e->host, six ? "]" : "",
		e->port);
}

const char *endpoint_without_scheme(const char *text)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (int i = 0; i < 2; i++)
		if (!strncmp(text, schemes[i], strlen(schemes[i])))
			return text + strlen(schemes[i]);
	return text;
}
