/* SPDX-License-Identifier: Apache-2.0 */
#include "client/jobs/job_dir.h"

#include "client/launch/job_file.h"
#include "common/base/paths.h"
#include "common/base/strings.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *job_dir_default(void)
{
	const struct paths_overrides none = { 0 };
	_cleanup_(paths_fini) struct paths paths = { 0 };
	struct error err = { 0 };

	return paths_init(&paths, paths_is_system(), &none, &err) < 0 ? NULL
								      : paths_jobs_dir(&paths);
}

char *job_dir_name(const char *file, bool *ret_disabled)
{
	_cleanup_free_ char *name = *file == '.' ? NULL : strdup(file);
	char *dot = name ? strrchr(name, '.') : NULL;
	bool disabled = dot && !strcmp(dot, JOB_DIR_DISABLED);
	ssize_t stem;

	if (disabled)
		*dot = '\0';
	stem = name ? job_file_stem(name) : -1;
	if (stem <= 0)
		return NULL;
	name[stem] = '\0';
	if (ret_disabled)
		*ret_disabled = disabled;
	return TAKE_PTR(name);
}

static int job_dir_is_job(const struct dirent *e)
{
	_cleanup_free_ char *name = NULL;
	bool disabled = false;

	name = job_dir_name(e->d_name, &disabled);
	return name && !disabled;
}

/* Another user must not say what runs as this one, and nothing waits for a FIFO. */
static int job_dir_check(const char *path, mode_t type, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	if ((st.st_mode & S_IFMT) != type)
		return error_set(err, -EINVAL, "%s: not a %s: not read", path,
			type == S_IFREG ? "regular file" : "directory");
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return error_set(err, -EPERM,
			"%s: belongs to user %u, expected %u or root: not read", path,
			(unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, -EPERM, "%s: others may write it: not read", path);
	return 0;
}

char *job_dir_job(const char *dir, const char *file, const char *stem)
{
	_cleanup_(job_file_fini) struct job_file f = { 0 };
	_cleanup_free_ char *path = paths_join(dir, file);
	struct error err = { 0 };

	if (!path || job_dir_check(path, S_IFREG, &err) < 0 ||
		job_file_load(path, JOB_FILE_WHOLE, &f) < 0)
		return strdup(stem);
	return strdup(json_get_string(f.doc, "name", stem));
}

/* A job gets nothing from the shell that "update" is called in, so that its file says all. */
static int job_dir_complete(
	const char *path, const char *name, json_t *doc, json_t **ret, struct error *err)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	const char *home = geteuid() ? getenv("HOME") : NULL;
	int r = 0;

	if (!json_object_get(doc, "name"))
		r = json_put(doc, "name", json_string(name));
	if (!r && !json_object_get(doc, "cwd"))
		r = json_put(doc, "cwd", json_string(home && *home == '/' ? home : "/"));
	if (!r)
		r = json_put(doc, "origin", json_string(path));
	if (!r)
		r = spec_parse(doc, &spec, err);
	*ret = r ? NULL : spec_to_json(spec);
	return *ret ? 0 : r ? r : -ENOMEM;
}

static int job_dir_wrong(struct job_dir *d, const char *path, char *const *lines)
{
	size_t n = strings_count(d->wrong);
	int r = strings_add(&d->wrong, &n, path);

	for (size_t i = 0; !r && lines[i]; i++)
		r = strings_add(&d->problems, &d->n_problems, lines[i]);
	return r;
}

static int job_dir_read_file(struct job_dir *d, const char *path, const char *name)
{
	_cleanup_(job_file_fini) struct job_file file = { 0 };
	struct error err = { 0 };
	char *line[] = { err.text, NULL };
	json_t *spec = NULL;
	int r = job_dir_check(path, S_IFREG, &err);

	if (r < 0)
		return job_dir_wrong(d, path, line);
	r = job_file_load(path, JOB_FILE_WHOLE, &file);
	if (r == -EBADMSG)
		return job_dir_wrong(d, path, file.problems);
	if (!r)
		r = job_dir_complete(path, name, file.doc, &spec, &err);
	if (r == -EINVAL) {
		error_prefix(&err, "%s", path);
		return job_dir_wrong(d, path, line);
	}
	if (r < 0)
		return r;
	d->files[d->n] = (struct plan_file){ .path = strdup(path), .spec = spec };
	return d->files[d->n++].path ? 0 : -ENOMEM;
}

int job_dir_read(const char *dir, struct job_dir *ret, struct error *err)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, job_dir_is_job, alphasort), r = 0;

	*ret = (struct job_dir){ 0 };
	if (n < 0)
		return errno == ENOENT ? 0 : error_set(err, -errno, "%s: %s", dir, strerror(errno));
	ret->files = calloc((size_t)n + 1, sizeof(*ret->files));
	r = ret->files ? job_dir_check(dir, S_IFDIR, err)
		       : error_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = paths_join(dir, entries[i]->d_name);
		_cleanup_free_ char *name = job_dir_name(entries[i]->d_name, NULL);

		if (!r && (!path || !name || job_dir_read_file(ret, path, name) < 0))
			r = error_set(err, -ENOMEM, "out of memory");
		free(entries[i]);
	}
	free(entries);
	return r;
}

void job_dir_fini(struct job_dir *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->files[i].path);
		json_decref(d->files[i].spec);
	}
	free(d->files);
	strings_free(d->problems);
	strings_free(d->wrong);
	*d = (struct job_dir){ 0 };
}
