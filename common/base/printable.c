/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/printable.h"

#include "common/base/memstream.h"

#include <stdlib.h>
#include <string.h>

enum { PRINTABLE_SHOWN_MAX = 8 };

int printable_utf8(const char *s, size_t n, unsigned *ret_c)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	unsigned c;
	int len;

	if (n == 0)
		return 0;
	if (p[0] < 0x80) {
		*ret_c = p[0];
		return 1;
	}
	if ((p[0] & 0xe0) == 0xc0)
		len = 2, c = p[0] & 0x1f;
	else if ((p[0] & 0xf0) == 0xe0)
		len = 3, c = p[0] & 0x0f;
	else if ((p[0] & 0xf8) == 0xf0)
		len = 4, c = p[0] & 0x07;
	else
		return 0;
	if ((size_t)len > n)
		return 0;
	for (int i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret_c = c;
	return len;
}

/* Bytes of a colour sequence at s, or 0. */
static size_t colour_length(const char *s, size_t n)
{
	size_t i = 2;

	if (n < 3 || s[0] != '\033' || s[1] != '[')
		return 0;
	while (i < n && ((s[i] >= '0' && s[i] <= '9') || s[i] == ';' || s[i] == ':'))
		i++;
	return i < n && s[i] == 'm' ? i + 1 : 0;
}

/* Whether c changes the order in which a line is shown, so that it seems to say something else. */
static bool is_bidi(unsigned c)
{
	return c == 0x200e || c == 0x200f || c == 0x061c || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* Converts the first character or sequence at s: returns its length in s, with ret_n bytes in out.
 */
static size_t show_next(const char *s, size_t n, char out[PRINTABLE_SHOWN_MAX], int *ret_n)
{
	size_t skip = colour_length(s, n);
	unsigned c = 0;
	int len = printable_utf8(s, n, &c);

	*ret_n = 0;
	if (skip > 0)
		return skip;
	if (len == 0) {
		memcpy(out, "\xef\xbf\xbd", *ret_n = 3);
		return 1;
	}
	if (c == '\r' && (n == 1 || s[1] == '\n'))
		return 1;
	if (c == '\t' || (c >= ' ' && c < 0x7f) || (c >= 0xa0 && !is_bidi(c)))
		memcpy(out, s, *ret_n = len);
	else if (c <= 0x7f)
		*ret_n = snprintf(out, PRINTABLE_SHOWN_MAX, "^%c", (int)(c ^ 0x40));
	else
		*ret_n = snprintf(out, PRINTABLE_SHOWN_MAX, "<%02X>", c);
	return len;
}

void printable_write(FILE *f, const char *text, size_t len)
{
	char out[512]; /* stderr has no buffer of its own */
	size_t at = 0;
	int n;

	for (size_t i = 0; i < len;) {
		i += show_next(text + i, len - i, out + at, &n);
		at += (size_t)n;
		if (at > sizeof(out) - PRINTABLE_SHOWN_MAX || i == len) {
			fwrite(out, 1, at, f);
			at = 0;
		}
	}
}

size_t printable_copy(char *to, size_t room, const char *text)
{
	size_t len = strlen(text), at = 0;
	char out[PRINTABLE_SHOWN_MAX];
	int n;

	for (size_t i = 0; i < len;) {
		i += show_next(text + i, len - i, out, &n);
		if (at + n >= room)
			break;
		memcpy(to + at, out, n);
		at += n;
	}
	to[at] = '\0';
	return at;
}

/* Whether the n bytes at s, the last ones so far, may be the beginning of a longer sequence. */
static bool is_begun(const char *s, size_t n)
{
	static const unsigned char least[] = { 0xf0, 0xe0, 0xc0 };
	unsigned char first = s[0];

	if (n >= PRINTABLE_HELD_MAX)
		return false;
	if (first == '\r')
		return n == 1;
	if (first == '\033')
		return n == 1 || (s[1] == '[' && strspn(s + 2, "0123456789;:") >= n - 2);
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return false;
	for (size_t i = 0; i < 3; i++)
		if (first >= least[i])
			return n < 4 - i;
	return false;
}

/* The sequence that ends colours, in any of its forms. */
static bool is_reset(const char *s, size_t n)
{
	return strspn(s + 2, "0;:") == n - 3;
}

static void pass_next(
	struct printable_stream *p, FILE *f, const char *s, size_t n, size_t *ret_used)
{
	char out[PRINTABLE_SHOWN_MAX];
	size_t colour = colour_length(s, n);
	int len;

	if (colour > 0) {
		p->coloured = !is_reset(s, colour);
		fwrite(s, 1, *ret_used = colour, f);
		return;
	}
	if (s[0] == '\n' || (n > 1 && s[0] == '\r' && s[1] == '\n')) {
		/* Its writer forgot to end the colour, or wants to hide what follows. */
		if (p->coloured)
			fputs("\033[0m", f);
		p->coloured = false;
		fwrite(s, 1, *ret_used = s[0] == '\n' ? 1 : 2, f);
		return;
	}
	if (s[0] == '\r') {
		fputs("^M", f);
		*ret_used = 1;
		return;
	}
	*ret_used = show_next(s, n, out, &len);
	fwrite(out, 1, len, f);
}

void printable_pass(struct printable_stream *p, FILE *f, const char *text, size_t len)
{
	size_t used;

	/* A sequence that was begun is completed byte by byte. */
	while (p->n_held > 0 && len > 0) {
		p->held[p->n_held++] = *text++;
		len--;
		p->held[p->n_held] = '\0';
		while (p->n_held > 0 && !is_begun(p->held, p->n_held)) {
			pass_next(p, f, p->held, p->n_held, &used);
			memmove(p->held, p->held + used, p->n_held -= used);
			p->held[p->n_held] = '\0';
		}
	}
	for (size_t i = 0; i < len; i += used) {
		char rest[PRINTABLE_HELD_MAX + 1];

		if (len - i < PRINTABLE_HELD_MAX) {
			memcpy(rest, text + i, len - i);
			rest[len - i] = '\0';
			if (is_begun(rest, len - i)) {
				memcpy(p->held, rest, len - i + 1);
				p->n_held = len - i;
				return;
			}
		}
		pass_next(p, f, text + i, len - i, &used);
	}
}

char *printable_dup(const char *text)
{
	char *s = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&s, &len);

	if (!f)
		return NULL;
	printable_write(f, text, strlen(text));
	return memstream_end(f, &s);
}

size_t printable_cut(const char *data, size_t n)
{
	for (size_t back = 0; back < 4 && back < n; back++) {
		unsigned char c = data[n - 1 - back];
		size_t need;

		if ((c & 0xc0) == 0x80)
			continue;
		need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return need > back + 1 ? n - 1 - back : n;
	}
	return n;
}
