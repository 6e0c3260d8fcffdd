/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader opens a log_view for each log in the attempt's directory. History comes in the order
 * of time: the time of each log's next line is known, and the oldest line is handed out first, so
 * only one block of each log is in memory. Lines written later come in turns. At the end of all
 * logs a viewer that does not follow is done; one that follows waits for a log to grow, for a new
 * log, or for a new attempt, which begins when the present logs are read. The files are the buffer:
 * while the viewer has not taken its last lines nothing is read, and when too many new ones have
 * piled up, some are skipped and counted.
 */
#include "agent/logs/reader.h"

#include "agent/files/file_system.h"
#include "agent/logs/line_json.h"
#include "agent/logs/viewer.h"
#include "common/base/scan.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/text/stdmap.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES (64 * 1024)	  /* lines are handed over when they have this size */
#define BATCH_MAX (256 * 1024)	  /* upper limit of a batch */
#define TURN_BYTES (512 * 1024)	  /* bytes read before the loop serves others */
#define STEP_BYTES 256		  /* the least that a step counts */
#define FOLLOW_MS 20		  /* pause between two reads of growing logs */
#define LAG_MAX (8 * 1024 * 1024) /* skip when more than this waits in one log */
#define LAG_KEEP (1024 * 1024)
#define CONTAINS_MAX 4096

/* A directory of the attempt with an inotify watch. */
struct dir {
	struct dir *next;
	int local_rank; /* -1: the attempt itself */
	struct log_watch *watch;
};

struct log_reader {
	struct loop *loop;
	log_reader_fn fn;
	void *arg;
	char *run_dir;
	struct ranks ranks;
	bool all_ranks, follow, one_attempt;
	int streams; /* bits of STD_OUT and STD_ERR */
	char *contains;
	struct log_view_rules rules;
	int attempt;  /* -1: there is none yet */
	bool history; /* logs found now existed at the start */
	bool rescan, ended, blocked, done;
	bool leaving; /* a newer attempt exists: read the rest of this one */
	struct log_watch *run_watch;
	struct dir *dirs;
	struct log_view *views, *turn;
	int64_t turn_us; /* history: turn has the oldest lines up to this time */
	bool all_live;	 /* all history was handed out */
	struct loop_timer *timer;
	uint64_t timer_at, worked_ms;
	json_t *batch;
	size_t batch_bytes;
	int64_t missed;
	bool *freed; /* set when the callback frees the reader */
};

static void reader_arm_at(struct log_reader *r, uint64_t at_ms)
{
	uint64_t now = loop_now_ms();

	if (r->blocked || at_ms >= r->timer_at)
		return;
	r->timer_at = at_ms;
	loop_timer_arm(r->timer, at_ms > now ? at_ms - now : 0);
}

/* Arms the timer for soon, but at least FOLLOW_MS after the last work. */
static void reader_arm_soon(struct log_reader *r)
{
	reader_arm_at(r, r->worked_ms + FOLLOW_MS);
}

/* Hands the batch over. Returns false when the callback has freed the reader. */
static bool deliver_batch(struct log_reader *r, bool more)
{
	json_t *lines = r->batch ? TAKE_PTR(r->batch) : json_array();
	int64_t missed = r->missed;
	bool freed = false;

	r->batch_bytes = 0;
	r->missed = 0;
	r->done |= !more;
	r->freed = &freed;
	if (r->fn(r->arg, lines, missed, more) == -EAGAIN && !freed)
		r->blocked = true;
	if (freed)
		return false;
	r->freed = NULL;
	return true;
}

static void on_line(void *arg, const struct log_view *v, const struct log_line *line)
{
	struct log_reader *r = arg;
	size_t size = 0;
	json_t *j = log_line_json(&v->worker, r->attempt, v->std, line, &size);

	if (!r->batch)
		r->batch = json_array();
	if (!j || json_array_append_new(r->batch, j) < 0) {
		r->missed++;
		return;
	}
	r->batch_bytes += size;
}

