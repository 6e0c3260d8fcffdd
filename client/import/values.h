/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The texts of supervisord's values: %(name)s, words as a shell splits them, KEY="value" pairs.
 * Pure. */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stddef.h>

/* A name that %(name)s stands for; a number also as %(name)d and %(name)02d. */
struct value_name {
	const char *name, *value;
};

/*
 * Replaces %(name)s by its value, and %% by %; %(ENV_X)s is the variable X in env (may be NULL), or
 * of this process. Text that cannot be replaced stays as it is: ret_problem then has the reason for
 * the first (owned; NULL: none). Returns 0 with owned text, or -ENOMEM.
 */
_must_check_ int value_expand(const char *text, const struct value_name *names, size_t n,
	const json_t *env, char **ret, char **ret_problem);

/* The words of a command, as a POSIX shell splits them, without expansions: an array of strings,
 * owned; NULL where a quote is not closed, or without memory. */
json_t *value_words(const char *text);

/* KEY=value,KEY="value, more": an object of strings, owned; NULL as above, and where it is not of
 * that form. A backslash is a character like others. */
json_t *value_pairs(const char *text);

/* 0 or 1 for "off", "true" and so on; -1: it is neither. */
int value_bool(const char *text);
