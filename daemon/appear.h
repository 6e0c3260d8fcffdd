/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a path appears, however many of its directories are missing. Only where that which
 * is next on the way is made, is anybody woken.
 */

#include "common/cleanup.h"
#include "common/loop.h"

struct appear;

/* Calls fn each time when something comes into being at path (copied, absolute); never for what is
 * there already. fn may free it. 0 or a negative errno. */
_must_check_ int appear_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct appear **ret);
struct appear *appear_free(struct appear *a);
