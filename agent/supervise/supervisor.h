/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The supervisor: the core of an agent, which supervises one job. It is opaque outside this room;
 * features (feature.h) and main() know it by these functions. private.h has its members, and says
 * which file does what.
 *
 * Nothing here blocks. A function that ends or starts something posts an event to the group
 * machine, which works it off in this turn of the loop. Workers are replaced at the beginning of
 * each attempt, and request_start() may move them: keep their slot or their place, not their
 * address.
 */

#include "agent/logs/logs.h"
#include "agent/policy/group_machine.h"
#include "agent/policy/restart_budget.h"
#include "agent/policy/worker.h"
#include "agent/process/cgroup.h"
#include "agent/process/spawn.h"
#include "agent/supervise/event_log.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>

struct env;
struct feature;
struct supervisor;

enum { SUPERVISOR_REASON_MAX = 640 }; /* of texts, with their end */

/* How the core makes and signals workers' processes, and learns how they ended. */
struct supervisor_processes {
	int (*spawn)(const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage);
	int (*kill)(pid_t pid, int signo);
	int (*waitid)(idtype_t type, id_t id, siginfo_t *ret, int options);
};

struct supervisor_options {
	const char *run;
	const char *log_root;	 /* NULL: specification's, or the default */
	const char *state_dir;	 /* the run's record, NULL in the foreground */
	const char *error_file;	 /* where the root cause's error.json is copied, or NULL */
	const char *runtime_dir; /* of worker.sock and the board; NULL: workers share nothing */
	int listen_fd;		 /* agent.sock, -1 in the foreground */
	const struct feature *const *features;	      /* a list that ends with NULL (feature.h) */
	const struct supervisor_processes *processes; /* NULL: those of the system */
	bool foreground;
	bool alone;  /* for a program that no agent supervises (agent/alone.h): it ends nothing */
	bool resume; /* an earlier agent of this run was lost */
	const char *lost; /* why, as elasticd knows; NULL: it does not */
};

/* Takes nothing; spec, opt's strings and cgroup must outlive it. Fails before anything runs. */
_must_check_ int supervisor_new(struct loop *loop, const struct spec *spec,
	const struct supervisor_options *opt, struct cgroup *cgroup, struct supervisor **ret,
	struct error *err);
struct supervisor *supervisor_free(struct supervisor *sv);
DEFINE_CLEANUP(struct supervisor *, supervisor_free)

/* Begins the job; the loop ends with the exit status when the job is over. */
void supervisor_start(struct supervisor *sv);
/* The same for an agent of a program that no agent supervises (agent/alone.h): its one worker runs
 * already, as pid. */
void supervisor_start_alone(struct supervisor *sv, pid_t pid);

/* --- what there is; borrowed as long as the supervisor lives, unless a line says otherwise --- */

struct loop *supervisor_loop(const struct supervisor *sv);
const struct spec *supervisor_spec(const struct supervisor *sv);
const struct supervisor_options *supervisor_options(const struct supervisor *sv);
struct logs *supervisor_logs(const struct supervisor *sv);
struct events *supervisor_events(const struct supervisor *sv);
const struct group *supervisor_group(const struct supervisor *sv);
/* A list that ends with NULL, or NULL. */
const struct feature *const *supervisor_features(const struct supervisor *sv);
const char *supervisor_host(const struct supervisor *sv);
/* The number of attempts before this one; -1 before the first. */
int supervisor_attempt(const struct supervisor *sv);
/* The number of agents of this run before this one. */
int supervisor_agents(const struct supervisor *sv);
int64_t supervisor_created_us(const struct supervisor *sv);
/* Why the group is in its present state, or ""; until that changes. */
const char *supervisor_reason(const struct supervisor *sv);
/* The leader has ended, and that ends the group. */
bool supervisor_leader_over(const struct supervisor *sv);
/* The job has its verdict, whose text is supervisor_end_message(). */
bool supervisor_ended(const struct supervisor *sv);
const char *supervisor_end_message(const struct supervisor *sv);
/* The guard has died. Where that alone ends the job, it is unjudged: the agent leaves without a
 * verdict, so that elasticd finds it lost. */
bool supervisor_guard_died(const struct supervisor *sv);
bool supervisor_no_verdict(const struct supervisor *sv);
/* Features are being finalised. */
bool supervisor_finalising(const struct supervisor *sv);
/* How many workers a role has in the next attempt, and another number of them. */
int supervisor_replicas(const struct supervisor *sv, size_t role);
void supervisor_scale(struct supervisor *sv, size_t role, int n);

/* --- what becomes of the group --- */

