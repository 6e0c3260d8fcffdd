/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds up the host's shutdown while training jobs save: a delay lock of systemd-logind's, held as
 * long as somebody wants one, and logind's word that the host goes down. Speaks D-Bus in the loop
 * and never blocks. Where the bus or logind is not there, one warning says so, and it is tried
 * again when they come; nothing is woken meanwhile. Built without systemd there is none.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct inhibit;

/* logind: the host begins to go down (down), and waits at most for delay_ms; or it stays after
 * all (delay_ms 0). From the loop. */
typedef void (*inhibit_fn)(void *arg, bool down, int64_t delay_ms);

_must_check_ int inhibit_new(struct loop *loop, inhibit_fn fn, void *arg, struct inhibit **ret);
/* Lets go of the lock. */
struct inhibit *inhibit_free(struct inhibit *i);

/* Whether somebody wants the lock. The last call holds. */
void inhibit_want(struct inhibit *i, bool wanted);

/* While the host goes down: it need not wait any longer. The lock is taken anew when the host
 * stays. */
void inhibit_release(struct inhibit *i);

/* "off", "waiting" (for the bus or logind), "watching" (the lock is held), "failing", "notice" (the
 * host goes down); text (borrowed) for people. */
const char *inhibit_state(const struct inhibit *i, const char **ret_text);
