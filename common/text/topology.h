/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a host stands, from the large to the small, as people write it: "pod3/rack7/node12". Pure.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>

enum { TOPOLOGY_PARTS_MAX = 16, TOPOLOGY_TEXT_MAX = 256 };

#define TOPOLOGY_EXPECTED "1 to 16 parts such as \"pod3/rack7/node12\""

/* Whether text, of fewer than TOPOLOGY_TEXT_MAX bytes, is one: parts of printable ASCII without
 * blanks, quotes and backslashes. */
bool topology_is(const char *text);
/* Returns the parts of such a text, each ended by a NUL, and an empty one behind the last; NULL
 * without memory. Owned. */
_must_check_ char *topology_parts(const char *text);