/* Posts an event to the group; it is worked off in this turn of the loop. */
void supervisor_post(struct supervisor *sv, enum group_event event);
/* Works off what was posted before, for a caller whose own question depends on it. */
void supervisor_settle(struct supervisor *sv);
/* Whether the job is on its way to an end: what is asked from then on changes no verdict. */
bool supervisor_decided(const struct supervisor *sv);
/* Tells listeners, and the record, that something visible changed. */
void supervisor_changed(struct supervisor *sv);
/* Why the group is in the state that it goes to next; for people. */
void supervisor_set_reason(struct supervisor *sv, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A notice of preemption is up: the core starts nothing, and judges ends otherwise. The preempt
 * feature sets it. */
#define SUPERVISOR_ON_NOTICE "a notice of preemption is up: nothing is started again"
bool supervisor_on_notice(const struct supervisor *sv);
void supervisor_set_notice(struct supervisor *sv, bool up);
/* The exit status of workers that leave on a notice, and of `run` then. */
int supervisor_preempted_status(const struct supervisor *sv);
/* What the ends seen by now mean, while the group runs. */
void apply_decisions(struct supervisor *sv);
/* The leader has ended and the others had their time. */
void end_run_leader_over(struct supervisor *sv);
void end_run_restart_asked(struct supervisor *sv, enum restart_cause cause, const char *why);
/* Ends the job after limit_ms, which limit ("max_run_time") names. */
void end_run_timeout_asked(struct supervisor *sv, int64_t limit_ms, const char *limit);
void end_run_stop_asked(struct supervisor *sv, int signo, int64_t timeout_ms, const char *why);
/* All are being stopped, or what they left behind is. */
bool stop_group_active(const struct supervisor *sv);

/* --- workers, by place: 0 to supervisor_n_workers() - 1 --- */

int supervisor_n_workers(const struct supervisor *sv);
struct worker *supervisor_worker(const struct supervisor *sv, int place);
struct worker *worker_list_by_pid(struct supervisor *sv, pid_t pid);
struct worker *worker_named(struct supervisor *sv, const char *role, int index);
/* "role:index" of w; borrowed until the next call. */
const char *worker_name(const struct worker *w);
/* "worker:1", "worker:0,2-3", "worker", "0,3-7", or NULL for all: their places, sorted and owned.
 * -EINVAL for bad text, -ENOENT where there is no such worker. */
_must_check_ int worker_select(
	struct supervisor *sv, const char *text, int **ret, size_t *ret_n, struct error *err);
int signal_workers(struct supervisor *sv, const char *ranks, int signo, enum spec_whom whom,
	struct error *err);
int signal_worker(struct supervisor *sv, struct worker *w, int signo, enum spec_whom whom);
/* The agent itself declares a running worker failed: no beat, no progress. text is for people and
 * becomes its failure's message; now is when it failed. It goes on until supervisor_end_failing(),
 * or until it is ended for another reason. Nothing happens to a worker that has ended or is being
 * stopped. */
void supervisor_worker_failing(struct supervisor *sv, struct worker *w, const char *text);
void supervisor_end_failing(struct supervisor *sv, struct worker *w);
/* A worker reported an error: it counts as failed when it ends. */
void supervisor_worker_error(
	struct supervisor *sv, struct worker *w, const char *code, const char *message);
/* w is to be started again when its process has ended. */
bool lifecycle_starts(const struct worker *w);
/* Signals its process and what is below it to end, and kills that at timeout_ms. dump: the dump
 * signal comes first. */
void lifecycle_end(struct supervisor *sv, struct worker *w, uint64_t timeout_ms, bool dump);
/* A worker that waits to be started is not. */
void lifecycle_call_off(struct supervisor *sv, struct worker *w, const char *why);
/* It is neither running, nor stopping, nor is anything left of its process. */
bool lifecycle_at_rest(const struct worker *w);

/* --- what people ask for --- */

struct request_start_args {
	const char *role;
	int index;		     /* -1: the next one */
	const json_t *command, *env; /* arrays of strings, or NULL */
};
/* 0 with the worker, or -ENOENT (no such role), -EEXIST (it runs), -ESHUTDOWN (the job ends, or is
 * between two attempts), -ENOSPC, -EINVAL, -ENOMEM, with err. */
_must_check_ int request_start(struct supervisor *sv, const struct request_start_args *what,
	struct worker **ret, struct error *err);
/* done(arg) runs when all of them are gone, never inside the call. again: they are started at once
 * after that. ret_n: how many of them ran or waited. */
_must_check_ int request_stop(struct supervisor *sv, const int *places, size_t n,
	int64_t timeout_ms, bool again, loop_fn done, void *arg, int *ret_n, struct error *err);
/* The caller of a stop is gone. */
void request_forget(struct supervisor *sv, void *arg);

/* --- a worker's process that somebody else makes, and ends --- */

/* The steps of it, for a process that somebody else makes: its logs and identity (as
 * launch_worker() on failure), then its environment (the same), then that it runs, or that it never
 * will. */
int launch_begin(struct supervisor *sv, struct worker *w, struct logs_fds *fds);
int launch_environment(struct supervisor *sv, struct worker *w, struct env *env);
void launch_done(struct supervisor *sv, struct worker *w, const char *reason);
void launch_undo(struct supervisor *sv, struct worker *w);
/* Its command as it is executed; owned, NULL without memory. */
char **launch_argv(const struct supervisor *sv, const struct worker *w);
void launch_argv_free(char ***argv);
/* The process of w is gone, as waitid() says it (CLD_EXITED, CLD_KILLED, CLD_DUMPED).
 * sharing_worker_ending() comes before, and reap_ends_seen() must follow in the same turn, each
 * once for all that ended. */
void reap_worker_ended(struct supervisor *sv, struct worker *w, int code, int status);
void reap_ends_seen(struct supervisor *sv);

/* --- what people see; all return owned JSON --- */

json_t *job_json(const struct supervisor *sv, bool live);
json_t *job_json_budget(const struct supervisor *sv);
json_t *job_json_verdict(const struct supervisor *sv);
json_t *job_json_failures(struct supervisor *sv, int attempt); /* -1: the newest with any */
json_t *json_text(const char *text);			       /* a string whatever the bytes are */
/* Writes state.json now: for what no event tells. */
void record_flush(struct supervisor *sv);
