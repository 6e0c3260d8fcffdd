/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of "run" and "start": torchrun's flags and PET_* variables, our own flags and
 * job files, all turned into one specification (elasticd-job(5)). Reads the environment and files,
 * starts nothing and prints nothing.
 */

#include "client/base/args.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * Called for each option of the verb's own tables, in order; value is "" for one that takes none.
 * Returns 0, 1 to stop at once (help was asked for), or a negative errno with err.
 */
typedef int (*launch_option_fn)(
	void *arg, const struct arg_option *option, const char *value, struct error *err);

struct launch_from {
	/* run: workers get the caller's environment and directory. Else the specification has to
	 * name the directory. */
	bool foreground;
	/* doctor: looks at the hosts only. Needs no program, but the number of hosts where an
	 * endpoint is given. */
	bool hosts_only;
	/* Tables of further options, of the verb and of all verbs; either may be NULL. */
	const struct arg_option *tables[2];
	launch_option_fn option;
	void *arg;
};

struct launch {
	json_t *spec; /* complete and checked by spec_parse(), without defaults */
	bool dry_run;
	char **warnings; /* lines for people, NULL-ended, or NULL */
	char **problems; /* the same: everything that is wrong with the job file */
};

/*
 * Reads argv (argv[0] is skipped). Returns 0 with ret filled, -EBADMSG with ret's problems, 1 when
 * from->option said to stop, or another negative errno with err; ret needs no launch_fini() in the
 * last two.
 */
_must_check_ int launch_parse(int argc, char **argv, const struct launch_from *from,
	struct launch *ret, struct error *err);
void launch_fini(struct launch *l);

/* Every flag but those of the verbs, for completion and tests; ends with a NULL name. */
extern const struct arg_option launch_options[];

/* "PET_NNODES" for the option "nnodes"; NULL for a flag that has no variable. Returns buf. */
enum { LAUNCH_PET_MAX = 64 };
const char *launch_pet_name(const struct arg_option *option, char buf[LAUNCH_PET_MAX]);

/* Prints the flags for "elasticctl help run", in groups. */
void launch_print_options(FILE *f);
