/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager.Line objects. Pure. */

#include "agent/log_dirs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* time_us -1: not known. *ret_size: at most so many bytes as JSON text. Returns owned, NULL without
 * memory. */
json_t *log_line_json(const struct log_task_info *who, int attempt, int std, const char *data,
	size_t len, int64_t time_us, bool partial, size_t *ret_size);
