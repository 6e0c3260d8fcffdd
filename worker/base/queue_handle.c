/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/queue_handle.h"
#include "worker/base/process_id.h"

static _Thread_local struct {
	const struct elasticd *h;
	pid_t pid;
	int64_t lease;
} last;

int64_t thread_lease(const struct elasticd *h)
{
	return last.h == h && last.pid == process_id() ? last.lease : -1;
}

void thread_lease_set(const struct elasticd *h, int64_t lease)
{
	last.h = h;
	last.pid = process_id();
	last.lease = lease;
}

void thread_lease_end(const struct elasticd *h, int64_t lease)
{
	if (last.h == h && last.lease == lease)
		last.h = NULL;
}
