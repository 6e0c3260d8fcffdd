/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The difference of two job specifications, key by key. Both have their defaults filled in
 * (spec_to_json()); roles are matched by their names, other arrays are compared as a whole. Of a
 * run only the names of environment variables are known, so that is all that is compared then.
 * Pure.
 */

#include "common/base/cleanup.h"

#include <jansson.h>

/*
 * Returns an owned array of {"path", "old", "new", "old_default", "new_default"}: a side that lacks
 * the key has no value, and the last two are true where the value is the default. NULL without
 * memory.
 */
json_t *spec_diff(const json_t *old, const json_t *new);
