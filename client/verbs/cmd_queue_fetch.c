/* SPDX-License-Identifier: Apache-2.0 */
/* task fetch: prints results in the order of the arguments, a part of them at a time. */
#include "client/output/screen.h"
#include "client/queue/client.h"
#include "client/queue/payload.h"
#include "client/verbs/verbs.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <string.h>

#define EXPECTED "expected numbers of tasks, or --all"

enum { PART = 256 };

struct fetch {
	struct queue_client q;
	struct ctl *ctl;
	bool release, raw;
	bool failed; /* a task did not succeed */
};

static int print_raw(struct fetch *f, const json_t *outcome)
{
	_cleanup_free_ char *data = NULL;
	size_t len;

	if (payload_get(outcome, "value", &data, &len) < 0)
		return ctl_error(f->ctl, CTL_REFUSED, "the value is not understood");
	screen_exact(stdout);
	fwrite(data ? data : "", 1, len, stdout);
	return 0;
}

static int print_outcome(struct fetch *f, const json_t *outcome)
{
	const char *state = get_text(outcome, "state");
	bool good = state && !strcmp(state, "succeeded");
	_cleanup_free_ char *line = NULL;

	if (!good) {
		f->failed = true;
		queue_print_outcome(f->ctl, outcome);
	}
	if (f->raw)
		return good ? print_raw(f, outcome) : 0;
	line = payload_result(outcome, NULL);
	if (!line)
		return ctl_error(f->ctl, CTL_FAILED, "out of memory");
	puts(line);
	return 0;
}

/* Prints outcomes, then releases them. */
static int print_outcomes(struct fetch *f, const json_t *outcomes)
{
	_cleanup_json_ json_t *printed = json_array();
	json_t *outcome;
	size_t i;
	int r = 0;

	json_array_foreach (outcomes, i, outcome) {
		r = print_outcome(f, outcome);
		if (r != 0)
			return r;
		if (json_array_append_new(printed, json_integer(get_int(outcome, "task"))) < 0)
			return ctl_error(f->ctl, CTL_FAILED, "out of memory");
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return ctl_flush(f->ctl, CTL_REFUSED);
	if (f->release && json_array_size(printed))
		r = queue_call(&f->q, QUEUE_METHOD("Release"),
			ctl_with(queue_parameters(&f->q), "tasks", TAKE_PTR(printed)), NULL);
	return r;
}

/* After --timeout: prints the tasks that have ended by now. */
static int print_ended(struct fetch *f, const json_t *numbers)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	json_t *p = ctl_with(queue_parameters(&f->q), "tasks", json_incref((json_t *)numbers));
	int r;

	p = ctl_with(ctl_with(p, "any", json_true()), "timeout_ms", json_integer(0));
	r = queue_try(&f->q, QUEUE_METHOD("FetchMany"), p, &answer, &name, &err);
	return r == 0 ? print_outcomes(f, json_object_get(answer, "outcomes")) : 0;
}

/* Fetches all of numbers (taken). */
static int fetch_part(struct fetch *f, json_t *numbers)
{
	while (json_array_size(numbers) > 0) {
		_cleanup_json_ json_t *answer = NULL;
		const json_t *outcomes;
		json_t *p = ctl_with(queue_parameters(&f->q), "tasks", json_incref(numbers));
		int r = queue_call(&f->q, QUEUE_METHOD("FetchMany"),
			queue_deadline(&f->q, p, "timeout_ms"), &answer);

		if (r == CTL_TIMED_OUT) {
			int again = print_ended(f, numbers);

			return again ? again : r;
		}
		if (r != 0)
			return r;
		outcomes = json_object_get(answer, "outcomes");
		r = print_outcomes(f, outcomes);
		if (r != 0)
			return r;
		if (json_array_size(outcomes) == 0)
			return ctl_error(f->ctl, CTL_REFUSED, "an answer without any task");
		for (size_t n = json_array_size(outcomes); n > 0; n--)
			json_array_remove(numbers, 0);
	}
	return 0;
}

static int fetch_numbers(struct fetch *f, const struct args *args)
{
	int r = 0;

	for (int i = 0; r == 0 && i < args->argc; i += PART) {
		struct args part = { .argc = args->argc - i < PART ? args->argc - i : PART,
			.argv = args->argv + i };
		_cleanup_json_ json_t *numbers = NULL;

		r = queue_numbers(&f->q, &part, &numbers);
		if (r == 0)
			r = fetch_part(f, numbers);
	}
	return r;
}

static int fetch_all(struct fetch *f)
{
	int64_t after = -1;
	bool more = true;

	while (more) {
		_cleanup_json_ json_t *answer = NULL, *numbers = json_array();
		json_t *p = ctl_with(queue_parameters(&f->q), "limit", json_integer(PART)), *task;
		size_t i;
		int r;

		p = ctl_with(p, "queue", queue_text(f->q.queue ? f->q.queue : ""));
		if (after >= 0)
			p = ctl_with(p, "after", json_integer(after));
		r = queue_call(&f->q, QUEUE_METHOD("List"), p, &answer);
		if (r != 0)
			return r;
		json_array_foreach (json_object_get(answer, "tasks"), i, task) {
			after = get_int(task, "task");
			if (json_array_append_new(numbers, json_integer(after)) < 0)
				return ctl_error(f->ctl, CTL_FAILED, "out of memory");
		}
		more = json_get_bool(answer, "more", false) && json_array_size(numbers) > 0;
		r = fetch_part(f, numbers);
		if (r != 0)
			return r;
	}
	return 0;
}

int cmd_task_fetch(struct ctl *ctl, struct args *args)
{
	bool all = args_has(args, "all");
	struct fetch f = {
		.ctl = ctl, .release = args_has(args, "release"), .raw = args_has(args, "raw")
	};
	int r = queue_begin(ctl, args, true, all ? NULL : EXPECTED, &f.q);
	int64_t n;

	if (r != 0)
		return r;
	if (all == (args->argc > 0))
		return ctl_usage(ctl, EXPECTED);
	if (!all && f.q.queue)
		return ctl_usage(ctl, "--queue is for --all: numbers are those of the job");
	if (f.raw && args->argc != 1)
		return ctl_usage(ctl, "--raw is for one task");
	for (int i = 0; i < args->argc; i++)
		if (!queue_number(args->argv[i], &n))
			return ctl_usage(
				ctl, "expected the number of a task, got \"%s\"", args->argv[i]);
	r = all ? fetch_all(&f) : fetch_numbers(&f, args);
	return r == 0 && f.failed ? CTL_REFUSED : r;
}
