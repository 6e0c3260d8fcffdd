/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/remove.h"

#include "common/base/log.h"
#include "daemon/api/methods.h"
#include "daemon/jobs/child.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* $1: a run's directory, $2: <log_dir>/<name>.latest, which is removed if it is a link to the run
 * ($3). A process of its own, since the file system may hang. Follows no link. */
#define SH "/bin/sh"
#define SCRIPT "[ \"$(readlink -- \"$2\")\" != \"$3\" ] || rm -f -- \"$2\"; exec rm -rf -- \"$1\""

enum { REMOVE_MS = 5 }; /* in one turn of the loop */

/* One Remove call, or one removal by prune: removes its runs one after the other. Of one user's
 * runs one removal at a time is under way. */
struct removal {
	LIST_ENTRY(removal) link;
	struct daemon *daemon;
	struct varlink_call *call; /* NULL: the caller has gone, or prune called */
	char **runs;		   /* identifiers, since jobs may be removed meanwhile */
	size_t n, next;
	int removed;
	bool logs;
	remove_fn pruned; /* prune's callback; NULL for a call */
	void *arg;
	int failed;
	struct child_watch *rm;
	uid_t uid;    /* whose run it removes, or is to remove */
	bool in_line; /* another removal of that user's runs is under way */
	bool rests;   /* until the next turn */
	struct loop_again *again;
	struct job *awaited; /* a job whose verdict is known, until its guard has left */
	struct job_watch watch;
};

struct removals {
	LIST_HEAD(, removal) open;
	struct child_orphans orphans;
};

int removals_new(struct daemon *d, struct removals **ret)
{
	struct removals *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	LIST_INIT(&r->open);
	*ret = r;
	return 0;
}

static void removal_continue(void *arg);

static void stop_waiting(struct removal *r)
{
	if (r->awaited)
		job_unwatch(r->awaited, &r->watch);
	r->awaited = NULL;
}

/* Lets the oldest removal go on that stands in line for that user: new ones are in front. */
static void next_in_line(struct daemon *d, uid_t uid)
{
	struct removal *r, *first = NULL;

	LIST_FOREACH (r, &d->removals->open, link)
		if (r->in_line && r->uid == uid)
			first = r;
	if (!first)
		return;
	first->in_line = false;
	loop_again_arm(first->again);
}

/* Whether another removal of that user's runs is under way: its process runs, which the user can
 * stop, or it has more to remove in the next turn. */
static bool is_removing(const struct daemon *d, const struct removal *but, uid_t uid)
{
	const struct removal *r;

	LIST_FOREACH (r, &d->removals->open, link)
		if (r != but && (r->rm || r->rests) && r->uid == uid)
			return true;
	return false;
}

/* Whether it may remove a run of that user now; if not, it stands in line. */
static bool take_turn(struct removal *r, uid_t uid)
{
	if (r->uid != uid)
		next_in_line(r->daemon, r->uid);
	r->uid = uid;
	r->in_line = is_removing(r->daemon, r, uid);
	return !r->in_line;
}

static void removal_free(struct removal *r)
{
	LIST_REMOVE(r, link);
	next_in_line(r->daemon, r->uid);
	loop_again_free(r->again);
	stop_waiting(r);
	loop_cancel(r->daemon->loop, removal_continue, r);
	child_orphans_add(&r->daemon->removals->orphans, r->rm);
	for (size_t i = 0; i < r->n; i++)
		free(r->runs[i]);
	free(r->runs);
	free(r);
}

struct removals *removals_free(struct removals *r)
{
	if (!r)
		return NULL;
	while (!LIST_EMPTY(&r->open))
		removal_free(LIST_FIRST(&r->open));
	child_orphans_fini(&r->orphans);
	free(r);
	return NULL;
}

static void on_gone(void *arg)
{
	struct removal *r = arg;

	r->call = NULL;
}

static int forget_job(struct daemon *d, struct job *j, struct error *err)
{
	int r = job_record_remove(&d->store, j->rec.run, err);

	if (r < 0)
		return r;
	registry_remove(d->registry, j);
	job_free(j);
	return 0;
}

static void removal_finish(struct removal *r, int code, const char *text)
{
	struct varlink_call *call = r->call;
	int removed = r->removed, failed = r->failed;
	remove_fn pruned = r->pruned;
	void *arg = r->arg;

	removal_free(r);
	if (pruned)
		pruned(arg, failed);
	if (!call)
		return;
	if (code < 0)
		methods_failed(call, code, text);
	else
		varlink_reply(call, json_pack("{s:i}", "removed", removed));
}

/* Fails the call; a removal by prune goes on with the next run instead. */
static void removal_fail(struct removal *r, int code, const char *text)
{
	if (!r->pruned) {
		removal_finish(r, code, text);
		return;
	}
	log_warning("%s", text);
	r->failed++;
	r->next++;
	removal_continue(r);
}

