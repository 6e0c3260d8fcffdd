/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of what workers share: owns worker.sock, the board, the store with the key-value
 * layer, the barriers and the members, and serves io.elasticd.Worker from them. It learns of starts
 * and ends by hooks, and passes workers' errors to the core (supervisor_worker_error()). A worker,
 * by role and index, keeps its slot for the agent's life.
 *
 * The files: see private.h.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/feature.h"
#include "common/base/board.h"

extern const struct feature sharing_feature;

/* This agent leads the group of several hosts; NULL: no more. Borrowed. */
struct sharing_group;
void sharing_lead(struct supervisor *sv, struct sharing_group *g);
/* True when others can wait for the next process of w, which has ended. */
bool sharing_may_restart(const struct supervisor *sv, const struct worker *w);

/* Sets the board's fields about a notice. notice: odd while one is up. */
void sharing_set_notice(struct supervisor *sv, uint64_t notice, int64_t save_at);
/* True when the present process of w has made a call. */
bool sharing_has_called(const struct supervisor *sv, const struct worker *w);

/* Of a private agent (agent/alone.h): serves a connected socket, which it takes, to the one worker;
 * the board's memory, borrowed. */
_must_check_ int sharing_serve_socket(struct supervisor *sv, int fd, struct error *err);
int sharing_board_memory(const struct supervisor *sv);

/* A copy of the slot of w on the board, until the next call; NULL without a board, and where a
 * worker has just damaged it. */
const struct board_slot *sharing_board_slot(const struct supervisor *sv, const struct worker *w);
