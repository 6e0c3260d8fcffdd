/* SPDX-License-Identifier: Apache-2.0 */
/* Which barriers have an event, and what it says. */
#include "agent/sharing/commons.h"
#include "common/text/json.h"
#include "tests/unit/quiet.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define NEVER UINT64_MAX

enum { WORKERS = 6 };

static struct commons c;
static uint64_t now_ms;
static int n_events, last_rank;
static json_t *last_data;
static char last_text[1024];

static void on_event(void *arg, const char *event, int rank, json_t *data, const char *text)
{
	ck_assert_str_eq(event, "barrier");
	n_events++;
	last_rank = rank;
	json_decref(last_data);
	last_data = data;
	snprintf(last_text, sizeof(last_text), "%s", text);
}

static void on_answer(void *arg, void *token, const struct barrier_answer *answer)
{
}

static void on_over(void *arg, const struct barrier_over *over)
{
	barrier_event(arg, over, now_ms, (int64_t)now_ms * 1000 + 7);
}

static void setup(void)
{
	static const int ranks[WORKERS] = { 0, 1, 2, 3, 10, -1 };
	static char names[WORKERS][16] = { "worker:0", "worker:1", "worker:2", "worker:3",
		"chief:0", "ps:0" };
	static struct commons_slot slots[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		slots[i] = (struct commons_slot){ .name = names[i], .rank = ranks[i] };
	n_events = 0;
	now_ms = 1000000;
	last_data = NULL;
	c = (struct commons){ .slots = slots, .n_slots = WORKERS, .owner = { .event = on_event } };
	ck_assert_int_eq(barriers_new(on_answer, commons_slot_name, &c, &c.barriers), 0);
	barriers_on_over(c.barriers, on_over);
}

static void teardown(void)
{
	barriers_free(c.barriers);
	json_decref(last_data);
}

static void arrive(int slot, int n, uint64_t deadline_ms)
{
	static const int all[WORKERS] = { 0, 1, 2, 3, 4, 5 };
	static int token;

	ck_assert_int_eq(barriers_arrive(c.barriers, "epoch", slot, all, (size_t)n, false,
				 deadline_ms, now_ms, (void *)(intptr_t)++token),
		0);
}

/* Two workers, one of which comes late. */
static void pass(uint64_t late_ms)
{
	arrive(0, 2, NEVER);
	now_ms += late_ms;
	arrive(1, 2, NEVER);
}

static void check_wait(size_t i, const char *ranks, int64_t since_ms)
{
	const json_t *wait = json_array_get(json_get_array(last_data, "waits"), i);

	ck_assert_str_eq(json_get_string(wait, "ranks", ""), ranks);
	ck_assert_int_eq(json_get_int(wait, "since_us", 0), since_ms * 1000 + 7);
}

START_TEST(quick_barriers_have_no_event)
{
	for (int i = 0; i < 100000; i++)
		pass(i % 1000);
	ck_assert_int_eq(n_events, 0);
}
END_TEST

START_TEST(long_wait_says_who_waited_since_when_and_for_whom)
{
	uint64_t begin = now_ms;

	arrive(4, 6, NEVER);
	now_ms += 100;
	arrive(2, 6, NEVER);
	now_ms += 10;
	arrive(1, 6, NEVER);
	arrive(5, 6, NEVER); /* of no rank */
	now_ms += 3000;
	arrive(0, 6, NEVER);
	ck_assert_int_eq(n_events, 0);
	now_ms += 1;
	arrive(3, 6, NEVER);
	ck_assert_int_eq(n_events, 1);
	ck_assert_int_eq(last_rank, 3);
	ck_assert_str_eq(last_text, "workers waited 3.1s for worker:3 at the barrier \"epoch\"");
	ck_assert_str_eq(json_get_string(last_data, "barrier", ""), "epoch");
	ck_assert_str_eq(json_get_string(last_data, "first", ""), "chief:0");
	ck_assert_str_eq(json_get_string(last_data, "last", ""), "worker:3");
	ck_assert_int_eq(json_get_int(last_data, "waited_ms", 0), 3111);
	/* Workers that came at the end have not waited. */
	ck_assert_uint_eq(json_array_size(json_get_array(last_data, "waits")), 1);
	check_wait(0, "1,2,10", (int64_t)begin);
}
END_TEST

START_TEST(failed_barrier_says_why)
{
	arrive(1, 3, now_ms + 2000);
	now_ms += 1200;
	arrive(0, 3, NEVER);
	now_ms += 800;
	(void)barriers_expire(c.barriers, now_ms);
	ck_assert_int_eq(n_events, 1);
	ck_assert_int_eq(last_rank, -1);
	ck_assert_str_eq(json_get_string(last_data, "status", ""), "DeadlineExceeded");
	ck_assert_ptr_null(json_object_get(last_data, "last"));
	ck_assert_str_eq(last_text,
		"workers waited 2s at the barrier \"epoch\": barrier \"epoch\" timed out: "
		"reached 2 of 3; missing: worker:2");
	check_wait(0, "1", (int64_t)now_ms - 2000);
	check_wait(1, "0", (int64_t)now_ms - 800);
}
END_TEST

START_TEST(wait_of_a_process_that_is_gone_does_not_count)
{
	arrive(0, 2, NEVER);
	now_ms += 5000;
	barriers_worker_ended(c.barriers, 0, true, true, "exit code 1");
	barriers_worker_started(c.barriers, 0);
	arrive(1, 2, NEVER);
	now_ms += 900;
	arrive(0, 2, NEVER);
	ck_assert_int_eq(n_events, 0);
}
END_TEST

START_TEST(very_many_long_waits_have_one_event_a_minute)
{
	for (int i = 0; i < 600; i++)
		pass(2000);
	/* 30 at once, and 19 minutes have passed since. */
	ck_assert_int_ge(n_events, 48);
	ck_assert_int_le(n_events, 50);
	ck_assert_int_eq(json_get_int(last_data, "left_out", 0), 29);
	/* After a long time without, there is room again. */
	now_ms += 3600000;
	n_events = 0;
	for (int i = 0; i < 30; i++)
		pass(1000);
	ck_assert_int_eq(n_events, 30);
	ck_assert_ptr_null(json_object_get(last_data, "left_out"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("barrier_event");
	TCase *t = tcase_create("barrier_event");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, quick_barriers_have_no_event);
	tcase_add_test(t, long_wait_says_who_waited_since_when_and_for_whom);
	tcase_add_test(t, failed_barrier_says_why);
	tcase_add_test(t, wait_of_a_process_that_is_gone_does_not_count);
	tcase_add_test(t, very_many_long_waits_have_one_event_a_minute);
	suite_add_tcase(s, t);
	return suite_run(s);
}
