/* SPDX-License-Identifier: Apache-2.0 */
#include "client/job_file.h"

#include "client/launch_table.h"
#include "client/yaml.h"
#include "client/yaml_marks.h"
#include "common/json.h"
#include "common/spec.h"

#include <errno.h>
#include <string.h>

void job_file_fini(struct job_file *f)
{
	json_decref(f->doc);
	for (size_t i = 0; f->problems && f->problems[i]; i++)
		free(f->problems[i]);
	free(f->problems);
	*f = (struct job_file){ 0 };
}

/* What ends in a single line. Returns -EBADMSG, or -ENOMEM. */
static int refuse(struct job_file *f, const char *text)
{
	f->problems = calloc(2, sizeof(*f->problems));
	if (f->problems)
		f->problems[0] = strdup(text);
	return f->problems && f->problems[0] ? -EBADMSG : -ENOMEM;
}

/* Makes object's path absolute where it is one. */
static int make_absolute(json_t *object, const char *key, const char *dir)
{
	const char *path = json_get_string(object, key, "/");
	_cleanup_free_ char *absolute = NULL;

	if (*path == '/' || !*path)
		return 0;
	absolute = launch_absolute(dir, path);
	return !absolute || json_put(object, key, json_string(absolute)) < 0 ? -ENOMEM : 0;
}

static int make_paths_absolute(json_t *doc, const char *path)
{
	_cleanup_free_ char *full = launch_absolute(NULL, strcmp(path, "-") ? path : "x");
	char *slash;
	json_t *role;
	size_t i;
	int r;

	if (!full)
		return -errno;
	slash = strrchr(full, '/');
	slash[slash == full] = '\0';
	r = make_absolute(doc, "cwd", full);
	if (r == 0)
		r = make_absolute(json_object_get(doc, "logs"), "dir", full);
	json_array_foreach (json_object_get(doc, "roles"), i, role)
		if (r == 0)
			r = make_absolute(role, "cwd", full);
	return r;
}

/* A line with its place, for sorting. */
struct problem {
	size_t line, column, order;
	char *text;
};

static int problem_order(const void *a, const void *b)
{
	const struct problem *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int place(const struct yaml_marks *marks, const char *name, const struct error *err,
	struct problem *ret)
{
	const struct yaml_mark *mark = yaml_marks_find(marks, err->field);
	int r;

	if (mark) {
		ret->line = mark->line;
		ret->column = mark->column;
		r = asprintf(
			&ret->text, "%s:%zu:%zu: %s", name, mark->line, mark->column, err->text);
	} else {
		r = asprintf(&ret->text, "%s: %s", name, err->text);
	}
	if (r < 0)
		ret->text = NULL;
	return r < 0 ? -ENOMEM : 0;
}

/* In the order of the file. Returns -EBADMSG, or -ENOMEM. */
static int tell(struct job_file *f, const char *name, const struct yaml_marks *marks,
	const struct spec_problems *all)
{
	_cleanup_free_ struct problem *problems = calloc(all->n + 1, sizeof(*problems));
	int r = 0;

	f->problems = calloc(all->n + 1, sizeof(*f->problems));
	if (!problems || !f->problems)
		return -ENOMEM;
	for (size_t i = 0; i < all->n; i++) {
		problems[i].order = i;
		if (r == 0)
			r = place(marks, name, &all->items[i], &problems[i]);
	}
	qsort(problems, all->n, sizeof(*problems), problem_order);
	for (size_t i = 0, k = 0; i < all->n; i++)
		if (problems[i].text)
			f->problems[k++] = problems[i].text;
	return r < 0 ? r : -EBADMSG;
}

static int check(struct job_file *f, const char *name, const char *text, size_t len)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_(spec_problems_fini) struct spec_problems all = { 0 };
	_cleanup_(yaml_marks_fini) struct yaml_marks marks = { 0 };
	int r = spec_parse_all(f->doc, &spec, &all, NULL);

	if (r != -EINVAL)
		return r;
	r = yaml_marks_read(text, len, &marks);
	return r < 0 ? r : tell(f, name, &marks, &all);
}

int job_file_load(const char *path, struct job_file *ret)
{
	const char *name = strcmp(path, "-") ? path : "<stdin>";
	_cleanup_free_ char *text = NULL;
	struct job_file f = { 0 };
	struct error err = { 0 };
	size_t len;
	int r = yaml_read(path, &text, &len, &err);

	if (r == 0)
		r = yaml_parse(text, len, name, &f.doc, &err);
	if (r < 0 && r != -ENOMEM)
		r = refuse(&f, err.text);
	if (r == 0)
		r = make_paths_absolute(f.doc, path);
	if (r == 0)
		r = check(&f, name, text, len);
	if (r < 0) {
		json_decref(f.doc);
		f.doc = NULL;
	}
	*ret = f;
	return r;
}
