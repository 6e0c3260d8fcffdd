/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work queue and the group: reports starts and ends of workers, and events of the group, to the
 * machine, and carries out the machine's orders about workers. Owned by struct dispatch. Without a
 * work queue all functions do nothing.
 *
 * A worker whose role has on_failure fail_queue is lost in two steps: its failure is first an error
 * of all queues, and the group fails because of it once a worker that got this error has ended, or
 * queue.loss_grace is over.
 */

#include "agent/supervise/supervisor.h"

/* A new attempt of the group, after sharing_begin(). */
void dispatch_begin(struct supervisor *sv);
/* All of its workers have had their first start. */
void dispatch_running(struct supervisor *sv);
/* After sharing_worker_started(), and after sharing_worker_ended(). */
void dispatch_worker_started(struct supervisor *sv, struct worker *w);
void dispatch_worker_ended(struct supervisor *sv, struct worker *w);
/* w has no process, and will not be started again. */
void dispatch_worker_over(struct supervisor *sv, struct worker *w);
/* The group is being stopped; its goal says what follows. */
void dispatch_stopping(struct supervisor *sv);
/* Carries out an order (COMMONS_CANCEL and others, agent/sharing/commons.h) on a worker of this
 * host. */
void dispatch_order(struct supervisor *sv, struct worker *w, const char *what, const char *why);
/* The job is over. */
void dispatch_over(struct supervisor *sv);

/* True while the core must not decide about a failure, since coordinators have yet to leave. */
bool dispatch_decision_waits(struct supervisor *sv);
/* The job's exit status because of w's failure: queue.exit_code, or -1 if it decides nothing. */
int dispatch_exit_status(const struct supervisor *sv, const struct worker *w);

/* io.elasticd.Manager.WorkQueue, owned; NULL if the queue was never used. */
json_t *dispatch_json(const struct supervisor *sv);
/* One line about it for people, or "". */
void dispatch_text(const struct supervisor *sv, char *text, size_t size);
