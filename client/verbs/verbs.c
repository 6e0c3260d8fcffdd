/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/verbs.h"

#include <string.h>

const struct arg_option global_options[] = {
	{ "socket", "PATH", "socket of elasticd", "@file", 0 },
	{ "host", "HOST", "ask the elasticd of another host, through ssh (USER@HOST)", NULL, 0 },
	{ "trust-uid", "UID", "user that the elasticd of --socket may run as", NULL, 0 },
	{ "timeout", "DURATION", "give up after this long, with exit status 124", NULL, 0 },
	{ "json", NULL, "print JSON: one document, or one a line for streams", NULL, 0 },
	{ "color", "WHEN", "auto, always or never", "auto always never", 0 },
	{ "no-legend", NULL, "leave the titles of tables out", NULL, 0 },
	{ "no-pager", NULL, "write long output to the terminal itself", NULL, 0 },
	{ "quiet", NULL, "say nothing but errors and what was asked for", NULL, 'q' },
	{ "version", NULL, "print the version of elasticctl", NULL, 0 },
	{ "help", NULL, "explain elasticctl or the verb", NULL, 'h' },
	{ NULL },
};

static const struct arg_option start_options[] = {
	{ "follow", NULL, "show what the workers write until the run ends, and exit as it did",
		NULL, 0 },
	{ "wait", NULL, "wait until the run ends, and exit as it did", NULL, 0 },
	{ "wait-ready", NULL, "wait until the job is ready; 1 if it ends before, 124 if it is late",
		NULL, 0 },
	{ "no-wait", NULL, "do not wait until the workers run", NULL, 0 },
	{ "export", "WHAT",
		"of the environment: ALL, NONE, or NAME,NAME=VALUE,... (PATH and few others)",
		"ALL NONE", 0 },
	{ NULL },
};

/* Used in place of names of jobs. */
#define ALL_OPTION(text)                     \
	{                                    \
		"all", NULL, text, NULL, 'a' \
	}

static const struct arg_option stop_options[] = {
	ALL_OPTION("all jobs that are active"),
	{ "grace", "DURATION", "kill after this long, instead of the job's stop.timeout", NULL, 0 },
	{ "no-wait", NULL, "do not wait until jobs have ended", NULL, 0 },
	{ NULL },
};

static const struct arg_option leave_options[] = {
	{ "no-wait", NULL, "do not wait until this host has left", NULL, 0 },
	{ NULL },
};

static const struct arg_option drain_options[] = {
	{ "undo", NULL, "let back a host that the group keeps out", NULL, 0 },
	{ NULL },
};

static const struct arg_option restart_options[] = {
	ALL_OPTION("all jobs that are active"),
	{ "no-wait", NULL, "do not wait until jobs run again", NULL, 0 },
	{ NULL },
};

static const struct arg_option attach_options[] = {
	{ "replace", NULL, "stop the worker first if it runs", NULL, 0 },
	{ "detached-exit", "WHAT",
		"how the program ends counts as the worker's end (count), or is "
		"as if a person had stopped it (ignore)",
		"count ignore", 0 },
	{ NULL },
};

static const struct arg_option preempt_options[] = {
	{ "all", NULL, "all jobs that you control", NULL, 'a' },
	{ "grace", "DURATION", "how long their machine will still be there (0: save and leave)",
		NULL, 0 },
	{ "reason", "TEXT", "for people", NULL, 0 },
	{ "wait", NULL, "wait until they have ended", NULL, 0 },
	{ NULL },
};

static const struct arg_option kill_options[] = {
	{ "signal", "SIGNAL", "name or number (default: TERM)",
		"TERM INT HUP QUIT KILL USR1 USR2 STOP CONT ABRT WINCH", 's' },
	{ "whom", "WHOM",
		"group: each worker's process group, main: its process, all: all it started",
		"group main all", 0 },
	{ "rank", "RANKS", "only these ranks (0,3-7)", NULL, 0 },
	{ NULL },
};

static const struct arg_option scale_options[] = {
	{ "no-wait", NULL, "do not wait until the new group runs", NULL, 0 },
	{ NULL },
};

