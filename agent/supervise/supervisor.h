/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent: everything that supervises one job. This header is the agent's own; it holds the state
 * that its parts share. Who does what, in this room:
 *
 *   supervisor.c          makes and frees, posts events to the group machine, does its actions
 *   launch.c              rendezvous, ports, spawning the workers of an attempt
 *   worker_environment.c  a worker's environment; devices.c and tfconfig.c parts of it
 *   reap.c                SIGCHLD: exits of workers, of adopted orphans and of helpers
 *   apply_decision.c      what ends of workers mean: for one worker, for the leader, for the group
 *   failures.c            the failures of an attempt, and which of them is the root cause
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
	AGENT_QUEUE = 16,	     /* group events that can wait for one turn */
	AGENT_SIGNALS = 64,	     /* that it listens for, at most: all */
	AGENT_PREEMPTED_STATUS = 42, /* where the specification has no other */
	AGENT_DRAIN_MS = 5000,	     /* for a console that does not take the last lines */
};

struct env;
struct feature;

/* How the core makes and signals workers' processes, and learns how they ended. */
struct agent_processes {
	int (*spawn)(const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage);
	int (*kill)(pid_t pid, int signo);
	int (*waitid)(idtype_t type, id_t id, siginfo_t *ret, int options);
};

struct agent_options {
	const char *run;
	const char *log_root;	 /* NULL: specification's, or the default */
	const char *state_dir;	 /* the run's record, NULL in the foreground */
	const char *error_file;	 /* where the root cause's error.json is copied, or NULL */
	const char *runtime_dir; /* of worker.sock and the board; NULL: workers share nothing */
	int listen_fd;		 /* agent.sock, -1 in the foreground */
	const struct feature *const *features;	 /* a list that ends with NULL (feature.h) */
	const struct agent_processes *processes; /* NULL: those of the system */
	bool foreground;
	bool alone;  /* for a program that nobody supervises (agent/alone.h): nothing is ended */
	bool resume; /* an earlier agent of this run was lost */
	const char *lost; /* why, as elasticd knows; NULL: it does not */
};

/* How the job came to its end, set once. */
struct agent_end {
	const char *result; /* verdict's: "succeeded", "failed", ... */
	int exit_status;
	char message[640];
	json_t *root_cause; /* Failure, owned, or NULL */
};

struct agent {
	struct loop *loop;
	const struct spec *spec;
	struct agent_options opt;
	char *host;
	char *user;
	struct cgroup *cgroup; /* borrowed from main() */
	const struct agent_processes *processes;
	struct logs *logs;
	struct events *events;

	struct group group;
	enum group_event queue[AGENT_QUEUE];
	size_t n_queue;
	bool draining;

	struct task *tasks;
	int n_tasks;
	int *replicas; /* per role, may differ from the specification's after scale */
	int attempt;   /* -1 before the first */
	int agents;    /* of this run before this one */
	int master_port;
	struct port port;	   /* the same, claimed */
	struct tfconfig *tfconfig; /* ports of TF_CONFIG, NULL: none */
	uint64_t spawned_ms;
	int64_t oom_kills; /* the kernel's count when the incarnation began */
	bool oom_here;	   /* it counts this job's processes only */

	struct restart_budget budget;
	struct restart_decision decision; /* the last one */
	int64_t next_try_us;		  /* 0: none */
	char reason[640];		  /* of the group's present state */
	bool said;			  /* ... which a message told already */
	char then[320];	 /* its end, where it tells of a failure: what followed from that */
	int culprit;	 /* rank of the task whose own end is the group's; -1: the first to fail */
	json_t *history; /* why.c's: what was decided about restarts */

	/* the stop in progress */
	int stop_signal;
	int64_t stop_timeout_ms; /* for the next stop, SPEC_UNSET: the specification's */
	int stopped_by;		 /* signal that the agent got, 0: none */
	struct stop_machine stop;
	struct loop_timer *stop_timer;
	struct loop_timer *backoff_timer;
	struct loop_timer *run_timer;

	json_t *failures; /* object: attempt -> array of Failure */
	struct agent_end end;
	bool ended;
	bool lost; /* the verdict is agent_lost */
	bool guard_died;
	bool unjudged; /* for that alone; leave without a verdict: elasticd finds the agent lost */
	json_t *past_notice;		   /* ... of preemption, up when it was lost */
	json_t *past_saved;		   /* what its tasks had saved then, by name */
	json_t *past_state, *past_verdict; /* of an agent that was lost: data of its last events */
	int64_t created_us, started_us, ended_us;
	int64_t log_bytes; /* of the run's logs, once it has ended; 0: not known */
	int exit_code;

