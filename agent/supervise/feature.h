/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A feature is what the agent does beyond starting, watching and ending workers: sharing, the
 * watchdog, preemption, attaching, the work queue, the API. The core (this room) calls a feature by
 * its hooks alone. Every hook may be NULL. The order of the table (agent/features.c) is the order
 * of the calls; fini alone goes the other way.
 *
 * The core decides before it calls a hook: the hook finds the worker's state set.
 */

#include "agent/policy/group_decision.h"
#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"
#include "common/varlink/server.h"

#include <signal.h>
#include <stdio.h>

struct commons;

/* How the agent of a group of several hosts leads it. */
struct hosts_lead {
	struct commons *commons; /* of the workers of all hosts */
	int64_t term;		 /* counts those that lead one after the other */
	const char *before;	 /* the host that led before; NULL: none is known */
	/* Which hosts have all records of the group, as the store that elects the head has noted;
	 * or NULL. */
	const json_t *edition;
	/* Sends to the deputy; takes body. */
	void (*send)(void *arg, const char *method, json_t *body);
	/* Has the store note that; takes edition. hosts_noted follows. */
	void (*note)(void *arg, json_t *edition);
	/* Whether the group has ended; else another host leads it if this one leaves. */
	bool (*ended)(void *arg);
	void *arg;
};

typedef void (*feature_ready_fn)(void *arg, const struct error *why);

struct feature {
	const char *name;

	/* ready: all features are initialised, so it may serve calls. hang_up: ends its calls. */
	int (*init)(struct supervisor *sv, struct error *err);
	int (*ready)(struct supervisor *sv, struct error *err);
	void (*hang_up)(struct supervisor *sv);
	void (*fini)(struct supervisor *sv); /* also where init failed, or did not run */

	/* Methods of io.elasticd.Manager (arg: the supervisor) and of io.elasticd.Worker (which
	 * find their agent and worker by the call); each list ends with a NULL name. */
	const struct varlink_method *manager_methods, *worker_methods;
	/* One more interface for worker.sock (workers) or agent.sock; false: none. */
	bool (*interface)(
		struct supervisor *sv, bool workers, struct varlink_interface_options *ret);
	/* The answers of a turn are about to be sent: writes to disk what they promise. Called if
	 * any feature's relies_on_disk returns true. */
	void (*answers_leaving)(struct supervisor *sv);
	bool (*relies_on_disk)(const struct supervisor *sv);
	/* As holds() and varlink_server_kept() of common/varlink/server.h. */
	int (*holds_answers)(const struct supervisor *sv, uint64_t *mark);
	void (*answers_kept)(struct supervisor *sv);
	/* A worker has opened a connection; it has shut one for writing, so it sends nothing more
	 * there; or it has closed one and its calls are gone. holder: identifies the connection. */
	void (*worker_connected)(struct supervisor *sv, int slot);
	void (*worker_shut)(struct supervisor *sv, void *holder);
	void (*worker_hung_up)(struct supervisor *sv, void *holder);

