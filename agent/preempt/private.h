/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room except the machine's:
 *
 *   service.c  life, notices, the machine's orders, the job's end
 *   methods.c  calls of workers: Step with its answer, Saved, Preemption, Notify
 *   workers.c  starts, saves and ends of workers, signals
 *   board.c    the notice on the board, and what workers wrote there
 *   hosts.c    the same in a group of several hosts
 *   text.c     texts and JSON; the notice of an earlier agent
 */

#include "agent/preempt/service.h"

#include "agent/sharing/private.h"
#include "common/loop/loop.h"

enum { PREEMPTING_SAME_SIGNAL_MS = 1000 }; /* the same signal within this time is one notice */

/* One worker, by its slot. */
struct preempting_worker {
	struct varlink_call *step; /* its call that waits for an answer, or NULL */
	int64_t path_step;	   /* the step that path belongs to */
	char *path;		   /* owned, NULL: not given */
	bool reported;		   /* it has reported a save, at reported_step */
	int64_t reported_step;
};

struct preempting {
	struct supervisor *sv;
	/* Of the workers that the machine is about: of this host, or, where this agent leads a
	 * group of several hosts, of all. NULL: another agent leads, or there is no sharing. */
	struct commons *commons;
	bool several;  /* the group has several hosts */
	bool hosts_up; /* ... which this agent leads, and which have a notice */
	struct preempt *machine;
	struct loop_timer *timer;
	bool running;	      /* preempting_run() is under way */
	char why[256];	      /* why the machine stops the rest */
	uint64_t notice_word; /* the board's notice */
	uint64_t signals;     /* signals that counted as notices, as bits */
	uint64_t signal_ms;   /* when the last came */

	/* of the first notice */
	char source[32], reason[512];
	int64_t time_us;
	/* of the notice that leaves least time */
	int64_t deadline_ms, deadline_us;

	struct preempting_worker *workers;
	int n_workers;
	struct notice_sources *notices; /* NULL: there is none to watch */
	json_t *past;			/* io.elasticd.Manager.Preemption of an earlier agent */
	/* From that agent's events: the notice that was up, and what each worker, by name, saved.
	 */
	json_t *past_notice, *past_saved;
};

/* service.c */
/* True when the machine's workers have a notice. */
bool preempting_is_up(const struct supervisor *sv);
struct preempting *preempting_of(const struct supervisor *sv);
/* The same, made where it is not there yet; NULL without memory. */
struct preempting *preempting_make(struct supervisor *sv);
/* Does what the machine says, until it says NOTHING. */
void preempting_run(struct preempting *p);

/* workers.c */
/* NULL when memory was short as the worker began. */
struct preempting_worker *preempting_worker_of(const struct supervisor *sv, int slot);
struct worker *preempting_worker_in(const struct preempting *p, int slot);
void preempting_workers_free(struct preempting *p);
/* Hooks. */
void preempting_worker_left(struct supervisor *sv, struct worker *w, char *text, size_t size);
void preempting_report_end(struct supervisor *sv, struct worker *w, const char *text);
/* w reports a save. path NULL: not given. -ERANGE when no answer asked the worker to save there,
 * -ENOENT without a notice. */
_must_check_ int preempting_saved(
	struct supervisor *sv, struct worker *w, int64_t step, const char *path, struct error *err);
/* Sends the signal that the machine orders for a worker. */
void preempting_signal_worker(struct preempting *p, const struct preempt_do *d);

/* board.c */
void preempting_board_up(struct preempting *p, int64_t save_at);
void preempting_board_down(struct preempting *p);
/* Reads what all workers wrote; barrier: after they can see the board's notice. */
void preempting_board_read(struct preempting *p, bool barrier);
/* Reads what w, which has just ended, wrote there. */
void preempting_board_last(struct preempting *p, const struct worker *w);

/* Reads what the process of w has written there, while it is alive. */
void preempting_sample(
	const struct supervisor *sv, const struct worker *w, struct preempt_sample *s);
/* Has all threads of this host see what was written. */
void preempting_barrier(void);

/* hosts.c: hooks */
void preempting_lead(struct supervisor *sv, const struct hosts_lead *lead);
void preempting_hosts_begin(struct supervisor *sv);
void preempting_hosts_stopping(struct supervisor *sv);
void preempting_hosts_started(struct supervisor *sv, struct worker *w);
void preempting_hosts_exited(struct supervisor *sv, struct worker *w, const json_t *report);
void preempting_hosts_notice(struct supervisor *sv, const char *source, const char *reason,
	int64_t grace_ms, int64_t deadline_us);
void preempting_hosts_sampled(struct supervisor *sv, const json_t *samples);
void preempting_hosts_board(struct supervisor *sv, uint64_t notice, int64_t save_at, bool error);
json_t *preempting_hosts_samples(struct supervisor *sv, bool barrier);
void preempting_hosts_describe_end(struct supervisor *sv, const struct worker *w, json_t *report);
void preempting_hosts_order(
	struct supervisor *sv, struct worker *w, const char *what, const char *why);

/* service.c, for hosts.c */
void preempting_take(struct preempting *p, const struct preempting_notice *n);
void preempting_call_off_all(struct supervisor *sv);
/* workers.c, for hosts.c */
void preempting_add_worker(struct preempting *p, const struct worker *w);
enum preempt_end preempting_end_of(const struct supervisor *sv, const struct worker *w);
void preempting_send_signal(struct supervisor *sv, struct worker *w);

/* methods.c */
/* Answers a worker's Step as the machine orders. */
void preempting_answer(struct preempting *p, const struct preempt_do *d);
/* Ends all waiting Steps. */
void preempting_steps_stop(struct preempting *p);
extern const struct varlink_method preempting_worker_methods[];
/* A worker has reported an error: fails all waiting Step calls with it. */
void preempting_group_error(struct supervisor *sv);
void preempting_worker_exited(struct supervisor *sv, struct worker *w);

/* text.c; the last ones are hooks */
/* The reason of the job's end, for people; and "; 5m until the deadline". */
void preempting_reason(const struct preempting *p, char *text, size_t size);
void preempting_rest(const struct preempting *p, char *text, size_t size);
/* io.elasticd.Worker.Notice, owned; NULL without a notice. */
json_t *preempting_notice_json(const struct supervisor *sv);
/* io.elasticd.Manager.Preemption, owned; NULL without a notice. */
json_t *preempting_json(const struct supervisor *sv);
void preempting_describe_job(const struct supervisor *sv, json_t *job, bool live);
void preempting_describe_worker(
	const struct supervisor *sv, const struct worker *w, json_t *worker, bool live);
void preempting_describe_verdict(const struct supervisor *sv, json_t *verdict);
void preempting_explain(const struct supervisor *sv, FILE *f);
void preempting_past_note(struct supervisor *sv, const json_t *event);
bool preempting_past(struct supervisor *sv);
