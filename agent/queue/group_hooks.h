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

/* A new incarnation of the group, after workers_begin(). */
void dispatch_begin(struct agent *a);
/* All of its tasks have had their first start. */
void dispatch_running(struct agent *a);
/* After workers_task_started(), and after workers_task_ended(). */
void dispatch_task_started(struct agent *a, struct task *t);
void dispatch_task_ended(struct agent *a, struct task *t);
/* t, which has no process, gets none any more. */
void dispatch_task_over(struct agent *a, struct task *t);
/* The group is being stopped; a->group.goal says what comes then. */
void dispatch_stopping(struct agent *a);
/* The job is over. */
void dispatch_over(struct agent *a);

/* Whether a failure waits until the coordinators know of it. */
bool dispatch_holds(struct agent *a);
/* Its failure makes the job's exit status: queue.exit_code, or -1 where it does not. */
int dispatch_exit_status(const struct agent *a, const struct task *t);

/* io.elasticd.Manager.Queue, owned; NULL where nobody has used it. */
json_t *dispatch_json(const struct agent *a);
/* A line of what it has for people, or "". */
void dispatch_text(const struct agent *a, char *text, size_t size);
