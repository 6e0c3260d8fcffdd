/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The flags of "run" and "start", one row each, and what the files of this room share. The row
 * drives parsing, PET_* variables, help, completion and the test that the manual page has all
 * flags.
 */

#include "client/launch/launch.h"
#include "client/launch/slurm.h"

/* X(id, name, letter, value, words, flags, group, apply, help) */
#define LAUNCH_OPTIONS(X)                                                                          \
	X(NNODES, "nnodes", 0, "N|MIN:MAX|auto", "auto", PET, GROUP_SIZE, launch_nnodes,           \
		"number of hosts (1); auto: those of the step of Slurm")                           \
	X(NPROC, "nproc-per-node", 0, "N|auto|cpu|gpu|xpu", "auto cpu gpu xpu", PET, GROUP_SIZE,   \
		launch_nproc, "workers on this host (1)")                                          \
	X(STANDALONE, "standalone", 0, NULL, NULL, PET, GROUP_RENDEZVOUS, launch_nothing,          \
		"one host, address and port of its own")                                           \
	X(RDZV_BACKEND, "rdzv-backend", 0, "NAME", "c10d direct static", PET, GROUP_RENDEZVOUS,    \
		launch_rdzv_backend, "how several hosts meet: direct (c10d) or static")            \
	X(RDZV_ENDPOINT, "rdzv-endpoint", 0, "HOST[:PORT]", NULL, PET, GROUP_RENDEZVOUS,           \
		launch_rdzv_endpoint, "where hosts meet (port 29400)")                             \
	X(RDZV_ID, "rdzv-id", 0, "ID", NULL, PET, GROUP_RENDEZVOUS, launch_nothing,                \
		"TORCHELASTIC_RUN_ID, and the name of a group of several hosts")                   \
	X(RDZV_CONF, "rdzv-conf", 0, "KEY=VALUE,...", NULL, PET, GROUP_RENDEZVOUS,                 \
		launch_rdzv_conf, "timeouts of several hosts, by torchrun's names")                \
	X(MASTER_ADDR, "master-addr", 0, "ADDRESS", NULL, PET, GROUP_RENDEZVOUS, launch_nothing,   \
		"MASTER_ADDR of the static backend (127.0.0.1)")                                   \
	X(MASTER_PORT, "master-port", 0, "PORT", NULL, PET, GROUP_RENDEZVOUS, launch_master_port,  \
		"MASTER_PORT of the static backend (a free one)")                                  \
	X(LOCAL_ADDR, "local-addr", 0, "ADDRESS", NULL, PET, GROUP_RENDEZVOUS, launch_nothing,     \
		"how other hosts reach this one; on one host MASTER_ADDR")                         \
	X(NODE_RANK, "node-rank", 0, "N", NULL, PET, GROUP_RENDEZVOUS, launch_nothing,             \
		"rank of this host")                                                               \
	X(MODULE, "module", 'm', NULL, NULL, PET, GROUP_PROGRAM, launch_nothing,                   \
		"PROGRAM is a Python module")                                                      \
	X(NO_PYTHON, "no-python", 0, NULL, NULL, PET, GROUP_PROGRAM, launch_nothing,               \
		"execute PROGRAM itself also if it ends in .py")                                   \
	X(RUN_PATH, "run-path", 0, NULL, NULL, PET, GROUP_PROGRAM, launch_nothing,                 \
		"PROGRAM is a Python script whatever its name")                                    \
	X(ROLE, "role", 0, "NAME", NULL, PET, GROUP_PROGRAM, launch_role,                          \
		"what the workers are called (default)")                                           \
	X(VIRTUAL_LOCAL_RANK, "virtual-local-rank", 0, NULL, NULL, PET, GROUP_PROGRAM,             \
		launch_true, "LOCAL_RANK 0 and one CUDA device for each worker")                   \
	X(NUMA_BINDING, "numa-binding", 0, "KIND", "node socket exclusive core-complex", 0,        \
		GROUP_PROGRAM, launch_numa_binding,                                                \
		"bind workers to CPUs near their GPU, or to parts")                                \
	X(ENV, "env", 0, "NAME[=VALUE]", NULL, 0, GROUP_PROGRAM, launch_nothing,                   \
		"set a variable for the workers; may be repeated")                                 \
	X(CWD, "cwd", 0, "DIR", "@dir", 0, GROUP_PROGRAM, launch_dir,                              \
		"directory in which the workers start")                                            \
	X(LOG_DIR, "log-dir", 0, "DIR", "@dir", PET, GROUP_LOGS, launch_dir,                       \
		"where runs have their logs; /dev/null: none")                                     \
	X(REDIRECTS, "redirects", 'r', "N|RANK:N,...", "0 1 2 3", PET, GROUP_LOGS, launch_streams, \
		"streams to files: 0, 1 (stdout), 2 (stderr), 3 (both)")                           \
	X(TEE, "tee", 't', "N|RANK:N,...", "0 1 2 3", PET, GROUP_LOGS, launch_streams,             \
		"streams to files and the console")                                                \
	X(LOCAL_RANKS_FILTER, "local-ranks-filter", 0, "RANKS", NULL, PET, GROUP_LOGS,             \
		launch_ranks_filter, "ranks shown on the console (all)")                           \
	X(DUPLICATE_STDOUT, "duplicate-stdout-filters", 0, "TEXT,...", NULL, PET, GROUP_LOGS,      \
		launch_duplicate, "copy matching lines of stdout; ,, is a comma")                  \
	X(DUPLICATE_STDERR, "duplicate-stderr-filters", 0, "TEXT,...", NULL, PET, GROUP_LOGS,      \
		launch_duplicate, "copy matching lines of stderr")                                 \
	X(PREFIX, "prefix", 0, "TEXT", NULL, 0, GROUP_LOGS, launch_text,                           \
		"before each line: ${role}, ${rank}, ${local_rank}, ${host}")                      \
	X(MERGE, "merge", 0, NULL, NULL, 0, GROUP_LOGS, launch_true, "stderr into stdout.log")     \
	X(TIMESTAMPS, "timestamps", 0, NULL, NULL, 0, GROUP_LOGS, launch_true,                     \
		"store the time of each line")                                                     \
	X(MAX_SIZE, "max-size", 0, "SIZE", NULL, 0, GROUP_LOGS, launch_size,                       \
		"rotate log files at this size (never)")                                           \
	X(KEEP_RUNS, "keep-runs", 0, "N", NULL, 0, GROUP_LOGS, launch_count,                       \
		"ended runs whose logs are kept")                                                  \
	X(KEEP_DAYS, "keep-days", 0, "N", NULL, 0, GROUP_LOGS, launch_count,                       \
		"... for so many days (30 in the default directory)")                              \
	X(KEEP_BYTES, "keep-bytes", 0, "SIZE", NULL, 0, GROUP_LOGS, launch_size,                   \
		"... within this size (10G in the default directory)")                             \
	X(LOGS_SPECS, "logs-specs", 0, "NAME", NULL, 0, GROUP_REFUSED, launch_logs_specs,          \
		"refused: a Python plug-in")                                                       \
	X(MAX_RESTARTS, "max-restarts", 0, "N", NULL, PET, GROUP_FAILURES, launch_count,           \
		"restarts of the group over its life (0)")                                         \
	X(RESTART_POLICY, "restart-policy", 0, "POLICY", "on-failure always never", 0,             \
		GROUP_FAILURES, launch_text, "on-failure, always or never")                        \
	X(BACKOFF, "backoff", 0, "TIME", NULL, 0, GROUP_FAILURES, launch_duration,                 \
		"wait before the first restart, doubled for each other (0)")                       \
	X(MAX_RUN_TIME, "max-run-time", 0, "TIME", NULL, 0, GROUP_FAILURES, launch_duration,       \
		"end the job after this time (never)")                                             \
	X(SHUTDOWN_TIMEOUT, "shutdown-timeout", 0, "SECONDS", NULL, PET, GROUP_FAILURES,           \
		launch_duration, "from the stop signal to SIGKILL (30)")                           \
	X(STOP_SIGNAL, "stop-signal", 0, "SIGNAL", "TERM INT QUIT USR1 USR2", 0, GROUP_FAILURES,   \
		launch_stop_signal, "what stops a worker (TERM)")                                  \
	X(SIGNALS_TO_HANDLE, "signals-to-handle", 0, "SIGNAL,...", NULL, PET, GROUP_FAILURES,      \
		launch_signals_to_handle, "handed on to workers (SIGTERM,SIGINT,SIGHUP,SIGQUIT)")  \
	X(SPEC, "spec", 0, "FILE", "@file", 0, GROUP_JOB, launch_nothing,                          \
		"job file in YAML or JSON; flags override it")                                     \
	X(NAME, "name", 0, "NAME", NULL, 0, GROUP_JOB, launch_text, "what the job is called")      \
	X(DRY_RUN, "dry-run", 0, NULL, NULL, 0, GROUP_JOB, launch_nothing,                         \
		"print the specification and run nothing")                                         \
	X(MONITOR_INTERVAL, "monitor-interval", 0, "SECONDS", NULL, PET, GROUP_NO_EFFECT,          \
		launch_monitor_interval, "exits are seen at once")                                 \
	X(START_METHOD, "start-method", 0, "METHOD", "spawn fork forkserver", PET,                 \
		GROUP_NO_EFFECT, launch_start_method, "of Python functions")                       \
	X(EVENT_LOG_HANDLER, "event-log-handler", 0, "NAME", "null console", PET, GROUP_NO_EFFECT, \
		launch_nothing, "events are in events.jsonl")

