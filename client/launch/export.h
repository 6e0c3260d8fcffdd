/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides which variables of the caller's environment a job gets. Pure. */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Adds variables of environ to the env of each role of spec, a job specification that is changed in
 * place, where the role does not set them. what: NULL for the usual few, ALL, NONE, or a list of
 * NAME and NAME=VALUE; a NAME that is not in environ is left out. Returns 0, -EINVAL or -ENOMEM
 * with err.
 */
_must_check_ int export_env(
	json_t *spec, const char *what, char *const *environ, struct error *err);

/* Whether len bytes of text are a variable's name by POSIX' rules. A job file may use other names,
 * on its author's own responsibility. */
bool export_is_name(const char *text, size_t len);
