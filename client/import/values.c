/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/values.h"

#include "common/base/memstream.h"
#include "common/text/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *value_of_name(
	const char *name, size_t len, const struct value_name *names, size_t n, const json_t *env)
{
	_cleanup_free_ char *copy = strndup(name, len);

	for (size_t i = 0; copy && i < n; i++)
		if (!strcmp(copy, names[i].name))
			return names[i].value;
	if (!copy || strncmp(copy, "ENV_", 4) != 0)
		return NULL;
	return json_get_string(env, copy + 4, getenv(copy + 4));
}

/* Writes what stands at text, which begins with "%(". Returns its length, or 0 where it cannot be
 * replaced. */
static size_t value_expand_one(
	FILE *f, const char *text, const struct value_name *names, size_t n, const json_t *env)
{
	const char *end = strchr(text, ')'), *value;
	size_t digits;
	char *rest;
	long number;

	if (!end)
		return 0;
	value = value_of_name(text + 2, (size_t)(end - text - 2), names, n, env);
	digits = strspn(end + 1, "0123456789");
	if (!value || digits > 2)
		return 0;
	if (end[1 + digits] == 's' && !digits)
		fputs(value, f);
	else if (end[1 + digits] == 'd') {
		number = strtol(value, &rest, 10);
		if (*rest || !*value)
			return 0;
		fprintf(f, end[1] == '0' ? "%0*ld" : "%*ld", atoi(end + 1), number);
	} else {
		return 0;
	}
	return (size_t)(end - text) + 2 + digits;
}

int value_expand(const char *text, const struct value_name *names, size_t n, const json_t *env,
	char **ret, char **ret_problem)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	*ret_problem = NULL;
	if (!f)
		return -ENOMEM;
	while (*text) {
		size_t used = strncmp(text, "%%", 2) ? 0 : 2;

		if (used)
			fputc('%', f);
		else if (!strncmp(text, "%(", 2))
			used = value_expand_one(f, text, names, n, env);
		if (*text == '%' && !used && !*ret_problem &&
			asprintf(ret_problem, "%.*s is not known here: it stays as it is",
				(int)strcspn(text, " \t\n\"',;"), text) < 0)
			*ret_problem = NULL;
		if (!used)
			fputc(text[used++], f);
		text += used;
	}
	*ret = memstream_end(f, &out);
	return *ret ? 0 : -ENOMEM;
}

/* Reads one word, up to a character of ends that is not quoted. escapes: a backslash is one. False:
 * a quote is not closed. */
static bool value_word(const char **text, const char *ends, bool escapes, FILE *f)
{
	const char *p = *text;
	char quote = 0;

	for (; *p && (quote || !strchr(ends, *p)); p++) {
		if (!quote && (*p == '"' || *p == '\''))
			quote = *p;
		else if (quote && *p == quote)
			quote = 0;
		else if (escapes && *p == '\\' && quote != '\'' && p[1] &&
			 (!quote || p[1] == quote || p[1] == '\\'))
			fputc(*++p, f);
		else
			fputc(*p, f);
	}
	*text = p;
	return !quote;
}

static char *value_take_word(const char **text, const char *ends, bool escapes)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	bool whole = f && value_word(text, ends, escapes, f);

	if (f)
		out = memstream_end(f, &out);
	if (!whole)
		out = (free(out), NULL);
	return out;
}

json_t *value_words(const char *text)
{
	json_t *words = json_array();

	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		_cleanup_free_ char *word = value_take_word(&text, " \t\n", true);

		if (!word ||
			json_array_append_new(words, json_string_lossy(word, strlen(word))) < 0) {
			json_decref(words);
			return NULL;
		}
	}
	return words;
}

json_t *value_pairs(const char *text)
{
	json_t *pairs = json_object();

	for (text += strspn(text, " \t\n,"); *text; text += strspn(text, " \t\n,")) {
		size_t n = strcspn(text, "=, \t\n\"'");
		_cleanup_free_ char *name = strndup(text, n), *value = NULL;

		text += n;
		if (n && name && *text == '=' && text++)
			value = value_take_word(&text, ", \t\n", false);
		if (!value || json_object_set_new(
				      pairs, name, json_string_lossy(value, strlen(value))) < 0) {
			json_decref(pairs);
			return NULL;
		}
	}
	return pairs;
}

int value_bool(const char *text)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(text, words[i]))
			return (int)(i % 2);
	return -1;
}
