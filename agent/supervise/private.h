/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The members of the supervisor, and what the files of this room share. What each does:
 *
 *   supervisor.c          makes and frees, posts events to the group machine, does its actions
 *   supervisor_view.c     what others may see of it
 *   launch.c              rendezvous, ports, spawning the workers of an attempt
 *   worker_environment.c  a worker's environment; devices.c and tfconfig.c parts of it
 *   reap.c                SIGCHLD: exits of workers, of adopted orphans and of helpers
 *   apply_decision.c      what ends of workers mean: for one worker, for the leader, for the group
 *   run_failures.c        the failures of an attempt, and which of them is the root cause
 *   end_run.c             whether the group is started again, the verdict, the end
 *   stop_group.c          stop signal, one deadline, kill, what does not die
 *   orphans.c             what workers leave behind
 *   worker_lifecycle.c    one worker by itself: its stop, its delay or backoff, its start
 *   worker_requests.c     the same as people ask for it: start, add, stop, wait for that
 *   worker_list.c         who the workers are, in each attempt
 *   worker_selector.c     which workers "worker:0,2-3" means
 *   signals.c             what a signal to the agent means; standstill.c Ctrl-Z
 *   recover.c             what an agent does that follows one that was lost
 *   event_log.c           events.jsonl
 *   record.c              state.json, verdict.json and job.json; state_file.c writes them
 *   job_json.c            the job as JSON; why.c the restarts in words for people
 *   prune_logs.c          removes old runs' logs, for `run`
 *   feature.c             calls features by their hooks (feature.h)
 */

#include "agent/logs/logs.h"
#include "agent/policy/group_machine.h"
#include "agent/policy/restart_budget.h"
#include "agent/policy/stop_machine.h"
#include "agent/policy/worker.h"
#include "agent/process/cgroup.h"
#include "agent/process/port.h"
#include "agent/process/spawn.h"
#include "agent/supervise/event_log.h"
#include "agent/supervise/supervisor.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/wait.h>

enum {
	SUPERVISOR_EVENTS = 16,		  /* group events that can wait for one turn */
	SUPERVISOR_SIGNALS = 64,	  /* that it listens for, at most: all */
	SUPERVISOR_PREEMPTED_STATUS = 42, /* where the specification has no other */
	SUPERVISOR_DRAIN_MS = 5000,	  /* for a console that does not take the last lines */
};

/* How the job came to its end, set once. */
struct supervisor_end {
	const char *result; /* verdict's: "succeeded", "failed", ... */
	int exit_status;
	char message[SUPERVISOR_REASON_MAX];
	json_t *root_cause; /* Failure, owned, or NULL */
};

struct supervisor {
	struct loop *loop;
	const struct spec *spec;
	struct supervisor_options opt;
	char *host;
	char *user;
	struct cgroup *cgroup; /* borrowed from main() */
	const struct supervisor_processes *processes;
	struct logs *logs;
	struct events *events;

	struct group group;
	enum group_event queue[SUPERVISOR_EVENTS];
	size_t n_queue;
	bool draining;

	struct worker *workers;
	int n_workers;
	int *replicas; /* per role, may differ from the specification's after scale */
	int attempt;   /* -1 before the first */
	int agents;    /* of this run before this one */
	int master_port;
	struct port port;	   /* the same, claimed */
	struct tfconfig *tfconfig; /* ports of TF_CONFIG, NULL: none */
	uint64_t spawned_ms;
	int64_t oom_kills; /* the kernel's count when the attempt began */
	bool oom_here;	   /* it counts this job's processes only */

	struct restart_budget budget;
	struct restart_decision decision;   /* the last one */
	int64_t next_try_us;		    /* 0: none */
	char reason[SUPERVISOR_REASON_MAX]; /* of the group's present state */
	bool reason_logged;		    /* ... which a message told already */
	char consequence[320]; /* its end, where it tells of a failure: what followed from that */
	int root_cause_rank;   /* rank of the worker whose own end is the group's; -1: the first to
				  fail */
	json_t *history;       /* why.c's: what was decided about restarts */