static const struct arg_option status_options[] = {
	{ "full", NULL, "show whole lines, wider than the terminal", NULL, 'l' },
	{ "watch", NULL, "show it again after each change, until the run has ended", NULL, 'w' },
	{ NULL },
};

static const struct arg_option list_options[] = {
	{ "all", NULL, "also jobs that have ended", NULL, 'a' },
	{ NULL },
};

static const struct arg_option logs_options[] = {
	{ "follow", NULL, "go on until the run ends, over restarts", NULL, 'f' },
	{ "lines", "N", "only the last N lines of each file", NULL, 'n' },
	{ "rank", "RANKS", "only these ranks (0,3-7)", NULL, 0 },
	{ "stream", "STREAM", "out, err, or out,err", "out err out,err", 0 },
	{ "attempt", "K", "of attempt K instead of the newest", NULL, 0 },
	{ "since", "TIME", "only lines written after TIME, or this long ago (10m)", NULL, 0 },
	{ "until", "TIME", "only lines written before TIME", NULL, 0 },
	{ "grep", "TEXT", "only lines that contain TEXT", NULL, 'g' },
	{ "timestamps", "FORMAT", "iso, relative (to the start of the job) or none",
		"iso relative none", 0 },
	{ "no-prefix", NULL, "leave the prefix [role:rank] out", NULL, 0 },
	{ "raw", NULL, "only the bytes that the workers wrote", NULL, 0 },
	{ NULL },
};

static const struct arg_option errors_options[] = {
	{ "attempt", "K", "of attempt K instead of the newest that has any", NULL, 0 },
	{ NULL },
};

static const struct arg_option wait_options[] = {
	ALL_OPTION("all jobs that are active"),
	{ "until", "STATE", "running, ready or ended (default)", "running ready ended", 0 },
	{ "kill", NULL, "end the run after --timeout, and report it as usual", NULL, 0 },
	{ NULL },
};

static const struct arg_option update_options[] = {
	{ "dir", "DIRECTORY", "of the files, instead of jobs.d beside elasticd.conf", "@dir", 0 },
	{ "dry-run", NULL, "only show what would be done", NULL, 0 },
	{ "boot", NULL, "as after a boot: start again what has ended without success", NULL, 0 },
	{ NULL },
};

static const struct arg_option import_options[] = {
	{ "dir", "DIRECTORY", "write a file for each job there, instead of printing them", "@dir",
		0 },
	{ NULL },
};

static const struct arg_option enable_options[] = {
	{ "dir", "DIRECTORY", "of the files, instead of jobs.d beside elasticd.conf", "@dir", 0 },
	{ "now", NULL, "also start or stop it", NULL, 0 },
	{ NULL },
};

static const struct arg_option events_options[] = {
	{ "follow", NULL, "go on as events happen", NULL, 'f' },
	{ "since", "SEQ|TIME",
		"only events after this number, or since TIME (10m: ten minutes ago)", NULL, 0 },
	{ NULL },
};

static const struct arg_option history_options[] = {
	{ "failed", NULL, "only runs that failed, timed out, or lost their agent", NULL, 0 },
	{ "lines", "N", "only the newest N", NULL, 'n' },
	{ "since", "TIME", "only runs that ended since TIME, or this long ago (2d)", NULL, 0 },
	{ NULL },
};

static const struct arg_option plot_options[] = {
	{ "html", NULL, "write a page that zooms, for a browser, instead of SVG", NULL, 0 },
	{ NULL },
};

static const struct arg_option top_options[] = {
	{ "once", NULL, "print the table once, as where standard output is no terminal", NULL, 0 },
	{ NULL },
};

static const struct arg_option rm_options[] = {
	ALL_OPTION("all runs that have ended"),
	{ "logs", NULL, "remove their log directories too", NULL, 0 },
	{ "older-than", "DURATION", "all runs that ended longer ago than this, such as 7d", NULL,
		0 },
	{ NULL },
};

static const struct arg_option shutdown_options[] = {
	{ "stop-jobs", NULL, "stop all jobs first", NULL, 0 },
	{ NULL },
};

/* Options of most verbs for tasks. */
#define QUEUE_OPTION                                                                            \
	{                                                                                       \
		"queue", "NAME", "which of the job's queues (default: the one without a name)", \
			NULL, 0                                                                 \
	}

