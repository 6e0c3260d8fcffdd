/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recover.h"

#include "common/json.h"
#include "common/log.h"
#include "daemon/agentproc.h"
#include "daemon/cgroupfs.h"
#include "daemon/child.h"
#include "daemon/resume.h"
#include "daemon/setup.h"

#include <errno.h>
#include <string.h>

struct loaded {
	struct job *job;
	json_t *ended;
};

/* Runs whose records cannot be used. */
struct unusable {
	char *run;
	int64_t since_us; /* since when there is such a run */
	struct error why;
};

struct recovery {
	struct daemon *daemon;
	struct loaded *loaded;
	struct unusable *unusable;
	size_t n_loaded, n_unusable;
};

static void recovery_fini(struct recovery *r)
{
	for (size_t i = 0; i < r->n_unusable; i++)
		free(r->unusable[i].run);
	free(r->loaded);
	free(r->unusable);
}

static void note_unusable(struct recovery *r, const char *run, const struct error *why)
{
	struct unusable *u = &r->unusable[r->n_unusable];

	/* For want of memory or descriptors: it may be in order. */
	if (why->code == -ENOMEM || why->code == -EMFILE || why->code == -ENFILE) {
		log_error("run %s is not taken up now: %s", run, why->text);
		return;
	}
	*u = (struct unusable){ .run = strdup(run), .why = *why };
	if (!u->run)
		return;
	u->since_us = job_record_made_us(&r->daemon->store, run);
	r->n_unusable++;
}

static int by_age(const void *a, const void *b)
{
	const struct loaded *x = a;
	const struct loaded *y = b;

	if (x->job->rec.created_us != y->job->rec.created_us)
		return x->job->rec.created_us < y->job->rec.created_us ? -1 : 1;
	return strcmp(x->job->rec.run, y->job->rec.run);
}

static int newest_first(const void *a, const void *b)
{
	const struct unusable *x = a;
	const struct unusable *y = b;

	return x->since_us == y->since_us ? 0 : x->since_us < y->since_us ? 1 : -1;
}

/* Reads all records, oldest first. */
static void load_records(struct recovery *r, char **names)
{
	struct daemon *d = r->daemon;

	for (char **name = names; *name; name++) {
		struct loaded *l = &r->loaded[r->n_loaded];
		struct job_record rec = { 0 };
		struct error err = { 0 };
		int code = job_record_load(&d->store, *name, &rec, &l->ended, &err);

		if (!code && job_new(&d->host, &rec, &l->job) < 0) {
			job_record_fini(&rec);
			json_decref(l->ended);
			code = error_set(&err, -ENOMEM, "out of memory");
		}
		if (code < 0)
			note_unusable(r, *name, &err);
		else
			r->n_loaded++;
	}
	qsort(r->loaded, r->n_loaded, sizeof(*r->loaded), by_age);
}

/* j is the registry's where that works, else gone. */
static int take_up(struct daemon *d, struct job *j, const json_t *ended, struct error *why)
{
	int r;

	registry_add(d->registry, j);
	r = job_recover(j, ended, why);
	if (r >= 0)
		return r;
	error_prefix(why, "%s/%s", d->store.path, j->rec.run);
	registry_remove(d->registry, j);
	return r;
}

/* The record that a run of a living agent must have had, as far as elasticd itself made what it is
 * read from: names of directories and their owners. -ESRCH where no agent lives. */