static void on_rm_end(void *arg, int code, int status)
{
	struct removal *r = arg;
	struct daemon *d = r->daemon;
	struct job *j = registry_find(d->registry, r->runs[r->next], NULL, NULL);
	struct error err = { 0 };
	char text[256];

	r->rm = child_watch_free(r->rm);
	if (code != CLD_EXITED || status) {
		snprintf(text, sizeof(text), "the logs of %s could not be removed",
			r->runs[r->next]);
		removal_fail(r, -EIO, text);
		return;
	}
	if (j && j->life == LIFE_ENDED) {
		if (forget_job(d, j, &err) < 0) {
			removal_fail(r, err.code, err.text);
			return;
		}
		r->removed++;
	}
	r->next++;
	removal_continue(r);
}

static int start_rm(struct removal *r, const struct job_record *rec, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_free_ char *dir = paths_join(rec->log_dir, rec->run);
	_cleanup_free_ char *link = NULL;
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)SCRIPT, (char *)"sh", dir, NULL,
		rec->run, NULL };
	struct child_request q = { .program = SH, .argv = argv, .user = &user, .log_dir_fd = -1 };
	struct child child;
	int code = child_user_init(&user, rec->uid, err);

	if (!dir || asprintf(&link, "%s/%s.latest", rec->log_dir, rec->name) < 0) {
		link = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	argv[5] = link;
	if (!code)
		code = child_start(&q, &child, err);
	if (code < 0)
		return code;
	child_release(&child);
	code = child_watch_new(r->daemon->loop, child.pidfd, on_rm_end, r, &r->rm);
	return code < 0 ? error_set(err, code, "%s", strerror(-code)) : 0;
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct removal *r = arg;

	if (news != JOB_ENDED && news != JOB_GONE)
		return;
	stop_waiting(r);
	/* From the loop, since this runs within the job's own news. */
	if (loop_defer(r->daemon->loop, removal_continue, r) < 0)
		removal_finish(r, -ENOMEM, "out of memory");
}

/* Removes a run, or returns a negative errno. */
static int remove_one(struct removal *r, struct job *j, struct error *err)
{
	int code;

	if (r->logs && (!r->pruned || remove_takes_logs(r->daemon, &j->rec)))
		return start_rm(r, &j->rec, err);
	code = forget_job(r->daemon, j, err);
	if (code < 0)
		return code;
	r->removed++;
	r->next++;
	return 0;
}

static void removal_continue(void *arg)
{
	struct removal *r = arg;
	uint64_t begun = loop_now_ms();
	struct error err = { 0 };

	r->rests = false;
	while (r->next < r->n) {
		struct job *j = registry_find(r->daemon->registry, r->runs[r->next], NULL, NULL);

		if (j && job_is_over(j) && j->life != LIFE_ENDED) {
			job_end_within(j, SPEC_UNSET);
			r->awaited = j;
			job_watch(j, &r->watch, on_news, r);
			return;
		}
		if (!j || j->life != LIFE_ENDED) {
			r->next++;
			continue;
		}
		if (!take_turn(r, j->rec.uid))
			return;
		/* Others are served in between. */
		if (loop_now_ms() - begun >= REMOVE_MS) {
			r->rests = true;
			loop_again_arm(r->again);
			return;
		}
		if (remove_one(r, j, &err) < 0 && !r->pruned) {
			removal_finish(r, err.code, err.text);
			return;
		}
		if (err.code < 0) {
			log_warning("%s", err.text);
			err.code = 0;
			r->failed++;
			r->next++;
		}
		if (r->rm)
			return;
	}
	removal_finish(r, 0, NULL);
}

/* The runs of jobs, by name. */
static struct removal *removal_new(struct daemon *d, struct job **jobs, size_t n, bool logs)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct removal){
		.daemon = d, .runs = calloc(n, sizeof(char *)), .logs = logs, .uid = (uid_t)-1
	};
	if (loop_again_new(d->loop, removal_continue, r, &r->again) < 0) {
		free(r->runs);
		free(r);
		return NULL;
	}
	LIST_INSERT_HEAD(&d->removals->open, r, link);
	for (size_t i = 0; r->runs && i < n; i++, r->n++) {
		r->runs[i] = strdup(jobs[i]->rec.run);
		if (!r->runs[i])
			break;
	}
	if (r->n == n)
		return r;
	removal_free(r);
	return NULL;
}

int remove_begin(
	struct daemon *d, struct varlink_call *call, struct job **jobs, size_t n, bool logs)
{
	const struct varlink_peer *peer = varlink_call_peer(call);
	struct removal *r = removal_new(d, jobs, n, logs);

	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		log_notice("job %s (%s): removed by uid %u%s", jobs[i]->rec.name, jobs[i]->rec.run,
			(unsigned)peer->uid, logs ? " with its logs" : "");
	r->call = call;
	varlink_call_on_gone(call, on_gone, r);
	removal_continue(r);
	return 0;
}

bool remove_takes_logs(const struct daemon *d, const struct job_record *rec)
{
	return !strcmp(rec->log_dir, d->log_dir) && strcmp(rec->log_dir, "/dev/null") != 0;
}

int remove_prune(struct daemon *d, struct job **jobs, size_t n, remove_fn fn, void *arg)
{
	struct removal *r = removal_new(d, jobs, n, true);

	if (!r)
		return -ENOMEM;
	r->pruned = fn;
	r->arg = arg;
	if (loop_defer(d->loop, removal_continue, r) == 0)
		return 0;
	removal_free(r);
	return -ENOMEM;
}
