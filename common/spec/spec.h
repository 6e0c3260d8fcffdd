/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The job specification: a JSON document (elasticd-job(5)) and its parsed form. Parsing refuses
 * unknown keys and wrong types by path, fills in defaults, and starts nothing. Durations are
 * milliseconds; SPEC_UNSET means "not given", which differs from an explicit 0.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/text/stdmap.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define SPEC_UNSET (-1)

/* Values of a role's replicas besides a positive count; spec_resolve() replaces them by one. */
enum {
	SPEC_REPLICAS_AUTO = -1,
	SPEC_REPLICAS_CPU = -2,
	SPEC_REPLICAS_GPU = -3,
	SPEC_REPLICAS_XPU = -4
};
/* The limit for one role, and for all together. */
enum { SPEC_REPLICAS_MAX = 4096 };

struct spec_rlimit {
	int resource; /* RLIMIT_* */
	rlim_t soft, hard;
};

/* The consequence of a failed worker of the role. */
enum spec_role_failure {
	SPEC_FAILURE_RESTART, /* as the restart rules say */
	SPEC_FAILURE_QUEUE,   /* as above, after the error has failed all queues */
};

struct spec_role {
	char *name;
	int replicas;
	char **command; /* argv, NULL-ended, at least one word */
	char ***args;	/* per replica: words appended to command, or NULL; n_args entries */
	size_t n_args;
	char **env;		 /* "NAME=value", NULL-ended, or NULL */
	char ***env_per_replica; /* the same per replica */
	size_t n_env_per_replica;
	char *cwd; /* NULL: the job's */
	struct spec_rlimit *limits;
	size_t n_limits;
	bool leader;	  /* its end ends the group (struct spec_leader); one role, one replica */
	bool recoverable; /* its loss is no error for the others */
	bool evaluator;	  /* outside TF_CONFIG's cluster, default barriers and alive sets; default:
			     true for a role named "evaluator" */
	struct spec_restart *restart; /* of this role; NULL: the job's */
	int64_t start_delay_ms;	      /* times the worker's index; 0: none */
	int64_t start_delay_max_ms;   /* SPEC_UNSET: no cap */
	char *init; /* what each process runs first in its loop of tasks; NULL: nothing */
	enum spec_role_failure on_failure;
};

enum spec_leader_exit { SPEC_LEADER_STOP, SPEC_LEADER_IGNORE };

/* The consequence of the leader's end for the other workers. */
struct spec_leader {
	enum spec_leader_exit on_exit;
	int64_t grace_ms; /* how long the others may go on; 3 s, SPEC_UNSET without a leader */
};

enum spec_heartbeat_action { SPEC_HEARTBEAT_RESTART, SPEC_HEARTBEAT_REPORT };

/* All time limits are SPEC_UNSET if not given: then nothing is watched. */
struct spec_heartbeat {
	int64_t period_ms;	  /* how often the agent reads the board */
	int64_t timeout_ms;	  /* without a new beat: one failure; unset: period */
	int failures;		  /* in a row, until the worker counts as hung; 3 with a period */
	int64_t start_timeout_ms; /* to the first beat */
	int64_t progress_timeout_ms; /* without a step() */
	int64_t log_timeout_ms;	     /* without a byte in the worker's logs */
	char *log_pattern;	     /* extended regular expression: lines that are progress */
	int64_t log_pattern_timeout_ms;
	char *progress_file; /* path (${rank}, ${local_rank}, ${role}, ${index}): a change of it is
				progress; relative to the worker's cwd */
	int64_t progress_file_timeout_ms;
	int64_t progress_start_timeout_ms; /* replaces the four above until the first progress;
					      unset: they apply */
	enum spec_heartbeat_action on_failure;
	int64_t dump_timeout_ms; /* to dump a worker that hangs, before it is stopped; 10 s
				  */
};

/* Steps per second of the workers, and which of them are slow. */
struct spec_speed {
	int64_t window_ms; /* over which speeds are compared; 60 s */
	int straggler;	   /* percent by which a worker is slower than the others; SPEC_UNSET: not
			      watched */
	char *pattern;	   /* extended regular expression: lines of the logs that are steps; its
			      first group is the step's number */
};

