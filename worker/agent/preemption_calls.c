/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/worker_calls.h"
#include "worker/base/calls.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/values.h"

#include "common/text/json.h"

#include <string.h>

static void learn_exit_code(struct elasticd *h, const json_t *answer)
{
	int64_t code = json_get_int(answer, "exit_code", -1);

	if (code >= 0 && code <= 255)
		atomic_store(&h->exit_code, (int)code);
}

static bool action_of(const char *name, enum elasticd_action *ret)
{
	static const char *const names[] = {
		[ELASTICD_ACTION_CONTINUE] = "continue",
		[ELASTICD_ACTION_SAVE] = "save",
		[ELASTICD_ACTION_SAVE_AND_EXIT] = "save_exit",
		[ELASTICD_ACTION_EXIT] = "exit",
	};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
		if (strcmp(names[i], name) == 0) {
			*ret = (enum elasticd_action)i;
			return true;
		}
	return false;
}

/* After a signal the same call goes on, so its answer is not lost. */
enum elasticd_status call_step(struct elasticd *h, int64_t n, enum elasticd_action *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_action action;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_int(&a, "step", n);
	status = call_make(h, "Step", &a, WAIT_PROMPT, &answer);
	if (status)
		return status;
	if (!action_of(json_get_string(answer, "action", ""), &action))
		return fail_malformed();
	learn_exit_code(h, answer);
	*ret = action;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_saved(struct elasticd *h, int64_t n, const char *path)
{
	struct params a = PARAMS_EMPTY;

	params_int(&a, "step", n);
	params_text(&a, "path", path);
	return call_make(h, "Saved", &a, WAIT_PROMPT, NULL);
}

enum elasticd_status call_preemption(struct elasticd *h, struct elasticd_preemption *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	const json_t *notice;

	status = call_make(h, "Preemption", &a, WAIT_PROMPT, &answer);
	if (status)
		return status;
	learn_exit_code(h, answer);
	notice = json_get_object(answer, "notice");
	*ret = (struct elasticd_preemption){
		.time_us = json_get_int(notice, "time_us", 0),
		.deadline_us = json_get_int(notice, "deadline_us", -1),
		.step = json_get_int(notice, "step", -1),
		.final = json_get_bool(notice, "final", false),
		.exit_code = atomic_load(&h->exit_code),
	};
	text_cut(ret->source, sizeof(ret->source), json_get_string(notice, "source", ""));
	text_cut(ret->reason, sizeof(ret->reason), json_get_string(notice, "reason", ""));
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_notify(struct elasticd *h, const char *reason, int64_t grace_ms)
{
	struct params a = PARAMS_EMPTY;

	params_text_cut(&a, "reason", reason, WORKER_REASON_MAX);
	if (grace_ms >= 0)
		params_int(&a, "grace_ms", grace_ms);
	return call_make(h, "Notify", &a, WAIT_PROMPT, NULL);
}