enum launch_id {
#define X(id, ...) OPT_##id,
	LAUNCH_OPTIONS(X)
#undef X
		OPT_COUNT
};

enum launch_flags { PET = 1 }; /* has a PET_ variable */

enum launch_group {
	GROUP_JOB,
	GROUP_SIZE,
	GROUP_PROGRAM,
	GROUP_LOGS,
	GROUP_FAILURES,
	GROUP_RENDEZVOUS,
	GROUP_NO_EFFECT,
	GROUP_REFUSED,
	GROUP_COUNT
};

/* The options as given, and the document that they make. */
struct launch_state {
	const struct launch_from *from;
	struct error *err;
	const char *values[OPT_COUNT]; /* borrowed; "" for a flag, NULL where not given */
	bool from_env[OPT_COUNT];
	const char **env; /* the values of all --env */
	size_t n_env;
	char **command; /* the program and its arguments, borrowed */
	int n_command;
	bool from_file;
	struct slurm_step step; /* of --nnodes=auto; 0 hosts without that */
	json_t *doc;
	char **warnings;
	size_t n_warnings;
	char **problems; /* of the job file */
};

typedef int (*launch_apply_fn)(struct launch_state *s, enum launch_id id, const char *value);

struct launch_row {
	launch_apply_fn apply;
	int flags;
	enum launch_group group;
};
extern const struct launch_row launch_rows[OPT_COUNT];