static const struct arg_option task_queue_options[] = {
	QUEUE_OPTION,
	{ NULL },
};

static const struct arg_option task_submit_options[] = {
	QUEUE_OPTION,
	{ "file", "FILE", "a task for each line of it, a JSON value (-: standard input)", "@file",
		'f' },
	{ "text", NULL, "lines are text; the same as --format=text", NULL, 0 },
	{ "format", "WORD", "what payloads are: json (checked), text, or another word", "json text",
		0 },
	{ "resource", "NAME...", "only for workers that have built this; may be repeated", NULL,
		0 },
	{ "limit", "DURATION", "a try that takes longer fails", NULL, 0 },
	{ "alone", NULL, "its failure does not fail the queue", NULL, 0 },
	{ "no-wait", NULL, "fail where there is no room, instead of waiting for it", NULL, 0 },
	{ "fetch", NULL, "print the results of the tasks, and release them", NULL, 0 },
	{ "ordered", NULL, "with --fetch: in the order of the tasks, not as they end", NULL, 0 },
	{ "progress", NULL, "show progress, even if standard error is not a terminal", NULL, 0 },
	{ NULL },
};

static const struct arg_option task_fetch_options[] = {
	QUEUE_OPTION,
	{ "all", NULL, "all tasks of the queue", NULL, 'a' },
	{ "release", NULL, "release the results after printing them", NULL, 0 },
	{ "raw", NULL, "only the bytes of one task's value", NULL, 0 },
	{ NULL },
};

static const struct arg_option task_cancel_options[] = {
	QUEUE_OPTION,
	{ "all", NULL, "all tasks of the queue", NULL, 'a' },
	{ "reason", "TEXT", "for people", NULL, 0 },
	{ NULL },
};

/* Options of verbs that show all queues by default. */
#define SHOW_QUEUE_OPTION                                                                     \
	{                                                                                     \
		"queue", "NAME", "only this queue of the job (default: all of them)", NULL, 0 \
	}

static const struct arg_option task_stats_options[] = {
	SHOW_QUEUE_OPTION,
	{ NULL },
};

static const struct arg_option task_list_options[] = {
	SHOW_QUEUE_OPTION,
	{ "state", "STATES", "only those in these states, with commas between",
		"queued running succeeded failed cancelled", 0 },
	{ NULL },
};

static const struct arg_option task_resource_options[] = {
	{ "file", "FILE", "its payload (-: standard input)", "@file", 'f' },
	{ "format", "WORD", "what the payload is: json (checked), text, or another word",
		"json text", 0 },
	{ NULL },
};

static const struct arg_option task_work_options[] = {
	{ "slots", "N", "run up to N programs at once (default: 1)", NULL, 0 },
	{ "format", "WORD", "what the programs print: json (checked), text, or another word",
		"json text", 0 },
	{ NULL },
};

static const struct arg_option call_options[] = {
	{ "file", "FILE", "the payload (-: standard input)", "@file", 'f' },
	{ "format", "WORD", "what the payload is: json (checked), text, or another word",
		"json text", 0 },
	{ "workers", "WORKERS", "only these, role:index with commas between", NULL, 0 },
	{ "answer-timeout", "DURATION", "how long each may take to answer", NULL, 0 },
	{ NULL },
};

#define X(verb_name, function, table, lo, hi, syn, kind, bits, text) \
	{ .name = #verb_name,                                        \
		.path = PREFIX #verb_name,                           \
		.run = function,                                     \
		.options = table,                                    \
		.least = lo,                                         \
		.most = hi,                                          \
		.synopsis = syn,                                     \
		.words = kind,                                       \
		.flags = bits,                                       \
		.help = text },
#define PREFIX ""
const struct verb verbs[] = { VERBS(X){ .name = NULL } };
#undef PREFIX
#define PREFIX "task "
const struct verb task_verbs[] = { TASK_VERBS(X){ .name = NULL } };
#undef PREFIX
#undef X

const struct verb *verb_group(const struct verb *v)
{
	return v->flags & VERB_GROUP ? task_verbs : NULL;
}

const struct verb *verb_find(const struct verb *table, const char *name)
{
	for (const struct verb *v = table; v->name; v++)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}
