/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

void agent_task_failing(struct agent *a, struct task *t, const char *text)
{
}

void agent_worker_error(struct agent *a, struct task *t, const char *code, const char *message)
{
}
