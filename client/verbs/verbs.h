/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verbs of elasticctl, one row each. The row drives dispatch, the check of arguments, help,
 * shell completion, and the tests that compare the manual page.
 */

#include "client/base/verb.h"

/* X(name, function, options, least arguments, most, synopsis, words, flags, help) */
#define VERBS(X)                                                                                   \
	X(run, cmd_run, NULL, 0, MANY, "[OPTION...] [--] PROGRAM [ARGUMENT...]", WORDS_COMMAND,    \
		VERB_VERDICT | VERB_COMMAND | VERB_HERE,                                           \
		"Run a group of workers in the foreground")                                        \
	X(start, cmd_start, start_options, 0, MANY, "[OPTION...] [--] PROGRAM [ARGUMENT...]",      \
		WORDS_COMMAND, VERB_DAEMON | VERB_COMMAND, "Start a job under elasticd")           \
	X(stop, cmd_stop, stop_options, 0, MANY, "[JOB[/WORKERS]...]", WORDS_WORKERS,              \
		VERB_DAEMON | VERB_ENDS, "Stop jobs, or some of their workers, in an orderly way") \
	X(restart, cmd_restart, restart_options, 0, MANY, "[JOB[/WORKERS]...]", WORDS_ANY_WORKERS, \
		VERB_DAEMON | VERB_ENDS,                                                           \
		"Restart jobs or some of their workers, or start ended jobs again")                \
	X(leave, cmd_leave, leave_options, 1, 1, "JOB", WORDS_ACTIVE, VERB_DAEMON | VERB_ENDS,     \
		"Have this host leave its group, which goes on without it")                        \
	X(drain, cmd_drain, drain_options, 2, 2, "JOB HOST", WORDS_ACTIVE,                         \
		VERB_DAEMON | VERB_ENDS, "Have any host leave its group")                          \
	X(preempt, cmd_preempt, preempt_options, 0, MANY, "[JOB...]", WORDS_ACTIVE,                \
		VERB_DAEMON | VERB_ENDS, "Give jobs notice, so that they save and leave")          \
	X(kill, cmd_kill, kill_options, 1, 1, "JOB[/WORKERS]", WORDS_WORKERS,                      \
		VERB_DAEMON | VERB_ENDS, "Send a signal to workers")                               \
	X(add, cmd_add, NULL, 1, MANY, "JOB/ROLE[:INDEX] [-- PROGRAM [ARGUMENT...]]",              \
		WORDS_WORKERS, VERB_DAEMON, "Start a stopped worker, or one more of a role")       \
	X(attach, cmd_attach, attach_options, 1, MANY,                                             \
		"JOB/ROLE:INDEX [-- PROGRAM [ARGUMENT...]]", WORDS_WORKERS,                        \
		VERB_DAEMON | VERB_VERDICT | VERB_PROGRAM | VERB_HERE,                             \
		"Run one worker in this terminal")                                                 \
	X(scale, cmd_scale, scale_options, 2, 2, "JOB[/ROLE] REPLICAS", WORDS_ACTIVE,              \
		VERB_DAEMON | VERB_ENDS, "Change the number of workers")                           \
	X(status, cmd_status, status_options, 0, MANY, "[JOB[/WORKERS]...]", WORDS_ANY_WORKERS,    \
		VERB_DAEMON, "Show jobs and their workers")                                        \
	X(top, cmd_top, top_options, 0, MANY, "[JOB...]", WORDS_ACTIVE, VERB_DAEMON,               \
		"Watch jobs and workers: CPU, memory, steps, last lines")                          \
	X(list, cmd_list, list_options, 0, 0, "", WORDS_NONE, VERB_DAEMON, "List jobs")            \
	X(logs, cmd_logs, logs_options, 1, 1, "JOB[/WORKERS]", WORDS_ANY_WORKERS,                  \
		VERB_DAEMON | VERB_PAGED, "Show what workers wrote")                               \
	X(results, cmd_results, NULL, 1, 1, "JOB", WORDS_JOBS, VERB_DAEMON,                        \
		"Show what workers gave as their results")                                         \
	X(dump, cmd_dump, NULL, 1, 1, "JOB[/WORKERS]", WORDS_WORKERS, VERB_DAEMON,                 \
		"Write down stacks, sockets and last lines of workers that may hang")              \
	X(errors, cmd_errors, errors_options, 1, 1, "JOB", WORDS_JOBS, VERB_DAEMON | VERB_PAGED,   \
		"Show what failed, the root cause first")                                          \
	X(why, cmd_why, NULL, 1, 1, "JOB", WORDS_JOBS, VERB_DAEMON | VERB_PAGED,                   \
		"Explain the restarts of a job and what is left of its budget")                    \
	X(wait, cmd_wait, wait_options, 0, MANY, "[JOB...]", WORDS_ACTIVE,                         \
		VERB_DAEMON | VERB_VERDICT, "Wait until jobs end, and exit as they did")           \
	X(task, cmd_task, NULL, 1, MANY, "VERB [ARGUMENT...]", WORDS_TASK_VERBS, VERB_GROUP,       \
		"Submit work to the queue of a job, fetch what came of it, or do it")              \
	X(call, cmd_call, call_options, 0, 2, "[JOB] [PAYLOAD]", WORDS_ACTIVE, VERB_DAEMON,        \
		"Call all workers of a job that take work, and print their answers")               \
	X(events, cmd_events, events_options, 0, 1, "[JOB]", WORDS_JOBS, VERB_DAEMON | VERB_PAGED, \
		"Show what happened")                                                              \
	X(history, cmd_history, history_options, 0, 1, "[JOB]", WORDS_JOBS,                        \
		VERB_DAEMON | VERB_PAGED, "List runs that have ended, the newest first")           \
	X(diff, cmd_diff, NULL, 2, 2, "JOB|FILE JOB|FILE", WORDS_RUNS, VERB_DAEMON | VERB_PAGED,   \
		"Compare the specifications of two runs or job files")                             \
	X(plot, cmd_plot, plot_options, 1, MANY, "JOB|PATH...", WORDS_RUNS, VERB_DAEMON,           \
		"Draw a run as a picture")                                                         \
	X(validate, cmd_validate, NULL, 1, MANY, "FILE...", WORDS_FILES, VERB_HERE,                \
		"Check job files")                                                                 \
	X(import, cmd_import, import_options, 1, 1, "FILE", WORDS_FILES, VERB_HERE,                \
		"Make job files of the programs in supervisord's configuration")                   \
	X(update, cmd_update, update_options, 0, MANY, "[JOB...]", WORDS_JOBS,                     \
		VERB_DAEMON | VERB_HERE,                                                           \
		"Start, restart and stop jobs so that they are as the files of jobs.d say")        \
	X(enable, cmd_enable, enable_options, 1, MANY, "JOB...", WORDS_JOBS,                       \
		VERB_DAEMON | VERB_HERE, "Have a file of jobs.d count again")                      \
	X(disable, cmd_disable, enable_options, 1, MANY, "JOB...", WORDS_JOBS,                     \
		VERB_DAEMON | VERB_HERE, "Have a file of jobs.d not count any more")               \
	X(rm, cmd_rm, rm_options, 0, MANY, "[JOB...]", WORDS_JOBS, VERB_DAEMON | VERB_ENDS,        \
		"Forget jobs that have ended")                                                     \
	X(doctor, cmd_doctor, NULL, 0, MANY, "[OPTION...] [[--] PROGRAM [ARGUMENT...]]",           \
		WORDS_COMMAND, VERB_COMMAND | VERB_HERE,                                           \
		"Look for what would keep groups from working on this host, or on several")        \
	X(platform, cmd_platform, NULL, 0, 0, "", WORDS_NONE, 0,                                   \
		"Show where this host is and what announces its end")                              \
	X(ping, cmd_ping, NULL, 0, 0, "", WORDS_NONE, VERB_DAEMON, "Check that elasticd answers")  \
	X(version, cmd_version, NULL, 0, 0, "", WORDS_NONE, 0,                                     \
		"Show the versions of elasticctl and elasticd")                                    \
	X(shutdown, cmd_shutdown, shutdown_options, 0, 0, "", WORDS_NONE, VERB_DAEMON | VERB_ENDS, \
		"End elasticd")                                                                    \
	X(completion, cmd_completion, NULL, 1, 1, "SHELL", WORDS_SHELLS, VERB_HERE,                \
		"Print the completion script of bash, zsh or fish")                                \
	X(help, cmd_help, NULL, 0, 2, "[VERB [VERB]]", WORDS_VERBS, VERB_PAGED,                    \
		"Explain elasticctl or a verb")                                                    \
	X(__complete, cmd_complete, NULL, 1, MANY, "KIND [WORD]", WORDS_NONE, VERB_HIDDEN,         \
		"List words for completion scripts")                                               \
	X(__bridge, cmd_bridge, NULL, 0, 0, "", WORDS_NONE, VERB_DAEMON | VERB_HIDDEN | VERB_HERE, \
		"Connect standard input and output with elasticd, for --host")

