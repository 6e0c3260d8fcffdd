/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work queue and the group: what happens to tasks and the group is told to the machine, and
 * what the machine wants done to workers is done. Owned by struct dispatch. All of it does nothing
 * where there is no work queue.
 *
 * A task whose role has on_failure fail_queue is lost in two steps: its failure is at first an
 * error of all queues, and the group fails of it once one of those tasks has ended that were told
 * so, or queue.loss_grace is over.
 */

#include "agent/supervise/supervisor.h"

/* A new attempt of the group, after sharing_begin(). */
void dispatch_begin(struct supervisor *sv);
/* All of its tasks have had their first start. */
void dispatch_running(struct supervisor *sv);
/* After sharing_worker_started(), and after sharing_worker_ended(). */
void dispatch_worker_started(struct supervisor *sv, struct worker *w);
void dispatch_worker_ended(struct supervisor *sv, struct worker *w);
/* w, which has no process, gets none any more. */
void dispatch_worker_over(struct supervisor *sv, struct worker *w);
/* The group is being stopped; a->group.goal says what comes then. */
void dispatch_stopping(struct supervisor *sv);
/* The job is over. */
void dispatch_over(struct supervisor *sv);

/* Whether a failure waits until the coordinators know of it. */
bool dispatch_holds(struct supervisor *sv);
/* Its failure makes the job's exit status: queue.exit_code, or -1 where it does not. */
int dispatch_exit_status(const struct supervisor *sv, const struct worker *w);

/* io.elasticd.Manager.Queue, owned; NULL where nobody has used it. */
json_t *dispatch_json(const struct supervisor *sv);
/* A line of what it has for people, or "". */
void dispatch_text(const struct supervisor *sv, char *text, size_t size);
