/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/job_file.h"

#include "client/launch/table.h"
#include "client/launch/yaml.h"
#include "client/launch/yaml_marks.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

void job_file_fini(struct job_file *f)
{
	json_decref(f->doc);
	strings_free(f->problems);
	*f = (struct job_file){ 0 };
}

ssize_t job_file_stem(const char *name)
{
	static const char *const endings[] = { ".yaml", ".yml", ".json" };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
		if (!strcmp(dot, endings[i]))
			return dot - name;
	return -1;
}

/* Makes the path in object's key absolute, if it has one. */
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
	static const char *const tls_files[] = { "cert", "key", "ca" };
	_cleanup_free_ char *full = launch_absolute(NULL, strcmp(path, "-") ? path : "x");
	char *slash;
	json_t *rendezvous = json_object_get(doc, "rendezvous"), *role;
	json_t *tls = json_object_get(rendezvous, "tls");
	size_t i;
	int r;

	if (!full)
		return -errno;
	slash = strrchr(full, '/');
	slash[slash == full] = '\0';
	r = make_absolute(doc, "cwd", full);
	if (r == 0)
		r = make_absolute(json_object_get(doc, "logs"), "dir", full);
	if (r == 0)
		r = make_absolute(rendezvous, "token_file", full);
	if (r == 0)
		r = make_absolute(json_object_get(doc, "ready"), "file", full);
	for (i = 0; r == 0 && i < sizeof(tls_files) / sizeof(tls_files[0]); i++)
		r = make_absolute(tls, tls_files[i], full);
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

static int problem_line(const char *name, size_t line, size_t column, const char *path,
	const char *text, struct problem *ret)
{
	ret->line = line;
	ret->column = column;
	if (asprintf(&ret->text, "%s:%zu:%zu: %s%s%s", name, line, column, path ? path : "",
		    path ? ": " : "", text) >= 0)
		return 0;
	ret->text = NULL;
	return -ENOMEM;
}

static int problem_of_spec(const struct yaml_marks *marks, const char *name,
	const struct error *err, struct problem *ret)
{
	const struct yaml_mark *mark = yaml_marks_find(marks, err->field);

	if (mark)
		return problem_line(name, mark->line, mark->column, NULL, err->text, ret);
	if (asprintf(&ret->text, "%s: %s", name, err->text) >= 0)
		return 0;
	ret->text = NULL;
	return -ENOMEM;
}

static int problem_of_key(const struct yaml_marks *marks, const char *name,
	const struct yaml_problem *key, struct problem *ret)
{
	return problem_line(name, key->line, key->column,
		yaml_marks_path(marks, key->line, key->column), key->text, ret);
}

/* Adds text to the problems and gives up reading; keys are the problems before it. Returns
 * -EBADMSG, or -ENOMEM. */
static int list_key_problems(struct job_file *f, const char *name, const struct yaml_problems *keys,
	const struct yaml_marks *marks, const char *text)
{
	f->problems = calloc(keys->n + 2, sizeof(*f->problems));
	if (!f->problems)
		return -ENOMEM;
	for (size_t i = 0; i < keys->n; i++) {
		struct problem p;

		if (problem_of_key(marks, name, &keys->items[i], &p) < 0)
			return -ENOMEM;
		f->problems[i] = p.text;
	}
	f->problems[keys->n] = strdup(text);
	return f->problems[keys->n] ? -EBADMSG : -ENOMEM;
}

/* Makes lines of all problems, in the order of the file. Returns -EBADMSG, or -ENOMEM. */
static int list_all_problems(struct job_file *f, const char *name, const struct yaml_problems *keys,
	const struct yaml_marks *marks, const struct spec_problems *all)
{
	size_t n = keys->n + all->n, k = 0;
	_cleanup_free_ struct problem *problems = calloc(n + 1, sizeof(*problems));
	int r = 0;

	f->problems = calloc(n + 1, sizeof(*f->problems));
	if (!problems || !f->problems)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct yaml_problem *key = i < keys->n ? &keys->items[i] : NULL;

		problems[i].order = i;
		if (key)
			r = problem_of_key(marks, name, key, &problems[i]);
		else
			r = problem_of_spec(marks, name, &all->items[i - keys->n], &problems[i]);
	}
	qsort(problems, n, sizeof(*problems), problem_order);
	for (size_t i = 0; i < n; i++)
		if (problems[i].text)
			f->problems[k++] = problems[i].text;
	return r < 0 ? r : -EBADMSG;
}

static int check_document(struct job_file *f, enum job_file_check wanted, const char *name,
	const char *text, size_t len, const struct yaml_problems *keys)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_(spec_problems_fini) struct spec_problems all = { 0 };
	_cleanup_(yaml_marks_fini) struct yaml_marks marks = { 0 };
	int r = wanted == JOB_FILE_PART ? spec_check_part(f->doc, &all, NULL)
					: spec_parse_all(f->doc, &spec, &all, NULL);

	if (r == -ENOMEM || (r == 0 && !keys->n))
		return r;
	r = yaml_marks_read(text, len, &marks);
	return r < 0 ? r : list_all_problems(f, name, keys, &marks, &all);
}

int job_file_load(const char *path, enum job_file_check wanted, struct job_file *ret)
{
	const char *name = strcmp(path, "-") ? path : "<stdin>";
	_cleanup_free_ char *text = NULL;
	_cleanup_(yaml_problems_fini) struct yaml_problems keys = { 0 };
	_cleanup_(yaml_marks_fini) struct yaml_marks marks = { 0 };
	struct job_file f = { 0 };
	struct error err = { 0 };
	size_t len;
	int r = yaml_read(path, &text, &len, &err);

	if (r == 0)
		r = yaml_parse(text, len, name, &f.doc, &keys, &err);
	if (r < 0 && r != -ENOMEM) {
		r = keys.n ? yaml_marks_read(text, len, &marks) : 0;
		r = r < 0 ? r : list_key_problems(&f, name, &keys, &marks, err.text);
	}
	if (r == 0)
		r = make_paths_absolute(f.doc, path);
	if (r == 0)
		r = check_document(&f, wanted, name, text, len, &keys);
	if (r < 0) {
		json_decref(f.doc);
		f.doc = NULL;
	}
	*ret = f;
	return r;
}
