/* SPDX-License-Identifier: Apache-2.0 */
/* How a waiting Step ends: this file replaces the modules around agent/preempt/methods.c. */
#include "agent/preempt/private.h"
#include "agent/supervise/private.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum { WORKERS = 3, CALLS = 4 };

/* --- calls of workers */

struct varlink_call {
	int slot;
	loop_fn gone;
	void *gone_arg;
	char said[256]; /* "" until it is answered */
};

static struct varlink_call calls[CALLS];
static struct worker workers[WORKERS];
static struct preempting preempting;
static struct supervisor agent;
static struct commons commons;

struct preempting *preempting_of(const struct supervisor *sv)
{
	return &preempting;
}

struct supervisor *sharing_supervisor_of(const struct varlink_call *call)
{
	return &agent;
}

struct commons *sharing_commons_of(const struct varlink_call *call)
{
	return &commons;
}

bool preempting_is_up(const struct supervisor *sv)
{
	return sv->on_notice;
}

struct worker *preempting_worker_in(const struct preempting *p, int slot)
{
	return &workers[slot];
}

static void say(struct varlink_call *call, const char *name, json_t *p)
{
	char *text = json_dumps(p, JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(call->said, "");
	snprintf(call->said, sizeof(call->said), "%s%s", name, p ? text : "");
	for (char *c = call->said; *c; c++)
		if (*c == '"')
			*c = '\'';
	free(text);
	json_decref(p);
	call->gone = NULL;
}

int varlink_reply(struct varlink_call *call, json_t *p)
{
	say(call, "", p);
	return 0;
}

int varlink_error(struct varlink_call *call, const char *name, json_t *p)
{
	say(call, name, p);
	return 0;
}

void varlink_call_on_gone(struct varlink_call *call, loop_fn fn, void *arg)
{
	call->gone = fn;
	call->gone_arg = arg;
}

int sharing_fail(struct varlink_call *call, enum status status, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(call, status_name(status), json_pack("{ss}", "message", text));
	return 0;
}

json_t *sharing_error_json(const struct commons *c, const struct members_error *e)
{
	return json_pack("{ssss}", "code", status_name(e->code), "message", e->message);
}

int sharing_slot_of(const struct varlink_call *call)
{
	return call->slot;
}

const char *commons_slot_name(void *c, int slot)
{
	return "worker:1";
}

struct worker *commons_worker(const struct commons *c, int slot)
{
	return slot < WORKERS ? &workers[slot] : NULL;
}

/* --- the agent's part */

static struct preempting_worker steps[WORKERS];
static int asked, forgotten;
static bool continues;
static bool stops;
static int saved_result, notice_result;
static struct preempting_notice noticed;

int supervisor_preempted_status(const struct supervisor *sv)
{
	return 42;
}

json_t *preempting_notice_json(const struct supervisor *sv)
{
	return sv->on_notice ? json_pack("{sssi}", "source", "test", "deadline_us", 7) : NULL;
}

struct preempting_worker *preempting_worker_of(const struct supervisor *sv, int slot)
{
	return &steps[slot];
}

static void answer(int slot, enum preempt_order order, int64_t at)
{
	const struct preempt_do d = {
		.what = PREEMPT_ANSWER, .worker = slot, .order = order, .step = at
	};

	preempting_answer(&preempting, &d);
}

void preempt_add_question(struct preempt *p, int slot, int64_t step, uint64_t now_ms)
{
	asked++;
	continues = step == 0;
}

void preempt_drop_question(struct preempt *p, int slot)
{
	ck_assert_ptr_null(steps[slot].step);
	forgotten++;
}

void preempting_run(struct preempting *p)
{
	for (int i = 0; continues && i < WORKERS; i++)
		answer(i, PREEMPT_CONTINUE, -1);
	if (stops)
		preempting_steps_stop(&preempting);
}

int preempting_saved(
	struct supervisor *sv, struct worker *w, int64_t step, const char *path, struct error *err)
{
	return saved_result ? error_set(err, saved_result, "why not") : 0;
}

int preempting_notice(struct supervisor *sv, const struct preempting_notice *n, struct error *err)
{
	noticed = *n;
	return notice_result ? error_set(err, notice_result, "why not") : 0;
}

/* --- tests */

static void member_answer(void *arg, void *token, const struct members_answer *answer)
{
}

static const char *member_name(void *arg, int slot)
{
	return "x";
}

static void setup(void)
{
	struct members_options opt = { .answer = member_answer, .name = member_name };

	commons = (struct commons){ 0 };
	preempting.sv = &agent;
	preempting.commons = &commons;
	preempting.workers = steps;
	preempting.n_workers = WORKERS;
	ck_assert_int_eq(members_new(&opt, &commons.members), 0);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .slot = i, .pid = 1, .state = WORKER_RUNNING };
		ck_assert_int_eq(members_started(commons.members, i, i == 2, false), 0);
	}
	agent.on_notice = true;
}