	/* The group. */
	/* The group of several hosts takes the rendezvous over: supervisor_prepare() and so on
	 * follow. */
	bool (*rendezvous)(struct supervisor *sv);
	/* Workers of this host have ended, and something follows for the group. Returns whether
	 * another host decides it; called again while it does not. */
	bool (*decides)(struct supervisor *sv, enum group_decision_step step);
	/* An operator, a signal or a limit wants that event for the group; timeout_ms: of a stop,
	 * or SPEC_UNSET. Returns whether the feature sees to it. */
	bool (*takes_request)(
		struct supervisor *sv, enum group_event event, int64_t timeout_ms, const char *why);
	/* An attempt is about to be prepared on this host, in state rendezvous. Whether that has to
	 * wait: then the feature calls fn, at once or later, with why = NULL when the host is
	 * ready; and before, as soon as it knows, with the reason why it is not. Where it is called
	 * again meanwhile, the newest fn counts; in another state none is called. */
	bool (*delays_attempt)(struct supervisor *sv, feature_ready_fn fn, void *arg);
	/* The workers of the next attempt are known, and nothing is done for them yet. An error:
	 * none of them can be started. */
	int (*attempt_prepared)(struct supervisor *sv, struct error *err);
	/* No worker of the attempt lives; failures (Failure objects, root cause first) are known.
	 */
	void (*attempt_over)(struct supervisor *sv, const json_t *failures);
	/* The attempt's workers are known; none is started. */
	void (*attempt_begins)(struct supervisor *sv);
	/* Workers of this host have passed the barrier that `ready.barrier` names. */
	void (*barrier_passed)(struct supervisor *sv);
	/* The group has a new state, whose actions are still to come. */
	void (*group_changed)(struct supervisor *sv);
	/* Every worker had its first start. */
	void (*group_running)(struct supervisor *sv);
	void (*group_stopping)(struct supervisor *sv, const char *why);
	/* A worker has reported an error with which all calls of workers fail; in the agent that
	 * leads a group of several hosts, a worker of any host. */
	void (*group_error)(struct supervisor *sv);
	/* On a notice of preemption no worker is left, and not all succeeded. */
	void (*all_left)(struct supervisor *sv);
	void (*job_ended)(struct supervisor *sv);
	/* Answers all waiting callers. Returns true if it calls fn, now or later, after that. */
	bool (*last_answers)(struct supervisor *sv, loop_fn fn, void *arg);
	/* A signal came after the end of the job: last_answers is to wait for no program. */
	void (*hurry)(struct supervisor *sv);
	/* A state that people can see has changed. */
	void (*changed)(struct supervisor *sv);

	/* One worker. */
	int (*worker_environment)(
		const struct supervisor *sv, const struct worker *w, struct env *e);
	void (*worker_starting)(struct supervisor *sv, struct worker *w);
	/* May add to how its process is made. Its additions are used before the next call. */
	void (*worker_spawning)(struct supervisor *sv, struct worker *w, struct spawn_request *req);
	void (*worker_not_started)(
		struct supervisor *sv, struct worker *w); /* after worker_starting */
	void (*worker_started)(struct supervisor *sv, struct worker *w);
	/* An operator stops it: the stop begins; and, unless it is started again, once more. */
	void (*worker_stopping)(struct supervisor *sv, struct worker *w, const char *why);
	void (*worker_stopped)(struct supervisor *sv, struct worker *w);
	/* Workers have ended and are about to be reaped: reads what they sent before. */
	void (*before_reap)(struct supervisor *sv);
	/* How its process ended is known, and its state not set: may add to that. */
	void (*worker_end_known)(struct supervisor *sv, struct worker *w);
	/* Before its state is set: fills text if it left as it was asked to, else leaves "". */
	void (*worker_left)(struct supervisor *sv, struct worker *w, char *text, size_t size);
	void (*worker_exited)(struct supervisor *sv, struct worker *w);
	/* The event of its end was added; left: worker_left's text. */
	void (*worker_end_reported)(struct supervisor *sv, struct worker *w, const char *left);
	/* It has no process, and will get none in this attempt. */
	void (*worker_over)(struct supervisor *sv, struct worker *w);
	/* Sends answers now, before the core does something slow. */
	void (*flush)(struct supervisor *sv);
	/* Whether the decision about the workers that ended has to wait; the feature calls
	 * apply_decisions() later. */
	bool (*delays_decision)(struct supervisor *sv);
	/* The job's exit status if w is its root cause, or -1: no opinion. */
	int (*exit_status)(const struct supervisor *sv, const struct worker *w);

