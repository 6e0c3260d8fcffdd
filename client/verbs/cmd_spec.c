/* SPDX-License-Identifier: Apache-2.0 */
/* validate checks job files; import makes some of supervisord's configuration; diff compares the
 * specifications of two runs or job files. */
#include "client/base/job.h"
#include "client/base/spec_diff.h"
#include "client/import/order.h"
#include "client/import/yaml_text.h"
#include "client/jobs/job_dir.h"
#include "client/launch/job_file.h"
#include "client/verbs/verbs.h"
#include "common/base/file.h"
#include "common/base/printable.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a job file into a specification with all defaults filled in, owned. */
static int read_job_file(struct ctl *ctl, const char *path, json_t **ret)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_(job_file_fini) struct job_file file = { 0 };
	int r = job_file_load(path, JOB_FILE_WHOLE, &file);

	if (r == -EBADMSG)
		return ctl_job_file(ctl, file.problems);
	*ret = r == 0 && spec_parse(file.doc, &spec, NULL) == 0 ? spec_to_json(spec) : NULL;
	return *ret ? 0
		    : ctl_error(ctl, CTL_FAILED, "%s: out of memory",
			      strcmp(path, "-") ? path : "standard input");
}

int cmd_validate(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *all = json_array();
	int result = 0;

	for (int i = 0; i < args->argc; i++) {
		const char *path = args->argv[i];
		json_t *spec;
		int r = read_job_file(ctl, path, &spec);

		result = result ? result : r;
		if (r != 0)
			continue;
		json_array_append_new(all, spec);
		ctl_say(ctl, "%s is valid", strcmp(path, "-") ? path : "standard input");
	}
	if (ctl->json && json_array_size(all) > 0)
		ctl_print_json(args->argc == 1 ? json_array_get(all, 0) : all, false);
	return result;
}

/* --- diff --- */

enum { DIFF_TROUBLE = 2 };

/* Whether the user means a file, not a job. */
static bool diff_is_file(const char *text)
{
	return strchr(text, '/') || !strcmp(text, "-") || job_file_stem(text) >= 0;
}

/* The specification in the file job.json of a run's directory. 0 with owned ret, a negative errno
 * with err; -ENOENT also for a file that is no such one. */
static int diff_of_run(const char *path, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *job = NULL;
	int r = json_read_file(path, 0, &job, err);
	json_t *spec = json_get_object(job, "spec");

	if (r < 0)
		return r;
	if (!spec || !json_get_string(job, "run", NULL))
		return error_set(err, -ENOENT, "%s: not the job.json of a run", path);
	*ret = json_incref(spec);
	return 0;
}