static void teardown(void)
{
	for (int i = 0; i < WORKERS; i++)
		ck_assert_ptr_null(steps[i].step);
	members_free(commons.members);
}

static int worker_method(const char *name, struct varlink_call *call, json_t *p)
{
	const struct varlink_method *m = preempting_worker_methods;

	while (strcmp(m->name, name))
		m++;
	return m->fn(call, p, NULL);
}

/* A Step of slot, as call number n. */
static void step(int n, int slot, int64_t number)
{
	json_t *p = json_pack("{sI}", "step", (json_int_t)number);

	calls[n].slot = slot;
	ck_assert_int_eq(worker_method("Step", &calls[n], p), 0);
	json_decref(p);
}

static void says(int n, const char *text)
{
	ck_assert_str_eq(calls[n].said, text);
}

START_TEST(a_step_waits_for_its_answer)
{
	step(0, 0, 5);
	step(1, 1, 5);
	says(0, "");
	answer(1, PREEMPT_SAVE, 5);
	says(0, "");
	says(1, "{'action':'save','at':5,'deadline_us':7,'exit_code':42}");
	answer(0, PREEMPT_EXIT, 5);
	says(0, "{'action':'exit','at':5,'deadline_us':7,'exit_code':42}");
	step(2, 0, 0);
	says(2, "{'action':'continue','deadline_us':7,'exit_code':42}");
	ck_assert_int_eq(forgotten, 0);
}
END_TEST

START_TEST(a_step_without_a_notice_continues)
{
	agent.on_notice = false;
	step(0, 0, 5);
	says(0, "{'action':'continue','exit_code':42}");
	ck_assert_int_eq(asked, 0);
}
END_TEST

START_TEST(a_second_waiting_step_is_refused)
{
	step(0, 0, 5);
	step(1, 0, 6);
	says(1, "FailedPrecondition{'message':'another Step of worker:1 waits already'}");
	answer(0, PREEMPT_SAVE_EXIT, 5);
	says(0, "{'action':'save_exit','at':5,'deadline_us':7,'exit_code':42}");
	step(2, 0, 7);
	ck_assert_int_eq(asked, 2);
	calls[2].gone(calls[2].gone_arg);
}
END_TEST

START_TEST(a_step_ends_with_its_connection)
{
	step(0, 0, 5);
	calls[0].gone(calls[0].gone_arg);
	ck_assert_int_eq(forgotten, 1);
	says(0, "");
	step(1, 0, 5);
	ck_assert_int_eq(asked, 2);
	calls[1].gone(calls[1].gone_arg);
}
END_TEST

START_TEST(a_lost_connection_may_end_all_waiting_steps)
{
	step(0, 0, 5);
	step(1, 1, 5);
	stops = true;
	calls[0].gone(calls[0].gone_arg);
	stops = false;
	says(0, "");
	says(1, "Cancelled{'message':''}");
	ck_assert_int_eq(forgotten, 2);
}
END_TEST

