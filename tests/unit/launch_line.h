/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Command lines of run and start as tests write them, in a directory of their own and without what
 * the caller's environment says about jobs. Included once by each test program. */

#include "client/launch/launch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { WORDS_MAX = 32 };

static char directory[] = "/tmp/elasticd-test-XXXXXX";

/* A command line of a test: words separated by spaces; '^' stands for a space in a word. */
static inline int split(char *text, char **words)
{
	static char verb[] = "run";
	int n = 0;

	words[n++] = verb;
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		for (char *p = word; *p; p++)
			if (*p == '^')
				*p = ' ';
		ck_assert_int_lt(n, WORDS_MAX - 1);
		words[n++] = word;
	}
	words[n] = NULL;
	return n;
}

static const struct arg_option more_options[] = {
	{ .name = "json", .help = "" },
	{ .name = "quiet", .letter = 'q', .help = "" },
	{ .name = "follow", .letter = 'f', .help = "" },
	{ .name = "socket", .value = "PATH", .help = "" },
	{ .name = "help", .letter = 'h', .help = "" },
	{ .name = NULL },
};

/* Collects "name=value;" of the options that are not launch's. */
static inline int collect(
	void *arg, const struct arg_option *o, const char *value, struct error *err)
{
	strcat(arg, o->name);
	strcat(arg, "=");
	strcat(arg, value);
	strcat(arg, ";");
	return !strcmp(o->name, "help");
}

static char collected[256];

static inline int launch(const char *line, bool foreground, struct launch *ret, struct error *err)
{
	_cleanup_free_ char *copy = strdup(line);
	char *words[WORDS_MAX];
	int n = split(copy, words);
	struct launch_from from = { .foreground = foreground,
		.tables = { NULL, more_options },
		.option = collect,
		.arg = collected };

	collected[0] = '\0';
	return launch_parse(n, words, &from, ret, err);
}

/* Whether path ("roles.0.name") of doc is the JSON text expected; NULL: is not there. */
static inline void assert_at(const json_t *doc, const char *path, const char *expected)
{
	_cleanup_free_ char *copy = strdup(path), *got = NULL;
	_cleanup_json_ json_t *want = NULL;

	for (char *key = strtok(copy, "."); key; key = strtok(NULL, "."))
		doc = json_is_array(doc) ? json_array_get(doc, strtoul(key, NULL, 10))
					 : json_object_get(doc, key);
	if (!expected || !doc) {
		if (expected || doc)
			ck_abort_msg("%s is%s there", path, doc ? "" : " not");
		return;
	}
	got = json_dumps(doc, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
	want = json_loads(expected, JSON_DECODE_ANY, NULL);
	if (!want || !json_equal(want, (json_t *)doc))
		ck_abort_msg("%s is %s, not %s", path, got, expected);
}

static inline void setup(void)
{
	extern char **environ;

	for (char **e = environ; *e;) {
		_cleanup_free_ char *name = strndup(*e, strcspn(*e, "="));

		if (!strncmp(name, "PET_", 4) || !strncmp(name, "TORCH", 5) ||
			!strncmp(name, "SLURM_", 6) || !strncmp(name, "PMI_", 4) ||
			!strncmp(name, "OMPI_", 5) || !strcmp(name, "OMP_NUM_THREADS") ||
			!strcmp(name, "PYTHON_EXEC"))
			unsetenv(name);
		else
			e++;
	}
	strcpy(directory, "/tmp/elasticd-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	ck_assert_int_eq(chdir(directory), 0);
}

static inline void teardown(void)
{
	_cleanup_free_ char *command = NULL;

	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_gt(asprintf(&command, "rm -rf %s", directory), 0);
	ck_assert_int_eq(system(command), 0);
}

static inline void write_file(const char *name, const char *text)
{
	_cleanup_file_ FILE *f = fopen(name, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
}
