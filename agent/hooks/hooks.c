/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/hooks.h"

#include "agent/process/env_list.h"
#include "agent/supervise/side_program.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	HOOKS_WAITING_MAX = 16,
	HOOKS_END_MS = 20000, /* for all hooks that are left when the job has ended */
};

/* A hook that runs, or waits for its turn. */
struct hook {
	STAILQ_ENTRY(hook) link;
	enum spec_hook which;
	int attempt;
	char *input;
};

struct hooks {
	struct supervisor *sv;
	STAILQ_HEAD(hook_list, hook) list; /* the first is the one that runs */
	int n;
	struct side_program *program;
	int started;	   /* attempts that have run */
	bool noticed;	   /* the hook for the present notice was added */
	uint64_t ended_ms; /* when the job had ended; 0: not yet */
	bool hurried;	   /* the agent waits for hooks no longer */
	loop_fn end_fn;
	void *end_arg;
};

static struct hooks *hooks_of(const struct supervisor *sv)
{
	return feature_state(sv, &hooks_feature);
}

static struct hook *hook_free(struct hook *x)
{
	if (x) {
		free(x->input);
		free(x);
	}
	return NULL;
}

static void hooks_report_failure(struct hooks *h, const struct hook *x, const char *text)
{
	log_warning("hooks.%s: %s", spec_hook_names[x->which], text);
	events_add(supervisor_events(h->sv), "hook-failed", x->attempt, -1, NULL, "hooks.%s: %s",
		spec_hook_names[x->which], text);
}

static void hooks_next(struct hooks *h);

static void hooks_pop(struct hooks *h)
{
	struct hook *x = STAILQ_FIRST(&h->list);

	STAILQ_REMOVE_HEAD(&h->list, link);
	h->n--;
	hook_free(x);
}

static void hook_on_end(void *arg, const struct side_program_end *end)
{
	struct hooks *h = arg;
	char text[512];

	side_program_fault(end, text, sizeof(text));
	if (text[0])
		hooks_report_failure(h, STAILQ_FIRST(&h->list), text);
	h->program = side_program_free(h->program);
	hooks_pop(h);
	hooks_next(h);
}

static int hook_environment(const struct hooks *h, const struct hook *x, struct env *e)
{
	int r = side_program_environment(h->sv, e);

	r = r ? r : env_setf(e, "ELASTICD_HOOK", "%s", spec_hook_names[x->which]);
	return r ? r : env_setf(e, "ELASTICD_ATTEMPT", "%d", x->attempt < 0 ? 0 : x->attempt);
}

/* How long a hook that begins now may run; 0: it may not run. */
static uint64_t hooks_limit_ms(const struct hooks *h)
{
	uint64_t limit = (uint64_t)supervisor_spec(h->sv)->hooks.timeout_ms;
	uint64_t gone = h->ended_ms ? loop_now_ms() - h->ended_ms : 0;
	uint64_t left = gone < HOOKS_END_MS && !h->hurried ? HOOKS_END_MS - gone : 0;

	return h->ended_ms && left < limit ? left : limit;
}

