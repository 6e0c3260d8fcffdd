/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For bindings alone, as the Python package: exported by the library, and not installed. */

#include "worker/elasticd_queue.h"

#pragma GCC visibility push(default)

/* Whether signals end calls without timeout_ms, too, with INTERRUPTED (at first they do not), so
 * that handlers of an interpreter run. Made again by the same thread with the same arguments, such
 * a call goes on. */
void elasticd_interruptible(struct elasticd *h, bool on);

/* Ends the wait of w for an item, in another thread, with CANCELLED, and returns when the agent has
 * ended it, too. w gets no more items then, but can answer the item that it has. */
void elasticd_queue_work_stop(struct elasticd_queue_work *w);

/* A limit of ms milliseconds (at least 2) for elasticd_queue_join(), elasticd_queue_fetch() and
 * elasticd_queue_cancel() that is a binding's default and not the program's: the call fails at once
 * where it would fail without a limit, because it waits for this thread itself. */
#define ELASTICD_DEFAULT_LIMIT(ms) (-(ms))

#pragma GCC visibility pop
