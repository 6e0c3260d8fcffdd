/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks JSON values against the types of an interface. Pure. */

#include "common/base/error.h"
#include "common/varlink/idl.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Returns 0 or -EINVAL with err->field naming the first offender below root ("parameters.spec",
 * "parameters.tasks[3].rank"). Refuses unknown members and names missing ones; an integer has no
 * fraction; null counts as a missing member.
 */
_must_check_ int varlink_validate(
	const struct varlink_type *type, const json_t *value, const char *root, struct error *err);

/* The same for what a program of another version may have sent: members and values of enumerations
 * that the interface does not know yet are left to the reader. */
_must_check_ int varlink_validate_answer(
	const struct varlink_type *type, const json_t *value, const char *root, struct error *err);

/* The range of integers of this name. */
struct varlink_range {
	const char *parameter;
	int64_t min, max;
};

/* Checks the integers among parameters; deep: also those inside its objects and arrays. ranges ends
 * with a NULL name, or is NULL. Returns as varlink_validate(). */
_must_check_ int varlink_validate_ranges(const struct varlink_range *ranges,
	const json_t *parameters, const char *root, bool deep, struct error *err);