START_TEST(a_step_ends_with_its_process)
{
	step(0, 0, 5);
	step(1, 1, 5);
	preempting_worker_exited(&agent, &workers[1]);
	says(0, "");
	says(1, "Aborted{'message':'the process of worker:1 has ended'}");
	preempting_worker_exited(&agent, &workers[2]);
	ck_assert_int_eq(forgotten, 1);
	calls[0].gone(calls[0].gone_arg);
}
END_TEST

START_TEST(steps_end_with_the_group)
{
	static char why[] = "the group is being stopped: for a test";

	step(0, 0, 5);
	step(1, 1, 5);
	commons.stopping = true;
	commons.why = why;
	preempting_steps_stop(&preempting);
	for (int i = 0; i < 2; i++)
		says(i, "Cancelled{'message':'the group is being stopped: for a test'}");
	ck_assert_int_eq(forgotten, 2);
	step(2, 0, 6);
	says(2, "Cancelled{'message':'the group is being stopped: for a test'}");
	ck_assert_int_eq(asked, 2);
}
END_TEST

#define GROUP_FAILED "GroupFailed{'error':{'code':'ResourceExhausted','message':'Running out'}}"

START_TEST(a_reported_error_answers_every_step)
{
	step(0, 0, 5);
	ck_assert_int_eq(
		members_report(commons.members, 1, STATUS_RESOURCE_EXHAUSTED, "Running out", 1), 0);
	preempting_group_error(&agent);
	preempting_group_error(&agent);
	says(0, GROUP_FAILED);
	step(1, 2, 5);
	says(1, GROUP_FAILED);
	/* The error comes before the stop that follows, and stays after the end of its worker. */
	commons.stopping = true;
	members_ended(commons.members, 1, true, "exit code 1", 2);
	preempting_worker_exited(&agent, &workers[1]);
	step(2, 0, 6);
	says(2, GROUP_FAILED);
	members_reset(commons.members);
	preempting_group_error(&agent);
	ck_assert_int_eq(forgotten, 1);
}
END_TEST

START_TEST(the_end_of_a_worker_does_not_fail_the_steps_of_others)
{
	step(0, 0, 5);
	members_ended(commons.members, 1, true, "killed", 1);
	preempting_worker_exited(&agent, &workers[1]);
	ck_assert_ptr_nonnull(members_group_error(commons.members));
	says(0, "");
	/* The error of a recoverable worker is not the group's. */
	ck_assert_int_eq(members_report(commons.members, 2, STATUS_INTERNAL, "its own", 2), 0);
	preempting_group_error(&agent);
	/* A later error of another worker is. */
	ck_assert_int_eq(
		members_report(commons.members, 0, STATUS_RESOURCE_EXHAUSTED, "Running out", 3), 0);
	preempting_group_error(&agent);
	says(0, GROUP_FAILED);
}
END_TEST

static const char *answer_of(const char *method, json_t *p)
{
	memset(&calls[0], 0, sizeof(calls[0]));
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(worker_method(method, &calls[0], p), 0);
	json_decref(p);
	return calls[0].said;
}

START_TEST(reports_of_saves_are_checked)
{
	static char path[4098];

	ck_assert_str_eq(answer_of("Saved", json_pack("{si}", "step", 5)), "");
	saved_result = -ERANGE;
	ck_assert_str_eq(answer_of("Saved", json_pack("{si}", "step", 5)),
		"OutOfRange{'message':'why not'}");
	saved_result = -ENOENT;
	ck_assert_str_eq(answer_of("Saved", json_pack("{si}", "step", 5)),
		"FailedPrecondition{'message':'why not'}");
	saved_result = -ENOMEM;
	ck_assert_str_eq(answer_of("Saved", json_pack("{si}", "step", 5)),
		"ResourceExhausted{'message':'why not'}");
	saved_result = 0;
	memset(path, 'x', 4096);
	ck_assert_str_eq(answer_of("Saved", json_pack("{siss}", "step", 5, "path", path)), "");
	path[4096] = 'x';
	ck_assert_str_eq(answer_of("Saved", json_pack("{siss}", "step", 5, "path", path)),
		"InvalidArgument{'message':'path: expected at most 4096 bytes, got 4097'}");
}
END_TEST

