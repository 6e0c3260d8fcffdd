/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks JSON values against the types of an interface. Pure. */

#include "common/error.h"
#include "common/varlink_idl.h"

#include <jansson.h>

/*
 * Returns 0 or -EINVAL with err->field naming the first offender below root ("parameters.spec",
 * "parameters.tasks[3].rank"). Unknown members are refused, missing ones named; an integer is never
 * a number with a fraction; null stands for a member that is left out.
 */
_must_check_ int varlink_validate(
	const struct varlink_type *type, const json_t *value, const char *root, struct error *err);
