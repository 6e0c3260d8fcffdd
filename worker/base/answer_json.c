/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/answer_json.h"

#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum {
	DIGITS_MAX = 18, /* any number of so many digits fits into an int64_t */
	DEPTH_MAX = 32,
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits at s, or -1. */
static int hex_four(const char *s)
{
	int n = 0;

	for (int i = 0; i < 4; i++) {
		int d = hex_digit(s[i]);

		if (d < 0)
			return -1;
		n = n << 4 | d;
	}
	return n;
}

/* The character of an escape, which begins with its backslash and is *ret_len bytes long. 0: no
 * text can have this character. */
static unsigned escape_point(const char *s, size_t *ret_len)
{
	static const char short_ones[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *found = s[1] ? strchr(short_ones, s[1]) : NULL;
	int high, low;

	*ret_len = 2;
	if (found)
		return (unsigned char)values[found - short_ones];
	high = s[1] == 'u' ? hex_four(s + 2) : 0;
	*ret_len = 6;
	if (high <= 0 || (high >= 0xdc00 && high < 0xe000))
		return 0;
	if (high < 0xd800 || high >= 0xe000)
		return (unsigned)high;
	low = s[6] == '\\' && s[7] == 'u' ? hex_four(s + 8) : 0;
	*ret_len = 12;
	if (low < 0xdc00 || low >= 0xe000)
		return 0;
	return 0x10000 + ((unsigned)(high - 0xd800) << 10) + (unsigned)(low - 0xdc00);
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

/* A string, which begins with its quote; fails where undo_escapes() could not undo an escape. */
static char *scan_string(char *at, struct answer_text *ret)
{
	bool escaped = false;
	char *begin = ++at;
	size_t len;

	for (; *at != '"'; at++) {
		if ((unsigned char)*at < ' ')
			return NULL;
		if (*at != '\\')
			continue;
		escaped = true;
		if (!escape_point(at, &len))
			return NULL;
		at += len - 1;
	}
	*ret = (struct answer_text){ begin, (size_t)(at - begin), escaped };
	return at + 1;
}

static char *scan_int(char *at, int64_t *ret)
{
	bool negative = *at == '-';
	char *begin = at += negative;
	uint64_t n = 0;

	while (*at >= '0' && *at <= '9' && at - begin < DIGITS_MAX)
		n = n * 10 + (uint64_t)(*at++ - '0');
	if (at == begin || (*at != ',' && *at != '}' && *at != ']'))
		return NULL;
	*ret = negative ? -(int64_t)n : (int64_t)n;
	return at;
}

static char *scan_word(char *at, const char *word)
{
	size_t n = strlen(word);

	return strncmp(at, word, n) == 0 ? at + n : NULL;
}

static char *scan_bool(char *at, bool *ret)
{
	*ret = *at == 't';
	return scan_word(at, *ret ? "true" : "false");
}

static char *skip_value(char *at, int depth);

/* An array or an object. */
static char *skip_many(char *at, int depth)
{
	struct answer_text ignored;
	char end = *at++ == '{' ? '}' : ']';

	if (depth > DEPTH_MAX)
		return NULL;
	if (*at == end)
		return at + 1;
	for (;;) {
		if (end == '}') {
			at = *at == '"' ? scan_string(at, &ignored) : NULL;
			if (!at || *at++ != ':')
				return NULL;
		}
		at = skip_value(at, depth);
		if (!at || *at == end)
			return at ? at + 1 : NULL;
		if (*at++ != ',')
			return NULL;
	}
}

static char *skip_value(char *at, int depth)
{
	struct answer_text ignored;
	size_t n;

	switch (*at) {
	case '"':
		return scan_string(at, &ignored);
	case '{':
	case '[':
		return skip_many(at, depth + 1);
	case 't':
		return scan_word(at, "true");
	case 'f':
		return scan_word(at, "false");
	case 'n':
		return scan_word(at, "null");
	default:
		n = strspn(at, "0123456789+-.eE");
		return n ? at + n : NULL;
	}
}

static char *scan_value(char *at, const struct answer_member *m, void *ret)
{
	void *to = (char *)ret + m->offset;
	struct answer_text *t = to;
	char *begin = at;

	if (*at == 'n')
		return scan_word(at, "null");
	switch (m->kind) {
	case ANSWER_INT:
		return scan_int(at, to);
	case ANSWER_BOOL:
		return scan_bool(at, to);
	case ANSWER_TEXT:
		return *at == '"' ? scan_string(at, to) : NULL;
	case ANSWER_RAW:
		break;
	}
	at = skip_value(at, 0);
	if (at)
		*t = (struct answer_text){ begin, (size_t)(at - begin), false };
	return at;
}

/* Members mostly come in the order of the table, so the search begins at *at. */
static const struct answer_member *member_find(
	const struct answer_text *name, const struct answer_member *members, size_t n, size_t *at)
{
	for (size_t i = 0; i < n; i++) {
		size_t j = *at + i < n ? *at + i : *at + i - n;

		if (members[j].name_len == name->len &&
			memcmp(members[j].name, name->at, name->len) == 0) {
			*at = j + 1 < n ? j + 1 : 0;
			return &members[j];
		}
	}
	return NULL;
}

char *answer_object(char *at, const struct answer_member *members, size_t n, void *ret)
{
	const struct answer_member *m;
	struct answer_text name;
	size_t next = 0;

	if (*at++ != '{')
		return NULL;
	if (*at == '}')
		return at + 1;
	for (;;) {
		at = *at == '"' ? scan_string(at, &name) : NULL;
		if (!at || *at++ != ':')
			return NULL;
		m = member_find(&name, members, n, &next);
		at = m ? scan_value(at, m, ret) : skip_value(at, 0);
		if (!at || *at == '}')
			return at ? at + 1 : NULL;
		if (*at++ != ',')
			return NULL;
	}
}

bool answer_element(char **at, struct answer_text *ret)
{
	char *begin = *at + 1, *end;

	if (**at == ']' || *begin == ']')
		return false;
	end = skip_value(begin, 0);
	if (!end)
		return false;
	*ret = (struct answer_text){ begin, (size_t)(end - begin), false };
	*at = end;
	return true;
}

int answer_name(const struct answer_text *t, const char *const *names, int n)
{
	for (int i = 0; t->at && i < n; i++)
		if (strlen(names[i]) == t->len && memcmp(names[i], t->at, t->len) == 0)
			return i;
	return -1;
}

/* `to` may be the text itself, which gets no longer. Returns the new end. */
static char *undo_escapes(char *to, const struct answer_text *t)
{
	const char *from = t->at, *end = t->at + t->len;

	while (from < end) {
		const char *plain = memchr(from, '\\', (size_t)(end - from));
		size_t n = (size_t)((plain ? plain : end) - from);

		memmove(to, from, n);
		to += n;
		from += n;
		if (!plain)
			break;
		to = put_utf8(to, escape_point(from, &n));
		from += n;
	}
	return to;
}

int answer_copy(const struct answer_text *t, char **ret, size_t *ret_len)
{
	char *copy = malloc(t->len + 1), *end;

	if (!copy)
		return -ENOMEM;
	if (t->escaped)
		end = undo_escapes(copy, t);
	else
		end = t->len ? mempcpy(copy, t->at, t->len) : copy;
	*end = '\0';
	if (ret_len)
		*ret_len = (size_t)(end - copy);
	*ret = copy;
	return 0;
}

const char *answer_in_place(struct answer_text *t)
{
	if (!t->at)
		return "";
	if (t->escaped)
		t->len = (size_t)(undo_escapes(t->at, t) - t->at);
	t->escaped = false;
	t->at[t->len] = '\0';
	return t->at;
}

int answer_bytes(const struct answer_text *text, const struct answer_text *base64, void **ret,
	size_t *ret_len)
{
	char *copy;
	int r;

	*ret = NULL;
	*ret_len = 0;
	if (text->at) {
		r = answer_copy(text, &copy, ret_len);
		if (r == 0)
			*ret = copy;
		return r;
	}
	if (!base64->at)
		return 0;
	if (!base64->escaped) {
		r = base64_decode(base64->at, base64->len, ret, ret_len);
		return r == -EINVAL ? -EBADMSG : r;
	}
	/* JSON may escape the slashes of base64. */
	r = answer_copy(base64, &copy, ret_len);
	if (r < 0)
		return r;
	r = base64_decode(copy, *ret_len, ret, ret_len);
	free(copy);
	return r == -EINVAL ? -EBADMSG : r;
}

/* --- whole answers */

const struct answer_reader answer_nothing;

/* The object at text, which ends at end. -EINVAL where it cannot be read. */
static int read_object(const struct answer_reader *r, char *text, const char *end)
{
	if (r->size)
		memset(r->to, 0, r->size);
	if (answer_object(text, r->members, r->n, r->to) != end)
		return -EINVAL;
	return r->keep ? r->keep(r->to) : 0;
}

int answer_read(const struct answer_reader *reader, char *text, size_t len)
{
	static const char start[] = "{\"parameters\":";
	int r;

	if (len < sizeof(start) || strncmp(text, start, sizeof(start) - 1) != 0 ||
		text[len - 1] != '}')
		return 0;
	r = read_object(reader, text + sizeof(start) - 1, text + len - 1);
	return r == 0 ? 1 : r == -EINVAL || r == -EBADMSG ? 0 : r;
}

int answer_read_parsed(
	const struct answer_reader *reader, const json_t *parameters, char **ret_text)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	text = json_dump_text(parameters, &len);
	if (!text)
		return -ENOMEM;
	r = read_object(reader, text, text + len);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	*ret_text = TAKE_PTR(text);
	return 0;
}
