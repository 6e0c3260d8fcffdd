/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/record_sync.h"

#include "common/base/log.h"
#include "common/base/paths.h"

#include <errno.h>
#include <string.h>

/* After this a caller is answered all the same: the disk takes it later. */
enum { LIMIT_MS = 30000 };

static int sync_run(void *arg)
{
	return job_record_sync(arg);
}

int record_sync_begin(struct offload *s, const struct record_store *store,
	const struct job_record *r, offload_fn fn, void *arg, struct offload_request **ret)
{
	const struct offload_work w = { .name = "elasticd-sync",
		.uid = r->uid,
		.limit_ms = LIMIT_MS,
		.fn = sync_run,
		.arg = paths_join(store->path, r->run),
		.drop = free };

	return w.arg ? offload_begin(s, &w, fn, arg, ret) : -ENOMEM;
}

static void on_synced(void *arg, int r)
{
	if (r < 0)
		log_warning("a record may be lost if this host crashes now: %s", strerror(-r));
}

void record_sync_later(
	struct offload *s, const struct record_store *store, const struct job_record *r)
{
	struct offload_request *ignored;
	int code = record_sync_begin(s, store, r, on_synced, NULL, &ignored);

	if (code < 0)
		on_synced(NULL, code);
}
