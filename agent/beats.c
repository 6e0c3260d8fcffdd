/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>

int beats_new(struct agent *a, struct error *err)
{
	return 0;
}

void beats_free(struct agent *a)
{
}

void beats_task_started(struct agent *a, struct task *t)
{
}

void beats_task_ended(struct agent *a, struct task *t)
{
}

int beats_dump(struct agent *a, const int *ranks, size_t n, const char *why, uint64_t timeout_ms,
	hang_done_fn fn, void *arg, struct error *err)
{
	return error_set(err, -ENOSYS, "dumps are not there yet");
}
