/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The private agent of a program that runs by hand (elastic-agent --alone). A process has at most
 * one, started when the program first shares something, whatever the number of handles. A child of
 * fork() has its parent's, if that was running by then. It ends with the last process that has it.
 *
 * One lock covers all of this; fork() takes it first.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "worker/elasticd.h"

/* Makes a new handle that of worker:0, a group of one, with a board; starts nothing. */
enum elasticd_status private_agent_open(struct elasticd *h);

/* Connects to the agent, and starts it where it does not run yet. The socket is a blocking one. 0;
 * -EAGAIN where the agent has no room for another connection now; another negative errno with err.
 */
_must_check_ int private_agent_connect(int *ret, struct error *err);

/* Whether no other thread could end a wait of this one: the process has only this thread, no child
 * that could share with it, and is not such a child itself. */
bool process_is_alone(void);
