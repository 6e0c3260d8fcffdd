/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The members of the supervisor, and what the files of this room share:
 *
 *   supervisor.c          makes and frees, posts events to the group machine, does its actions
 *   supervisor_view.c     what others may see of it
 *   launch.c              rendezvous, ports, spawning the workers of an attempt
 *   seat.c                what the head of a group of several hosts has this host do
 *   worker_environment.c  a worker's environment; devices.c and tfconfig.c parts of it
 *   reap.c                SIGCHLD: exits of workers, of adopted orphans and of helpers
 *   apply_decision.c      what follows from a worker's end: for it, for the leader, for the group
 *   run_failures.c        the failures of an attempt, and which of them is the root cause
 *   end_run.c             whether the group is started again, the verdict, the end
 *   stop_group.c          the stop of all workers: stop signal, one deadline, SIGKILL, giving up
 *   orphans.c             processes that workers leave behind
 *   out_of_memory.c       workers that the kernel killed for want of memory
 *   worker_lifecycle.c    one worker by itself: its stop, its delay or backoff, its start
 *   worker_requests.c     an operator's requests about single workers: start, add, stop
 *   worker_list.c         makes the list of workers of each attempt, and finds workers in it
 *   worker_selector.c     which workers "worker:0,2-3" means
 *   signals.c             what a signal to the agent means
 *   suspend.c             stops and continues the job, for Ctrl-Z
 *   side_program.c        programs that run beside the workers: hooks, sources of notices
 *   recover.c             how an agent continues the job of an agent that was lost
 *   event_log.c           events.jsonl
 *   record.c              state.json, verdict.json and job.json; state_file.c writes them
 *   job_json.c            the job as JSON; why.c the restarts in words for people
 *   prune_logs.c          removes old runs' logs, for `run`
 *   feature.c             calls the features' hooks (feature.h)
 */

#include "agent/logs/logs.h"
#include "agent/policy/group_machine.h"
#include "agent/policy/restart_budget.h"
#include "agent/policy/stop_machine.h"
#include "agent/policy/worker.h"
#include "agent/process/cgroup.h"
#include "agent/process/oom.h"
#include "agent/process/port.h"
#include "agent/process/spawn.h"
#include "agent/supervise/event_log.h"
#include "agent/supervise/seat.h"
#include "agent/supervise/supervisor.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/wait.h>

enum {
	SUPERVISOR_EVENTS = 16,		  /* group events that can wait in one turn of the loop */
	SUPERVISOR_PREEMPTED_STATUS = 42, /* unless the specification has another */
	SUPERVISOR_DRAIN_MS = 5000,	  /* wait for a console that does not take the last lines */
};

/* How the job ended; set once. */
struct supervisor_end {
	const char *result; /* of the verdict: "succeeded", "failed", ... */
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
	struct {
		enum group_event events[SUPERVISOR_EVENTS];
		size_t n;
		bool draining; /* they are being handled */
	} posted;	       /* and not handled yet */

	struct seat *seat; /* in a group of several hosts (seat.c), owned; NULL: no seat yet */
	struct worker *workers;
	int n_workers;
	int *replicas; /* per role; Scale changes them */
	int attempt;   /* -1 before the first */
	int agents;    /* number of agents of this run before this one */
	struct {
		char *addr; /* of a group of several hosts, owned; NULL: by the specification */
		int port;
		struct port claim; /* on port */
	} master;
	struct tfconfig *tfconfig; /* ports of TF_CONFIG, NULL: none */
	uint64_t spawned_ms;	   /* when the attempt's workers were started */
	struct oom *oom;	   /* the kernel's kills for want of memory */
	int sigkilled; /* workers that were reaped with SIGKILL; their ends are not handled yet */

	struct restart_budget budget;
	struct restart_decision decision;   /* the last one */
	int64_t next_try_us;		    /* 0: none */
	char reason[SUPERVISOR_REASON_MAX]; /* of the group's present state */
	bool reason_logged;		    /* the log has reason already */
	char consequence[320]; /* end of reason after a failure: "all 3 restarts are used" */
	int root_cause_rank;   /* of the worker whose failure ends the group; -1: the first
				  to fail */
	json_t *history;       /* decisions about restarts (why.c) */

	/* The stop of all workers. */
	int stop_signal;
	int64_t stop_timeout_ms; /* of the next stop; SPEC_UNSET: the specification's */
	int stopped_by;		 /* signal that asked the agent to stop; 0: none */
	struct stop_machine stop;
	struct loop_timer *stop_timer;
	struct loop_timer *backoff_timer; /* wait before the next attempt */
	struct loop_timer *run_timer;	  /* max_run_time */