#define X(id, name, letter, value, words, flags, group, apply, help) \
	int apply(struct launch_state *s, enum launch_id id, const char *text);
LAUNCH_OPTIONS(X)
#undef X

/* set.c */

/* "--nnodes" or "PET_NNODES", as it was given. Returns buf. */
const char *launch_origin(
	const struct launch_state *s, enum launch_id id, char buf[LAUNCH_PET_MAX]);
/* Fails with "<origin>: <text>"; returns -EINVAL. */
int launch_refuse(const struct launch_state *s, enum launch_id id, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Fails with "<origin>: expected <expected>, got <value>"; returns -EINVAL. */
int launch_expected(
	const struct launch_state *s, enum launch_id id, const char *expected, const char *value);
int launch_no_memory(const struct launch_state *s);
int launch_warn(struct launch_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A JSON string of text; NULL after an error if it is not UTF-8. */
json_t *launch_text_json(const struct launch_state *s, enum launch_id id, const char *text);
/* Sets section.key of the document, or key if section is NULL. Takes value; NULL means an error
 * that was reported already. */
int launch_set(struct launch_state *s, const char *section, const char *key, json_t *value);
/* The only role (borrowed); NULL after an error for id if there are several. */
json_t *launch_role_object(const struct launch_state *s, enum launch_id id);
/* The absolute path of path below dir (NULL: the current directory). Returns owned, or NULL. */
char *launch_absolute(const char *dir, const char *path);

/* rendezvous.c: sets where hosts meet, when all flags were read. */
int launch_rendezvous(struct launch_state *s);
/* conf.c: sets what --rdzv-conf says for so many hosts. */
int launch_conf(struct launch_state *s, int hosts);
/* auto.c: reads how many hosts there are from a step of Slurm, or from PMI or Open MPI. */
int launch_auto(struct launch_state *s);
/* Adds what else these say, where neither a flag nor the job file has set it. */
int launch_auto_complete(struct launch_state *s);

/* command.c: what several flags decide together: the command, variables, prefix. */
int launch_finish(struct launch_state *s);
