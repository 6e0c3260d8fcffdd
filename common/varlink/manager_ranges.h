/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/varlink/server.h"

/* io.elasticd.Manager has only one kind of integer; these are what its parameters mean. */
extern const struct varlink_range manager_ranges[];
