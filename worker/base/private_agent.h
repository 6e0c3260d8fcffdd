/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The private agent of a program that nobody supervises (elastic-agent --alone): one per process,
 * started when something is first shared, whatever the number of handles. A child of fork() has its
 * parent's, if there was one by then. It ends with the last process that has it.
 *
 * All is under one lock, which fork() takes first.
 */

#include "common/base/error.h"
#include "worker/base/handle.h"

/* Of a new handle, which is a group of one: board, token, names. A status. */
int alone_open(struct elasticd *h);

/* A new connection to the agent, which is started where there is none: a blocking socket. 0,
 * -EAGAIN where it has no time to take one, or another negative errno with err. */
_must_check_ int alone_connect(int *ret, struct error *err);

/* Whether nobody can end a wait of this thread: the process has no other one, and no relatives that
 * may share with it. */
bool alone_single(void);