	/* tasks by themselves */
	struct loop_timer *task_timer;	 /* of the next thing that is due for any of them */
	LIST_HEAD(, ask_wait) waits;	 /* for tasks to be gone */
	struct roster *roster;		 /* who has which slot */
	struct census *census;		 /* orphans.c's, of the present turn */
	json_t *past_budgets;		 /* of tasks, by name, from the record */
	json_t *past_stopped;		 /* names of tasks that a person had stopped, as well */
	bool all_again;			 /* the next incarnation is asked for: of all tasks */
	struct loop_timer *leader_timer; /* grace after the leader's end */
	bool leader_over;		 /* the leader has ended, and that ends the group */
	bool leader_failed;		 /* ... by a failure without a restart */
	char leader_text[320];		 /* how, for people */

	/* Features and their state (feature.h). */
	const struct feature *const *features;
	size_t n_features;	       /* that are, or were to be, initialised */
	bool on_notice;		       /* a notice of preemption is up */
	struct workers *workers;       /* NULL: none */
	struct dispatch *dispatch;     /* the work queue */
	struct beats *beats;	       /* NULL: nobody asked for heartbeats */
	struct preempting *preempting; /* agent/preempt/service.c's */
	struct notices *notices; /* agent/preempt/notice_sources.c's; NULL: none to look for */
	struct attach
		*attaches; /* agent/attach/attach.c's: tasks that run in somebody's terminal */

	struct loop_signal *signals[AGENT_SIGNALS];
	uint64_t watched; /* a bit each */
	int n_signals;
	struct agent_server *server;
	struct record *record;
};

/* Takes nothing; spec, opt's strings and cgroup must outlive it. Fails before anything runs. */
_must_check_ int agent_new(struct loop *loop, const struct spec *spec,
	const struct agent_options *opt, struct cgroup *cgroup, struct agent **ret,
	struct error *err);
struct agent *agent_free(struct agent *a);
DEFINE_CLEANUP(struct agent *, agent_free)

/* Begins the job; the loop ends with the exit status when the job is over. */
void agent_start(struct agent *a);

/* Sets the job's limits on its cgroup; tells where they do not hold. */
void agent_limit(struct agent *a);

/* Posts an event to the group; it is worked off in this turn of the loop. */
void agent_post(struct agent *a, enum group_event event);

/* Works off what was posted before, for a caller whose own question depends on it. */
void agent_settle(struct agent *a);

/* Whether the job is on its way to an end: what is asked from then on changes no verdict. */
bool agent_decided(const struct agent *a);

/* Tells listeners, and the record, that something visible changed. */
void agent_changed(struct agent *a);

