/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Option tables over getopt_long(): one table serves parsing, help, completion and tests. */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct arg_option {
	const char *name;  /* long name; NULL ends a table */
	const char *value; /* in help; NULL: takes none; "NAME...": see args_nth() */
	const char *help;
	const char *words; /* values for completion, separated by spaces; "@file", "@dir", "@job" */
	char letter;	   /* or 0 */
};

enum { ARGS_OPTIONS_MAX = 32, ARGS_MANY_MAX = 64 };

struct args {
	const struct arg_option *options[2]; /* the verb's, the global ones */
	const char *values[2][ARGS_OPTIONS_MAX];
	struct {
		const struct arg_option *option;
		const char *value;
	} many[ARGS_MANY_MAX]; /* values of options that may be given several times */
	int n_many;
	int argc; /* the positional arguments that are left */
	char **argv;
};

/*
 * Parses argv (argv[0] is skipped) by the tables own (may be NULL) and global. Options and
 * positional arguments mix, "--" ends options; with stop_early the first positional one ends them
 * too, and all that follows is positional. argv is reordered and borrowed for the life of a. Values
 * that a already holds for the global table stay unless given again. Returns 0 or -EINVAL with err.
 */
_must_check_ int args_parse(struct args *a, const struct arg_option *own,
	const struct arg_option *global, int argc, char **argv, bool stop_early, struct error *err);

/* The value of an option, "" for one that takes none, NULL where it was not given. name must be in
 * one of the tables. */
const char *args_get(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);

/* Prints a row of help. */
void arg_option_print(FILE *f, const struct arg_option *o);

/* The n-th value of an option that may be given several times; NULL: there are no more. */
const char *args_nth(const struct args *a, const char *name, int n);

/* Sets an option that another parser found: o is a row of one of a's tables, value is borrowed. */
void args_set(struct args *a, const struct arg_option *o, const char *value);

/* Reads a number of at least min into value, which stays as it is where the option was not given.
 * Returns 0 or -EINVAL with err. */
_must_check_ int args_int(
	const struct args *a, const char *name, int64_t min, int64_t *value, struct error *err);
/* As args_int(), for a duration ("10s"), or seconds as a bare number. */
_must_check_ int args_duration(
	const struct args *a, const char *name, int64_t *ret_ms, struct error *err);