enum spec_notice {
	SPEC_NOTICE_SIGNAL = 1 << 0,
	SPEC_NOTICE_COMMAND = 1 << 1,
	SPEC_NOTICE_GCE = 1 << 2,
	SPEC_NOTICE_AWS = 1 << 3,
	SPEC_NOTICE_AZURE = 1 << 4,
	SPEC_NOTICE_LOGIND = 1 << 5,
	SPEC_NOTICE_CLOUD = 1 << 6, /* the cloud that this host was detected to be in */
};

enum spec_whom { SPEC_WHOM_GROUP, SPEC_WHOM_MAIN, SPEC_WHOM_ALL };

enum spec_preempt_how {
	SPEC_PREEMPT_AUTO,   /* ask workers that report steps, signal those that do not use the
				library */
	SPEC_PREEMPT_AGREE,  /* signal no worker */
	SPEC_PREEMPT_SIGNAL, /* signal all workers, ask none */
};

struct spec_preemption {
	unsigned notices; /* of enum spec_notice */
	int *signals;	  /* to the agent: a notice if SPEC_NOTICE_SIGNAL is set; 0-ended; TERM */
	char **command;	  /* NULL-ended, or NULL */
	int64_t poll_ms;
	int64_t grace_ms;   /* SPEC_UNSET: what the notice says, else 0 */
	int64_t timeout_ms; /* until the workers that are left are stopped, if there is no deadline;
			       10 min */
	enum spec_preempt_how how;
	int signal; /* 0: stop.signal */
	enum spec_whom whom;
	int exit_code; /* SPEC_UNSET: 42, or 143 on a GPU machine of GCE's */
	bool resume;
	bool whole; /* all hosts of a group leave on a notice of one */
};

enum spec_devices_assign {
	SPEC_DEVICES_STRIDE, /* worker i of the host's n gets devices i, i + n, ... */
	SPEC_DEVICES_BLOCK,  /* each gets a range of neighbours; the first ones one more if n does
				not divide */
	SPEC_DEVICES_ONE,    /* worker i gets device i */
	SPEC_DEVICES_ALL,    /* each worker gets all */
};

struct spec_devices {
	char **ids; /* NULL-ended; NULL: no devices are assigned */
	char *env;  /* the variable; CUDA_VISIBLE_DEVICES */
	enum spec_devices_assign assign;
};