static int hook_start(struct hooks *h, const struct hook *x, struct error *err)
{
	_cleanup_(env_fini) struct env env = { 0 };
	struct side_program_request req = {
		.argv = supervisor_spec(h->sv)->hooks.commands[x->which],
		.input = x->input,
		.limit_ms = hooks_limit_ms(h),
	};

	if (!req.limit_ms)
		return error_set(
			err, -ETIME, "not run: the job has ended, and its agent waits no longer");
	if (hook_environment(h, x, &env) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	req.envp = env.vars;
	return side_program_new(h->sv, &req, hook_on_end, h, &h->program, err);
}

static void hooks_next(struct hooks *h)
{
	struct hook *x;
	loop_fn fn = h->end_fn;

	while (!h->program && (x = STAILQ_FIRST(&h->list))) {
		struct error err = { 0 };

		if (hook_start(h, x, &err) == 0)
			return;
		hooks_report_failure(h, x, err.text);
		hooks_pop(h);
	}
	if (!h->program && fn) {
		h->end_fn = NULL;
		fn(h->end_arg);
	}
}

static char *hook_input(const struct hooks *h, enum spec_hook which, const json_t *failures)
{
	_cleanup_json_ json_t *input = json_object();

	json_put(input, "hook", json_string(spec_hook_names[which]));
	json_put(input, "time_us", json_integer((json_int_t)loop_real_us()));
	json_put(input, "host", json_text(supervisor_host(h->sv)));
	json_put(input, "job", job_json(h->sv, false));
	if (failures)
		json_put(input, "failures", json_deep_copy(failures));
	return input ? json_dump_text(input, NULL) : NULL;
}

/* Adds a hook to the queue, if the specification has it. */
static void hooks_add(struct supervisor *sv, enum spec_hook which, const json_t *failures)
{
	struct hooks *h = hooks_of(sv);
	struct hook *x;
	bool room;

	if (!h || !supervisor_spec(sv)->hooks.commands[which])
		return;
	x = calloc(1, sizeof(*x));
	if (!x)
		return;
	x->which = which;
	x->attempt = supervisor_attempt(sv);
	room = h->n < HOOKS_WAITING_MAX || which == SPEC_HOOK_END;
	if (room)
		x->input = hook_input(h, which, failures);
	if (!x->input) {
		hooks_report_failure(h, x,
			room ? "not run: out of memory"
			     : "not run: too many others wait for their turn");
		hook_free(x);
		return;
	}
	STAILQ_INSERT_TAIL(&h->list, x, link);
	h->n++;
	hooks_next(h);
}

static int hooks_init(struct supervisor *sv, struct error *err)
{
	struct hooks *h;
	bool any = false;

	for (int i = 0; i < SPEC_N_HOOKS; i++)
		any = any || supervisor_spec(sv)->hooks.commands[i];
	if (!any)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	h->sv = sv;
	h->started = supervisor_agents(sv);
	STAILQ_INIT(&h->list);
	feature_set_state(sv, &hooks_feature, h);
	return 0;
}

static void hooks_fini(struct supervisor *sv)
{
	struct hooks *h = hooks_of(sv);

	if (!h)
		return;
	feature_set_state(sv, &hooks_feature, NULL);
	side_program_free(h->program);
	while (h->n)
		hooks_pop(h);
	free(h);
}

static void hooks_running(struct supervisor *sv)
{
	struct hooks *h = hooks_of(sv);

	if (!h)
		return;
	h->noticed = false;
	hooks_add(sv, h->started++ ? SPEC_HOOK_RESTART : SPEC_HOOK_START, NULL);
}

static void hooks_attempt_over(struct supervisor *sv, const json_t *failures)
{
	if (json_array_size(failures))
		hooks_add(sv, SPEC_HOOK_FAILURE, failures);
}

static void hooks_changed(struct supervisor *sv)
{
	struct hooks *h = hooks_of(sv);

	if (!h || h->noticed == supervisor_on_notice(sv))
		return;
	h->noticed = supervisor_on_notice(sv);
	if (h->noticed)
		hooks_add(sv, SPEC_HOOK_PREEMPTION, NULL);
}

static bool hooks_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	struct hooks *h = hooks_of(sv);

	if (!h || (!h->program && !supervisor_spec(sv)->hooks.commands[SPEC_HOOK_END]))
		return false;
	h->ended_ms = loop_now_ms();
	h->end_fn = fn;
	h->end_arg = arg;
	if (h->program)
		side_program_hurry(h->program, HOOKS_END_MS);
	hooks_add(sv, SPEC_HOOK_END, NULL);
	hooks_next(h); /* calls fn if no hook was added */
	return true;
}

static void hooks_hurry(struct supervisor *sv)
{
	struct hooks *h = hooks_of(sv);

	if (!h)
		return;
	h->hurried = true;
	if (h->program)
		side_program_hurry(h->program, 0);
}

static bool hooks_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	struct hooks *h = hooks_of(sv);

	return h && side_program_exited(h->program, si);
}

static size_t hooks_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	const struct hooks *h = hooks_of(sv);

	if (!h || !max || side_program_pid(h->program) <= 0)
		return 0;
	pids[0] = side_program_pid(h->program);
	return 1;
}

const struct feature hooks_feature = {
	.name = "hooks",
	.init = hooks_init,
	.fini = hooks_fini,
	.group_running = hooks_running,
	.attempt_over = hooks_attempt_over,
	.changed = hooks_changed,
	.last_answers = hooks_last_answers,
	.hurry = hooks_hurry,
	.child_exited = hooks_child_exited,
	.helper_pids = hooks_helpers,
};
