/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks systemd once whether the whole host goes down, for who is being stopped and wants to know
 * why. Asks systemd itself as root, else over the system bus; an answer that does not come within
 * seconds means that it does not.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>

struct goingdown;

/* Once, from the loop. May free the question. */
typedef void (*goingdown_fn)(void *arg, bool down);

_must_check_ int goingdown_ask(
	struct loop *loop, goingdown_fn fn, void *arg, struct goingdown **ret);
/* Forgets it. */
struct goingdown *goingdown_free(struct goingdown *g);
