/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts scalars as YAML 1.2's core schema says. Pure. */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stddef.h>

/* Why there is no value; static text, NULL if memory is out. */
struct yaml_scalar_why {
	const char *text;
};

/*
 * The value of a plain scalar, or, with tag ("bool", "int", "float", "null", "str"), of a scalar
 * that must have that type. Returns 0 with an owned value, -EINVAL with why, or -ENOMEM.
 */
_must_check_ int yaml_scalar(
	const char *text, size_t len, const char *tag, json_t **ret, struct yaml_scalar_why *why);
