/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The supervisor: the core of an agent, which supervises one job. It is opaque outside this room;
 * features (feature.h) and main() know it by these functions. private.h has its members, and says
 * which file does what.
 *
 * Nothing here blocks. A function that ends or starts something posts an event to the group
 * machine, which handles it in this turn of the loop. Each attempt has new struct workers, and
 * request_start() may move them: keep their slot or their place, not their address.
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

enum { SUPERVISOR_REASON_MAX = 640 }; /* bytes of a reason, with its NUL */

/* The system calls by which the core starts, signals and reaps workers. */
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
	bool alone;	  /* serves one program and ends nothing (agent/alone.h) */
	bool resume;	  /* an earlier agent of this run was lost */
	const char *lost; /* why it was lost, as elasticd knows; NULL: not known */
};

/* Borrows spec, opt's strings and cgroup until it is freed. Fails before any process is started. */
_must_check_ int supervisor_new(struct loop *loop, const struct spec *spec,
	const struct supervisor_options *opt, struct cgroup *cgroup, struct supervisor **ret,
	struct error *err);
struct supervisor *supervisor_free(struct supervisor *sv);
DEFINE_CLEANUP(struct supervisor *, supervisor_free)

/* Begins the job; the loop ends with the exit status when the job is over. */
void supervisor_start(struct supervisor *sv);
/* The same for a private agent (agent/alone.h), whose one worker already runs as pid. */
void supervisor_start_alone(struct supervisor *sv, pid_t pid);

/* --- the supervisor's parts and state; pointers are borrowed as long as it lives --- */

struct loop *supervisor_loop(const struct supervisor *sv);
const struct spec *supervisor_spec(const struct supervisor *sv);
const struct supervisor_options *supervisor_options(const struct supervisor *sv);
struct logs *supervisor_logs(const struct supervisor *sv);
/* The run's record, or where it has none its log directory; NULL: neither. */
const char *supervisor_dir(const struct supervisor *sv);
/* NULL while the supervisor is made, and when it ends. */
struct events *supervisor_events(const struct supervisor *sv);
/* Adds an event of the present attempt, where there are events. rank: -1: of no worker. data is
 * taken, may be NULL. */
void supervisor_event(struct supervisor *sv, const char *event, int rank, json_t *data,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The same, and logs its text at level. */
void supervisor_report(struct supervisor *sv, int level, const char *event, int rank, json_t *data,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));
const struct group *supervisor_group(const struct supervisor *sv);
/* A list that ends with NULL, or NULL. */
const struct feature *const *supervisor_features(const struct supervisor *sv);
const char *supervisor_host(const struct supervisor *sv);
/* The number of attempts before this one; -1 before the first. */
int supervisor_attempt(const struct supervisor *sv);
/* The number of agents of this run before this one. */
int supervisor_agents(const struct supervisor *sv);
int64_t supervisor_created_us(const struct supervisor *sv);
/* Why the group is in its present state, or ""; borrowed until that changes. */
const char *supervisor_reason(const struct supervisor *sv);
/* The leader has ended, and that ends the group. */
bool supervisor_leader_over(const struct supervisor *sv);
/* The first signal that asked the agent to stop; 0: none. */
int supervisor_stopped_by(const struct supervisor *sv);
/* The job has its verdict, whose text is supervisor_end_message(). */
bool supervisor_ended(const struct supervisor *sv);
const char *supervisor_end_message(const struct supervisor *sv);
/* The guard has died. If only that ends the job, there is no verdict: elasticd then finds the agent
 * lost, and may start another one. */
bool supervisor_guard_died(const struct supervisor *sv);
bool supervisor_no_verdict(const struct supervisor *sv);
/* Features are being finalised. */
bool supervisor_finalising(const struct supervisor *sv);
/* How many workers a role has in the next attempt; and sets it. */
int supervisor_replicas(const struct supervisor *sv, size_t role);
void supervisor_scale(struct supervisor *sv, size_t role, int n);

/* --- the group --- */

