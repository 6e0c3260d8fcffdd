/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempting.h"

#include "common/json.h"

#include <errno.h>
#include <stdlib.h>

struct preempting {
	struct agent *a;
	bool up;
};

int preempting_new(struct agent *a, struct error *err)
{
	a->preempting = calloc(1, sizeof(*a->preempting));
	if (!a->preempting)
		return error_set(err, -ENOMEM, "out of memory");
	a->preempting->a = a;
	return 0;
}

void preempting_free(struct agent *a)
{
	free(a->preempting);
	a->preempting = NULL;
}

bool preempting_is_up(const struct agent *a)
{
	return a->preempting && a->preempting->up;
}

int preempting_notice(struct agent *a, const struct preempting_notice *n, struct error *err)
{
	return error_set(err, -ESHUTDOWN, "%s: the job is at its end", a->spec->name);
}

void preempting_task_started(struct agent *a, struct task *t)
{
}

enum preempt_meaning preempting_task_ended(struct agent *a, struct task *t)
{
	return task_bad_exit(t) ? PREEMPT_FAILED : PREEMPT_SUCCEEDED;
}

void preempting_cancel(struct agent *a)
{
}

void preempting_ask(
	struct agent *a, struct task *t, int64_t step, preempting_answer_fn answer, void *arg)
{
	answer(arg, PREEMPT_CONTINUE, step);
}

void preempting_forget(struct agent *a, struct task *t)
{
}

int preempting_saved(
	struct agent *a, struct task *t, int64_t step, const char *path, struct error *err)
{
	return error_set(err, -ENOENT, "there is no notice of preemption");
}

void preempting_error(struct agent *a, bool up)
{
}

json_t *preempting_notice_json(const struct agent *a)
{
	return NULL;
}

json_t *preempting_json(const struct agent *a)
{
	return NULL;
}

int preempting_exit_code(const struct agent *a)
{
	int code = a->spec->preemption.exit_code;

	return code == SPEC_UNSET ? PREEMPTING_EXIT_CODE : code;
}

int preempting_task_json(const struct agent *a, const struct task *t, json_t *task)
{
	return 0;
}
