/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The job specification: a JSON document (elasticd-job(5)) and its parsed form. Parsing refuses
 * unknown keys and wrong types by path, fills in defaults, and starts nothing. Durations are
 * milliseconds; SPEC_UNSET means "not given", which differs from an explicit 0.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/stdmap.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define SPEC_UNSET (-1)

/* replicas of a role besides a positive count; spec_resolve() turns them into one. */
enum {
	SPEC_REPLICAS_AUTO = -1,
	SPEC_REPLICAS_CPU = -2,
	SPEC_REPLICAS_GPU = -3,
	SPEC_REPLICAS_XPU = -4
};
/* Of one role, and of all together. */
enum { SPEC_REPLICAS_MAX = 4096 };

struct spec_rlimit {
	int resource; /* RLIMIT_* */
	rlim_t soft, hard;
};

/* What the failure of one of a role's tasks is. */
enum spec_role_failure {
	SPEC_FAILURE_RESTART, /* what the restart rules say */
	SPEC_FAILURE_QUEUE,   /* first an error of all queues, which their coordinator is told */
};

struct spec_role {
	char *name;
	int replicas;
	char **command; /* argv, NULL-ended, at least one word */
	char ***args;	/* per replica: words appended to command, or NULL; as many as n_args */
	size_t n_args;
	char **env;		 /* "NAME=value", NULL-ended, or NULL */
	char ***env_per_replica; /* likewise per replica */
	size_t n_env_per_replica;
	char *cwd; /* NULL: the job's */
	struct spec_rlimit *limits;
	size_t n_limits;
	bool leader;	  /* its end is the group's (struct spec_leader); one role, one replica */
	bool recoverable; /* its loss is no error to the others */
	bool evaluator; /* outside TF_CONFIG's cluster, default barriers and alive sets; true for a
			 * role named "evaluator" unless it is said */
	struct spec_restart *restart; /* of this role; NULL: the job's */
	int64_t start_delay_ms;	      /* times the index: 0 none */
	int64_t start_delay_max_ms;   /* SPEC_UNSET: no cap */
	char *init; /* what each process is to do first of all, in its loop of tasks; NULL: nothing
		     */
	enum spec_role_failure on_failure;
};

enum spec_leader_exit { SPEC_LEADER_STOP, SPEC_LEADER_IGNORE };

/* What the end of the leader's task means for the others. */
struct spec_leader {
	enum spec_leader_exit on_exit;
	int64_t grace_ms; /* for the others to leave by themselves; 3 s, SPEC_UNSET where none leads
			   */
};

enum spec_heartbeat_action { SPEC_HEARTBEAT_RESTART, SPEC_HEARTBEAT_REPORT };

/* All time limits are SPEC_UNSET where they are not given: nothing is looked at then. */
struct spec_heartbeat {
	int64_t period_ms;	  /* how often the board is looked at */
	int64_t timeout_ms;	  /* without a new beat: a miss; unset: period */
	int failures;		  /* misses in a row that are the end; 3 where there is a period */
	int64_t start_timeout_ms; /* until the first beat */
	int64_t progress_timeout_ms; /* without a step() */
	int64_t log_timeout_ms;	     /* without a byte in the task's logs */
	char *log_pattern;	     /* extended regular expression: lines that are progress */
	int64_t log_pattern_timeout_ms;
	char *progress_file; /* path (${rank}, ${local_rank}, ${role}, ${index}): its changes are
			      * progress; relative to the task's cwd */
	int64_t progress_file_timeout_ms;
	int64_t progress_start_timeout_ms; /* in place of the four above until the first sign;
					    * unset: the same as these */
	enum spec_heartbeat_action on_failure;
	int64_t dump_timeout_ms; /* for saving what hangs, before it is stopped; 10 s */
};