	json_t *failures;      /* object: attempt -> array of Failure */
	json_t *verdict_given; /* by the head of several hosts (seat.c), owned; NULL: not yet */
	bool reports;	       /* this host prints the report of the verdict that was given */
	struct supervisor_end end;
	bool ended; /* the job has its verdict */
	bool lost;  /* the verdict is agent_lost */
	bool guard_died;
	bool no_verdict; /* only because the guard died: elasticd then finds the agent lost */
	int64_t created_us, started_us, ended_us;
	int64_t log_bytes; /* size of the run's logs after its end; 0: not known */

	/* Single workers. */
	struct loop_timer *worker_timer; /* next start or step of a stop of any of them */
	LIST_HEAD(, request_wait) waits; /* callers that wait until workers are gone */
	struct roster *roster;		 /* which worker has which slot */
	struct orphan_scan *orphan_scan; /* of the present turn (orphans.c) */
	bool restart_all; /* the next attempt starts workers stopped on request, too */

	struct {
		struct loop_timer *timer; /* grace after its end */
		bool over;		  /* it has ended, and that ends the group */
		bool failed;		  /* it failed and gets no restart */
		char text[320];		  /* how it ended, for people */
	} leader;

	/* Of an agent that was lost, from its last events and the record. */
	struct {
		json_t *state, *verdict; /* the data of these events */
		json_t *budgets;	 /* of workers, by name */
		json_t *stopped;	 /* names of workers that an operator stopped */
	} past;

	/* feature.h */
	bool on_notice; /* a notice of preemption is up */
	bool unready;	/* it runs, but is not ready */
	struct {
		void **states;	 /* one for each of opt.features */
		size_t n;	 /* whose init() was called, also if it failed */
		bool finalising; /* they are being finalised */
		size_t n_last;	 /* whose last answers are given, or awaited */
		loop_fn last_fn; /* runs after those */
		void *last_arg;
	} features;

	struct loop_signal *signals[_NSIG]; /* by number; NULL: not watched */
	struct record *record;
};

/* Sets the job's limits on its cgroup; logs which of them are not enforced. */
void supervisor_limit(struct supervisor *sv);

/* out_of_memory.c: w has ended. Adds to its exit where the kernel has killed it, or processes of
 * the job, for want of memory. */
void supervisor_note_oom(struct supervisor *sv, struct worker *w);

/* feature.c: makes room for the features' states; features_fini() frees it. */
_must_check_ int features_new(struct supervisor *sv);

/* worker_list.c */
/* How many workers have a process. */
int worker_list_alive(const struct supervisor *sv);
/* Makes the workers of the next attempt. They keep their budgets, and stay stopped if an operator
 * stopped them. */
_must_check_ int worker_list_make(struct supervisor *sv, struct error *err);
void worker_list_free(struct supervisor *sv);
/* Adds a worker beyond the specification. sv->workers may move. */
_must_check_ int worker_list_add(
	struct supervisor *sv, const struct spec_role *role, int index, struct worker **ret);
/* The workers' budgets: read from the record, then from events that followed it; and written. */
void worker_list_load_budgets(struct supervisor *sv, const json_t *saved);
void worker_list_replay_budgets(struct supervisor *sv, const json_t *event);
json_t *worker_list_save_budgets(const struct supervisor *sv);
/* The names of workers that an operator has stopped: from the record, and for it. */
void worker_list_load_stopped(struct supervisor *sv, const json_t *saved);
json_t *worker_list_save_stopped(const struct supervisor *sv);
void worker_list_free_roster(struct supervisor *sv);

/* seat.c */
void seat_free(struct supervisor *sv);
/* Sets the job's verdict to the group's. Returns false where there is none. */
bool seat_set_verdict(struct supervisor *sv);

/* launch.c */
void launch_rendezvous(struct supervisor *sv);
/* Forgets the attempt before, chooses MASTER_PORT (master), and makes the workers. */
_must_check_ int launch_prepare(struct supervisor *sv, bool master, struct error *err);
void launch_group(struct supervisor *sv);
/* Starts w's process now. Returns 0, or a negative errno after setting w to FAILED. */
int launch_worker(struct supervisor *sv, struct worker *w);

/* reap.c */
void reap_children(struct supervisor *sv);
/* Fills pids with at most max children of the agent that belong to no worker. Returns how many. */
size_t reap_helpers(struct supervisor *sv, pid_t *pids, size_t max);

/* apply_decision.c */
void apply_leader_expired(void *arg); /* leader_timer's callback */