static int diff_job(struct ctl *ctl, const char *name, json_t **ret)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_json_ json_t *answer = NULL;
	struct error err = { 0 };
	int r = ctl_call(ctl, "Spec", ctl_job(name), &answer);

	if (r != 0)
		return r;
	if (spec_parse(json_object_get(answer, "spec"), &spec, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s: %s", name, err.text);
	*ret = spec_to_json(spec);
	return *ret ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

static int diff_load(struct ctl *ctl, const char *text, json_t **ret)
{
	ssize_t stem = job_file_stem(text);
	_cleanup_free_ char *inside = NULL;
	struct error err = { 0 };
	struct stat st;

	if (!diff_is_file(text))
		return diff_job(ctl, text, ret);
	if (stat(text, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (asprintf(&inside, "%s/job.json", text) < 0) {
			inside = NULL;
			return ctl_error(ctl, CTL_FAILED, "out of memory");
		}
		return diff_of_run(inside, ret, &err) < 0
			       ? ctl_error(ctl, CTL_REFUSED, "%s", err.text)
			       : 0;
	}
	if (stem >= 0 && !strcmp(text + stem, ".json") && diff_of_run(text, ret, &err) == 0)
		return 0;
	return read_job_file(ctl, text, ret);
}

static char *diff_value(const json_t *row, const char *side, const char *is_default)
{
	const json_t *value = json_object_get(row, side);
	char *text, *whole = NULL;

	if (!value)
		return strdup("(unset)");
	text = json_is_string(value) ? strdup(json_string_value(value))
				     : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (text && asprintf(&whole, "%s%s", text,
			    json_get_bool(row, is_default, false) ? " (default)" : "") < 0)
		whole = NULL;
	free(text);
	return whole;
}

static void diff_print(const struct ctl *ctl, const json_t *rows)
{
	const char *off = ctl->color_out ? COLOR_OFF : "";
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		_cleanup_free_ char *old = diff_value(row, "old", "old_default");
		_cleanup_free_ char *new = diff_value(row, "new", "new_default");

		printf("%s%s%s: %s%s%s -> %s%s%s\n", ctl_color(ctl, COLOR_BOLD),
			get_text(row, "path"), off, ctl_color(ctl, COLOR_RED), old ? old : "?", off,
			ctl_color(ctl, COLOR_GREEN), new ? new : "?", off);
	}
}

int cmd_diff(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *old = NULL, *new = NULL, *rows = NULL;

	if (diff_load(ctl, args->argv[0], &old) != 0 || diff_load(ctl, args->argv[1], &new) != 0)
		return DIFF_TROUBLE;
	rows = spec_diff(old, new);
	if (!rows) {
		ctl_error(ctl, CTL_FAILED, "out of memory");
		return DIFF_TROUBLE;
	}
	if (ctl->json)
		ctl_print_json(rows, false);
	else
		diff_print(ctl, rows);
	return json_array_size(rows) > 0;
}

/* --- import --- */

struct import {
	struct ctl *ctl;
	const char *dir; /* NULL: standard output */
	int problems, written;
	json_t *all;
};

static void import_problem(void *arg, const char *file, int line, const char *text)
{
	struct import *im = arg;
	_cleanup_free_ char *name = printable_dup(file), *shown = printable_dup(text);

	im->problems++;
	fprintf(stderr, "%s:%d: %s\n", name ? name : "?", line, shown ? shown : "?");
}

/* A file of the directory that is there already may have been changed: it stays. Others may read
 * the new one if they may read the configuration that it comes from. */
static int import_write(
	struct import *im, const struct section *s, const char *name, const char *text)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	if (asprintf(&path, "%s/%s", im->dir, name) < 0) {
		path = NULL;
		return ctl_error(im->ctl, CTL_FAILED, "out of memory");
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		stat(s->file, &st) < 0 ? 0600 : (st.st_mode & 0644) | 0600);
	r = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
	if (r < 0)
		return ctl_error(im->ctl, CTL_REFUSED, "%s: %s", path, strerror(-r));
	ctl_say(im->ctl, "wrote %s", path);
	return 0;
}

static int import_put(struct import *im, const struct section *s, const struct import_job *job)
{
	_cleanup_free_ char *text = import_yaml(job), *name = NULL;
	int r = 0;

	if (!text ||
		asprintf(&name, "%s.yaml%s", job->name, job->disabled ? JOB_DIR_DISABLED : "") < 0)
		return ctl_error(im->ctl, CTL_FAILED, "out of memory");
	if (im->dir)
		r = import_write(im, s, name, text);
	else if (!im->ctl->json)
		printf("%s# %s\n%s", im->written ? "---\n" : "", name, text);
	im->written++;
	json_array_append(im->all, job->doc);
	return r;
}

static int import_program(struct import *im, const struct sections *all, struct section *s)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct import_job job = { 0 };
	struct error err = { 0 };
	int r = import_job_make(all, s, import_problem, im, &job);

	if (r == -ENOMEM)
		r = ctl_error(im->ctl, CTL_FAILED, "out of memory");
	else if (r == 0 && spec_parse(job.doc, &spec, &err) < 0)
		import_problem(im, s->file, s->line, err.text);
	else
		r = r ? 0 : import_put(im, s, &job);
	import_job_fini(&job);
	return r;
}

int cmd_import(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *all = json_array();
	struct import im = { .ctl = ctl, .dir = args_get(args, "dir"), .all = all };
	_cleanup_(sections_fini) struct sections conf = { 0 };
	struct error err = { 0 };
	int r = 0;

	if (sections_read(&conf, args->argv[0], import_problem, &im, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	import_begin(&conf, import_problem, &im);
	for (size_t i = 0; i < conf.n; i++) {
		struct section *s = &conf.items[i];
		int one = 0;

		if (order_program(s) && sections_find(&conf, s->name) == s)
			one = import_program(&im, &conf, s);
		r = r ? r : one;
	}
	if (ctl->json)
		ctl_print_json(all, false);
	if (!im.written && !im.problems)
		return ctl_error(ctl, CTL_REFUSED, "%s has no program", args->argv[0]);
	return r ? r : im.problems ? CTL_REFUSED : 0;
}