	/* A group of several hosts, in the agent that leads it: workers of all hosts, which the
	 * core does not know. */
	/* It leads; NULL: no more. */
	void (*hosts_lead)(struct supervisor *sv, const struct hosts_lead *lead);
	/* Another host than before, or none (NULL), leads next if this one is lost. */
	void (*hosts_deputy)(struct supervisor *sv, const char *host);
	/* The deputy has records (io.elasticd.Peer.Recorded). 0, or -EPROTO with err. */
	int (*hosts_recorded)(struct supervisor *sv, const json_t *recorded, struct error *err);
	/* The store has noted the last edition. */
	void (*hosts_noted)(struct supervisor *sv);
	void (*hosts_begin)(struct supervisor *sv); /* an attempt, whose workers are known */
	void (*hosts_running)(struct supervisor *sv);
	void (*hosts_stopping)(struct supervisor *sv);
	void (*hosts_worker_started)(struct supervisor *sv, struct worker *w);
	/* report: io.elasticd.Peer.Report. */
	void (*hosts_worker_exited)(struct supervisor *sv, struct worker *w, const json_t *report);
	/* It has no process, and will get none in this attempt. */
	void (*hosts_worker_over)(struct supervisor *sv, struct worker *w);
	/* As delays_decision; the feature has the commons' owner decide later. */
	bool (*hosts_delay_decision)(struct supervisor *sv);
	/* A host has a notice of preemption; times as of struct preempting_notice. */
	void (*hosts_notice)(struct supervisor *sv, const char *source, const char *reason,
		int64_t grace_ms, int64_t deadline_us);
	/* An array of io.elasticd.Peer.Sample has come from all hosts. */
	void (*hosts_sampled)(struct supervisor *sv, const json_t *samples);
	/* io.elasticd.Peer.Steps of a host with n workers. 0, or -EPROTO with err. */
	int (*hosts_stepped)(struct supervisor *sv, int first_rank, int n, const json_t *steps,
		struct error *err);

	/* A group of several hosts, in any of its agents. */
	/* This host has a notice of preemption. Returns whether the agent that leads sees to it. */
	bool (*takes_notice)(struct supervisor *sv, const char *source, const char *reason,
		int64_t grace_ms, int64_t deadline_us);
	/* io.elasticd.Peer.Board has come. */
	void (*hosts_board)(struct supervisor *sv, uint64_t notice, int64_t save_at, bool error);
	/* io.elasticd.Peer.Straggler has come. */
	void (*hosts_straggler)(struct supervisor *sv, const json_t *straggler);
	/* An owned array of io.elasticd.Peer.Sample; NULL: no opinion. */
	json_t *(*hosts_samples)(struct supervisor *sv, bool barrier);
	/* The agent that leads sends records (io.elasticd.Peer.Records): the body of Recorded,
	 * owned; NULL: no opinion. */
	json_t *(*hosts_records)(struct supervisor *sv, const json_t *records);
	/* Whether this host has all records, if it leads next. */
	bool (*hosts_has_records)(const struct supervisor *sv, const json_t *edition);
	/* Whether the agent that leads answers an operator's call. */
	bool (*relays_call)(struct supervisor *sv, struct varlink_call *call, json_t *parameters);
	/* Adds to an answer about all hosts a note for people where it is only about this one. */
	void (*note_missing_hosts)(const struct supervisor *sv, json_t *answer);
	/* A worker of this host hangs, so the workers of other hosts are to be dumped, too. Returns
	 * whether they are: hosts_dumped follows. */
	bool (*dumps_hosts)(struct supervisor *sv, const char *why);
	void (*hosts_dumped)(struct supervisor *sv);
	/* A worker of another host hangs: dumps those of this host; hosts_dump_over follows. */
	void (*hosts_dump)(struct supervisor *sv, int64_t number, const char *why);
	void (*hosts_dump_over)(struct supervisor *sv, int64_t number);
	/* Adds to the Report of the end of w. */
	void (*hosts_describe_end)(struct supervisor *sv, const struct worker *w, json_t *report);
	/* The agent that leads wants that done to a worker of this host
	 * (io.elasticd.Peer.Order). */
	void (*hosts_order)(
		struct supervisor *sv, struct worker *w, const char *what, const char *why);

	/* Signals and processes. */
	/* Whether the feature handles a signal that the agent got. */
	bool (*takes_signal)(struct supervisor *sv, int signo);
	/* Sends a signal that the agent may not send itself. Returns true if it can. */
	bool (*signals_worker)(struct supervisor *sv, struct worker *w, int signo);
	/* Sends SIGKILL to workers that are not below the agent. */
	void (*kill_workers)(struct supervisor *sv);
	/* Whether the child was the feature's own. */
	bool (*child_exited)(struct supervisor *sv, const siginfo_t *si);
	/* Fills pids with at most max children of its own. Returns how many. */
	size_t (*helper_pids)(struct supervisor *sv, pid_t *pids, size_t max);