/* Why the group is in the state that it goes to next; for people. */
void agent_set_reason(struct agent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A notice of preemption is up: nothing is started, and ends are judged otherwise. Set by the
 * feature. */
#define AGENT_ON_NOTICE "a notice of preemption is up: nothing is started again"
/* With what workers leave on a notice, and `run` then. */
int agent_preempted_status(const struct agent *a);

struct task *agent_task_by_pid(struct agent *a, pid_t pid);
int agent_alive(const struct agent *a);

/* Says, where the kernel's memory killer may have ended t, so in text; else makes it empty. */
void agent_oom_text(const struct agent *a, const struct task *t, char *text, size_t size);

/* worker_list.c */
/* Makes the tasks of the next incarnation; budgets and what is stopped on purpose go over. */
_must_check_ int agent_make_tasks(struct agent *a, struct error *err);
void agent_free_tasks(struct agent *a);
/* A task beyond the specification. a->tasks may move. */
_must_check_ int agent_add_task(
	struct agent *a, const struct spec_role *role, int index, struct task **ret);
/* Takes what the record has of the tasks' budgets, and gives it. */
void agent_budgets_load(struct agent *a, const json_t *saved);
void agent_budgets_replay(struct agent *a, const json_t *event);
json_t *agent_budgets_save(const struct agent *a);
/* The same for which tasks a person has stopped. */
void agent_stopped_load(struct agent *a, const json_t *saved);
json_t *agent_stopped_save(const struct agent *a);
void agent_roster_free(struct agent *a);

/* launch.c */
void agent_rendezvous(struct agent *a);
void agent_spawn(struct agent *a);
/* Starts t's process now; a negative errno after it was set to FAILED. */
int agent_launch(struct agent *a, struct task *t);
/* The steps of it, for a process that somebody else makes: its logs and identity (as agent_launch()
 * on failure), then its environment (the same), then that it runs, or that it never will. */
int agent_launch_begin(struct agent *a, struct task *t, struct logs_fds *fds);
int agent_launch_environ(struct agent *a, struct task *t, struct env *env);
void agent_launch_done(struct agent *a, struct task *t, const char *reason);
void agent_launch_undo(struct agent *a, struct task *t);
/* Its command as it is executed; owned, NULL without memory. */
char **agent_launch_argv(const struct agent *a, const struct task *t);
void agent_launch_argv_free(char ***argv);

/* reap.c */
void agent_reap(struct agent *a);
/* The process of t is gone, as waitid() says it (CLD_EXITED, CLD_KILLED, CLD_DUMPED).
 * workers_task_ending() comes before, and agent_ends_seen() must follow in the same turn, each once
 * for all that ended. */
void agent_task_ended(struct agent *a, struct task *t, int code, int status);
void agent_ends_seen(struct agent *a);
/* Processes of the agent's own that belong to no task: room for max of them. */
size_t agent_helpers(struct agent *a, pid_t *pids, size_t max);

/* apply_decision.c */
/* What the ends seen by now mean, while the group runs. */
void agent_judge(struct agent *a);
void agent_leader_expired(void *arg); /* leader_timer's callback */
/* The agent itself declares a running task failed: no beat, no progress. text is for people and
 * becomes its failure's message; now is when it failed. It goes on until agent_task_end_failing(),
 * or until it is ended for another reason. Nothing happens to a task that has ended or is being
 * stopped. */
void agent_task_failing(struct agent *a, struct task *t, const char *text);
void agent_task_end_failing(struct agent *a, struct task *t);
/* A task reported an error: it counts as failed when it ends. */
void agent_worker_error(struct agent *a, struct task *t, const char *code, const char *message);

/* worker_selector.c */
/* "worker:1", "worker:0,2-3", "worker", "0,3-7", or NULL for all: sorted ranks, owned. -EINVAL for
 * bad text, -ENOENT where there is no such task. */
_must_check_ int agent_select(
	struct agent *a, const char *text, int **ret, size_t *ret_n, struct error *err);
struct task *agent_task_named(struct agent *a, const char *role, int index);
/* "role:index" of t; borrowed until the next call. */
const char *agent_task_name(const struct task *t);

/* worker_lifecycle.c */
/* t is started when delay_ms is over and what its last process left behind is gone. */
void agent_single_start_in(struct agent *a, struct task *t, uint64_t delay_ms);
/* The same at once. Returns 0 also where something is left to be ended first, or a negative errno
 * after t was set to FAILED. */
int agent_single_start_now(struct agent *a, struct task *t);
/* t is to be started again when its process has ended. */
bool agent_single_starts(const struct task *t);
/* What its next processes run in place of the role's; both are taken, NULL: the role's. */
_must_check_ int agent_single_command(struct task *t, char **command, char **env);
char *const *agent_single_argv(const struct task *t); /* borrowed, or NULL */
char *const *agent_single_env(const struct task *t);
/* Signals its process and what is below it to end, and kills that at timeout_ms. dump: the dump
 * signal comes first. */
void agent_single_end(struct agent *a, struct task *t, uint64_t timeout_ms, bool dump);
/* A task that waits to be started is not. */
void agent_single_call_off(struct agent *a, struct task *t, const char *why);
/* After the ends of a turn were judged. */
void agent_single_progress(struct agent *a);
/* The group's own stop takes over. */
void agent_single_leave(struct agent *a, const char *why);
/* It is neither running, nor stopping, nor is anything left of its process. */
bool agent_single_at_rest(const struct task *t);
void agent_single_expired(void *arg); /* task_timer's callback */
void agent_single_free(struct task *t);

/* worker_requests.c */
struct agent_single_start {
	const char *role;
	int index;		     /* -1: the next one */
	const json_t *command, *env; /* arrays of strings, or NULL */
};
/* 0 with the task, or -ENOENT (no such role), -EEXIST (it runs), -ESHUTDOWN (the job ends, or is
 * between two incarnations), -ENOSPC, -EINVAL, -ENOMEM, with err. */
_must_check_ int agent_start_single(struct agent *a, const struct agent_single_start *what,
	struct task **ret, struct error *err);
/* done(arg) runs when all of them are gone, never inside the call. again: they are started at once
 * after that. ret_n: how many of them ran or waited. */
_must_check_ int agent_stop_single(struct agent *a, const int *ranks, size_t n, int64_t timeout_ms,
	bool again, loop_fn done, void *arg, int *ret_n, struct error *err);
/* The caller of a stop is gone. */
void agent_stop_single_forget(struct agent *a, void *arg);
/* Answers those whose tasks are at rest; all: everyone. */
void agent_ask_settle(struct agent *a, bool all);
void agent_ask_free(struct agent *a);

/* stop_group.c */
void agent_stop_tasks(struct agent *a);
/* All are being stopped, or what they left behind is. */
bool agent_in_stop(const struct agent *a);
void agent_stop_progress(struct agent *a); /* after exits */
void agent_stop_kill(struct agent *a);	   /* no more waiting */
/* Another time limit for the stop in progress. */
void agent_stop_within(struct agent *a, uint64_t timeout_ms);
void agent_stop_expired(void *arg); /* stop_timer's callback */
int agent_signal_tasks(
	struct agent *a, const char *ranks, int signo, enum spec_whom whom, struct error *err);
int agent_signal_task(struct agent *a, struct task *t, int signo, enum spec_whom whom);

/* failures.c */
struct failures;
/* What the job's exit status is where t is its root cause. */
int outcome_status(const struct agent *a, const struct task *t);
/* Tells of those that have ended: before what follows from them. */
void outcome_tell_known(struct agent *a, struct failures *f);
/* Its last process failed, and it is started again all the same: for Errors. */
void outcome_keep_one(struct agent *a, struct task *t);
/* It failed and is not started again: says so, before what follows. */
void outcome_tell_one(struct agent *a, struct task *t);
/* The failures of the present attempt as far as they are known, as Errors has them; owned. */
json_t *outcome_known(struct agent *a);
/* All have ended: which was the root cause. */
void agent_incarnation_over(struct agent *a);

/* end_run.c */
/* A task of scope group failed: the job's budget decides. */
void outcome_group_failed(struct agent *a);
/* t failed and its own budget is spent. */
void outcome_task_spent(struct agent *a, const struct task *t);
/* All ended, with success as far as they were waited for. */
void outcome_all_ended(struct agent *a);
/* The leader has ended and the others had their time. */
void outcome_leader_over(struct agent *a);
/* The group is in a final state: sets the verdict, and why the group is there. */
void outcome_end(struct agent *a);
void agent_restart_asked(struct agent *a, enum restart_cause cause, const char *why);
/* Ends the job after limit_ms, which limit ("max_run_time") names. */
void agent_timeout_asked(struct agent *a, int64_t limit_ms, const char *limit);
void agent_stop_asked(struct agent *a, int signo, int64_t timeout_ms, const char *why);
void agent_finish(struct agent *a);
/* Asks the job's budget about fault by policy, into decision, and says what it said. */
void outcome_decide(struct agent *a, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what);
struct restart_fault outcome_fault(const struct task *t, uint64_t since_ms);

/* recover.c */
void agent_past_note(struct agent *a, const json_t *event); /* while the record is loaded */
void agent_resumed(struct agent *a); /* begins the job where the agent before was lost */

/* signals.c */
_must_check_ int agent_signals_init(struct agent *a, struct error *err);
/* Whether stop.forward names signo. */
bool agent_forwards(const struct agent *a, int signo);

/* standstill.c: stops all of the job, and has the guard stop as its caller's shell asked for;
 * returns when that goes on. No timer has run meanwhile. */
void agent_stand_still(struct agent *a);

/* job_json.c; all return owned JSON */
json_t *agent_job_json(const struct agent *a, bool live);
json_t *agent_budget_json(const struct agent *a);
json_t *agent_verdict_json(const struct agent *a);
json_t *agent_failures_json(struct agent *a, int attempt); /* -1: the newest with any */
json_t *json_text(const char *text);			   /* a string whatever the bytes are */

/* record.c: state.json, verdict.json and job.json */
_must_check_ int record_new(struct agent *a, struct error *err);
void record_free(struct agent *a);
_must_check_ int record_load(struct agent *a, int64_t *ret_seq, struct error *err);
void record_changed(struct agent *a);
void record_settled(struct agent *a); /* in the next turn: a state that may last */
void record_flush(struct agent *a);   /* now: for what no event tells */
void record_verdict(struct agent *a);
