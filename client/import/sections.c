/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/sections.h"

#include "client/import/values.h"
#include "client/launch/table.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct section_reader {
	struct sections *s;
	const char *file;
	int line;
	struct section_key *last; /* that an indented line continues; NULL: none */
	size_t indent;		  /* of its line */
	sections_problem_fn fn;
	void *arg;
};

void sections_fini(struct sections *s)
{
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->items[i].n; k++) {
			free(s->items[i].keys[k].name);
			free(s->items[i].keys[k].value);
		}
		free(s->items[i].keys);
		free(s->items[i].name);
		free(s->items[i].file);
	}
	free(s->items);
	*s = (struct sections){ 0 };
}

struct section *sections_find(const struct sections *s, const char *name)
{
	for (size_t i = s->n; i-- > 0;)
		if (!strcmp(s->items[i].name, name))
			return &s->items[i];
	return NULL;
}

struct section_key *section_find(struct section *s, const char *name)
{
	for (size_t i = s ? s->n : 0; i-- > 0;)
		if (!strcmp(s->keys[i].name, name))
			return &s->keys[i];
	return NULL;
}

static int reader_section(struct section_reader *r, const char *line)
{
	const char *end = strrchr(line, ']');
	struct section *bigger;

	r->last = NULL;
	while (end && end > line + 1 && isspace((unsigned char)end[-1]))
		end--;
	if (!end || end == line + 1) {
		r->fn(r->arg, r->file, r->line, "expected \"[section]\"");
		return 0;
	}
	bigger = reallocarray(r->s->items, r->s->n + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	r->s->items = bigger;
	bigger[r->s->n] = (struct section){ .name = strndup(line + 1, (size_t)(end - line - 1)),
		.file = strdup(r->file),
		.line = r->line };
	r->s->n++;
	return bigger[r->s->n - 1].name && bigger[r->s->n - 1].file ? 0 : -ENOMEM;
}

static int reader_key(struct section_reader *r, char *line)
{
	struct section *s = r->s->n ? &r->s->items[r->s->n - 1] : NULL;
	size_t n = strcspn(line, "=:"), end = n;
	struct section_key *bigger;

	r->last = NULL;
	if (!line[n] || !n || !s || strcmp(s->file, r->file) != 0) {
		r->fn(r->arg, r->file, r->line,
			"expected a [section], \"key = value\" or a comment");
		return 0;
	}
	bigger = reallocarray(s->keys, s->n + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	s->keys = bigger;
	while (end && isspace((unsigned char)line[end - 1]))
		end--;
	for (size_t i = 0; i < end; i++)
		line[i] = (char)tolower((unsigned char)line[i]);
	n++;
	n += strspn(line + n, " \t");
	bigger[s->n] = (struct section_key){
		.name = strndup(line, end), .value = strdup(line + n), .line = r->line
	};
	r->last = &bigger[s->n++];
	return r->last->name && r->last->value ? 0 : -ENOMEM;
}

static int reader_continue(struct section_reader *r, const char *line)
{
	char *longer;

	if (asprintf(&longer, "%s\n%s", r->last->value, line) < 0)
		return -ENOMEM;
	free(r->last->value);
	r->last->value = longer;
	return 0;
}

/* Cuts the comment off, and white space at the end. */
static void reader_trim(char *line)
{
	size_t n = 0;

	while (line[n] && !((line[n] == ';' || line[n] == '#') &&
				  (!n || isspace((unsigned char)line[n - 1]))))
		n++;
	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	line[n] = '\0';
}

static int reader_line(struct section_reader *r, char *line)
{
	size_t indent = strspn(line, " \t");

	reader_trim(line);
	if (!line[0] || !line[indent])
		return 0;
	if (r->last && indent > r->indent)
		return reader_continue(r, line + indent);
	r->indent = indent;
	return line[indent] == '[' ? reader_section(r, line + indent)
				   : reader_key(r, line + indent);
}

int sections_parse(
	struct sections *s, const char *file, const char *text, sections_problem_fn fn, void *arg)
{
	struct section_reader r = { .s = s, .file = file, .fn = fn, .arg = arg };
	int e = 0;

	while (*text && !e) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = strndup(text, n);

		r.line++;
		e = line ? reader_line(&r, line) : -ENOMEM;
		text += n + (text[n] == '\n');
	}
	return e;
}

static int sections_read_one(
	struct sections *s, const char *path, sections_problem_fn fn, void *arg, struct error *err)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *text = NULL;
	size_t size = 0;

	if (!f)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	errno = 0;
	if (getdelim(&text, &size, '\0', f) < 0)
		return ferror(f) ? error_set(err, -EIO, "%s: %s", path, strerror(errno)) : 0;
	if (sections_parse(s, path, text, fn, arg) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* The files of one pattern of [include]. */
static int sections_include(struct sections *s, const struct section *by, int line,
	const char *pattern, sections_problem_fn fn, void *arg, struct error *err)
{
	glob_t found = { 0 };
	int e = glob(pattern, 0, NULL, &found), r = e == GLOB_NOSPACE ? -ENOMEM : 0;

	if (e == GLOB_NOMATCH)
		fn(arg, by->file, line, "[include] files: there is no such file");
	for (size_t i = 0; i < found.gl_pathc && r != -ENOMEM; i++) {
		r = sections_read_one(s, found.gl_pathv[i], fn, arg, err);
		if (r < 0 && r != -ENOMEM)
			fn(arg, by->file, line, err->text);
	}
	globfree(&found);
	return r == -ENOMEM ? error_set(err, r, "out of memory") : 0;
}

static int sections_include_all(
	struct sections *s, const char *dir, sections_problem_fn fn, void *arg, struct error *err)
{
	struct section *by = sections_find(s, "include");
	struct section_key *files = section_find(by, "files");
	const struct value_name here = { "here", dir };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *name = NULL;
	char *save = NULL;
	struct section of = { 0 };
	int r = 0, line;

	if (!files)
		return 0;
	r = value_expand(files->value, &here, 1, NULL, &text, &name);
	/* Reading more sections moves these. */
	of.file = strdup(by->file);
	line = files->line;
	if (r == -ENOMEM || !of.file)
		return error_set(err, -ENOMEM, "out of memory");
	if (name)
		fn(arg, of.file, line, name);
	r = 0;
	for (char *w = strtok_r(text, " \t\n", &save); w && !r;
		w = strtok_r(NULL, " \t\n", &save)) {
		_cleanup_free_ char *pattern = launch_absolute(dir, w);

		r = pattern ? sections_include(s, &of, line, pattern, fn, arg, err)
			    : error_set(err, -ENOMEM, "out of memory");
	}
	free(of.file);
	return r;
}

int sections_read(
	struct sections *s, const char *path, sections_problem_fn fn, void *arg, struct error *err)
{
	_cleanup_free_ char *full = launch_absolute(NULL, path), *dir = NULL;
	int r;

	if (!full)
		return error_set(err, -ENOMEM, "out of memory");
	r = sections_read_one(s, full, fn, arg, err);
	if (r < 0)
		return r;
	dir = strdup(full);
	if (!dir)
		return error_set(err, -ENOMEM, "out of memory");
	strrchr(dir, '/')[strrchr(dir, '/') == dir] = '\0';
	return sections_include_all(s, dir, fn, arg, err);
}
