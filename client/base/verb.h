/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A verb as every part of elasticctl knows it; the table of verbs is client/verbs/verbs.h. */

#include "client/base/args.h"

struct ctl;

/* The words after a verb, for completion. */
enum verb_words {
	WORDS_NONE,
	WORDS_JOBS,	   /* names of jobs */
	WORDS_ACTIVE,	   /* names of active jobs */
	WORDS_WORKERS,	   /* names of active jobs, with workers after a slash */
	WORDS_ANY_WORKERS, /* as above, and of jobs that have ended */
	WORDS_COMMAND,	   /* a program and its arguments */
	WORDS_FILES,
	WORDS_RUNS, /* names of jobs, or files */
	WORDS_SHELLS,
	WORDS_VERBS,
	WORDS_TASK_VERBS,
	WORDS_CREATE_DROP,
};

enum verb_flags {
	VERB_DAEMON = 1,   /* talks to elasticd */
	VERB_VERDICT = 2,  /* exits with a job's exit status: its own errors are 125 */
	VERB_COMMAND = 4,  /* takes torchrun's flags; options end where a command begins */
	VERB_HIDDEN = 8,   /* not in help: for scripts of ours */
	VERB_PROGRAM = 16, /* with VERB_VERDICT: exits with the status of a program */
	VERB_GROUP = 32,   /* only other verbs follow: verb_group() */
	VERB_WORDS = 64,   /* options end at the first argument: what follows is a command */
	VERB_ENDS = 128,   /* ends or forgets something: never suggested for a misspelt verb */
	VERB_HERE = 256,   /* is for this host alone: --host is refused */
	VERB_PAGED = 512,  /* on a terminal its output goes to a pager, unless it follows a run */
};

enum { MANY = -1 };

typedef int (*verb_fn)(struct ctl *ctl, struct args *args);

struct verb {
	const char *name;
	const char *path; /* with the verb before it: "task submit" */
	verb_fn run;
	int least, most;
	const char *synopsis;
	const struct arg_option *options; /* may be NULL */
	enum verb_words words;
	int flags;
	const char *help;
};

/* " [OPTION...]" for the synopsis, or "" if the verb takes none or the synopsis has it. */
static inline const char *verb_takes_options(const struct verb *v)
{
	return v->options && !(v->flags & VERB_COMMAND) ? " [OPTION...]" : "";
}
