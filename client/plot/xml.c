/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/xml.h"

#include "common/base/printable.h"

#include <stdbool.h>
#include <string.h>

/* The mean width of a character in fonts of the system, in parts of their size. */
#define XML_CHARACTER 0.54

#define XML_BAD "\xef\xbf\xbd"

/* The length of the character at text, or 0 where XML does not allow it. */
static int xml_character(const char *text)
{
	unsigned c;
	int n = printable_utf8(text, strnlen(text, 4), &c);

	if (n == 0 || c == 0xfffe || c == 0xffff)
		return 0;
	return c == '\n' || c == '\t' || (c >= ' ' && (c < 0x7f || c >= 0xa0)) ? n : 0;
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
