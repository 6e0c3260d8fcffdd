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
		fputs(text, f);
}

/* "  # autorestart=true", or ""; owned. */
static char *yaml_note(const struct import_job *j, const char *path)
{
	const char *note = json_string_value(json_object_get(j->notes, path));
	_cleanup_free_ char *shown = note ? printable_dup(note) : NULL;
	char *text;

	return asprintf(&text, "%s%s", shown ? "  # " : "", shown ? shown : "") < 0 ? NULL : text;
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
		_cleanup_free_ char *note = NULL;

		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "", key);
		note = yaml_note(j, below);
		/* Behind the "- " of an array. */
		fprintf(f, "%*s", first && !strcmp(path, "roles") ? 0 : indent, "");
		first = false;
		yaml_scalar(f, name);
		fputc(':', f);
		if (json_is_object(value) && json_object_size(value)) {
			fprintf(f, "%s\n", note ? note : "");
			yaml_object(f, j, value, below, indent + 2);
		} else if (!strcmp(below, "roles")) {
			fprintf(f, "\n%*s- ", indent + 2, "");
			yaml_object(f, j, json_array_get(value, 0), below, indent + 4);
		} else {
			fputc(' ', f);
			yaml_scalar(f, value);
			fprintf(f, "%s\n", note ? note : "");
		}
	}
}

char *import_yaml(const struct import_job *j)
{
	_cleanup_free_ char *from = printable_dup(j->from),
			    *group = j->group ? printable_dup(j->group) : NULL;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "# From supervisord: %s\n", from ? from : "?");
	if (group)
		fprintf(f, "# There it belongs to [group:%s].\n", group);
	yaml_object(f, j, j->doc, "", 0);
	return memstream_end(f, &text);
}
