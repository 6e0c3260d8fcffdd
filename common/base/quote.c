/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/quote.h"

#include "common/base/cleanup.h"
#include "common/base/memstream.h"

#include <stdio.h>
#include <string.h>

/* Room for the closing quote, the dots and one escape. */
enum { QUOTE_TAIL = 10 };

const char *quote_text(const char *text, char buf[QUOTE_MAX])
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *text; text++) {
		unsigned char c = *text;

		if (n > QUOTE_MAX - QUOTE_TAIL) {
			/* Not in the middle of a UTF-8 sequence. */
			for (int i = 0; i < 3 && ((unsigned char)*text & 0xc0) == 0x80 &&
					((unsigned char)text[-1] & 0x80);
				i++, text--)
				n--;
			memcpy(buf + n, "...", 3);
			n += 3;
			break;
		}
		if (c == '\n')
			n += sprintf(buf + n, "\\n");
		else if (c == '\t')
			n += sprintf(buf + n, "\\t");
		else if (c == '"' || c == '\\')
			n += sprintf(buf + n, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			n += sprintf(buf + n, "\\x%02x", c);
		else
			buf[n++] = c;
	}
	buf[n++] = '"';
	buf[n] = '\0';
	return buf;
}

static bool is_plain(const char *word)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "_-+=./:,@%^";

	return *word && strspn(word, ok) == strlen(word);
}

static bool has_control(const char *word)
{
	for (; *word; word++)
		if ((unsigned char)*word < 0x20 || *word == 0x7f)
			return true;
	return false;
}

static void quote_word(FILE *f, const char *word)
{
	bool escape = has_control(word);

	if (is_plain(word)) {
		fputs(word, f);
		return;
	}
	fputs(escape ? "$'" : "'", f);
	for (; *word; word++) {
		unsigned char c = *word;

		if (!escape && c == '\'')
			fputs("'\\''", f);
		else if (escape && (c == '\'' || c == '\\'))
			fprintf(f, "\\%c", c);
		else if (escape && c == '\n')
			fputs("\\n", f);
		else if (escape && (c < 0x20 || c == 0x7f))
			fprintf(f, "\\%03o", c);
		else
			fputc(c, f);
	}
	fputc('\'', f);
}

char *quote_shell(char *const *words)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; words[i]; i++) {
		if (i)
			fputc(' ', f);
		quote_word(f, words[i]);
	}
	return memstream_end(f, &text);
}
