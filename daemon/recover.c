/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recover.h"

#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "daemon/api/auto_resume.h"
#include "daemon/jobs/agent_process.h"
#include "daemon/jobs/cgroupfs.h"
#include "daemon/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The time for reading the files of one user's runs that are not over. */
enum { READ_MS = 500 };

struct loaded {
	struct job *job;
	struct job_last last;
};

/* How long the reading of a user's files took so far. */
struct read_time {
	uid_t uid;
	uint64_t ms;
};

/* Runs whose records cannot be used. */
struct unusable {
	char *run;
	struct error why;
};

struct recovery {
	struct daemon *daemon;
	struct loaded *loaded;
	struct unusable *unusable;
	struct read_time *read_times;
	size_t n_loaded, n_unusable, n_read_times;
};

static void recovery_fini(struct recovery *r)
{
	for (size_t i = 0; i < r->n_unusable; i++)
		free(r->unusable[i].run);
	free(r->loaded);
	free(r->unusable);
	free(r->read_times);
}

static void note_unusable(struct recovery *r, const char *run, const struct error *why)
{
	struct unusable *u = &r->unusable[r->n_unusable];

	/* Only memory or descriptors are short: the record itself may be good. */
	if (why->code == -ENOMEM || why->code == -EMFILE || why->code == -ENFILE) {
		log_error("run %s is not taken up now: %s", run, why->text);
		return;
	}
	*u = (struct unusable){ .run = strdup(run), .why = *why };
	r->n_unusable += u->run != NULL;
}

static int by_age(const void *a, const void *b)
{
	const struct loaded *x = a;
	const struct loaded *y = b;

	if (x->job->rec.created_us != y->job->rec.created_us)
		return x->job->rec.created_us < y->job->rec.created_us ? -1 : 1;
	return strcmp(x->job->rec.run, y->job->rec.run);
}

static void load_record(struct recovery *r, const char *run)
{
	struct daemon *d = r->daemon;
	struct loaded *l = &r->loaded[r->n_loaded];
	struct job_record rec = { 0 };
	struct error err = { 0 };
	int code = job_record_load(&d->store, run, &rec, &l->last, &err);

	if (!code && job_new(&d->host, &rec, &l->job) < 0) {
		job_record_fini(&rec);
		job_last_fini(&l->last);
		code = error_set(&err, -ENOMEM, "out of memory");
	}
	if (code < 0)
		note_unusable(r, run, &err);
	else
		r->n_loaded++;
}

/* There is room for one of each run. */
static struct read_time *read_time_of(struct recovery *r, uid_t uid)
{
	for (size_t i = 0; i < r->n_read_times; i++)
		if (r->read_times[i].uid == uid)
			return &r->read_times[i];
	r->read_times[r->n_read_times] = (struct read_time){ .uid = uid };
	return &r->read_times[r->n_read_times++];
}

/* Adds j to the registry if that works, else frees it. */
static int take_up(
	struct recovery *rec, struct job *j, const struct job_last *last, struct error *why)
{
	struct daemon *d = rec->daemon;
	struct read_time *used = last->ended ? NULL : read_time_of(rec, j->rec.uid);
	bool read_files = !used || used->ms < READ_MS;
	uint64_t begun = loop_now_ms();
	int r;

	registry_add(d->registry, j);
	if (!read_files)
		log_info("job %s: its files are not read now: those of user %s take too long",
			j->rec.name, j->rec.user);
	r = job_recover(j, last, read_files, why);
	if (used)
		used->ms += loop_now_ms() - begun;
	if (r >= 0)
		return r;
	error_prefix(why, "%s/%s", d->store.path, j->rec.run);
	registry_remove(d->registry, j);
	return r;
}

/* Makes the record of a run whose guard lives from what elasticd knew when it started that guard.
 * -ESRCH if no such guard lives. */
static int rebuild_record(
	struct daemon *d, const struct unusable *u, struct job_record *ret, struct error *err)
{
	_cleanup_(job_record_fini) struct job_record rec = { 0 };
	_cleanup_close_ int guard = -1;
	struct error why = { 0 };
	int r = job_record_load(&d->living, u->run, &rec, NULL, err);

	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (!r && !registry_active(d->registry, rec.name))
		guard = agent_process_guard(&d->living, &rec);
	if (guard < 0)
		return error_set(err, -ESRCH, "it has no agent");
	r = job_record_remake(&d->store, &rec, &d->living, &why);
	/* If the record cannot be written (an obstacle, a full disk), the job goes on all the same.
	 */
	log_warning("%s; the agent of job %s of user %s lives, so the record %s%s", u->why.text,
		rec.name, rec.user, r < 0 ? "would be made again, but " : "was made again",
		why.text);
	*ret = rec;
	memset(&rec, 0, sizeof(rec));
	return 0;
}

