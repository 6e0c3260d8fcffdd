/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The barrier between a worker's step and its look for a notice: without one, a worker and the
 * agent could each miss what the other has just written (common/base/board.h). The kernel makes it
 * for the agent in all processes that asked for that; where it does not, each step makes its own.
 */

#include <stdatomic.h>

/* Asks the kernel, once per process, and again in children of fork(). */
void fences_register(void);
/* Whether each step has to make a barrier of its own; valid for ever. */
const atomic_bool *fences_needed(void);