static void view_done(struct log_reader *r, struct log_view *v)
{
	struct log_view **p;

	for (p = &r->views; *p != v; p = &(*p)->next)
		;
	*p = v->next;
	if (r->turn == v)
		r->turn = NULL;
	log_view_free(v);
}

/* Removes the watch until the log's end is reached again, so that a busy log does not wake the
 * agent for each write. */
static void on_view(void *arg, int events)
{
	struct log_view *v = arg;

	v->watch = log_watch_free(v->watch);
	log_view_written(v);
	reader_arm_soon(v->arg);
}

static void on_dir(void *arg, int events)
{
	struct log_reader *r = arg;

	r->rescan = true;
	for (struct log_view *v = r->views; v; v = v->next)
		log_view_check_again(v);
	reader_arm_soon(r);
}

/* Watches the live file of a log read to its end. Returns true when the watch is new: bytes may
 * have come before it, so the caller must read once more. */
static bool watch_view(struct log_reader *r, struct log_view *v)
{
	const int events = LOG_WATCH_MODIFY | LOG_WATCH_GONE | LOG_WATCH_MUST;
	struct log_source *s = &v->input.source;

	if (v->watch || !s->live || s->fd < 0)
		return false;
	return log_watch_new(r->loop, s->fd, events, on_view, v, &v->watch) == 0;
}

static bool has_view(const struct log_reader *r, int local_rank, int std)
{
	for (struct log_view *v = r->views; v; v = v->next)
		if (v->worker.local_rank == local_rank && v->std == std)
			return true;
	return false;
}

/* Inserts in the order of ranks, stdout before stderr. */
static void add_view(struct log_reader *r, struct log_view *v)
{
	struct log_view **p = &r->views;

	while (*p &&
		((*p)->worker.local_rank < v->worker.local_rank ||
			((*p)->worker.local_rank == v->worker.local_rank && (*p)->std < v->std)))
		p = &(*p)->next;
	v->next = *p;
	*p = v;
	r->all_live = false;
}

static void add_log_if_exists(struct log_reader *r, const char *dir, int local_rank, int std)
{
	struct log_worker_info worker;
	struct log_view *v;
	char path[PATH_MAX];
	struct stat st;

	if (!(r->streams & (1 << std)) || has_view(r, local_rank, std))
		return;
	if (snprintf(path, sizeof(path), "%s/%s.log", dir, std == 0 ? "stdout" : "stderr") >=
		(int)sizeof(path))
		return;
	if (log_fs_stat(path, &st) < 0)
		return;
	log_dirs_read_worker(dir, local_rank, &worker);
	if (!r->all_ranks && !ranks_contains(&r->ranks, worker.rank))
		return;
	if (log_view_new(path, &worker, std, r->history, &r->rules, on_line, r, &v) == 0)
		add_view(r, v);
}

static bool has_dir(const struct log_reader *r, int local_rank)
{
	for (const struct dir *d = r->dirs; d; d = d->next)
		if (d->local_rank == local_rank)
			return true;
	return false;
}

/* For a reader that follows: watches path for new names. */
static void watch_dir(struct log_reader *r, const char *path, int local_rank)
{
	_cleanup_log_fd_ int fd = -1;
	struct dir *d;

	if (!r->follow || r->ended || has_dir(r, local_rank))
		return;
	fd = log_fs_open_dir(path);
	d = fd < 0 ? NULL : calloc(1, sizeof(*d));
	if (!d)
		return;
	d->local_rank = local_rank;
	if (log_watch_new(r->loop, fd, LOG_WATCH_NAMES | LOG_WATCH_MUST, on_dir, r, &d->watch) <
		0) {
		free(d);
		return;
	}
	d->next = r->dirs;
	r->dirs = d;
}

static void forget_attempt(struct log_reader *r)
{
	while (r->views)
		view_done(r, r->views);
	while (r->dirs) {
		struct dir *d = r->dirs;

		r->dirs = d->next;
		log_watch_free(d->watch);
		free(d);
	}
}