	/* the stop in progress */
	int stop_signal;
	int64_t stop_timeout_ms; /* for the next stop, SPEC_UNSET: the specification's */
	int stopped_by;		 /* signal that the agent got, 0: none */
	struct stop_machine stop;
	struct loop_timer *stop_timer;
	struct loop_timer *backoff_timer;
	struct loop_timer *run_timer;

	json_t *failures; /* object: attempt -> array of Failure */
	struct supervisor_end end;
	bool ended;
	bool lost; /* the verdict is agent_lost */
	bool guard_died;
	bool no_verdict; /* for that alone; leave without a verdict: elasticd finds the agent lost
			  */
	json_t *past_state, *past_verdict; /* of an agent that was lost: data of its last events */
	int64_t created_us, started_us, ended_us;
	int64_t log_bytes; /* of the run's logs, once it has ended; 0: not known */
	int exit_code;

	/* workers by themselves */
	struct loop_timer *worker_timer; /* of the next thing that is due for any of them */
	LIST_HEAD(, request_wait) waits; /* for workers to be gone */
	struct roster *roster;		 /* who has which slot */
	struct orphan_scan *orphan_scan; /* orphans.c's, of the present turn */
	json_t *past_budgets;		 /* of workers, by name, from the record */
	json_t *past_stopped;		 /* names of workers that a person had stopped, as well */
	bool restart_all;		 /* the next attempt is asked for: of all workers */
	struct loop_timer *leader_timer; /* grace after the leader's end */
	bool leader_over;		 /* the leader has ended, and that ends the group */
	bool leader_failed;		 /* ... by a failure without a restart */
	char leader_text[320];		 /* how, for people */

	/* Features and their state (feature.h). */
	const struct feature *const *features;
	size_t n_features;     /* that are, or were to be, initialised */
	bool on_notice;	       /* a notice of preemption is up */
	void **feature_states; /* of each of features, its own */
	bool finalising;       /* features are being finalised */

	struct loop_signal *signals[SUPERVISOR_SIGNALS];
	uint64_t watched; /* a bit each */
	int n_signals;
	struct record *record;
};

/* Sets the job's limits on its cgroup; tells where they do not hold. */
void supervisor_limit(struct supervisor *sv);

int worker_list_alive(const struct supervisor *sv);

/* Says, where the kernel's memory killer may have ended w, so in text; else makes it empty. */
void supervisor_oom_text(
	const struct supervisor *sv, const struct worker *w, char *text, size_t size);

/* feature.c: the places of features' states; features_fini() frees them. */
_must_check_ int features_new(struct supervisor *sv);

/* worker_list.c */
/* Makes the workers of the next attempt; budgets and what is stopped on purpose go over. */
_must_check_ int worker_list_make(struct supervisor *sv, struct error *err);
void worker_list_free(struct supervisor *sv);
/* A worker beyond the specification. sv->workers may move. */
_must_check_ int worker_list_add(
	struct supervisor *sv, const struct spec_role *role, int index, struct worker **ret);
/* Takes what the record has of the workers' budgets, and gives it. */
void worker_list_load_budgets(struct supervisor *sv, const json_t *saved);
void worker_list_replay_budgets(struct supervisor *sv, const json_t *event);
json_t *worker_list_save_budgets(const struct supervisor *sv);
/* The same for which workers a person has stopped. */
void worker_list_load_stopped(struct supervisor *sv, const json_t *saved);
json_t *worker_list_save_stopped(const struct supervisor *sv);
void worker_list_free_roster(struct supervisor *sv);

/* launch.c */
void launch_rendezvous(struct supervisor *sv);
void launch_group(struct supervisor *sv);
/* Starts w's process now; a negative errno after it was set to FAILED. */
int launch_worker(struct supervisor *sv, struct worker *w);

/* reap.c */
void reap_children(struct supervisor *sv);
/* Processes of the agent's own that belong to no worker: room for max of them. */
size_t reap_helpers(struct supervisor *sv, pid_t *pids, size_t max);

/* apply_decision.c */
void apply_leader_expired(void *arg); /* leader_timer's callback */

