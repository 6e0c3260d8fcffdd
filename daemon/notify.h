/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The service manager's side: readiness, a status line, the watchdog, sockets that were passed, and
 * the journal with its fields. Not started by systemd, or built without it, all this does nothing
 * and makes no system call.
 */

#include "common/cleanup.h"
#include "common/log.h"
#include "common/loop.h"

struct notify;

/* Begins to feed the watchdog where one is configured. Returns 0 with an owned object. */
_must_check_ int notify_new(struct loop *loop, struct notify **ret);
struct notify *notify_free(struct notify *n);
DEFINE_CLEANUP(struct notify *, notify_free)

void notify_ready(struct notify *n);
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n);
/* The stop takes up to so long: longer than a service has by itself. */
void notify_extend(struct notify *n, uint64_t ms);
/* One line for "systemctl status"; sent when it differs from the last. */
void notify_status(struct notify *n, const char *text);

/* How many listening sockets were passed, the first of them in ret_first. A negative errno where
 * what was passed cannot be used. */
int notify_sockets(int *ret_first);

/* Sends messages to the journal instead of to standard error, where that is the journal anyway. */
void notify_use_journal(void);
