/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The service manager's side: readiness, a status line, the watchdog, sockets that were passed, and
 * the journal with its fields. Where systemd did not start elasticd, or elasticd was built without
 * it, these functions do nothing and make no system call.
 */

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/loop/loop.h"

struct notify;

/* Begins to feed the watchdog where one is configured. Returns 0 with an owned object. */
_must_check_ int notify_new(struct loop *loop, struct notify **ret);
struct notify *notify_free(struct notify *n);
DEFINE_CLEANUP(struct notify *, notify_free)

void notify_ready(struct notify *n);
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n);
/* Asks systemd for up to ms more to stop, beyond the service's TimeoutStopSec. */
void notify_extend(struct notify *n, uint64_t ms);
/* Sends one line for "systemctl status", if it differs from the last. */
void notify_status(struct notify *n, const char *text);

/* Returns how many listening sockets systemd passed, the first of them in ret_first. A negative
 * errno if one of them cannot be used. */
int notify_sockets(int *ret_first);

/* Sends messages to the journal directly, if standard error goes there anyway. */
void notify_use_journal(void);