	/* An event was added. */
	void (*new_event)(struct supervisor *sv, const json_t *event);
	/* An agent before this one was lost: gets each of its events, before init. */
	void (*past_event)(struct supervisor *sv, const json_t *event);
	/* Whether those events end the job; sets the reason then. */
	bool (*past_ends_job)(struct supervisor *sv);

	/* Adds to what people see. */
	void (*describe_job)(const struct supervisor *sv, json_t *job, bool live);
	void (*describe_worker)(
		const struct supervisor *sv, const struct worker *w, json_t *worker, bool live);
	/* Adds to the event of its end. */
	void (*describe_end)(const struct supervisor *sv, const struct worker *w, json_t *worker);
	void (*describe_verdict)(const struct supervisor *sv, json_t *verdict);
	void (*explain)(const struct supervisor *sv, FILE *f); /* lines for "why" */
	void (*explain_last)(const struct supervisor *sv, FILE *f);
};

/* Calls hook of each feature that has it. */
#define FEATURES_CALL(sv, hook, ...)                                                             \
	do {                                                                                     \
		for (const struct feature *const *f_ = supervisor_features(sv); f_ && *f_; f_++) \
			if ((*f_)->hook)                                                         \
				(*f_)->hook(__VA_ARGS__);                                        \
	} while (0)

/* Calls hook of one feature after another until one returns true. Returns whether one did. */
#define FEATURES_ANY(sv, hook, ...)                                        \
	({                                                                 \
		const struct feature *const *f_ = supervisor_features(sv); \
		bool any_ = false;                                         \
		for (; f_ && *f_ && !any_; f_++)                           \
			any_ = (*f_)->hook && (*f_)->hook(__VA_ARGS__);    \
		any_;                                                      \
	})

/* Calls hook of one feature after another until one returns a negative errno. Returns that, or 0.
 */
#define FEATURES_TRY(sv, hook, ...)                                        \
	({                                                                 \
		const struct feature *const *f_ = supervisor_features(sv); \
		int r_ = 0;                                                \
		for (; f_ && *f_ && r_ >= 0; f_++)                         \
			r_ = (*f_)->hook ? (*f_)->hook(__VA_ARGS__) : 0;   \
		r_;                                                        \
	})

/* Calls hook of the first feature that has it. Returns its result; none: no feature has it. */
#define FEATURES_FIRST(sv, none, hook, ...)                                \
	({                                                                 \
		const struct feature *const *f_ = supervisor_features(sv); \
		while (f_ && *f_ && !(*f_)->hook)                          \
			f_++;                                              \
		(f_ && *f_) ? (*f_)->hook(__VA_ARGS__) : (none);           \
	})

/* The feature's own state for this supervisor; NULL before it has set it. */
void *feature_state(const struct supervisor *sv, const struct feature *f);
void feature_set_state(struct supervisor *sv, const struct feature *f, void *state);

_must_check_ int features_init(struct supervisor *sv, struct error *err);
/* For features whose init was called, also after a failure. */
void features_hang_up(struct supervisor *sv);
void features_fini(struct supervisor *sv);
int features_exit_status(const struct supervisor *sv, const struct worker *w);
size_t features_helper_pids(struct supervisor *sv, pid_t *pids, size_t max);
/* Runs fn when all waiting callers have their answers. */
void features_last_answers(struct supervisor *sv, loop_fn fn, void *arg);

/* For the servers of agent.sock and worker.sock: the methods of all features. Owned array, NULL
 * without memory. */
struct varlink_method *features_methods(const struct supervisor *sv, bool workers);
/* Fills more, which has room for max, and ends it with a NULL idl. */
void features_interfaces(
	struct supervisor *sv, bool workers, struct varlink_interface_options *more, size_t max);