struct spec_logs {
	char *dir; /* NULL: the program's default; "/dev/null": no files */
	struct std_map redirects;
	struct std_map tee;
	char *filter;		 /* local ranks shown on the console ("0,2-3"), NULL: all */
	char *prefix;		 /* a template of agent/logs/prefix.h; NULL: the default */
	char **duplicate_stdout; /* substrings, NULL-ended, or NULL */
	char **duplicate_stderr;
	bool merge; /* stderr into stdout.log */
	bool timestamps;
	int64_t max_size; /* bytes of a log file before it is rotated; 0: no rotation */
	int keep;	  /* closed files kept per stream, besides pinned head and tail */
	/* Limits for ended runs of elasticctl run in dir; 0: none; SPEC_UNSET: those of
	 * common/text/retention.h if dir is the default, else none. */
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

enum spec_restart_scope { SPEC_SCOPE_GROUP, SPEC_SCOPE_WORKER };

struct spec_restart {
	enum spec_restart_policy policy;
	enum spec_restart_scope
		scope; /* WORKER: restart only the failed worker, each with a budget of its own */
	int max;       /* restarts over the job's life; SPEC_UNSET: no limit beside the window */
	struct spec_max_by_cause {
		int exit, signal, heartbeat, agent_lost; /* SPEC_UNSET: no limit of its own */
	} max_by_cause;
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
	int dump_signal; /* 0: none; sent before the stop signal if a time limit ended the job */
	int *forward; /* signals that the agent passes to workers before it stops them, 0-ended */
};

/* Which CPUs a worker runs on: those near its GPU, or a part of all (common/affinity/). */
enum spec_affinity {
	SPEC_AFFINITY_NONE,
	SPEC_AFFINITY_NODE,
	SPEC_AFFINITY_SOCKET,
	SPEC_AFFINITY_EXCLUSIVE,
	SPEC_AFFINITY_CORE_COMPLEX,
};
extern const char *const spec_affinity_names[];

/* Core dumps of workers, which the agent keeps. */
struct spec_core_dumps {
	int64_t size; /* bytes; SPEC_UNSET: as the starter's limit is, and none is moved */
	int keep;     /* attempts of which a rank's are kept */
};

enum { SPEC_HEALTH_FAILURES_MAX = 16 };

/* A program that says before each attempt whether this host can take part. */
struct spec_health {
	char **command; /* NULL-ended; NULL: there is none */
	int64_t timeout_ms;
	int failures; /* as many within the window keep the host out for cooldown_ms */
	int64_t window_ms, cooldown_ms;
};

struct spec_resources {
	int64_t memory_max; /* bytes; SPEC_UNSET: none */
	int64_t cpu_weight; /* 1..10000; SPEC_UNSET */
	int64_t tasks_max;  /* SPEC_UNSET */
	struct spec_devices devices;
	enum spec_affinity affinity;
	struct spec_health health;
	struct spec_core_dumps core_dumps;
	int64_t gpu_free_timeout_ms; /* SPEC_UNSET: 10 s where there are GPUs of NVIDIA */
};

/* The work queue. */
struct spec_queue {
	int max;		     /* tasks waiting for a worker, in all queues; 0: no limit */
	int results;		     /* ended tasks that were not released; 0: no limit */
	int64_t memory;		     /* bytes of payloads and results; 0: no limit */
	int slots;		     /* tasks that one worker has at a time */
	int64_t cancel_grace_ms;     /* a worker that needs longer is killed */
	int64_t recovery_timeout_ms; /* how long work may wait without a worker to take it; 0: no
					limit */
	int blame_limit;	     /* retryable failures with one blame; 0: no limit */
	int64_t blame_window_ms;     /* SPEC_UNSET: the whole life */
	int deaths;	  /* of workers while they run one task, then the task fails; 0: no limit */
	bool durable;	  /* tasks outlive the agent */
	int64_t stall_ms; /* no task has ended though some run; SPEC_UNSET: off */
	int64_t call_timeout_ms, answer_timeout_ms;
	int exit_code;	       /* for coordinators whose work an on_failure fail_queue role lost;
				  SPEC_UNSET: none */
	int64_t loss_grace_ms; /* how long these coordinators may take to exit */
};

enum spec_mode {
	SPEC_MODE_GROUP,
	SPEC_MODE_POOL, /* workers stay and answer calls; if one dies, the pool is broken */
};

enum spec_rendezvous_backend {
	SPEC_RENDEZVOUS_LOCAL,	/* one host: there is no other one to meet */
	SPEC_RENDEZVOUS_STATIC, /* node rank 0 leads */
	SPEC_RENDEZVOUS_DIRECT, /* the host that can bind the endpoint leads */
	SPEC_RENDEZVOUS_ETCD,	/* the hosts elect one through etcd */
};

/* How a group of fewer than nodes_max takes in a host that comes while it runs. */
enum spec_on_join {
	SPEC_ON_JOIN_RESTART, /* all start again with it */
	SPEC_ON_JOIN_SAVE,    /* the same, after all have saved at one step */
	SPEC_ON_JOIN_WAIT,    /* it waits for the next attempt */
};

enum { SPEC_NODES_MAX = 16384, SPEC_QUARANTINE_MAX = 16 };

/* With nodes_max 1 only backend, id, master_addr and master_port have an effect. */
struct spec_rendezvous {
	/* As given, SPEC_UNSET if it is not; the end of spec_parse() puts the one that counts
	 * here. */
	enum spec_rendezvous_backend backend;
	int nodes_min, nodes_max; /* hosts */
	char *endpoints;   /* the head's "HOST" or "HOST:PORT" (common/text/endpoint.h), or NULL;
			      etcd: several, separated by commas, each perhaps with a scheme */
	int node_rank;	   /* below nodes_max; SPEC_UNSET: none was given */
	char *id;	   /* TORCHELASTIC_RUN_ID; NULL: the run's identifier */
	char *master_addr; /* static on several hosts: never NULL; else NULL: 127.0.0.1 on one
			      host, and on several an address of the host of rank 0 */
	int master_port;   /* 0: a free port, a new one for each attempt */
	struct spec_ports {
		int first, last;
	} master_ports; /* of which that is one; 0: no such limits */
	char *address;	/* under which other hosts reach this one: an address or a name, a
			   network ("10.1.0.0/16"), or an interface; NULL: the one of the link */
	int64_t join_timeout_ms, last_call_ms, prepare_timeout_ms, lease_ms, join_delay_ms;
	int64_t store_loss_ms;
	enum spec_on_join on_join;
	char *topology;	    /* where this host stands (common/text/topology.h), or NULL */
	int segment;	    /* hosts of a block; 1: there are none */
	int quarantine_max; /* faults within the time that keep a host out for as long; 0: none */
	int64_t quarantine_ms; /* after quarantine_max */
	bool never_leads;      /* this host is no head also where it could be one */
	char *token_file;
	char *tls_cert, *tls_key, *tls_ca;   /* of links: all three, or none; etcd: of etcd */
	char *user, *password_file, *prefix; /* of etcd; the first two together or NULL */
};

/* Programs that run beside the workers when something has happened. */
enum spec_hook {
	SPEC_HOOK_START,   /* all workers of the first attempt have started */
	SPEC_HOOK_FAILURE, /* an attempt has failed */
	SPEC_HOOK_RESTART, /* all workers of a later attempt have started */
	SPEC_HOOK_PREEMPTION,
	SPEC_HOOK_END,
	SPEC_N_HOOKS,
};
extern const char *const spec_hook_names[SPEC_N_HOOKS];

struct spec_hooks {
	char **commands[SPEC_N_HOOKS]; /* each NULL-ended, or NULL */
	int64_t timeout_ms;
};

/* When the job counts as ready, in each attempt; none is set: when it runs. At most one is. */
struct spec_ready {
	char *barrier;	    /* a barrier of this name was passed; NULL: not set */
	int port;	    /* a program listens there on 127.0.0.1; 0: not set */
	char *file;	    /* it was written in this attempt; NULL: not set */
	bool call;	    /* each worker of this host has called elasticd_ready() */
	int64_t timeout_ms; /* how long other jobs wait for this one */
};

struct spec {
	char *name;
	int64_t max_run_time_ms; /* SPEC_UNSET: none */
	char *cwd;		 /* NULL: the starter's */
	int umask;		 /* SPEC_UNSET: inherited */
	char *user;		 /* NULL: the starter */
	char *origin;		 /* for people: where it comes from; NULL: not known */
	char **after, **needs;	 /* names of jobs, for "elasticctl update"; NULL-ended, or NULL */
	struct spec_role *roles;
	size_t n_roles;
	struct spec_logs logs;
	struct spec_restart restart;
	struct spec_stop stop;
	struct spec_leader leader;
	struct spec_heartbeat heartbeat;
	struct spec_speed speed;
	struct spec_preemption preemption;
	struct spec_resources resources;
	struct spec_rendezvous rendezvous;
	struct spec_queue queue;
	struct spec_hooks hooks;
	struct spec_ready ready;
	enum spec_mode mode;
	int compat_tf_config;	 /* 0, 1, or SPEC_UNSET: if there are several roles */
	char *rpc_layer;	 /* of TF_CONFIG, NULL: left out */
	bool compat_torch;	 /* torchelastic's environment variables */
	bool virtual_local_rank; /* compat.virtual_local_rank */
	bool inherit_env;	 /* workers start from the agent's environment */
};

/* Parses and checks doc (borrowed). Returns an owned spec, or -EINVAL with err naming the path. */
_must_check_ int spec_parse(const json_t *doc, struct spec **ret, struct error *err);
/* Parses JSON text of len bytes; refuses duplicate keys, and names line and column of errors. */
_must_check_ int spec_parse_text(
	const char *text, size_t len, struct spec **ret, struct error *err);

/* All errors of a document that can be found at once; field is the path of a key. */
struct spec_problems {
	struct error *items;
	size_t n;
};
enum { SPEC_PROBLEMS_MAX = 64 };
void spec_problems_fini(struct spec_problems *p);

/* As spec_parse(), but goes on after an error: with -EINVAL ret_problems has at least one, to be
 * freed by spec_problems_fini(). Other errors are only in err. */
_must_check_ int spec_parse_all(const json_t *doc, struct spec **ret,
	struct spec_problems *ret_problems, struct error *err);

/* Finds all errors of a document that flags will complete: what several hosts lack to meet is none.
 * Returns as spec_parse_all(). */
_must_check_ int spec_check_part(
	const json_t *doc, struct spec_problems *ret_problems, struct error *err);

struct spec *spec_free(struct spec *s);
DEFINE_CLEANUP(struct spec *, spec_free)

/* The whole document with all defaults filled in: parsing it again gives the same. Returns owned,
 * or NULL without memory. */
json_t *spec_to_json(const struct spec *s);

/* Replaces auto, cpu, gpu and xpu replicas by counts for this host, and repeats the checks that
 * depend on them, such as a device for each worker with virtual_local_rank. */
_must_check_ int spec_resolve(struct spec *s, struct error *err);

/* The bit of a source of notices in enum spec_notice; 0 for NULL or a name that preemption.notices
 * does not know. */
unsigned spec_notice_bit(const char *name);

/* Sets the exit code of workers that leave on a notice of preemption, and makes it free in all
 * restart.codes that do not name it. -ENOMEM. */
_must_check_ int spec_set_exit_code(struct spec *s, int code);

/* If the specification names no such code, sets 143 on a GPU machine of Google Compute Engine.
 * dmi_dir as for platform_from_dmi(). -ENOMEM. */
_must_check_ int spec_host_exit_code(struct spec *s, const char *dmi_dir, bool gpu);

/* Whether the index-th worker of role gets devices: there are some, and neither the role nor the
 * replica sets their variable itself. */
bool spec_wants_device(const struct spec *s, const struct spec_role *role, int index);

/* Whether workers get TF_CONFIG. */
bool spec_tf_config(const struct spec *s);

/* The kernel limits a variable to 32 pages. This is the part for the cluster in TF_CONFIG; the rest
 * is for the text around it. */
enum { SPEC_TF_CONFIG_BYTES = 124 << 10 };

/* Writes the resource limits of role as in the document, or reads them. Both results are owned; the
 * object is NULL if there are none (or no memory). */
json_t *spec_limits_to_json(const struct spec_role *role);
_must_check_ int spec_limits_from_json(
	const json_t *limits, struct spec_rlimit **ret, size_t *ret_n, struct error *err);

/* The restart rules of role; the job's for NULL. Borrowed. */
const struct spec_restart *spec_restart_of(const struct spec *s, const struct spec_role *role);

/* Whether the agent restarts a failed worker of role alone. Not with on_failure fail_queue, whose
 * loss concerns all. */
bool spec_scope_worker(const struct spec *s, const struct spec_role *role);

/* Whether a role is the leader, so that struct spec_leader applies. */
bool spec_has_leader(const struct spec *s);

/* Whether calls to all workers include role's even before they have asked for work. With mode pool:
 * all but leaders, evaluators and roles with fail_queue; else: roles with init. */
bool spec_serves(const struct spec *s, const struct spec_role *role);

/* Sum of all roles' replicas, after spec_resolve(). */
int spec_world_size(const struct spec *s);

/* One line for people that says what runs: the command of the first role. Returns owned. */
char *spec_command_line(const struct spec *s);

/* The program's name in torchelastic's report: the script or module if an interpreter runs one,
 * else the binary. Returns borrowed until the spec is freed. */
const char *spec_entrypoint(const struct spec *s);

/* Reads "N" or "MIN:MAX", numbers of hosts as in rendezvous.nodes. 0, or -EINVAL. */
#define SPEC_NODES_EXPECTED "\"N\" or \"MIN:MAX\" with 1 <= MIN <= MAX <= 16384"
_must_check_ int spec_nodes_parse(const char *text, int *ret_min, int *ret_max);

/* Where the head's links are, on several hosts: the endpoint, or with "static" the master's address
 * and a port beside its own. Returns 0 and an owned ret, NULL in it for etcd, where it is the one
 * of the host that leads; or -ENOMEM. */
_must_check_ int spec_rendezvous_endpoint(
	const struct spec_rendezvous *r, char **ret, struct error *err);

/* Checks a job's name: 1..64 of [A-Za-z0-9._-], not starting with '.' or '-', not ending in
 * ".latest". */
_must_check_ int spec_check_name(const char *name, struct error *err);
