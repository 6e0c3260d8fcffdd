/* SPDX-License-Identifier: Apache-2.0 */
/* import: job files of the programs in supervisord's configuration. */
#include "client/base/ctl.h"
#include "client/import/yaml_text.h"
#include "client/jobs/job_dir.h"
#include "client/verbs/verbs.h"
#include "common/base/file.h"
#include "common/base/printable.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	import_others(&conf, import_problem, &im);
	for (size_t i = 0; i < conf.n; i++) {
		struct section *s = &conf.items[i];
		int one = 0;

		if (import_is_program(s) && sections_find(&conf, s->name) == s)
			one = import_program(&im, &conf, s);
		r = r ? r : one;
	}
	if (ctl->json)
		ctl_print_json(all, false);
	if (!im.written && !im.problems)
		return ctl_error(ctl, CTL_REFUSED, "%s has no program", args->argv[0]);
	return r ? r : im.problems ? CTL_REFUSED : 0;
}
