/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A feature is what the agent does beyond starting, watching and ending workers: sharing, the
 * watchdog, preemption, attaching, the work queue, the API. The core (this room) calls a feature by
 * its hooks alone. Every hook may be NULL. The order of the table (agent/features.c) is the order
 * of the calls; fini alone goes the other way.
 *
 * The core decides first and tells afterwards: a hook finds a worker's state set.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"
#include "common/varlink/server.h"

#include <signal.h>
#include <stdio.h>

struct feature {
	const char *name;

	/* Life. serve: every feature is initialised, calls may come. hang_up: its calls end. */
	int (*init)(struct supervisor *sv, struct error *err);
	int (*serve)(struct supervisor *sv, struct error *err);
	void (*hang_up)(struct supervisor *sv);
	void (*fini)(struct supervisor *sv); /* also where init failed, or did not run */

	/* Methods of io.elasticd.Manager (arg: the agent) and of io.elasticd.Worker (arg: the
	 * agent's workers); each list ends with a NULL name. */
	const struct varlink_method *manager_methods, *worker_methods;
	/* One more interface for worker.sock (workers) or agent.sock; false: none. */
	bool (*interface)(struct supervisor *sv, bool workers, struct varlink_also *ret);
	/* Answers of a turn are about to leave: what they promise is written. Called where
	 * relies_on_disk says so. */
	void (*answers_leaving)(struct supervisor *sv);
	bool (*relies_on_disk)(const struct supervisor *sv);
	/* A worker has opened a connection; one ends, its calls are gone. holder: see worker.sock's
	 * peers. */
	void (*worker_connected)(struct supervisor *sv, int slot);
	void (*worker_hung_up)(struct supervisor *sv, void *holder);

	/* The group. */
	void (*attempt_begins)(struct supervisor *sv); /* its workers are known, none is started */
	void (*group_changed)(
		struct supervisor *sv); /* it has a new state; nothing was done for it */
	void (*group_running)(struct supervisor *sv); /* every worker had its first start */
	void (*group_stopping)(struct supervisor *sv, const char *why);
	void (*all_left)(
		struct supervisor *sv); /* on a notice of preemption, not all with success */
	void (*job_ended)(struct supervisor *sv);
	/* Whether it calls fn, now or later, when it has answered everybody who waits. */
	bool (*last_answers)(struct supervisor *sv, loop_fn fn, void *arg);
	void (*changed)(struct supervisor *sv); /* something that people can see */

	/* One worker. */
	int (*worker_environment)(
		const struct supervisor *sv, const struct worker *w, struct env *e);
	void (*worker_starting)(struct supervisor *sv, struct worker *w);
	void (*worker_not_started)(
		struct supervisor *sv, struct worker *w); /* after worker_starting */
	void (*worker_started)(struct supervisor *sv, struct worker *w);
	/* A person stops it; on its way, and for good. */
	void (*worker_stopping)(struct supervisor *sv, struct worker *w, const char *why);
	void (*worker_stopped)(struct supervisor *sv, struct worker *w);
	/* Processes have ended, and nothing is known of it yet: what they sent before is read. */
	void (*before_reap)(struct supervisor *sv);
	/* Before its state is set: text says how it left where it did so as it was asked to. */
	void (*worker_left)(struct supervisor *sv, struct worker *w, char *text, size_t size);
	void (*worker_exited)(struct supervisor *sv, struct worker *w);
	/* The event of its end is out; left: worker_left's text. */
	void (*worker_end_reported)(struct supervisor *sv, struct worker *w, const char *left);
	void (*worker_over)(
		struct supervisor *sv, struct worker *w); /* it has no process, and gets none */
	/* Answers leave now, before something that takes its time. */
	void (*flush)(struct supervisor *sv);
	/* What has ended is not judged yet: others are told first. */
	bool (*delays_decision)(struct supervisor *sv);
	/* Its failure makes the job's exit status, or -1. */
	int (*exit_status)(const struct supervisor *sv, const struct worker *w);

	/* Signals and processes. */
	bool (*takes_signal)(struct supervisor *sv, int signo);
	bool (*signals_worker)(
		struct supervisor *sv, struct worker *w, int signo); /* the agent may not */
	void (*kill_workers)(struct supervisor *sv); /* those that are not below the agent */
	bool (*child_exited)(struct supervisor *sv, const siginfo_t *si);
	size_t (*helper_pids)(struct supervisor *sv, pid_t *pids, size_t max);

	/* An agent before this one was lost. Its events are told before init. */
	void (*past_event)(struct supervisor *sv, const json_t *event);
	bool (*past_ends_job)(struct supervisor *sv); /* and sets the reason */

	/* What people see. */
	void (*describe_job)(const struct supervisor *sv, json_t *job);
	void (*describe_worker)(
		const struct supervisor *sv, const struct worker *w, json_t *worker, bool live);
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

/* What a feature keeps of this supervisor; NULL before it has set it. */
void *feature_state(const struct supervisor *sv, const struct feature *f);
void feature_set_state(struct supervisor *sv, const struct feature *f, void *state);

_must_check_ int features_init(struct supervisor *sv, struct error *err);
/* For those that were initialised, also after a failure. */
void features_hang_up(struct supervisor *sv);
void features_fini(struct supervisor *sv);
_must_check_ int features_environment(
	const struct supervisor *sv, const struct worker *w, struct env *e);
/* Whether any of them says so; the others are not asked then. */
bool features_delay_decision(struct supervisor *sv);
bool features_take_signal(struct supervisor *sv, int signo);
bool features_signal_worker(struct supervisor *sv, struct worker *w, int signo);
bool features_child_exited(struct supervisor *sv, const siginfo_t *si);
bool features_past_ends_job(struct supervisor *sv);
int features_exit_status(const struct supervisor *sv, const struct worker *w);
size_t features_helper_pids(struct supervisor *sv, pid_t *pids, size_t max);
/* fn runs when all who wait have their answers. */
void features_last_answers(struct supervisor *sv, loop_fn fn, void *arg);

/* For the servers of the two sockets. Methods of all features, owned, NULL without memory. */
struct varlink_method *features_methods(const struct supervisor *sv, bool workers);
/* Fills also, which has room for max, and ends it with a NULL idl. */
void features_interfaces(
	struct supervisor *sv, bool workers, struct varlink_also *also, size_t max);
bool features_rely_on_disk(const struct supervisor *sv);
