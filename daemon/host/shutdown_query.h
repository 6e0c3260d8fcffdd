/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks systemd once whether the whole host goes down, so that elasticd knows why it is being
 * stopped. Asks systemd directly as root, else over the system bus. No answer within seconds counts
 * as "no".
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>

struct goingdown;

/* Runs once, from the loop. May free the query. */
typedef void (*goingdown_fn)(void *arg, bool down);

_must_check_ int goingdown_ask(
	struct loop *loop, goingdown_fn fn, void *arg, struct goingdown **ret);
/* Drops the query. */
struct goingdown *goingdown_free(struct goingdown *g);
