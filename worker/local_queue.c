/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/queue.h"

static int none(void)
{
	return fail(ELASTICD_UNIMPLEMENTED, "there is no queue without an agent");
}

static int local_open(struct elasticd_queue *q)
{
	return none();
}

static int local_stats(struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret)
{
	return none();
}

static int local_close_all(struct elasticd *h)
{
	return none();
}

static int local_create(
	struct elasticd *h, const char *name, const struct elasticd_bytes *payload)
{
	return none();
}

static int local_drop(struct elasticd *h, const char *name)
{
	return none();
}

static int local_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n)
{
	return none();
}

static int local_work_open(struct elasticd_work *w)
{
	return none();
}

const struct queue_side queue_local = {
	.open = local_open,
	.stats = local_stats,
	.close_all = local_close_all,
	.resource_create = local_create,
	.resource_drop = local_drop,
	.call = local_call,
	.work_open = local_work_open,
};
