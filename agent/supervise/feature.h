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
	int (*init)(struct agent *a, struct error *err);
	int (*serve)(struct agent *a, struct error *err);
	void (*hang_up)(struct agent *a);
	void (*fini)(struct agent *a); /* also after an init that failed */

	/* Methods of io.elasticd.Manager (arg: the agent) and of io.elasticd.Worker (arg: the
	 * agent's workers); each list ends with a NULL name. */
	const struct varlink_method *manager_methods, *worker_methods;
	/* One more interface for worker.sock (workers) or agent.sock; false: none. */
	bool (*interface)(struct agent *a, bool workers, struct varlink_also *ret);
	/* Answers of a turn are about to leave: what they promise is written. Called where
	 * relies_on_disk says so. */
	void (*answers_leaving)(struct agent *a);
	bool (*relies_on_disk)(const struct agent *a);
	/* A worker has opened a connection; one ends, its calls are gone. holder: see worker.sock's
	 * peers. */
	void (*worker_connected)(struct agent *a, int slot);
	void (*worker_hung_up)(struct agent *a, void *holder);

	/* The group. */
	void (*attempt_begins)(struct agent *a); /* its workers are known, none is started */
	void (*group_changed)(struct agent *a);	 /* it has a new state; nothing was done for it */
	void (*group_running)(struct agent *a);	 /* every worker had its first start */
	void (*group_stopping)(struct agent *a, const char *why);
	void (*all_left)(struct agent *a); /* on a notice of preemption, not all with success */
	void (*job_ended)(struct agent *a);
	/* Whether it calls fn, now or later, when it has answered everybody who waits. */
	bool (*last_answers)(struct agent *a, loop_fn fn, void *arg);
	void (*changed)(struct agent *a); /* something that people can see */

	/* One worker. */
	int (*worker_environment)(const struct agent *a, const struct task *t, struct env *e);
	void (*worker_starting)(struct agent *a, struct task *t);
	void (*worker_not_started)(struct agent *a, struct task *t); /* after worker_starting */
	void (*worker_started)(struct agent *a, struct task *t);
	/* A person stops it; on its way, and for good. */
	void (*worker_stopping)(struct agent *a, struct task *t, const char *why);
	void (*worker_stopped)(struct agent *a, struct task *t);
	/* Processes have ended, and nothing is known of it yet: what they sent before is read. */
	void (*before_reap)(struct agent *a);
	/* Before its state is set: text says how it left where it did so as it was asked to. */
	void (*worker_left)(struct agent *a, struct task *t, char *text, size_t size);
	void (*worker_exited)(struct agent *a, struct task *t);
	/* The event of its end is out; left: worker_left's text. */
	void (*worker_end_told)(struct agent *a, struct task *t, const char *left);
	void (*worker_over)(struct agent *a, struct task *t); /* it has no process, and gets none */
	/* Answers leave now, before something that takes its time. */
	void (*flush)(struct agent *a);
	/* What has ended is not judged yet: others are told first. */
	bool (*holds_decision)(struct agent *a);
	/* Its failure makes the job's exit status, or -1. */
	int (*exit_status)(const struct agent *a, const struct task *t);

	/* Signals and processes. */
	bool (*takes_signal)(struct agent *a, int signo);
	bool (*signals_worker)(struct agent *a, struct task *t, int signo); /* the agent may not */
	void (*kill_workers)(struct agent *a); /* those that are not below the agent */
	bool (*child_exited)(struct agent *a, const siginfo_t *si);
	size_t (*helper_pids)(struct agent *a, pid_t *pids, size_t max);

	/* An agent before this one was lost. Its events are told before init. */
	void (*past_event)(struct agent *a, const json_t *event);
	bool (*past_ends_job)(struct agent *a); /* and sets the reason */

	/* What people see. */
	void (*describe_job)(const struct agent *a, json_t *job);
	void (*describe_worker)(
		const struct agent *a, const struct task *t, json_t *worker, bool live);
	void (*describe_verdict)(const struct agent *a, json_t *verdict);
	void (*explain)(const struct agent *a, FILE *f); /* lines for "why" */
	void (*explain_last)(const struct agent *a, FILE *f);
};

/* Calls hook of each feature that has it. */
#define FEATURES_CALL(a, hook, ...)                                                    \
	do {                                                                           \
		for (const struct feature *const *f_ = (a)->features; f_ && *f_; f_++) \
			if ((*f_)->hook)                                               \
				(*f_)->hook(__VA_ARGS__);                              \
	} while (0)

_must_check_ int features_init(struct agent *a, struct error *err);
/* For those that were initialised, also after a failure. */
void features_hang_up(struct agent *a);
void features_fini(struct agent *a);
_must_check_ int features_environment(const struct agent *a, const struct task *t, struct env *e);
/* Whether any of them says so; the others are not asked then. */
bool features_hold_decision(struct agent *a);
bool features_take_signal(struct agent *a, int signo);
bool features_signal_worker(struct agent *a, struct task *t, int signo);
bool features_child_exited(struct agent *a, const siginfo_t *si);
bool features_past_ends_job(struct agent *a);
int features_exit_status(const struct agent *a, const struct task *t);
size_t features_helper_pids(struct agent *a, pid_t *pids, size_t max);
/* fn runs when all who wait have their answers. */
void features_last_answers(struct agent *a, loop_fn fn, void *arg);

/* For the servers of the two sockets. Methods of all features, owned, NULL without memory. */
struct varlink_method *features_methods(const struct agent *a, bool workers);
/* Fills also, which has room for max, and ends it with a NULL idl. */
void features_interfaces(struct agent *a, bool workers, struct varlink_also *also, size_t max);
bool features_rely_on_disk(const struct agent *a);
