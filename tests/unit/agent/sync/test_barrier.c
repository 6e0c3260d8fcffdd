/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/barrier.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <stdio.h>

#define NEVER UINT64_MAX

struct answered {
	intptr_t token;
	enum status status;
	int64_t generation;
	size_t n_missing;
	int first_missing, last_missing;
	char message[512];
};

static struct barriers *b;
static struct answered answers[128];
static int n_answers;
/* The callback of the next answer calls this. */
static void (*in_callback)(intptr_t token, const struct barrier_answer *a);

static const char *name_of(void *arg, int slot)
{
	static char text[32];

	(void)arg;
	snprintf(text, sizeof(text), "worker:%d", slot);
	return text;
}

static void on_answer(void *arg, void *token, const struct barrier_answer *a)
{
	struct answered *t = &answers[n_answers++ % 128];
	void (*fn)(intptr_t, const struct barrier_answer *) = in_callback;

	(void)arg;
	t->token = (intptr_t)token;
	t->status = a->status;
	t->generation = a->generation;
	t->n_missing = a->n_missing;
	t->first_missing = a->n_missing ? a->missing[0] : -1;
	t->last_missing = a->n_missing ? a->missing[a->n_missing - 1] : -1;
	snprintf(t->message, sizeof(t->message), "%s", a->message);
	if (fn)
		fn((intptr_t)token, a);
}

static int all_slots[8192];

static void setup(void)
{
	for (int i = 0; i < 8192; i++)
		all_slots[i] = i;
	n_answers = 0;
	in_callback = NULL;
	ck_assert_int_eq(barriers_new(on_answer, name_of, NULL, &b), 0);
}

static void teardown(void)
{
	b = barriers_free(b);
}

static void arrive_at(const char *name, int slot, size_t n, intptr_t token)
{
	ck_assert_int_eq(
		barriers_arrive(b, name, slot, all_slots, n, false, NEVER, 1, (void *)token), 0);
}

static void arrive_by(int slot, size_t n, uint64_t deadline, intptr_t token)
{
	ck_assert_int_eq(
		barriers_arrive(b, "x", slot, all_slots, n, false, deadline, 1, (void *)token), 0);
}

static void arrive(int slot, intptr_t token)
{
	arrive_at("x", slot, 3, token);
}

static const struct answered *answer_of(intptr_t token)
{
	for (int i = 0; i < n_answers; i++)
		if (answers[i].token == token)
			return &answers[i];
	ck_abort_msg("call %ld is not answered", (long)token);
}

START_TEST(barrier_waits_for_its_last_member)
{
	arrive(0, 1);
	arrive(1, 2);
	ck_assert_int_eq(n_answers, 0);
	arrive(2, 3);
	ck_assert_int_eq(n_answers, 3);
	for (int i = 1; i <= 3; i++) {
		ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
		ck_assert_int_eq(answer_of(i)->generation, 0);
		ck_assert_str_eq(answer_of(i)->message, "");
	}
}
END_TEST