START_TEST(a_workers_notice_is_the_jobs)
{
	ck_assert_str_eq(answer_of("Notify", json_pack("{ss}", "reason", "tired")), "");
	ck_assert_str_eq(noticed.source, "worker");
	ck_assert_int_eq(noticed.grace_ms, SPEC_UNSET);
	ck_assert_int_eq(noticed.deadline_us, SPEC_UNSET);
	notice_result = -ESHUTDOWN;
	ck_assert_str_eq(answer_of("Notify", json_pack("{sssi}", "reason", "tired", "grace_ms", 0)),
		"FailedPrecondition{'message':'why not'}");
	ck_assert_int_eq(noticed.grace_ms, 0);
	notice_result = -ENOMEM;
	ck_assert_str_eq(answer_of("Notify", json_pack("{ss}", "reason", "tired")),
		"ResourceExhausted{'message':'why not'}");
	ck_assert_str_eq(answer_of("Preemption", json_object()),
		"{'exit_code':42,'notice':{'deadline_us':7,'source':'test'}}");
	agent.on_notice = false;
	ck_assert_str_eq(answer_of("Preemption", json_object()),
		"NotFound{'message':'no notice of preemption is up'}");
}
END_TEST

static const char *notify(void)
{
	memset(&noticed, 0, sizeof(noticed));
	return answer_of("Notify", json_pack("{ss}", "reason", "got a signal"));
}

/* Its signal belongs to its stop. */
START_TEST(a_worker_that_is_being_stopped_gives_no_notice)
{
	const char *refused = "FailedPrecondition{'message':'this worker is being stopped'}";
	const struct worker gone[] = {
		{ .pid = 0 },
		{ .pid = 1, .state = WORKER_STOPPING },
		{ .pid = 1, .on_purpose = true },
		{ .pid = 1, .stop_us = 1 },
	};

	for (size_t i = 0; i < sizeof(gone) / sizeof(*gone); i++) {
		workers[0] = gone[i];
		ck_assert_str_eq(notify(), refused);
		ck_assert_ptr_null(noticed.source);
	}
	workers[0] = (struct worker){ .pid = 1, .state = WORKER_RUNNING };
	ck_assert_str_eq(notify(), "");
	ck_assert_ptr_nonnull(noticed.source);
	/* It has failed, and its state is being saved before it is ended. */
	workers[0] = (struct worker){ .pid = 1, .state = WORKER_RUNNING, .blame = "no beat" };
	ck_assert_str_eq(notify(), "");
	ck_assert_ptr_nonnull(noticed.source);
	commons.stopping = true;
	ck_assert_str_eq(notify(), refused);
}
END_TEST

START_TEST(a_huge_grace_period_is_bounded)
{
	ck_assert_str_eq(answer_of("Notify", json_pack("{sssI}", "reason", "", "grace_ms",
						     (json_int_t)INT64_MAX)),
		"");
	ck_assert_int_eq(noticed.grace_ms, INT64_C(1) << 41);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_preempt");
	TCase *tc = tcase_create("worker_preempt");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_step_waits_for_its_answer);
	tcase_add_test(tc, a_step_without_a_notice_continues);
	tcase_add_test(tc, a_second_waiting_step_is_refused);
	tcase_add_test(tc, a_step_ends_with_its_connection);
	tcase_add_test(tc, a_lost_connection_may_end_all_waiting_steps);
	tcase_add_test(tc, a_step_ends_with_its_process);
	tcase_add_test(tc, steps_end_with_the_group);
	tcase_add_test(tc, a_reported_error_answers_every_step);
	tcase_add_test(tc, the_end_of_a_worker_does_not_fail_the_steps_of_others);
	tcase_add_test(tc, reports_of_saves_are_checked);
	tcase_add_test(tc, a_workers_notice_is_the_jobs);
	tcase_add_test(tc, a_worker_that_is_being_stopped_gives_no_notice);
	tcase_add_test(tc, a_huge_grace_period_is_bounded);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