/* worker_lifecycle.c */
/* Starts w when delay_ms is over and all processes that its last start left behind are gone. */
void lifecycle_start_in(struct supervisor *sv, struct worker *w, uint64_t delay_ms);
/* Starts w at once, or (0, too) when the processes left behind are gone. Returns a negative errno
 * after setting w to FAILED. */
int lifecycle_start_now(struct supervisor *sv, struct worker *w);
/* Sets the command and environment of w's next starts; takes both. NULL: the role's. */
_must_check_ int lifecycle_set_command(struct worker *w, char **command, char **env);
char *const *lifecycle_argv(const struct worker *w); /* borrowed, or NULL */
char *const *lifecycle_env(const struct worker *w);
/* Goes on with stops and starts, after the decisions about the workers that ended in this turn. */
void lifecycle_progress(struct supervisor *sv);
/* Drops all stops and starts of single workers: the group's own stop takes over. */
void lifecycle_leave(struct supervisor *sv, const char *why);
void lifecycle_expired(void *arg); /* worker_timer's callback */
void lifecycle_free(struct worker *w);

/* worker_requests.c */
/* Answers callers whose workers are at rest; all: every caller. */
void request_settle(struct supervisor *sv, bool all);
void request_free(struct supervisor *sv);

/* stop_group.c */
void stop_group_begin(struct supervisor *sv);
void stop_group_progress(struct supervisor *sv); /* after workers have ended */
void stop_group_kill(struct supervisor *sv);	 /* SIGKILL at once */
/* Sets another time limit for the stop in progress. */
void stop_group_within(struct supervisor *sv, uint64_t timeout_ms);
void stop_group_expired(void *arg); /* stop_timer's callback */

/* run_failures.c */
struct failures;
/* The job's exit status if w is its root cause. */
int run_failures_status(const struct supervisor *sv, const struct worker *w);
/* Adds "worker-failed" events for those of f that have ended. Call it before the event of the
 * decision about them. */
void run_failures_report_known(struct supervisor *sv, struct failures *f);
/* The kept failures of an attempt, the root cause first; borrowed, NULL: none. */
json_t *run_failures_kept(const struct supervisor *sv, int attempt);
/* w failed and is started again: keeps the failure for Errors. */
void run_failures_keep_restarted(struct supervisor *sv, struct worker *w);
/* w failed and is not started again: adds its "worker-failed" event. */
void run_failures_report_one(struct supervisor *sv, struct worker *w);
/* Several hosts: writes the error.json of the group's root cause, which may be another host's,
 * where the caller of `run` wants it. */
void run_failures_copy_groups(struct supervisor *sv);
/* All workers have ended: finds the root cause and reports all failures. */
void run_failures_attempt_over(struct supervisor *sv);

/* end_run.c */
/* A worker of scope group failed: asks the job's budget. */
void end_run_group_failed(struct supervisor *sv);
/* w failed and its own budget allows no restart: the group fails. */
void end_run_worker_failed(struct supervisor *sv, const struct worker *w);
/* All workers that the job waits for have succeeded, and none is left. */
void end_run_all_ended(struct supervisor *sv);
/* The group is in a final state: sets the verdict, and the reason of the state. */
void end_run_verdict(struct supervisor *sv);
void end_run_finish(struct supervisor *sv);
/* Asks the job's budget about fault by policy; sets sv->decision, logs it and adds its event. what:
 * the failure, for people. */
void end_run_decide(struct supervisor *sv, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what);
struct restart_fault end_run_fault(const struct worker *w, uint64_t since_ms);

/* recover.c */
/* Remembers what event, of an earlier agent, decided. Called for each while the record is loaded.
 */
void recover_note(struct supervisor *sv, const json_t *event);
/* Continues the job after its agent was lost. */
void recover_begin(struct supervisor *sv);

/* signals.c */
_must_check_ int signals_init(struct supervisor *sv, struct error *err);
/* Whether stop.forward names signo. */
bool signals_forwarded(const struct supervisor *sv, int signo);

/* suspend.c: stops all processes of the job and the guard; returns when the shell has
 * continued the guard. Timers do not count the time between. */
void suspend_job(struct supervisor *sv);

/* record.c: state.json, verdict.json and job.json */
_must_check_ int record_new(struct supervisor *sv, struct error *err);
void record_free(struct supervisor *sv);
_must_check_ int record_load(struct supervisor *sv, int64_t *ret_seq, struct error *err);
void record_changed(struct supervisor *sv);
void record_settled(struct supervisor *sv); /* writes in the next turn of the loop */
void record_verdict(struct supervisor *sv);
