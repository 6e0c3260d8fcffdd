/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/worker_calls.h"

#include "common/text/json.h"

#include <string.h>

static void learn_exit_code(struct elasticd *h, const json_t *answer)
{
	int64_t code = json_get_int(answer, "exit_code", -1);

	if (code >= 0 && code <= 255)
		atomic_store(&h->exit_code, (int)code);
}

static int action_of(const char *name)
{
	static const char *const names[] = {
		[ELASTICD_CONTINUE] = "continue",
		[ELASTICD_SAVE] = "save",
		[ELASTICD_SAVE_AND_EXIT] = "save_exit",
		[ELASTICD_EXIT] = "exit",
	};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* A signal does not lose the answer: made again, the call goes on. */
int remote_step(struct elasticd *h, int64_t n, int *ret_action)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	int action, r;

	args_int(&a, "step", n);
	r = remote_call(h, "Step", &a, WAIT_PROMPT, &answer);
	if (r)
		return r;
	action = action_of(json_get_string(answer, "action", ""));
	if (action < 0)
		return fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
	learn_exit_code(h, answer);
	*ret_action = action;
	return 0;
}

int remote_saved(struct elasticd *h, int64_t n, const char *path)
{
	struct args a = ARGS_EMPTY;

	args_int(&a, "step", n);
	args_text(&a, "path", path);
	return remote_call(h, "Saved", &a, WAIT_PROMPT, NULL);
}

int remote_preemption(struct elasticd *h, struct elasticd_preemption *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	const json_t *notice;
	int r = remote_call(h, "Preemption", &a, WAIT_PROMPT, &answer);

	if (r)
		return r;
	learn_exit_code(h, answer);
	notice = json_get_object(answer, "notice");
	*ret = (struct elasticd_preemption){
		.time_us = json_get_int(notice, "time_us", 0),
		.deadline_us = json_get_int(notice, "deadline_us", -1),
		.step = json_get_int(notice, "step", -1),
		.final = json_get_bool(notice, "final", false),
		.exit_code = elasticd_exit_code(h),
	};
	text_cut(ret->source, sizeof(ret->source), json_get_string(notice, "source", ""));
	text_cut(ret->reason, sizeof(ret->reason), json_get_string(notice, "reason", ""));
	return 0;
}

int remote_notify(struct elasticd *h, const char *reason, int64_t grace_ms)
{
	struct args a = ARGS_EMPTY;
	char cut[WORKER_REASON_MAX + 1];

	text_cut(cut, sizeof(cut), reason);
	args_text(&a, "reason", cut);
	if (grace_ms >= 0)
		args_int(&a, "grace_ms", grace_ms);
	return remote_call(h, "Notify", &a, WAIT_PROMPT, NULL);
}
