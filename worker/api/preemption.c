/* SPDX-License-Identifier: Apache-2.0 */
/* Notices of preemption, and the steps while one is up. */
#include "worker/api/preemption.h"
#include "worker/agent/worker_calls.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"

#include <stdlib.h>

#define RELAXED memory_order_relaxed

enum elasticd_status preemption_step(
	struct elasticd *h, int64_t n, enum elasticd_action *ret_action)
{
	const struct board_header *b = h->header;
	enum elasticd_action action = ELASTICD_ACTION_CONTINUE;
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (atomic_load_explicit(&b->error, RELAXED) ||
		n >= atomic_load_explicit(&b->save_at, RELAXED))
		status = call_step(h, n, &action);
	if (!status && ret_action)
		*ret_action = action;
	return status;
}

enum elasticd_status elasticd_saved(struct elasticd *h, int64_t n, const char *path)
{
	enum elasticd_status status =
		path ? check_text("path", path, WORKER_PATH_MAX) : ELASTICD_STATUS_OK;

	return status ? status : call_saved(h, n, path);
}

enum elasticd_status elasticd_preempted(struct elasticd *h, struct elasticd_preemption *ret)
{
	if (!elasticd_notice(h))
		return fail(ELASTICD_STATUS_NOT_FOUND, "no notice is up");
	return call_preemption(h, ret);
}

enum elasticd_status elasticd_notify(struct elasticd *h, const char *reason, int64_t grace_ms)
{
	enum elasticd_status status = check_text("reason", reason, SIZE_MAX);

	return status ? status : call_notify(h, reason, grace_ms < 0 ? -1 : grace_ms);
}

int elasticd_exit_code(const struct elasticd *h)
{
	return atomic_load(&h->exit_code);
}

/* --- hooks */

static enum elasticd_status save_by_hook(
	struct elasticd *h, int64_t n, elasticd_save_fn save, void *arg)
{
	char path[WORKER_PATH_MAX + 1] = "";
	int r = save(arg, n, path, sizeof(path));

	if (r)
		return fail(ELASTICD_STATUS_ABORTED,
			"the checkpoint of step %lld was not written: save returned %d",
			(long long)n, r);
	path[sizeof(path) - 1] = '\0';
	return elasticd_saved(h, n, *path ? path : NULL);
}

enum elasticd_status elasticd_checkpoint(struct elasticd *h, int64_t n, elasticd_save_fn save,
	elasticd_exit_fn leave, void *arg, enum elasticd_action *ret_action)
{
	enum elasticd_action action;
	enum elasticd_status status;

	if (!save)
		return fail(
			ELASTICD_STATUS_INVALID_ARGUMENT, "save: expected a function, got NULL");
	status = elasticd_step(h, n, &action);
	if (status)
		return status;
	if (action == ELASTICD_ACTION_SAVE || action == ELASTICD_ACTION_SAVE_AND_EXIT)
		status = save_by_hook(h, n, save, arg);
	if (status)
		return status;
	if (ret_action)
		*ret_action = action;
	if (action == ELASTICD_ACTION_SAVE_AND_EXIT || action == ELASTICD_ACTION_EXIT) {
		if (!leave)
			exit(elasticd_exit_code(h));
		leave(arg, elasticd_exit_code(h));
	}
	return ELASTICD_STATUS_OK;
}