/* Adds logs that are not in the list yet. */
static void scan_logs(struct log_reader *r)
{
	_cleanup_strings_ char **names = NULL;
	char dir[PATH_MAX - 16], sub[PATH_MAX];

	r->rescan = false;
	if (r->attempt < 0)
		return;
	snprintf(dir, sizeof(dir), "%s/attempt_%d", r->run_dir, r->attempt);
	watch_dir(r, dir, -1);
	if (log_fs_names(dir, &names) < 0)
		return;
	for (char **name = names; *name; name++) {
		uint64_t rank;

		if (scan_whole(*name, RANKS_MAX, &rank) < 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%d", dir, (int)rank);
		watch_dir(r, sub, (int)rank);
		for (int std = 0; std < 2; std++)
			add_log_if_exists(r, sub, (int)rank, std);
	}
}

/* Does one piece of work on one log. */
static void step_view(struct log_reader *r, struct log_view *v, uint64_t now)
{
	bool n = log_view_step(v, now);

	r->missed += v->missed;
	v->missed = 0;
	/* Only now is it sure that no bytes came, so a partial line may be due. */
	if (!n)
		log_view_tick(v, now);
	if (!n && !r->follow)
		log_view_finish(v, r->ended);
	if (!n && r->follow && !r->ended && watch_view(r, v))
		log_view_check_again(v);
}

/* True when v's next line, or the rest of its present one, precedes those of all other logs. */
static bool comes_first(const struct log_reader *r, const struct log_view *v)
{
	return v && !v->live && log_view_ready(v) &&
	       (v->input.within || v->input.next_us <= r->turn_us);
}

/* The log whose turn it is in history: the one with the oldest line (the first of equals), or one
 * that has to search for its next line first. NULL: all history is read. */
static struct log_view *oldest_view(struct log_reader *r)
{
	struct log_view *best = NULL;

	r->turn_us = INT64_MAX;
	for (struct log_view *v = r->views; v; v = v->next) {
		if (v->live || log_view_at_end(v))
			continue;
		if (!log_view_ready(v) || v->input.within) {
			r->turn_us = INT64_MIN;
			return v;
		}
		if (!best || v->input.next_us < best->input.next_us) {
			/* Logs before it in the list go first at equal times. */
			if (best)
				r->turn_us = best->input.next_us - 1;
			best = v;
		} else if (v->input.next_us < r->turn_us) {
			r->turn_us = v->input.next_us;
		}
	}
	return best;
}

static struct log_view *unread_view(struct log_view *v)
{
	while (v && log_view_at_end(v))
		v = v->next;
	return v;
}

/* The log to read next; NULL: all are at their ends. */
static struct log_view *next_view(struct log_reader *r)
{
	struct log_view *v = comes_first(r, r->turn) ? r->turn : NULL;

	if (!v && !r->all_live)
		v = oldest_view(r);
	r->all_live = !v;
	if (!v)
		v = unread_view(r->turn);
	return v ? v : unread_view(r->views);
}

/* Reads until all logs are at their ends (returns true), or the turn is over. */
static bool read_some(struct log_reader *r, uint64_t now, bool *ret_gone)
{
	for (size_t work = 0; work < TURN_BYTES && !r->blocked;) {
		struct log_view *v = next_view(r);

		r->turn = v;
		if (!v)
			return true;
		step_view(r, v, now);
		work += v->worked > STEP_BYTES ? v->worked : STEP_BYTES;
		if (v->live && !log_view_ready(v))
			r->turn = v->next;
		if (r->batch_bytes >= BATCH_BYTES && !deliver_batch(r, true)) {
			*ret_gone = true;
			return false;
		}
	}
	return false;
}

static void finish_views(struct log_reader *r, bool over)
{
	for (struct log_view *v = r->views; v; v = v->next)
		log_view_finish(v, over);
}

/* Called with all logs at their ends. Returns true when there is more to read now. */
static bool reader_continue(struct log_reader *r, bool *ret_last)
{
	int next =
		r->follow && !r->one_attempt ? log_dirs_next_attempt(r->run_dir, r->attempt) : -1;

	r->history = false;
	if (next >= 0 && !r->leaving) {
		/* The old attempt's logs may have grown since they were read: read them once more.
		 */
		for (struct log_view *v = r->views; v; v = v->next)
			log_view_check_again(v);
		r->leaving = r->rescan = true;
		return true;
	}
	if (next >= 0) {
		finish_views(r, true);
		forget_attempt(r);
		r->attempt = next;
		r->leaving = false;
		r->rescan = true;
		return true;
	}
	*ret_last = !r->follow || r->ended;
	return false;
}

static void reader_arm_deadline(struct log_reader *r)
{
	uint64_t at = UINT64_MAX;

	for (struct log_view *v = r->views; v; v = v->next) {
		uint64_t d = log_view_deadline(v);

		at = d < at ? d : at;
	}
	if (at != UINT64_MAX)
		reader_arm_at(r, at);
}

static void reader_turn(void *arg)
{
	struct log_reader *r = arg;
	bool gone = false, last = false;
	uint64_t now = loop_now_ms();

	r->timer_at = UINT64_MAX;
	if (r->blocked || r->done)
		return;
	r->worked_ms = now;
	for (struct log_view *v = r->views; v; v = v->next)
		if (log_view_deadline(v) <= now)
			log_view_check_again(v);
	do {
		if (r->rescan)
			scan_logs(r);
		if (!read_some(r, now, &gone)) {
			if (!gone)
				reader_arm_at(r, 0);
			return;
		}
	} while (r->rescan || reader_continue(r, &last));
	if (last) {
		finish_views(r, r->ended);
		forget_attempt(r);
		deliver_batch(r, false);
		return;
	}
	if ((r->batch_bytes > 0 || r->missed > 0) && !deliver_batch(r, true))
		return;
	reader_arm_deadline(r);
}

static int parse_params(struct log_reader *r, const json_t *params, struct error *err)
{
	const char *ranks = json_get_string(params, "ranks", NULL);
	const char *stream = json_get_string(params, "stream", NULL);
	const char *contains = json_get_string(params, "contains", NULL);
	json_t *lines = json_object_get(params, "lines");

	r->follow = json_get_bool(params, "follow", false);
	r->all_ranks = !ranks;
	r->streams = !stream ? STD_BOTH : !strcmp(stream, "stdout") ? STD_OUT : STD_ERR;
	r->one_attempt = json_is_integer(json_object_get(params, "attempt"));
	r->attempt = (int)json_get_int(params, "attempt", -1);
	r->rules.lines = json_get_int(params, "lines", -1);
	if (json_is_integer(lines) && r->rules.lines < 0)
		return error_field(err, -EINVAL, "lines", "expected an integer >= 0");
	r->rules.since_us = json_get_int(params, "since_us", -1);
	r->rules.until_us = json_get_int(params, "until_us", -1);
	if (contains && strlen(contains) > CONTAINS_MAX)
		return error_field(
			err, -EINVAL, "contains", "expected at most %d bytes", CONTAINS_MAX);
	if (contains && *contains) {
		r->contains = strdup(contains);
		if (!r->contains)
			return error_set(err, -ENOMEM, "out of memory");
		r->rules.contains = r->contains;
	}
	return ranks ? ranks_parse(&r->ranks, ranks, "ranks", err) : 0;
}

/* Finds the attempt to begin with, and watches for new ones. */
static int open_run(struct log_reader *r, struct error *err)
{
	_cleanup_log_fd_ int fd = log_fs_open_dir(r->run_dir);
	char path[PATH_MAX];
	struct stat st;
	int n;

	if (fd < 0)
		return error_set(err, fd, "%s: %s", r->run_dir, safe_open_text(fd));
	if (r->follow && !r->one_attempt) {
		n = log_watch_new(
			r->loop, fd, LOG_WATCH_NAMES | LOG_WATCH_MUST, on_dir, r, &r->run_watch);
		if (n < 0)
			return error_set(err, n, "%s: %s", r->run_dir, strerror(-n));
	}
	if (!r->one_attempt) {
		/* A viewer that follows from a given time gets all attempts since then. */
		r->attempt = r->follow && r->rules.since_us >= 0
				     ? log_dirs_next_attempt(r->run_dir, r->attempt)
				     : log_dirs_last_attempt(r->run_dir);
		if (r->attempt < 0 && !r->follow)
			return error_set(err, -ENOENT, "%s: no logs", r->run_dir);
		return 0;
	}
	if (snprintf(path, sizeof(path), "%s/attempt_%d", r->run_dir, r->attempt) >=
			(int)sizeof(path) ||
		log_fs_stat(path, &st) < 0)
		return error_set(err, -ENOENT, "%s: no logs of attempt %d", r->run_dir, r->attempt);
	return 0;
}

/* Collects the ranks that have a directory in the attempt. */
static int find_ranks(const struct log_reader *r, struct ranks *ret)
{
	_cleanup_strings_ char **names = NULL;
	char dir[PATH_MAX - 16], sub[PATH_MAX];
	struct log_worker_info worker;
	uint64_t n;

	snprintf(dir, sizeof(dir), "%s/attempt_%d", r->run_dir, r->attempt);
	if (log_fs_names(dir, &names) < 0)
		return 0;
	for (char **name = names; *name; name++) {
		if (scan_whole(*name, RANKS_MAX, &n) < 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%d", dir, (int)n);
		log_dirs_read_worker(sub, (int)n, &worker);
		if (worker.rank >= 0 && worker.rank <= RANKS_MAX &&
			ranks_add(ret, worker.rank, worker.rank) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Checks that each rank asked for is a worker's now, or was one's in the attempt. */
static int check_ranks(const struct log_reader *r, int workers, struct error *err)
{
	_cleanup_(ranks_fini) struct ranks found = { 0 };
	int rank = ranks_next(&r->ranks, workers - 1);

	if (r->all_ranks || rank < 0)
		return 0;
	if (find_ranks(r, &found) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	for (; rank >= 0; rank = ranks_next(&r->ranks, rank))
		if (!ranks_contains(&found, rank)) {
			error_set(err, -ESRCH, "there is no worker %d", rank);
			snprintf(err->field, sizeof(err->field), "%d", rank);
			return -ESRCH;
		}
	return 0;
}

int log_reader_new(struct loop *loop, const char *run_dir, const json_t *params, int workers,
	log_reader_fn fn, void *arg, struct log_reader **ret, struct error *err)
{
	_cleanup_(log_reader_freep) struct log_reader *r = calloc(1, sizeof(*r));
	int n;

	if (!r)
		return error_set(err, -ENOMEM, "out of memory");
	*r = (struct log_reader){ .loop = loop, .fn = fn, .arg = arg, .history = true };
	r->rescan = true;
	r->timer_at = UINT64_MAX;
	r->run_dir = strdup(run_dir);
	n = r->run_dir ? loop_timer_new(loop, reader_turn, r, &r->timer) : -ENOMEM;
	if (n < 0)
		return error_set(err, n, "%s", strerror(-n));
	n = parse_params(r, params, err);
	if (n == 0)
		n = open_run(r, err);
	if (n == 0)
		n = check_ranks(r, workers, err);
	if (n < 0)
		return n;
	reader_arm_at(r, 0);
	*ret = TAKE_PTR(r);
	return 0;
}

struct log_reader *log_reader_free(struct log_reader *r)
{
	if (!r)
		return NULL;
	if (r->freed)
		*r->freed = true;
	forget_attempt(r);
	log_watch_free(r->run_watch);
	loop_timer_free(r->timer);
	ranks_fini(&r->ranks);
	json_decref(r->batch);
	free(r->contains);
	free(r->run_dir);
	free(r);
	return NULL;
}

void log_reader_resume(struct log_reader *r)
{
	if (!r->blocked)
		return;
	r->blocked = false;
	if (r->follow)
		for (struct log_view *v = r->views; v; v = v->next)
			log_view_skip(v, LAG_MAX, LAG_KEEP);
	reader_arm_at(r, 0);
}

void log_reader_run_ended(struct log_reader *r)
{
	r->ended = true;
	r->rescan = true;
	for (struct log_view *v = r->views; v; v = v->next)
		log_view_check_again(v);
	reader_arm_at(r, 0);
}
