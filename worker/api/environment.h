/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Variables that the agent sets for its workers. A variable that is empty counts as unset. */

#include "worker/elasticd.h"

#include <stdint.h>

/* NULL where it is unset. */
const char *env_text(const char *name);
/* A number of 0 to max; untouched where the variable is unset. */
enum elasticd_status env_int(const char *name, int max, int *ret);
/* ELASTICD_TOKEN, from its text. */
enum elasticd_status env_token(const char *text, uint64_t *ret);