/* Renames the directory of a run whose record cannot be used. */
static void set_aside(struct daemon *d, const struct unusable *u)
{
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	int r = job_record_set_aside(&d->store, u->run, &name, &err);

	if (r < 0 && r != -ENOENT)
		log_error("%s; and it cannot be put aside: %s", u->why.text, err.text);
	else if (!r)
		log_warning("%s; put aside as %s/%s", u->why.text, d->store.path, name);
}

/* Writes a record for a living run; its agent reports the rest as soon as it is connected. */
static void save_living(struct recovery *recovery, const struct unusable *u)
{
	const struct job_last none = { 0 };
	struct daemon *d = recovery->daemon;
	struct job_record rec = { 0 };
	struct error err = { 0 };
	struct job *j = NULL;
	int r = rebuild_record(d, u, &rec, &err);

	if (r == -ESRCH) {
		set_aside(d, u);
		return;
	}
	if (!r && job_new(&d->host, &rec, &j) < 0)
		r = error_set(&err, -ENOMEM, "out of memory");
	if (!r)
		r = take_up(recovery, j, &none, &err);
	if (r < 0) {
		log_error("%s; its agent lives, but the run cannot be taken up: %s", u->why.text,
			err.text);
		job_free(j);
	}
}

static bool is_active(const char *name, void *arg)
{
	struct daemon *d = arg;

	return registry_active(d->registry, name) != NULL;
}

/* Removes records among the living whose guards are gone. */
static void forget_dead(struct daemon *d, char **living)
{
	for (char **run = living; *run; run++) {
		struct job *j = registry_find(d->registry, *run, NULL, NULL);
		struct job_record rec = { .run = *run };
		struct error err = { 0 };
		int guard;

		if (j && !strcmp(j->rec.run, *run) && j->life != LIFE_ENDED)
			continue;
		guard = agent_process_guard(&d->living, &rec);
		if ((guard == -ESRCH || guard == -EBADMSG) &&
			job_record_remove(&d->living, *run, &err) < 0)
			log_warning("%s", err.text);
		close_fd(guard);
	}
}

/* Reads all records, oldest first, also those of living runs whose directories are gone. */
static int read_all(struct recovery *r, char **living, struct error *err)
{
	struct daemon *d = r->daemon;
	_cleanup_strings_ char **names = NULL;
	int code = job_record_list(&d->store, &names, err);
	size_t n = strings_count(names) + strings_count(living);

	if (code < 0)
		return code;
	r->loaded = calloc(n + 1, sizeof(*r->loaded));
	r->unusable = calloc(n + 1, sizeof(*r->unusable));
	r->read_times = calloc(n + 1, sizeof(*r->read_times));
	if (!r->loaded || !r->unusable || !r->read_times)
		code = error_set(err, -ENOMEM, "out of memory");
	for (char **run = names; !code && *run; run++)
		load_record(r, *run);
	for (char **run = living; !code && *run; run++)
		if (faccessat(d->store.fd, *run, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			load_record(r, *run);
	qsort(r->loaded, r->n_loaded, sizeof(*r->loaded), by_age);
	return code;
}

int recover_all(struct daemon *d, struct error *err)
{
	_cleanup_(recovery_fini) struct recovery r = { .daemon = d };
	_cleanup_strings_ char **living = NULL;
	int code = job_record_list(&d->living, &living, err);

	if (!code)
		code = read_all(&r, living, err);
	if (code < 0)
		return code;
	for (size_t i = 0; i < r.n_loaded; i++) {
		struct error why = { 0 };

		code = take_up(&r, r.loaded[i].job, &r.loaded[i].last, &why);
		job_last_fini(&r.loaded[i].last);
		if (code >= 0)
			continue;
		note_unusable(&r, r.loaded[i].job->rec.run, &why);
		job_free(r.loaded[i].job);
	}
	/* Last: if two have the same name, the run whose record could be read gets it. */
	for (size_t i = 0; i < r.n_unusable; i++)
		save_living(&r, &r.unusable[i]);
	if (d->cgroup_parent)
		cgroupfs_tidy(d->cgroup_parent, loop_real_us() / 1000000);
	setup_clean_runtime(d->paths.runtime_dir, is_active, d);
	forget_dead(d, living);
	resume_all(d);
	registry_tidy(d->registry);
	return 0;
}
