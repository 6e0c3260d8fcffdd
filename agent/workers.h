/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of what workers share: owns worker.sock, the board, the store with the key-value
 * layer, the barriers and the members, and serves io.elasticd.Worker from them. The rest of the
 * agent tells it what happens to tasks; it tells the rest what tasks said (agent_task_failing(),
 * agent_worker_error()). Slots: task i of a->tasks has slot t->slot, stable over the agent's life
 * for a role and index.
 *
 *   workers.c, worker_*.c  see worker_private.h
 */

#include "agent/agent.h"
#include "agent/env.h"
#include "common/board.h"

/* Makes the board and listens, as runtime_dir/worker.sock and runtime_dir/board (the directory of
 * agent.sock; in the foreground a private temporary one that is removed with the agent). */
_must_check_ int workers_new(struct agent *a, struct error *err);
void workers_free(struct agent *a);

/* A new incarnation of the group, before anything of it is spawned. */
void workers_begin(struct agent *a);
/* Before t is spawned: draws its token, clears its slot. */
void workers_task_starting(struct agent *a, struct task *t);
/* ELASTICD_WORKER_SOCKET, ELASTICD_BOARD, ELASTICD_SLOT, ELASTICD_TOKEN, ELASTICD_INCARNATION,
 * ELASTICD_PREEMPTION_EXIT_CODE and ELASTICD_LOG_FILE ("" without files). */
_must_check_ int workers_env(const struct agent *a, const struct task *t, struct env *e);
void workers_task_started(struct agent *a, struct task *t);
/* A process is gone, and nothing knows it yet: what it had sent before is read first, so a result
 * or an error written just before exit is never lost. */
void workers_task_ending(struct agent *a);
/* Its process is gone and t->state says how. */
void workers_task_ended(struct agent *a, struct task *t);
/* An operator stops t for good: those who wait for it at a barrier are told at once. */
void workers_task_stopping(struct agent *a, struct task *t);
/* Those who are to be told are told now, before something that takes its time. */
void workers_flush(struct agent *a);
/* t, which has no process, gets none any more: who waits for the next one waits in vain. */
void workers_task_over(struct agent *a, struct task *t);
/* The group is being stopped: whatever waits gets Cancelled with why. */
void workers_stopping(struct agent *a, const char *why);

/* A notice of preemption is up, or another one has come: tells who asked for Events. */
void workers_notice(struct agent *a, const char *text);

/* The board's words about a notice (odd while one is up), and about an error that all are to hear.
 */
void workers_board_notice(struct agent *a, uint64_t notice, int64_t save_at);
void workers_board_error(struct agent *a, bool up);
/* Whether the present process of t has made a call. */
bool workers_spoke(const struct agent *a, const struct task *t);

/* Writes results.json, an object with that array as results, into the run's log directory and its
 * record: at the end of the run, while all tasks are known. */
void workers_record(struct agent *a);
/* io.elasticd.Manager.TaskResult array of the newest attempt, owned. */
json_t *workers_results_json(const struct agent *a);
/* A copy of the slot of t on the board, until the next call; NULL without a board, and where a
 * worker has just damaged it. */
const struct board_slot *workers_slot(const struct agent *a, const struct task *t);