static int rebuild(struct daemon *d, const char *run, struct job_record *ret, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_(job_record_fini) struct job_record rec = { 0 };
	_cleanup_(spec_freep) struct spec *parsed = NULL;
	_cleanup_json_ json_t *spec = NULL;
	const char *log_dir = d->log_dir;
	int r;

	rec.run = strdup(run);
	rec.name = job_record_name(run);
	if (!rec.run || !rec.name)
		return error_set(err, -ENOMEM, "out of memory");
	if (registry_active(d->registry, rec.name) ||
		!agentproc_locked(d->paths.runtime_dir, rec.name))
		return error_set(err, -ESRCH, "it has no agent");
	r = agentproc_owner(d->paths.runtime_dir, rec.name, &rec.uid, &spec);
	if (r < 0)
		return error_set(err, r, "%s", strerror(-r));
	if (spec && !spec_parse(spec, &parsed, NULL) && parsed->logs.dir &&
		parsed->logs.dir[0] == '/')
		log_dir = parsed->logs.dir;
	r = child_user_init(&user, rec.uid, err);
	if (r < 0)
		return r;
	rec.user = TAKE_PTR(user.name);
	rec.created_us = job_record_made_us(&d->store, run);
	rec.log_dir = strdup(log_dir);
	if (!rec.log_dir)
		return error_set(err, -ENOMEM, "out of memory");
	r = job_record_remake(&d->store, &rec, spec, err);
	if (r < 0)
		return r;
	*ret = rec;
	memset(&rec, 0, sizeof(rec));
	return 0;
}

/* A record that cannot be used is put aside; it hurts nobody else. */
static void set_aside(struct daemon *d, const struct unusable *u)
{
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };

	if (job_record_set_aside(&d->store, u->run, &name, &err) < 0)
		log_error("%s; and it cannot be put aside: %s", u->why.text, err.text);
	else
		log_warning("%s; put aside as %s/%s", u->why.text, d->store.path, name);
}

/* What the agent knows, it tells as soon as it is connected. */
static void save_living(struct daemon *d, const struct unusable *u)
{
	struct job_record rec = { 0 };
	struct error err = { 0 };
	struct job *j = NULL;
	int r = rebuild(d, u->run, &rec, &err);

	if (r == -ESRCH) {
		set_aside(d, u);
		return;
	}
	if (!r && job_new(&d->host, &rec, &j) < 0)
		r = error_set(&err, -ENOMEM, "out of memory");
	if (!r)
		r = take_up(d, j, NULL, &err);
	if (r < 0) {
		log_error("%s; its agent lives, but the run cannot be taken up: %s", u->why.text,
			err.text);
		job_free(j);
		return;
	}
	log_warning("%s; its agent lives, so the record of job %s of user %s was made again",
		u->why.text, j->rec.name, j->rec.user);
}

static bool is_active(const char *name, void *arg)
{
	struct daemon *d = arg;

	return registry_active(d->registry, name) != NULL;
}

static int read_all(struct recovery *r, struct error *err)
{
	char **names = NULL;
	size_t n = 0;
	int code = job_record_list(&r->daemon->store, &names, err);

	if (code < 0)
		return code;
	while (names[n])
		n++;
	r->loaded = calloc(n + 1, sizeof(*r->loaded));
	r->unusable = calloc(n + 1, sizeof(*r->unusable));
	if (r->loaded && r->unusable)
		load_records(r, names);
	else
		code = error_set(err, -ENOMEM, "out of memory");
	job_record_list_free(names);
	return code;
}

int recover_all(struct daemon *d, struct error *err)
{
	_cleanup_(recovery_fini) struct recovery r = { .daemon = d };
	int code = read_all(&r, err);

	if (code < 0)
		return code;
	for (size_t i = 0; i < r.n_loaded; i++) {
		struct error why = { 0 };

		code = take_up(d, r.loaded[i].job, r.loaded[i].ended, &why);
		json_decref(r.loaded[i].ended);
		if (code >= 0)
			continue;
		note_unusable(&r, r.loaded[i].job->rec.run, &why);
		job_free(r.loaded[i].job);
	}
	/* Last: a name whose run could be read is that run's. */
	qsort(r.unusable, r.n_unusable, sizeof(*r.unusable), newest_first);
	for (size_t i = 0; i < r.n_unusable; i++)
		save_living(d, &r.unusable[i]);
	if (d->cgroup_parent)
		cgroupfs_tidy(d->cgroup_parent, loop_real_us() / 1000000);
	setup_clean_runtime(d->paths.runtime_dir, is_active, d);
	resume_all(d);
	return 0;
}