START_TEST(second_arrival_cancels_the_older_call_and_counts_once)
{
	arrive(0, 1);
	arrive(1, 2);
	arrive(1, 3);
	ck_assert_int_eq(n_answers, 1);
	ck_assert_int_eq(answer_of(2)->status, STATUS_CANCELLED);
	arrive(2, 4);
	ck_assert_int_eq(answer_of(1)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
}
END_TEST

/* Arrives without a list, while the first n slots are the default members. */
static void arrive_default(int slot, size_t n, intptr_t token)
{
	ck_assert_int_eq(
		barriers_arrive(b, "x", slot, all_slots, n, true, NEVER, 1, (void *)token), 0);
}

START_TEST(later_default_caller_takes_the_first_callers_members)
{
	arrive_default(0, 3, 1);
	arrive_default(2, 3, 2);
	barriers_worker_ended(b, 2, false, false, "it has taken its leave");
	arrive_default(1, 2, 3);
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
	arrive_default(0, 2, 4);
	arrive_default(1, 2, 5);
	ck_assert_int_eq(answer_of(5)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(5)->generation, 1);
}
END_TEST

START_TEST(later_caller_outside_the_default_members_alone_is_refused)
{
	arrive_default(0, 2, 1);
	arrive_default(2, 3, 2);
	ck_assert_int_eq(n_answers, 1);
	ck_assert_int_eq(answer_of(2)->status, STATUS_INVALID_ARGUMENT);
	arrive_default(1, 3, 3);
	ck_assert_int_eq(answer_of(1)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
}
END_TEST

/* Later callers pass their own slot alone. */
START_TEST(default_arrival_may_pass_its_slot_alone)
{
	ck_assert(!barriers_begun_default(b, "x", 1));
	arrive_by(0, 2, NEVER, 1);
	ck_assert(!barriers_begun_default(b, "x", 1));
	arrive_by(1, 2, NEVER, 2);
	for (int round = 0; round < 2; round++) {
		int token = 10 * round + 3;

		arrive_default(0, 3, token);
		for (int slot = 1; slot <= 2; slot++) {
			ck_assert(barriers_begun_default(b, "x", 1));
			ck_assert_int_eq(barriers_arrive(b, "x", slot, &slot, 1, true, NEVER, 1,
						 (void *)(intptr_t)(token + slot)),
				0);
		}
		ck_assert(!barriers_begun_default(b, "x", 1));
		for (int i = token; i < token + 3; i++)
			ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
	}
	ck_assert_int_eq(
		barriers_arrive(b, "x", 0, all_slots, 2, true, 100, 1, (void *)(intptr_t)30), 0);
	ck_assert(barriers_begun_default(b, "x", 99));
	ck_assert(!barriers_begun_default(b, "x", 100));
}
END_TEST

START_TEST(named_and_default_members_must_agree)
{
	arrive_default(0, 3, 1);
	arrive_by(1, 2, NEVER, 2);
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	arrive_default(2, 3, 3); /* gets that failure */
	ck_assert_int_eq(answer_of(3)->status, STATUS_INVALID_ARGUMENT);
	arrive_by(0, 3, NEVER, 4);
	arrive_default(1, 2, 5);
	ck_assert_int_eq(answer_of(4)->status, STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(timeout_names_missing_workers)
{
	arrive_by(1, 3, 100, 1);
	ck_assert_uint_eq(barriers_expire(b, 99), 100);
	ck_assert_int_eq(n_answers, 0);
	ck_assert_uint_eq(barriers_expire(b, 100), NEVER);
	ck_assert_int_eq(answer_of(1)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\" timed out: reached 1 of 3; missing: worker:0, worker:2");
	ck_assert_int_eq(answer_of(1)->n_missing, 2);
}
END_TEST

START_TEST(late_member_gets_the_failure_once)
{
	arrive_by(0, 2, 100, 1);
	barriers_expire(b, 100);
	arrive_by(1, 2, NEVER, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(answer_of(2)->message, answer_of(1)->message);
	arrive_by(1, 2, NEVER, 3);
	arrive_by(0, 2, NEVER, 4);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(4)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(4)->generation, 1);
}
END_TEST

START_TEST(timeout_lists_thousands_and_its_text_fits)
{
	arrive_by(4095, 4096, 100, 1);
	barriers_expire(b, 100);
	ck_assert_int_eq(answer_of(1)->n_missing, 4095);
	ck_assert_int_eq(answer_of(1)->first_missing, 0);
	ck_assert_int_eq(answer_of(1)->last_missing, 4094);
	ck_assert_ptr_nonnull(strstr(answer_of(1)->message, "reached 1 of 4096"));
	ck_assert_ptr_nonnull(strstr(answer_of(1)->message, " more"));
	ck_assert_int_gt(strlen(answer_of(1)->message), 450);
}
END_TEST

START_TEST(thousands_pass_together)
{
	int n = under_valgrind() ? 512 : 4096;

	for (int i = 1; i < n; i++)
		arrive_by(i, (size_t)n, NEVER, i + 1);
	ck_assert_int_eq(n_answers, 0);
	arrive_by(0, (size_t)n, NEVER, 1);
	ck_assert_int_eq(n_answers, n);
}
END_TEST

START_TEST(ended_member_fails_the_barrier_and_is_named)
{
	arrive(0, 1);
	barriers_worker_ended(b, 2, true, false, "signal 9 (Killed)");
	ck_assert_int_eq(answer_of(1)->status, STATUS_INTERNAL);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\" failed, reached 1 of 3: worker:2 (signal 9 (Killed))");
	ck_assert_int_eq(answer_of(1)->n_missing, 1);
	ck_assert_int_eq(answer_of(1)->first_missing, 2);
}
END_TEST

START_TEST(arrival_after_ends_names_all_ended_members)
{
	barriers_worker_ended(b, 2, false, false, "exit code 0");
	barriers_worker_ended(b, 1, true, false, "exit code 7");
	arrive(0, 1);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\" failed, reached 1 of 3: worker:1 (exit code 7), worker:2");
	ck_assert_int_eq(answer_of(1)->n_missing, 2);
	barriers_worker_started(b, 1);
	barriers_worker_started(b, 2);
	arrive(0, 2);
	arrive(1, 3);
	arrive(2, 4);
	ck_assert_int_eq(answer_of(4)->status, STATUS_OK);
}
END_TEST

START_TEST(stopping_a_member_fails_the_barrier_at_once)
{
	arrive(0, 1);
	barriers_worker_stopped(b, 2);
	ck_assert_int_eq(answer_of(1)->status, STATUS_FAILED_PRECONDITION);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\" failed, reached 1 of 3: worker:2 was stopped by an operator");
	/* Its later end does not change the reason: callers that name it get the same error. */
	barriers_worker_ended(b, 2, false, false, "signal 15 (Terminated)");
	arrive(1, 2);
	arrive(1, 3);
	ck_assert_int_eq(answer_of(3)->status, STATUS_FAILED_PRECONDITION);
	barriers_worker_started(b, 2);
	arrive(0, 4);
	arrive(0, 5);
	arrive(1, 6);
	arrive(2, 7);
	ck_assert_int_eq(answer_of(7)->status, STATUS_OK);
}
END_TEST

START_TEST(member_stopped_after_its_arrival_fails_nothing)
{
	arrive(2, 1);
	barriers_worker_stopped(b, 2);
	arrive(0, 2);
	arrive(1, 3);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
}
END_TEST

START_TEST(good_end_after_the_arrival_fails_nothing)
{
	arrive(0, 1);
	barriers_forget(b, (void *)1);
	barriers_worker_ended(b, 0, false, false, "exit code 0");
	arrive(1, 2);
	arrive(2, 3);
	ck_assert_int_eq(n_answers, 2);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
}
END_TEST

START_TEST(recoverable_member_restarts_inside_a_barrier)
{
	arrive(0, 1);
	arrive(1, 2);
	barriers_worker_ended(b, 1, true, true, "signal 9");
	ck_assert_int_eq(n_answers, 1);
	ck_assert_int_eq(answer_of(2)->status, STATUS_CANCELLED);
	arrive(2, 3);
	ck_assert_int_eq(n_answers, 1);
	barriers_worker_started(b, 1);
	arrive(1, 4);
	ck_assert_int_eq(answer_of(1)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(3)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(4)->status, STATUS_OK);
}
END_TEST

START_TEST(new_process_does_not_get_failures_of_the_old_one)
{
	arrive_by(0, 2, 100, 1);
	barriers_worker_ended(b, 1, true, true, "signal 9");
	barriers_expire(b, 100);
	barriers_worker_started(b, 1);
	arrive_by(1, 2, NEVER, 2);
	ck_assert_int_eq(n_answers, 1);
	arrive_by(0, 2, NEVER, 3);
	ck_assert_int_eq(answer_of(2)->status, STATUS_OK);
}
END_TEST

START_TEST(different_members_fail_the_barrier_and_name_the_caller)
{
	static const int two[] = { 2, 1, 2 };

	arrive(0, 1);
	ck_assert_int_eq(barriers_arrive(b, "x", 2, two, 3, false, NEVER, 1, (void *)2), 0);
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(answer_of(2)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\": worker:2 arrived with other members than worker:0, which was first: "
		"only one of them named worker:0");
	arrive(1, 3);
	ck_assert_int_eq(answer_of(3)->status, STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(caller_outside_its_own_members_fails_the_barrier)
{
	arrive(3, 1); /* of 0, 1, 2 */
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(answer_of(1)->message,
		"barrier \"x\": worker:3 arrived but is not one of its members");
	arrive(0, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_INVALID_ARGUMENT);
	arrive(0, 3);
	arrive(3, 4);
	ck_assert_int_eq(answer_of(3)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(answer_of(4)->status, STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(order_of_members_does_not_matter)
{
	static const int one[] = { 2, 0, 1 }, other[] = { 1, 2, 1, 0 };

	ck_assert_int_eq(barriers_arrive(b, "x", 2, one, 3, false, NEVER, 1, (void *)1), 0);
	arrive(0, 2);
	ck_assert_int_eq(barriers_arrive(b, "x", 1, other, 4, false, NEVER, 1, (void *)3), 0);
	ck_assert_int_eq(answer_of(2)->status, STATUS_OK);
}
END_TEST

START_TEST(cancel_gives_its_text_and_needs_a_waiting_worker)
{
	arrive(0, 1);
	ck_assert_int_eq(barriers_fail(b, "x", -1, STATUS_CANCELLED, "no more data"), 0);
	ck_assert_int_eq(answer_of(1)->status, STATUS_CANCELLED);
	ck_assert_str_eq(answer_of(1)->message, "no more data");
	ck_assert_int_eq(barriers_fail(b, "x", -1, STATUS_CANCELLED, "no more data"), -ENOENT);
	ck_assert_int_eq(barriers_fail(b, "y", -1, STATUS_CANCELLED, "no more data"), -ENOENT);
	arrive(1, 2);
	ck_assert_str_eq(answer_of(2)->message, "no more data");
	arrive_at("z", 0, 1, 3);
	ck_assert_int_eq(barriers_fail(b, "z", -1, STATUS_CANCELLED, NULL), -ENOENT);
}
END_TEST

START_TEST(wrong_call_fails_the_others_and_not_its_caller)
{
	arrive(0, 1);
	ck_assert_int_eq(
		barriers_fail(b, "x", 1, STATUS_INVALID_ARGUMENT, "there is no worker ps:9"), 0);
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	arrive(1, 2);
	ck_assert_int_eq(n_answers, 1);
	arrive(2, 3);
	ck_assert_str_eq(answer_of(3)->message, "there is no worker ps:9");
}
END_TEST

START_TEST(stop_answers_all_arrivals_until_the_reset)
{
	arrive(0, 1);
	barriers_stop(b, STATUS_ABORTED, "the group is restarted");
	arrive_at("y", 0, 3, 2);
	ck_assert_int_eq(answer_of(1)->status, STATUS_ABORTED);
	ck_assert_int_eq(answer_of(2)->status, STATUS_ABORTED);
	ck_assert_str_eq(answer_of(2)->message, "the group is restarted");
	barriers_reset(b);
	arrive(0, 3);
	arrive(1, 4);
	arrive(2, 5);
	ck_assert_int_eq(answer_of(5)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(5)->generation, 0);
}
END_TEST

START_TEST(arrival_at_the_deadline_is_too_late)
{
	arrive_by(0, 2, 100, 1);
	ck_assert_int_eq(
		barriers_arrive(b, "x", 1, (int[]){ 0, 1 }, 2, false, NEVER, 100, (void *)2), 0);
	ck_assert_int_eq(answer_of(1)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(answer_of(2)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_uint_eq(barriers_expire(b, 100), NEVER);
}
END_TEST

START_TEST(first_arrivals_deadline_counts)
{
	arrive_by(0, 3, 500, 1);
	arrive_by(1, 3, 200, 2);
	ck_assert_int_eq(
		barriers_arrive(b, "y", 0, (int[]){ 0, 1 }, 2, false, 300, 1, (void *)3), 0);
	ck_assert_uint_eq(barriers_expire(b, 1), 300);
	ck_assert_int_eq(barriers_fail(b, "y", -1, STATUS_CANCELLED, ""), 0);
	ck_assert_uint_eq(barriers_expire(b, 1), 500);
}
END_TEST

START_TEST(names_and_members_outside_the_limits_are_refused)
{
	char name[BARRIER_NAME_MAX + 2];
	int bad[] = { 0, BARRIER_SLOTS };

	memset(name, 'n', sizeof(name));
	name[BARRIER_NAME_MAX + 1] = '\0';
	arrive_at(name, 0, 3, 1);
	arrive_at("", 0, 3, 2);
	ck_assert_int_eq(barriers_arrive(b, "x", 0, bad, 2, false, NEVER, 1, (void *)3), 0);
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(answer_of(i)->status, STATUS_INVALID_ARGUMENT);
	name[BARRIER_NAME_MAX] = '\0';
	arrive_at(name, 0, 1, 4);
	ck_assert_int_eq(answer_of(4)->status, STATUS_OK);
}
END_TEST

static char *many_name(int i)
{
	static char text[16];

	snprintf(text, sizeof(text), "step-%d", i);
	return text;
}

START_TEST(longest_unused_name_is_forgotten_first)
{
	if (under_valgrind())
		return;
	arrive_at("open", 0, 2, 1);
	arrive_at("used once", 0, 1, 2);
	arrive_at("used again and again", 0, 1, 3);
	for (int i = 0; i < BARRIER_NAMES; i++) {
		arrive_at(many_name(i), 0, 1, 4);
		if (i % 1000 == 0)
			arrive_at("used again and again", 0, 1, 5);
	}
	n_answers = 0;
	arrive_at("open", 1, 2, 6);
	arrive_at("used once", 0, 1, 7);
	arrive_at("used again and again", 0, 1, 8);
	ck_assert_int_eq(answer_of(1)->status, STATUS_OK);
	ck_assert_int_eq(answer_of(7)->generation, 0);
	ck_assert_int_eq(answer_of(8)->generation, 67);
}
END_TEST

START_TEST(undelivered_failure_outlives_unused_names)
{
	if (under_valgrind())
		return;
	arrive_by(0, 2, 100, 1);
	barriers_expire(b, 100);
	for (int i = 0; i < BARRIER_NAMES + 10; i++)
		arrive_at(many_name(i), 0, 1, 2);
	n_answers = 0;
	arrive_by(1, 2, NEVER, 3);
	ck_assert_int_eq(answer_of(3)->status, STATUS_DEADLINE_EXCEEDED);
}
END_TEST

START_TEST(too_many_open_names_are_refused_until_one_ends)
{
	if (under_valgrind())
		return;
	for (int i = 0; i < BARRIER_NAMES; i++)
		arrive_at(many_name(i), 0, 2, i + 1);
	ck_assert_int_eq(n_answers, 0);
	arrive_at("one more", 0, 2, 100000);
	ck_assert_int_eq(answer_of(100000)->status, STATUS_RESOURCE_EXHAUSTED);
	arrive_at(many_name(7), 1, 2, 100001);
	n_answers = 0;
	arrive_at("one more", 0, 1, 100002);
	ck_assert_int_eq(answer_of(100002)->status, STATUS_OK);
}
END_TEST

START_TEST(too_many_members_are_refused_after_old_failures_are_dropped)
{
	int fit = BARRIER_MEMBERS / 4096;

	if (under_valgrind())
		return;
	for (int i = 0; i < fit; i++) {
		arrive_at(many_name(i), 0, 4096, i + 1);
		ck_assert_int_eq(barriers_fail(b, many_name(i), -1, STATUS_CANCELLED, "no"), 0);
	}
	n_answers = 0;
	for (int i = 0; i < fit; i++)
		arrive_at(many_name(i + fit), 0, 4096, i + 1);
	ck_assert_int_eq(n_answers, 0);
	arrive_at("one more", 0, 4096, 100000);
	ck_assert_int_eq(answer_of(100000)->status, STATUS_RESOURCE_EXHAUSTED);
}
END_TEST

START_TEST(texts_are_cut_between_characters)
{
	char long_name[BARRIER_NAME_MAX + 1] = "";

	for (int i = 0; i < 127; i++)
		strcat(long_name, "\u00e9");
	strcat(long_name, "x");
	arrive_at(long_name, 0, 2, 1);
	barriers_worker_ended(b, 1, true, false, long_name);
	ck_assert_int_eq(strncmp(answer_of(1)->message, "barrier \"\u00e9", 11), 0);
	for (const char *p = answer_of(1)->message; *p; p++) {
		if ((*p & 0xe0) == 0xc0)
			ck_assert_int_eq(p[1] & 0xc0, 0x80);
		else if ((*p & 0xc0) == 0x80)
			ck_assert_int_eq(p[-1] & 0xe0, 0xc0);
	}
}
END_TEST

/* Callbacks that call the barriers. */

static void again_once(intptr_t token, const struct barrier_answer *a)
{
	ck_assert_int_eq(a->status, STATUS_OK);
	if (token <= 3) {
		arrive((int)token - 1, token + 10);
		ck_assert_int_lt(
			n_answers, 4); /* the answer of a nested call comes after the callback */
	}
}

START_TEST(callback_may_arrive_at_the_same_name)
{
	in_callback = again_once;
	arrive(0, 1);
	arrive(1, 2);
	arrive(2, 3);
	ck_assert_int_eq(n_answers, 6);
	for (int i = 11; i <= 13; i++)
		ck_assert_int_eq(answer_of(i)->generation, 1);
}
END_TEST

static void forget_others(intptr_t token, const struct barrier_answer *a)
{
	(void)a;
	for (intptr_t i = 1; i <= 3; i++)
		if (i != token)
			barriers_forget(b, (void *)i);
}

START_TEST(callback_may_drop_the_next_waits)
{
	in_callback = forget_others;
	arrive(0, 1);
	arrive(1, 2);
	arrive(2, 3);
	ck_assert_int_eq(n_answers, 1);
	barriers_forget(b, (void *)77);
}
END_TEST

static void reset_and_come(intptr_t token, const struct barrier_answer *a)
{
	if (token > 3)
		return;
	barriers_reset(b);
	barriers_worker_ended(b, 1, true, false, "signal 11");
	barriers_worker_started(b, 1);
	arrive(0, 10 + token);
	barriers_stop(b, STATUS_ABORTED, "over");
	barriers_reset(b);
	ck_assert_int_eq(a->status, STATUS_CANCELLED);
	ck_assert_int_gt(a->n_missing, 0);
	ck_assert_int_eq(a->missing[0], 2); /* still there */
}

START_TEST(callback_may_reset_all)
{
	in_callback = reset_and_come;
	arrive(0, 1);
	arrive(1, 2);
	ck_assert_int_eq(barriers_fail(b, "x", -1, STATUS_CANCELLED, "no"), 0);
	ck_assert_int_eq(n_answers, 4);
	ck_assert_int_eq(answer_of(11)->status, STATUS_ABORTED);
	ck_assert_int_eq(answer_of(12)->status, STATUS_ABORTED);
}
END_TEST

static uint64_t wild_seed;
static int wild_calls;
static bool wild_asked[20000], wild_over[20000];

static unsigned wild(unsigned n)
{
	wild_seed = wild_seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(wild_seed >> 33) % n;
}

static void wild_step(void)
{
	static const char *const names[] = { "x", "y", "z" };
	const char *name = names[wild(3)];
	intptr_t token;

	switch (wild(10)) {
	case 0:
		barriers_worker_ended(b, (int)wild(4), wild(2), wild(2), "why");
		break;
	case 1:
		barriers_worker_started(b, (int)wild(4));
		break;
	case 2:
		(void)!barriers_fail(b, name, -1, STATUS_CANCELLED, "why");
		break;
	case 3:
		barriers_expire(b, wild(100));
		break;
	case 4:
		token = 1 + wild(wild_calls ? (unsigned)wild_calls : 1);
		if (token > wild_calls || token >= 19990)
			break;
		barriers_forget(b, (void *)token);
		wild_over[token] = true;
		break;
	case 5:
		if (wild(20) == 0)
			barriers_reset(b);
		break;
	default:
		token = ++wild_calls;
		if (token >= 19990)
			return;
		wild_asked[token] = true;
		for (int i = 0; i < 4; i++)
			all_slots[i] = i;
		ck_assert_int_eq(barriers_arrive(b, name, (int)wild(4), all_slots, 3 + wild(2),
					 false, wild(100), wild(100), (void *)token),
			0);
	}
}

static void wild_answer(void *arg, void *token, const struct barrier_answer *a)
{
	(void)arg;
	ck_assert(wild_asked[(intptr_t)token]);
	ck_assert(!wild_over[(intptr_t)token]);
	wild_over[(intptr_t)token] = true;
	if (wild(3))
		wild_step();
	if (a->n_missing)
		ck_assert_int_ge(a->missing[a->n_missing - 1], 0);
}

START_TEST(each_call_is_answered_once_or_dropped)
{
	int n = under_valgrind() ? 500 : 8000;

	barriers_free(b);
	ck_assert_int_eq(barriers_new(wild_answer, name_of, NULL, &b), 0);
	memset(wild_asked, 0, sizeof(wild_asked));
	memset(wild_over, 0, sizeof(wild_over));
	wild_calls = 0;
	wild_seed = (uint64_t)_i + 1;
	for (int i = 0; i < n; i++)
		wild_step();
	barriers_stop(b, STATUS_ABORTED, "over");
	for (int i = 1; i <= wild_calls && i < 19990; i++)
		ck_assert_int_eq(wild_asked[i], wild_over[i]);
}
END_TEST

START_TEST(freed_barriers_answer_nothing_more)
{
	arrive(0, 1);
	arrive_by(0, 2, 100, 2);
	b = barriers_free(b);
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(n_answers, 2);
	ck_assert_ptr_null(barriers_free(NULL));
}
END_TEST

static void add_rules(TCase *t)
{
	tcase_add_test(t, barrier_waits_for_its_last_member);
	tcase_add_test(t, second_arrival_cancels_the_older_call_and_counts_once);
	tcase_add_test(t, later_default_caller_takes_the_first_callers_members);
	tcase_add_test(t, later_caller_outside_the_default_members_alone_is_refused);
	tcase_add_test(t, default_arrival_may_pass_its_slot_alone);
	tcase_add_test(t, named_and_default_members_must_agree);
	tcase_add_test(t, timeout_names_missing_workers);
	tcase_add_test(t, late_member_gets_the_failure_once);
	tcase_add_test(t, timeout_lists_thousands_and_its_text_fits);
	tcase_add_test(t, thousands_pass_together);
	tcase_add_test(t, ended_member_fails_the_barrier_and_is_named);
	tcase_add_test(t, arrival_after_ends_names_all_ended_members);
	tcase_add_test(t, good_end_after_the_arrival_fails_nothing);
	tcase_add_test(t, stopping_a_member_fails_the_barrier_at_once);
	tcase_add_test(t, member_stopped_after_its_arrival_fails_nothing);
	tcase_add_test(t, recoverable_member_restarts_inside_a_barrier);
	tcase_add_test(t, new_process_does_not_get_failures_of_the_old_one);
	tcase_add_test(t, different_members_fail_the_barrier_and_name_the_caller);
	tcase_add_test(t, caller_outside_its_own_members_fails_the_barrier);
	tcase_add_test(t, order_of_members_does_not_matter);
	tcase_add_test(t, cancel_gives_its_text_and_needs_a_waiting_worker);
	tcase_add_test(t, wrong_call_fails_the_others_and_not_its_caller);
	tcase_add_test(t, stop_answers_all_arrivals_until_the_reset);
	tcase_add_test(t, arrival_at_the_deadline_is_too_late);
	tcase_add_test(t, first_arrivals_deadline_counts);
}

int main(void)
{
	Suite *s = suite_create("barrier");
	TCase *t = tcase_create("barrier");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	add_rules(t);
	tcase_add_test(t, names_and_members_outside_the_limits_are_refused);
	tcase_add_test(t, longest_unused_name_is_forgotten_first);
	tcase_add_test(t, undelivered_failure_outlives_unused_names);
	tcase_add_test(t, too_many_open_names_are_refused_until_one_ends);
	tcase_add_test(t, too_many_members_are_refused_after_old_failures_are_dropped);
	tcase_add_test(t, texts_are_cut_between_characters);
	tcase_add_test(t, callback_may_arrive_at_the_same_name);
	tcase_add_test(t, callback_may_drop_the_next_waits);
	tcase_add_test(t, callback_may_reset_all);
	tcase_add_loop_test(t, each_call_is_answered_once_or_dropped, 0, 4);
	tcase_add_test(t, freed_barriers_answer_nothing_more);
	suite_add_tcase(s, t);
	return suite_run(s);
}