enum spec_notice {
	SPEC_NOTICE_SIGNAL = 1 << 0,
	SPEC_NOTICE_COMMAND = 1 << 1,
	SPEC_NOTICE_GCE = 1 << 2,
	SPEC_NOTICE_AWS = 1 << 3,
	SPEC_NOTICE_AZURE = 1 << 4,
	SPEC_NOTICE_LOGIND = 1 << 5,
	SPEC_NOTICE_CLOUD = 1 << 6, /* the cloud that this host is found to be in */
};

enum spec_whom { SPEC_WHOM_GROUP, SPEC_WHOM_MAIN, SPEC_WHOM_ALL };

enum spec_preempt_how {
	SPEC_PREEMPT_AUTO, /* who tells steps is asked, who does not use the library is signalled */
	SPEC_PREEMPT_AGREE,  /* nobody is signalled */
	SPEC_PREEMPT_SIGNAL, /* everybody is, and nobody asked */
};

struct spec_preemption {
	unsigned notices; /* of enum spec_notice */
	int *signals;	  /* to the agent: notices where SPEC_NOTICE_SIGNAL is set; 0-ended; TERM */
	char **command;	  /* NULL-ended, or NULL */
	int64_t poll_ms;
	int64_t grace_ms;   /* SPEC_UNSET: what the notice says, else 0 */
	int64_t timeout_ms; /* until those that are left are stopped, without a deadline; 10 min */
	enum spec_preempt_how how;
	int signal; /* 0: stop.signal */
	enum spec_whom whom;
	int exit_code; /* SPEC_UNSET: 42, or 143 on a machine of GCE's with a GPU */
	bool resume;
};

enum spec_devices_assign {
	SPEC_DEVICES_STRIDE, /* every n-th, from the task's place among the n tasks of this host */
	SPEC_DEVICES_BLOCK,  /* neighbours, as many for each as can be, the first ones one more */
	SPEC_DEVICES_ONE,    /* the one of its place */
	SPEC_DEVICES_ALL,    /* every one to each */
};

struct spec_devices {
	char **ids; /* NULL-ended; NULL: nothing is assigned */
	char *env;  /* the variable; CUDA_VISIBLE_DEVICES */
	enum spec_devices_assign assign;
};

struct spec_logs {
	char *dir; /* NULL: the program's default; "/dev/null": no files */
	struct std_map redirects;
	struct std_map tee;
	char *filter;		 /* local ranks shown on the console ("0,2-3"), NULL: all */
	char *prefix;		 /* a template of agent/prefix.h; NULL: the default */
	char **duplicate_stdout; /* substrings, NULL-ended, or NULL */
	char **duplicate_stderr;
	bool merge; /* stderr into stdout.log */
	bool timestamps;
	int64_t max_size; /* bytes of a log file before it is rotated; 0: no rotation */
	int keep;	  /* closed files kept per stream, besides pinned head and tail */
	/* Of ended runs of elasticctl run in dir; SPEC_UNSET: keep.h's where dir is the default,
	 * else no limit; 0: none. */
	int keep_runs, keep_days;
	int64_t keep_bytes;
};

enum spec_restart_policy { SPEC_RESTART_ON_FAILURE, SPEC_RESTART_ALWAYS, SPEC_RESTART_NEVER };
enum spec_exit_class { SPEC_EXIT_COUNT, SPEC_EXIT_FREE, SPEC_EXIT_FATAL };

struct spec_exit_rule {
	bool is_signal;
	int value; /* exit code or signal number */
	enum spec_exit_class class;
};

enum spec_restart_scope { SPEC_SCOPE_GROUP, SPEC_SCOPE_TASK };

