/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/varlink/server.h"

/* The ranges of integers in the parameters of io.elasticd.Queue. */
extern const struct varlink_range queue_ranges[];
