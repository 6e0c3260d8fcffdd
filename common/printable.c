/* SPDX-License-Identifier: Apache-2.0 */
#include "common/printable.h"

#include <stdlib.h>
#include <string.h>

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

void printable_write(FILE *f, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned c = 0;
		int n = printable_utf8(text + i, len - i, &c);

		if (n == 0) {
			fputs("\xef\xbf\xbd", f);
			i++;
			continue;
		}
		if (c == '\033') {
			size_t skip = colour_length(text + i, len - i);

			if (skip > 0) {
				i += skip;
				continue;
			}
		}
		if (c == '\r' && (i + 1 == len || text[i + 1] == '\n'))
			;
		else if (c == '\t' || (c >= ' ' && c < 0x7f) || c >= 0xa0)
			fwrite(text + i, 1, n, f);
		else if (c <= 0x7f)
			fprintf(f, "^%c", (int)(c ^ 0x40));
		else
			fprintf(f, "<%02X>", c);
		i += n;
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
	if (fclose(f) != 0) {
		free(s);
		return NULL;
	}
	return s;
}
