/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/workers.h"

int workers_new(struct agent *a, struct error *err)
{
	return 0;
}

void workers_free(struct agent *a)
{
}

void workers_begin(struct agent *a)
{
}

void workers_task_starting(struct agent *a, struct task *t)
{
}

int workers_env(const struct agent *a, const struct task *t, struct env *e)
{
	return 0;
}

void workers_task_started(struct agent *a, struct task *t)
{
}

void workers_task_ended(struct agent *a, struct task *t)
{
}

void workers_stopping(struct agent *a, const char *why)
{
}

json_t *workers_results_json(const struct agent *a)
{
	return json_array();
}

struct board_slot *workers_slot(const struct agent *a, const struct task *t)
{
	return NULL;
}
