/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/varlink_server.h"

/* What the integers among the parameters of io.elasticd.Queue may be. */
extern const struct varlink_range queue_ranges[];