/* As VERBS, for verbs after "task". In a worker JOB can be left out or "-". */
#define TASK_VERBS(X)                                                                          \
	X(submit, cmd_task_submit, task_submit_options, 0, MANY, "[JOB] [PAYLOAD...]",         \
		WORDS_ACTIVE, VERB_DAEMON, "Submit tasks, and print their numbers")            \
	X(fetch, cmd_task_fetch, task_fetch_options, 0, MANY, "[JOB] NUMBER...", WORDS_ACTIVE, \
		VERB_DAEMON, "Wait for tasks, and print what came of them")                    \
	X(join, cmd_task_join, task_queue_options, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON,   \
		"Wait until nothing is queued or runs")                                        \
	X(done, cmd_task_done, task_queue_options, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON,   \
		"Exit with 0 when nothing is queued or runs, else with 1")                     \
	X(cancel, cmd_task_cancel, task_cancel_options, 0, MANY, "[JOB] [NUMBER...]",          \
		WORDS_ACTIVE, VERB_DAEMON | VERB_ENDS, "Cancel tasks, or all of a queue")      \
	X(list, cmd_task_list, task_list_options, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON,    \
		"List tasks")                                                                  \
	X(stats, cmd_task_stats, task_stats_options, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON, \
		"Count tasks by their states")                                                 \
	X(release, cmd_task_release, NULL, 2, MANY, "JOB NUMBER...", WORDS_ACTIVE,             \
		VERB_DAEMON | VERB_ENDS, "Forget tasks and what came of them")                 \
	X(close, cmd_task_close, NULL, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON | VERB_ENDS,   \
		"Take no more tasks, and let the workers leave when all are over")             \
	X(resource, cmd_task_resource, task_resource_options, 3, 4,                            \
		"create|drop JOB NAME [PAYLOAD]", WORDS_CREATE_DROP, VERB_DAEMON,              \
		"Create or drop what each worker builds before its tasks")                     \
	X(resources, cmd_task_resources, NULL, 0, 1, "[JOB]", WORDS_ACTIVE, VERB_DAEMON,       \
		"List resources and where they are ready")                                     \
	X(work, cmd_task_work, task_work_options, 1, MANY, "[--] PROGRAM [ARGUMENT...]",       \
		WORDS_COMMAND, VERB_WORDS | VERB_HERE, "In a worker: run a program for each task")

/* End with a NULL name. */
extern const struct verb verbs[];
extern const struct verb task_verbs[];

/* The verbs of a VERB_GROUP; NULL for other verbs. */
const struct verb *verb_group(const struct verb *v);

/* Options that every verb takes. */
extern const struct arg_option global_options[];

/* Searches a table; NULL if the verb is not there. */
const struct verb *verb_find(const struct verb *table, const char *name);

#define X(name, function, ...) int function(struct ctl *ctl, struct args *args);
VERBS(X)
TASK_VERBS(X)
#undef X
