/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/xml.h"

#include <stdbool.h>
#include <string.h>

/* The mean width of a character in fonts of the system, in parts of their size. */
#define XML_CHARACTER 0.54

#define XML_BAD "\xef\xbf\xbd"

/* The length of the character at p, or 0 where XML does not allow it. */
static int xml_character(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned c = *p;
	int n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (n == 1)
		return c >= ' ' || c == '\n' || c == '\t' ? c != 0x7f : 0;
	for (int i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = i == 1 ? (c & (0xffu >> (n + 1))) << 6 | (p[i] & 0x3f) : c << 6 | (p[i] & 0x3f);
	}
	if (n == 2 && c < 0xa0) /* the other controls */
		return 0;
	if (n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000) || c >= 0xfffe))
		return 0;
	if (n == 4 && (c < 0x10000 || c > 0x10ffff))
		return 0;
	return n;
}

void xml_part(FILE *f, const char *text, size_t n)
{
	const char *end = text + strnlen(text, n);

	while (text < end) {
		int len = xml_character(text);

		if (len == 0) {
			fputs(XML_BAD, f);
			text++;
			continue;
		}
		if (text + len > end)
			break;
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else if (*text == '"')
			fputs("&quot;", f);
		else
			fwrite(text, 1, len, f);
		text += len;
	}
}

void xml_text(FILE *f, const char *text, size_t max)
{
	size_t n = strlen(text);

	xml_part(f, text, max && max < n ? max : n);
	if (max && max < n)
		fputs("\xe2\x80\xa6", f);
}

void xml_number(FILE *f, double v, int places)
{
	char buf[64];
	size_t n = (size_t)snprintf(buf, sizeof(buf), "%.*f", places, v);

	if (strchr(buf, '.')) {
		while (buf[n - 1] == '0')
			n--;
		if (buf[n - 1] == '.')
			n--;
	}
	if (n == 2 && !memcmp(buf, "-0", 2))
		n = (size_t)sprintf(buf, "0");
	fwrite(buf, 1, n, f);
}

static bool xml_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

double xml_width(const char *text, double size)
{
	size_t n = 0;

	for (; *text; text++)
		n += !xml_continues(*text);
	return (double)n * size * XML_CHARACTER;
}

size_t xml_fits(const char *text, double size, double width)
{
	size_t i = 0, chars = 0, space = 0;

	for (; text[i]; i++) {
		if (xml_continues(text[i]))
			continue;
		if ((double)++chars * size * XML_CHARACTER > width)
			break;
		if (text[i] == ' ')
			space = i;
	}
	if (!text[i])
		return i;
	return space > i / 2 ? space : i;
}