struct spec_restart {
	enum spec_restart_policy policy;
	enum spec_restart_scope scope; /* TASK: only what failed is started again, each task with a
					* budget of its own */
	int max; /* restarts over the job's life; SPEC_UNSET: no limit beside the window */
	int64_t window_ms; /* sliding window for window_max; SPEC_UNSET: none */
	int window_max;
	int64_t backoff_ms;	  /* before the first restart, doubled for each further one */
	int64_t backoff_max_ms;	  /* SPEC_UNSET: 64 times backoff_ms */
	int64_t healthy_after_ms; /* running this long resets the backoff; SPEC_UNSET: never */
	struct spec_exit_rule *codes;
	size_t n_codes;
};

struct spec_stop {
	int signal;
	enum spec_whom whom;
	int64_t timeout_ms;
	int dump_signal; /* 0: none; sent before the stop signal when a limit ended the job */
	int *forward;	 /* signals that the agent hands on before it stops, 0-ended */
};

struct spec_resources {
	int64_t memory_max; /* bytes; SPEC_UNSET: none */
	int64_t cpu_weight; /* 1..10000; SPEC_UNSET */
	int64_t tasks_max;  /* SPEC_UNSET */
	struct spec_devices devices;
};

/* The work queue. */
struct spec_queue {
	int max;		     /* tasks that wait for a worker, of all queues; 0: no limit */
	int results;		     /* tasks that are over and not released; 0: no limit */
	int64_t memory;		     /* bytes of payloads and results; 0: no limit */
	int slots;		     /* tasks that one worker has at once */
	int64_t cancel_grace_ms;     /* who goes on for longer is killed */
	int64_t recovery_timeout_ms; /* with work, and nobody who takes it; 0: no limit */
	int blame_limit;	     /* retryable failures of one blame; 0: no limit */
	int64_t blame_window_ms;     /* SPEC_UNSET: ever */
	int deaths;		     /* of workers with one task, then it fails; 0: no limit */
	bool durable;		     /* tasks outlive the agent */
	int64_t stall_ms;	     /* without a task that ends while some run; SPEC_UNSET: off */
	int64_t call_timeout_ms, answer_timeout_ms;
	int exit_code;	       /* for coordinators that a task of on_failure fail_queue was lost to;
				* SPEC_UNSET: none */
	int64_t loss_grace_ms; /* for them to leave by themselves */
};

enum spec_mode {
	SPEC_MODE_GROUP,
	SPEC_MODE_POOL, /* workers stay and answer calls; one that dies breaks the pool */
};

enum spec_rendezvous_backend { SPEC_RENDEZVOUS_LOCAL, SPEC_RENDEZVOUS_STATIC };

struct spec_rendezvous {
	enum spec_rendezvous_backend backend;
	char *id;	   /* TORCHELASTIC_RUN_ID; NULL: the run's identifier */
	char *master_addr; /* NULL: 127.0.0.1 */
	int master_port;   /* 0: a free port, chosen afresh for each incarnation */
};

struct spec {
	char *name;
	int64_t max_run_time_ms; /* SPEC_UNSET: none */
	char *cwd;		 /* NULL: the starter's */
	int umask;		 /* SPEC_UNSET: inherited */
	char *user;		 /* NULL: the starter */
	struct spec_role *roles;
	size_t n_roles;
	struct spec_logs logs;
	struct spec_restart restart;
	struct spec_stop stop;
	struct spec_leader leader;
	struct spec_heartbeat heartbeat;
	struct spec_preemption preemption;
	struct spec_resources resources;
	struct spec_rendezvous rendezvous;
	struct spec_queue queue;
	enum spec_mode mode;
	int compat_tf_config;	 /* 0, 1, or SPEC_UNSET: where there are several roles */
	char *rpc_layer;	 /* of TF_CONFIG, NULL: left out */
	bool compat_torch;	 /* torchelastic's environment variables */
	bool virtual_local_rank; /* compat.virtual_local_rank */
	bool inherit_env;	 /* workers start from the agent's environment */
};