/* Posts an event to the group machine, which handles it in this turn of the loop. */
void supervisor_post(struct supervisor *sv, enum group_event event);
/* Handles all posted events now. Call it before reading a state that they may change. */
void supervisor_settle(struct supervisor *sv);
/* In state rendezvous: no attempt begins before next_try_us (0: now), for that reason. */
void supervisor_show_wait(struct supervisor *sv, const char *reason, int64_t next_try_us);
/* Whether the job is on its way to its end: later requests do not change the verdict. */
bool supervisor_decided(const struct supervisor *sv);
/* A state that people can see has changed: schedules writing the record, and informs features. */
void supervisor_changed(struct supervisor *sv);
/* Sets the reason, for people, of the state that the group goes to next. */
void supervisor_set_reason(struct supervisor *sv, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A notice of preemption is up: the core starts no worker, and decides by
 * group_decide_on_notice(). The preempt feature sets it. */
#define SUPERVISOR_ON_NOTICE "a notice of preemption is up: nothing is started again"
bool supervisor_on_notice(const struct supervisor *sv);
void supervisor_set_notice(struct supervisor *sv, bool up);
/* Whether the group runs and nothing says that it is not ready yet. The ready feature sets that. */
bool supervisor_ready(const struct supervisor *sv);
void supervisor_set_unready(struct supervisor *sv, bool unready);
/* The exit status of workers that leave on a notice, and of `run` then. */
int supervisor_preempted_status(const struct supervisor *sv);
/* Decides what follows from the workers that have ended so far, while the group runs. */
void apply_decisions(struct supervisor *sv);
/* The leader has ended, and the others have too or have had their grace. */
void end_run_leader_over(struct supervisor *sv);
void end_run_restart_asked(struct supervisor *sv, enum restart_cause cause, const char *why);
/* The time limit_ms is over: ends the job. limit: the limit's name, such as "max_run_time". */
void end_run_timeout_asked(struct supervisor *sv, int64_t limit_ms, const char *limit);
void end_run_stop_asked(struct supervisor *sv, int signo, int64_t timeout_ms, const char *why);
/* Whether the workers, or processes that they left behind, are being stopped together. */
bool stop_group_active(const struct supervisor *sv);

/* --- a group of several hosts: the hook rendezvous (feature.h) takes the core's decisions over,
 * and has it do these for the head --- */

struct seat;
/* In state rendezvous: claims ports and makes the workers of an attempt. Drops all that was
 * prepared before. */
_must_check_ int supervisor_prepare(
	struct supervisor *sv, const struct seat *seat, struct error *err);
/* MASTER_PORT, as claimed. */
int supervisor_master_port(const struct supervisor *sv);
/* The addresses of this host's workers at host for TF_CONFIG: an owned array of {role, index,
 * address}; NULL: it has none, or no memory is left. */
json_t *supervisor_addresses(const struct supervisor *sv, const char *host);
/* Starts the workers that were prepared. cluster: the addresses of all hosts' workers, as above, or
 * NULL. */
_must_check_ int supervisor_launch(struct supervisor *sv, const char *master_addr, int master_port,
	const json_t *cluster, struct error *err);
/* Stops the workers; the state after that is rendezvous again. kill: at once, by SIGKILL. */
void supervisor_halt(struct supervisor *sv, const char *cause, int64_t timeout_ms, bool kill);
/* In state rendezvous: ends the job by the group's verdict (io.elasticd.Peer.Verdict). report: this
 * host prints the report of a failure, others one line. */
void supervisor_take_verdict(struct supervisor *sv, const json_t *verdict, bool report);
/* The known failures of this host's workers in the present attempt, the root cause first, as Errors
 * returns them; owned. */
json_t *supervisor_known_failures(struct supervisor *sv);

/* The root cause of an attempt, on any host, after which the group starts again: people see it on
 * this host, too. */
void supervisor_group_failed(struct supervisor *sv, const json_t *failure);
/* The budget of the group of several hosts, which the agent that leads decides by: what people see.
 */
void supervisor_show_budget(struct supervisor *sv, const struct restart_budget *b);

/* --- workers, by place: 0 to supervisor_n_workers() - 1 --- */

int supervisor_n_workers(const struct supervisor *sv);
struct worker *supervisor_worker(const struct supervisor *sv, int place);
struct worker *worker_list_by_pid(struct supervisor *sv, pid_t pid);
struct worker *worker_named(struct supervisor *sv, const char *role, int index);
/* The places of the workers that text names, sorted and owned: "worker:1", "worker:0,2-3",
 * "worker", "0,3-7"; NULL: all. -EINVAL for bad text, -ENOENT where there is no such worker. */
_must_check_ int worker_select(
	struct supervisor *sv, const char *text, int **ret, size_t *ret_n, struct error *err);
/* The same; where the job has several hosts, those of them that are on this one. */
_must_check_ int worker_select_some(
	struct supervisor *sv, const char *text, int **ret, size_t *ret_n, struct error *err);
int signal_workers(struct supervisor *sv, const char *ranks, int signo, enum spec_whom whom,
	struct error *err);
int signal_worker(struct supervisor *sv, struct worker *w, int signo, enum spec_whom whom);
/* The agent declares a running worker failed from now on: no beat, no progress. text becomes the
 * message of its failure. Its process runs until supervisor_end_failing(), or until it ends for
 * another reason. Does nothing to a worker that has ended or is being stopped. */
void supervisor_worker_failing(struct supervisor *sv, struct worker *w, const char *text);
void supervisor_end_failing(struct supervisor *sv, struct worker *w);
/* A worker reported an error: it counts as failed when it ends. */
void supervisor_worker_error(
	struct supervisor *sv, struct worker *w, const char *code, const char *message);
/* Whether w will be started again when its process has ended. */
bool lifecycle_starts(const struct worker *w);
/* Sends the stop signal to w, and SIGKILL after timeout_ms; so also to processes that it leaves
 * behind. dump: sends the dump signal first. */
void lifecycle_end(struct supervisor *sv, struct worker *w, uint64_t timeout_ms, bool dump);
/* Cancels the start of w, if it waits for one. */
void lifecycle_call_off(struct supervisor *sv, struct worker *w, const char *why);
/* Whether w has no process, and none that it left behind is being ended. */
bool lifecycle_at_rest(const struct worker *w);

/* --- an operator's requests --- */

struct request_start_args {
	const char *role;
	int index;		     /* -1: the next one */
	const json_t *command, *env; /* arrays of strings, or NULL */
};
/* Starts a worker that has no process, or adds one. Returns 0 with the worker, or with err -ENOENT
 * (no such role), -EEXIST (it runs), -ESHUTDOWN (the job ends, or is between two attempts), -EBUSY
 * (a notice of preemption is up), -ENOSPC, -EINVAL or -ENOMEM. */
_must_check_ int request_start(struct supervisor *sv, const struct request_start_args *what,
	struct worker **ret, struct error *err);
/* Stops workers. done(arg) runs when all of them are gone, never inside the call. again: starts
 * them after that. ret_n: how many of them ran or waited for their start. */
_must_check_ int request_stop(struct supervisor *sv, const int *places, size_t n,
	int64_t timeout_ms, bool again, loop_fn done, void *arg, int *ret_n, struct error *err);
/* The caller of a stop is gone: done(arg) will not run. */
void request_forget(struct supervisor *sv, void *arg);

/* --- a worker whose process is another program's child (attach) --- */

/* The steps of its start: launch_begin() opens its logs and gives it its identity;
 * launch_environment() makes its environment; then launch_done() when it runs, or launch_undo()
 * when it never will. The first two return 0, or a negative errno after setting w to FAILED. */
int launch_begin(struct supervisor *sv, struct worker *w, struct logs_fds *fds);
int launch_environment(struct supervisor *sv, struct worker *w, struct env *env);
void launch_done(struct supervisor *sv, struct worker *w, const char *reason);
void launch_undo(struct supervisor *sv, struct worker *w);
/* The command of w's next start; owned, NULL without memory. */
char **launch_argv(const struct supervisor *sv, const struct worker *w);
/* The process of w has ended; code and status as from waitid() (CLD_EXITED, CLD_KILLED or
 * CLD_DUMPED). Call the hook before_reap before it, and reap_ends_seen() after it in the same turn,
 * each once for all workers that ended. */
void reap_worker_ended(struct supervisor *sv, struct worker *w, int code, int status);
void reap_ends_seen(struct supervisor *sv);

/* --- the job as JSON; all return owned JSON --- */

json_t *job_json(const struct supervisor *sv, bool live);
/* As the parameters of a call of Status ask for it. -EINVAL: its ranks are none. */
_must_check_ int job_json_asked(
	const struct supervisor *sv, const json_t *p, json_t **ret, struct error *err);
json_t *job_json_budget(const struct supervisor *sv);
json_t *job_json_verdict(const struct supervisor *sv);
json_t *job_json_failures(struct supervisor *sv, int attempt); /* -1: the newest with any */
/* Writes state.json now, for a change that has no event. */
void record_flush(struct supervisor *sv);
