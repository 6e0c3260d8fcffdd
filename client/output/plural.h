/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ending of a noun after its number: "1 worker", "2 workers". */

#include <stdint.h>

static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}