/* Parses and checks doc (borrowed). Returns an owned spec, or -EINVAL with err naming the path. */
_must_check_ int spec_parse(const json_t *doc, struct spec **ret, struct error *err);
/* Parses JSON text of len bytes; refuses duplicate keys, and says line and column of bad JSON. */
_must_check_ int spec_parse_text(
	const char *text, size_t len, struct spec **ret, struct error *err);

/* All that is wrong with a document, as far as it can be told at once; field is the path of a key.
 */
struct spec_problems {
	struct error *items;
	size_t n;
};
enum { SPEC_PROBLEMS_MAX = 64 };
void spec_problems_fini(struct spec_problems *p);

/* As spec_parse(), but goes on after an error: with -EINVAL ret_problems has at least one, to be
 * freed by spec_problems_fini(). Other errors are in err alone. */
_must_check_ int spec_parse_all(const json_t *doc, struct spec **ret,
	struct spec_problems *ret_problems, struct error *err);

struct spec *spec_free(struct spec *s);
DEFINE_CLEANUP(struct spec *, spec_free)

/* The whole document with all defaults filled in: parsing it again gives the same. Returns owned,
 * or NULL without memory. */
json_t *spec_to_json(const struct spec *s);

/* Turns auto, cpu, gpu and xpu replicas into counts for this host, and checks again what depends on
 * them, among it that virtual_local_rank has a device for each worker. */
_must_check_ int spec_resolve(struct spec *s, struct error *err);

/* The exit code with which workers leave on a notice of preemption, free in all restart.codes that
 * do not name it. -ENOMEM. */
_must_check_ int spec_set_exit_code(struct spec *s, int code);

/* Where none was given, that code is 143 on a machine of Google Compute Engine with a GPU. dmi_dir
 * as platform_from_dmi() has it. -ENOMEM. */
_must_check_ int spec_host_exit_code(struct spec *s, const char *dmi_dir, bool gpu);

/* Whether the index-th worker of role is to be given devices: where there are any to give, and
 * neither the role nor the replica sets their variable itself. */
bool spec_wants_device(const struct spec *s, const struct spec_role *role, int index);

/* Whether workers get TF_CONFIG. */
bool spec_tf_config(const struct spec *s);

/* The kernel gives a program no variable of 32 pages or more. This is for the cluster in TF_CONFIG;
 * the rest is for what stands around it. */
enum { SPEC_TF_CONFIG_BYTES = 124 << 10 };

/* The resource limits of role as the document has them, and back: both owned, the object NULL where
 * there are none (or no memory). */
json_t *spec_limits_to_json(const struct spec_role *role);
_must_check_ int spec_limits_from_json(
	const json_t *limits, struct spec_rlimit **ret, size_t *ret_n, struct error *err);

/* The restart rules of role; the job's for NULL. Borrowed. */
const struct spec_restart *spec_restart_of(const struct spec *s, const struct spec_role *role);

/* Whether a failed task of role is started again by itself. One of on_failure fail_queue is not:
 * what it held is lost to all. */
bool spec_scope_task(const struct spec *s, const struct spec_role *role);

/* Whether a role leads, so that struct spec_leader means something. */
bool spec_has_leader(const struct spec *s);

/* Whether calls to all workers count on the tasks of role before they have asked for work: with
 * mode pool all but those that lead, that look on, and whose loss fails the queue; else those that
 * have something to do at first. */
bool spec_serves(const struct spec *s, const struct spec_role *role);

/* Sum of all roles' replicas, after spec_resolve(). */
int spec_world_size(const struct spec *s);

/* One line that names what runs, for people: the command of the first role. Returns owned. */
char *spec_command_line(const struct spec *s);

/* The command's program as torchelastic names it in its report: the script or module where an
 * interpreter runs one, else the binary. Returns borrowed until the spec is freed. */
const char *spec_entrypoint(const struct spec *s);

/* Checks a job's name: 1..64 of [A-Za-z0-9._-], not starting with '.' or '-', not ending in
 * ".latest". */
_must_check_ int spec_check_name(const char *name, struct error *err);
