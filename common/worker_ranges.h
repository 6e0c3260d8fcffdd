/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/varlink_server.h"

/* What the integers among the parameters of io.elasticd.Worker may be. */
extern const struct varlink_range worker_ranges[];