/* worker_lifecycle.c */
/* w is started when delay_ms is over and what its last process left behind is gone. */
void lifecycle_start_in(struct supervisor *sv, struct worker *w, uint64_t delay_ms);
/* The same at once. Returns 0 also where something is left to be ended first, or a negative errno
 * after w was set to FAILED. */
int lifecycle_start_now(struct supervisor *sv, struct worker *w);
/* What its next processes run in place of the role's; both are taken, NULL: the role's. */
_must_check_ int lifecycle_set_command(struct worker *w, char **command, char **env);
char *const *lifecycle_argv(const struct worker *w); /* borrowed, or NULL */
char *const *lifecycle_env(const struct worker *w);
/* After the ends of a turn were judged. */
void lifecycle_progress(struct supervisor *sv);
/* The group's own stop takes over. */
void lifecycle_leave(struct supervisor *sv, const char *why);
void lifecycle_expired(void *arg); /* worker_timer's callback */
void lifecycle_free(struct worker *w);

/* worker_requests.c */
/* Answers those whose workers are at rest; all: everyone. */
void request_settle(struct supervisor *sv, bool all);
void request_free(struct supervisor *sv);

/* stop_group.c */
void stop_group_begin(struct supervisor *sv);
void stop_group_progress(struct supervisor *sv); /* after exits */
void stop_group_kill(struct supervisor *sv);	 /* no more waiting */
/* Another time limit for the stop in progress. */
void stop_group_within(struct supervisor *sv, uint64_t timeout_ms);
void stop_group_expired(void *arg); /* stop_timer's callback */

/* run_failures.c */
struct failures;
/* What the job's exit status is where w is its root cause. */
int run_failures_status(const struct supervisor *sv, const struct worker *w);
/* Tells of those that have ended: before what follows from them. */
void run_failures_tell_known(struct supervisor *sv, struct failures *f);
/* Its last process failed, and it is started again all the same: for Errors. */
void run_failures_keep_one(struct supervisor *sv, struct worker *w);
/* It failed and is not started again: says so, before what follows. */
void run_failures_tell_one(struct supervisor *sv, struct worker *w);
/* The failures of the present attempt as far as they are known, as Errors has them; owned. */
json_t *run_failures_known(struct supervisor *sv);
/* All have ended: which was the root cause. */
void run_failures_attempt_over(struct supervisor *sv);

/* end_run.c */
/* A worker of scope group failed: the job's budget decides. */
void end_run_group_failed(struct supervisor *sv);
/* w failed and its own budget is spent. */
void end_run_worker_failed(struct supervisor *sv, const struct worker *w);
/* All ended, with success as far as they were waited for. */
void end_run_all_ended(struct supervisor *sv);
/* The group is in a final state: sets the verdict, and why the group is there. */
void end_run_verdict(struct supervisor *sv);
void end_run_finish(struct supervisor *sv);
/* Asks the job's budget about fault by policy, into decision, and says what it said. */
void end_run_decide(struct supervisor *sv, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what);
struct restart_fault end_run_fault(const struct worker *w, uint64_t since_ms);

/* recover.c */
void recover_note(struct supervisor *sv, const json_t *event); /* while the record is loaded */
void recover_begin(struct supervisor *sv); /* begins the job where the agent before was lost */

/* signals.c */
_must_check_ int signals_init(struct supervisor *sv, struct error *err);
/* Whether stop.forward names signo. */
bool signals_forwarded(const struct supervisor *sv, int signo);

/* standstill.c: stops all of the job, and has the guard stop as its caller's shell asked for;
 * returns when that goes on. No timer has run meanwhile. */
void standstill(struct supervisor *sv);

/* record.c: state.json, verdict.json and job.json */
_must_check_ int record_new(struct supervisor *sv, struct error *err);
void record_free(struct supervisor *sv);
_must_check_ int record_load(struct supervisor *sv, int64_t *ret_seq, struct error *err);
void record_changed(struct supervisor *sv);
void record_settled(struct supervisor *sv); /* in the next turn: a state that may last */
void record_verdict(struct supervisor *sv);
