/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds up the host's shutdown while training jobs save: takes a delay lock of systemd-logind as
 * long as a job wants one, and reports when logind says that the host goes down. Speaks D-Bus in
 * the loop and never blocks. Where the bus or logind is missing, it logs one warning and waits
 * without waking up until they appear. Built without systemd it does nothing.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct inhibit;

/* Runs from the loop: the host begins to go down (down) and logind waits for at most delay_ms, or
 * the host stays after all (delay_ms 0). */
typedef void (*inhibit_fn)(void *arg, bool down, int64_t delay_ms);

_must_check_ int inhibit_new(struct loop *loop, inhibit_fn fn, void *arg, struct inhibit **ret);
/* Releases the lock. */
struct inhibit *inhibit_free(struct inhibit *i);

/* Whether the owner wants the lock. The last call counts. */
void inhibit_want(struct inhibit *i, bool wanted);

/* While the host goes down: releases the lock, so that the host need not wait any longer. Takes it
 * again if the host stays. */
void inhibit_release(struct inhibit *i);

/* "off", "waiting" (for the bus or logind), "watching" (the lock is held), "failing", "notice" (the
 * host goes down); ret_text (borrowed) says more, for people. */
const char *inhibit_state(const struct inhibit *i, const char **ret_text);
