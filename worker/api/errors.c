/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses, and the last failure of a thread. */
#include "worker/base/failure.h"
#include "worker/elasticd_queue.h"

#include "common/base/status.h"

#include <stdlib.h>

const char *elasticd_version(void)
{
	return VERSION;
}

const char *elasticd_status_name(enum elasticd_status status)
{
	if (status == ELASTICD_STATUS_INTERRUPTED)
		return "Interrupted";
	return status_name((enum status)status);
}

const char *elasticd_error_text(void)
{
	const struct failure *f = failure_last();

	return f ? f->text : "";
}

const char *elasticd_error_missing(void)
{
	const struct failure *f = failure_last();

	return f && f->missing ? f->missing : "";
}

int64_t elasticd_queue_error_task(void)
{
	const struct failure *f = failure_last();

	return f && f->queue ? f->task : -1;
}

int elasticd_queue_error_exit_code(void)
{
	const struct failure *f = failure_last();

	return f && f->queue ? f->exit_code : -1;
}

const char *elasticd_queue_error_details(void)
{
	const struct failure *f = failure_last();

	return f && f->details ? f->details : "";
}

const char *elasticd_queue_error_worker(void)
{
	const struct failure *f = failure_last();

	return f && f->worker ? f->worker : "";
}

void elasticd_error_free(struct elasticd_error *e)
{
	if (!e)
		return;
	free(e->message);
	free(e->worker);
	free(e);
}
