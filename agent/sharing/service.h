/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of what workers share: owns worker.sock, the board, the store with the key-value
 * layer, the barriers and the members, and serves io.elasticd.Worker from them. The rest of the
 * agent tells it what happens to tasks; it tells the rest what tasks said (agent_task_failing(),
 * agent_worker_error()). Slots: task i of a->tasks has slot t->slot, stable over the agent's life
 * for a role and index.
 *
 * The files: see private.h.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/feature.h"
#include "common/base/board.h"

extern const struct feature sharing_feature;

/* fn runs when a worker has reported an error, which all are to fail with. One at a time. */
void workers_on_error(struct agent *a, void (*fn)(void *arg), void *arg);
/* A notice of preemption is up, or another one has come: tells who asked for Events. */
void workers_notice(struct agent *a, const char *text);

/* The board's words about a notice (odd while one is up). */
void workers_board_notice(struct agent *a, uint64_t notice, int64_t save_at);
/* Whether the present process of t has made a call. */
bool workers_spoke(const struct agent *a, const struct task *t);

/* Of a private agent (agent/alone.h): serves a connected socket, which it takes, to the one worker;
 * the board's memory, borrowed. */
_must_check_ int workers_serve_socket(struct agent *a, int fd, struct error *err);
int workers_board_fd(const struct agent *a);

/* A copy of the slot of t on the board, until the next call; NULL without a board, and where a
 * worker has just damaged it. */
const struct board_slot *workers_slot(const struct agent *a, const struct task *t);
