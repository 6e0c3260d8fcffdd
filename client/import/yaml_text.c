/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/yaml_text.h"

#include "common/base/memstream.h"
#include "common/base/printable.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Whether text is itself in YAML without quotes: a word that is no number, boolean or null. */
static bool yaml_is_plain(const char *text)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.-";

	if (!isalpha((unsigned char)*text) && *text != '/')
		return false;
	return text[strspn(text, ok)] == '\0' && strcasecmp(text, "true") &&
	       strcasecmp(text, "false") && strcasecmp(text, "null");
}

/* Characters that YAML refuses, or takes for the end of a line, are written as JSON does. */
static void yaml_write(FILE *f, const char *text)
{
	unsigned c = 0;
	int n;

	for (size_t left = strlen(text); left; left -= (size_t)n, text += n) {
		n = printable_utf8(text, left, &c);
		if ((c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
			c == 0xfffe || c == 0xffff)
			fprintf(f, "\\u%04x", c);
		else
			fwrite(text, 1, (size_t)n, f);
	}
}

/* On one line; JSON is YAML. */
static void yaml_scalar(FILE *f, const json_t *value)
{
	_cleanup_free_ char *text = NULL;

	if (json_is_string(value) && yaml_is_plain(json_string_value(value))) {
		fputs(json_string_value(value), f);
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY);
	if (text)
		yaml_write(f, text);
}

static void yaml_comment(FILE *f, const char *before, const char *text, const char *after)
{
	_cleanup_free_ char *shown = printable_dup(text);

	fputs(before, f);
	yaml_write(f, shown ? shown : "?");
	fputs(after, f);
}

/* Ends a line: "  # autorestart=true". */
static void yaml_end(FILE *f, const struct import_job *j, const char *path)
{
	const char *note = json_string_value(json_object_get(j->notes, path));

	if (note)
		yaml_comment(f, "  # ", note, "\n");
	else
		fputc('\n', f);
}

static void yaml_object(
	FILE *f, const struct import_job *j, const json_t *object, const char *path, int indent)
{
	const char *key;
	const json_t *value;
	char below[128];
	bool first = true;

	json_object_foreach ((json_t *)object, key, value) {
		_cleanup_json_ json_t *name = json_string(key);

		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "", key);
		/* Behind the "- " of an array. */
		fprintf(f, "%*s", first && !strcmp(path, "roles") ? 0 : indent, "");
		first = false;
		yaml_scalar(f, name);
		fputc(':', f);
		if (json_is_object(value) && json_object_size(value)) {
			yaml_end(f, j, below);
			yaml_object(f, j, value, below, indent + 2);
		} else if (!strcmp(below, "roles")) {
			fprintf(f, "\n%*s- ", indent + 2, "");
			yaml_object(f, j, json_array_get(value, 0), below, indent + 4);
		} else {
			fputc(' ', f);
			yaml_scalar(f, value);
			yaml_end(f, j, below);
		}
	}
}

char *import_yaml(const struct import_job *j)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	yaml_comment(f, "# From supervisord: ", j->from, "\n");
	if (j->group)
		yaml_comment(f, "# There it belongs to [group:", j->group, "].\n");
	yaml_object(f, j, j->doc, "", 0);
	return memstream_end(f, &text);
}
