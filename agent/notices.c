/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notices.h"

int notices_new(struct agent *a, struct error *err)
{
	return 0;
}

void notices_free(struct agent *a)
{
}

void notices_end(struct agent *a)
{
}

bool notices_child_exited(struct agent *a, pid_t pid, int code, int status)
{
	return false;
}

size_t notices_helpers(struct agent *a, pid_t *pids, size_t max)
{
	return 0;
}
