// SPDX-License-Identifier: Apache-2.0
/* The work queue as coordinators see it: tasks, room, joins, errors, cancellations, and results. */
#include "tests/unit/queue_test.h"
#include "tests/unit/run.h"

/* --- tasks */

START_TEST(tasks_are_leased_in_order_and_put_back_behind_others)
{
	int64_t a = submit(), b = submit(), c = submit(), l;

	ck_assert_int_eq(a, 1);
	l = takes(0, a);
	is(a, "running");
	ck_assert_uint_eq(item.tries, 0);
	ck_assert_int_eq(queue_put_back(q, &holders[0], l, now), STATUS_OK);
	is(a, "queued");
	finish(0, takes(0, b));
	finish(0, takes(0, c));
	l = takes(0, a);
	ck_assert_uint_eq(item.tries, 1);
	finish(0, l);
	is(a, "succeeded");
	is_ok(join());
}
END_TEST

START_TEST(a_waiting_worker_gets_the_next_task)
{
	struct caller *first = work(1), *second = work(0);
	int64_t t = submit();

	given(first);
	ck_assert_int_eq(item.task, t);
	waits(second);
}
END_TEST

START_TEST(only_its_holder_ends_a_lease_and_once)
{
	int64_t l = runs(0);

	ck_assert_int_eq(finish_late(1, l), STATUS_ABORTED);
	is(1, "running");
	finish(0, l);
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	is(1, "succeeded");
}
END_TEST

START_TEST(a_value_that_is_too_long_leaves_the_lease)
{
	int64_t l = runs(0);
	char *big = calloc(1, QUEUE_VALUE_MAX + 1);
	struct queue_bytes v = { big, QUEUE_VALUE_MAX + 1, "" };

	ck_assert_int_eq(queue_finish(q, &holders[0], l, &v, now), STATUS_INVALID_ARGUMENT);
	v.len--;
	ck_assert_int_eq(queue_finish(q, &holders[0], l, &v, now), STATUS_OK);
	free(big);
}
END_TEST

START_TEST(an_outcome_stays_until_it_is_released)
{
	struct caller *f = fetch(submit());
	struct queue_outcome o;

	waits(f);
	finish(0, takes(0, 1));
	is_ok(f);
	ck_assert(queue_outcome(q, 1, &o));
	ck_assert_mem_eq(o.value.data, "value", 5);
	release(1, 1);
	is(1, "succeeded"); /* for the caller that fetches it, until its wait is finished */
	release(1, 0);
	gone_away(f);
	ck_assert(!queue_outcome(q, 1, &o));
	ends(fetch(1), STATUS_NOT_FOUND,
		"there is no task 1: it was released, or was of an agent that was lost");
	ends(fetch(7), STATUS_NOT_FOUND, "there is no task 7: there never was");
}
END_TEST

START_TEST(a_fetch_of_any_ends_with_the_first)
{
	int64_t ids[] = { submit(), submit(), 1 };
	struct caller *any = new_caller(), *all = new_caller();

	queue_fetch(q, &any->w, ids, 3, true, EVER, now);
	begun(any);
	queue_fetch(q, &all->w, ids, 3, false, EVER, now);
	begun(all);
	finish(0, takes(0, 1));
	is_ok(any);
	waits(all);
	finish(0, takes(0, 2));
	is_ok(all);
}
END_TEST

START_TEST(a_task_that_is_released_before_it_is_over_runs_and_is_forgotten)
{
	struct queue_outcome o;
	int64_t l;

	release(submit(), 1);
	l = takes(0, 1);
	finish(0, l);
	ck_assert(!queue_outcome(q, 1, &o));
}
END_TEST

START_TEST(an_impossible_submit_is_refused_as_a_whole)
{
	struct queue_new two[2] = { plain, plain };
	const char *none = "none";
	struct caller *a = new_caller();

	two[1].payload.len = QUEUE_VALUE_MAX + 1;
	queue_submit(q, &a->w, "", two, 2, false, EVER, now);
	begun(a);
	ck_assert_int_eq(a->w.status, STATUS_INVALID_ARGUMENT);
	ck_assert_uint_eq(a->w.accepted, 0);
	ck_assert_int_eq(submit_to("no/slash", &plain, now)->w.status, STATUS_INVALID_ARGUMENT);
	two[1] = plain;
	two[1].needs = &none;
	two[1].n_needs = 1;
	ends(submit_to("", &two[1], EVER), STATUS_NOT_FOUND, "there is no resource none");
	ck_assert_int_eq(submit(), 1);
}
END_TEST

/* --- room */

START_TEST(running_tasks_do_not_count_against_the_limit)
{
	struct caller *late;

	opt.max = 2;
	again();
	for (int i = 0; i < 5; i++)
		work(i);
	for (int i = 1; i <= 7; i++)
		ck_assert_int_eq(submit(), i);
	ends(submit_to("", &plain, now), STATUS_RESOURCE_EXHAUSTED,
		"the queue is full: 2 tasks wait (queue.max)");
	late = submit_to("", &plain, EVER);
	waits(late);
	finish(0, 1);
	waits(late);
	takes(0, 6);
	is_ok(late);
	ck_assert_int_eq(late->w.first, 8);
}
END_TEST

START_TEST(tasks_put_back_may_exceed_the_limit)
{
	struct caller *late;

	opt.max = 1;
	again();
	work(0);
	submit();
	submit();
	late = submit_to("", &plain, EVER);
	dies(0, "was killed by SIGKILL");
	is(1, "queued");
	is(2, "queued");
	starts(0);
	finish(0, takes(0, 2));
	waits(late);
	finish(0, takes(0, 1));
	is_ok(late);
}
END_TEST

START_TEST(submitters_wait_in_order_and_are_accepted_as_there_is_room)
{
	struct queue_new three[3] = { plain, plain, plain };
	struct caller *many, *one;

	opt.max = 1;
	again();
	submit();
	many = new_caller();
	queue_submit(q, &many->w, "", three, 3, false, now + 500, now);
	begun(many);
	one = submit_to("other", &plain, EVER);
	finish(0, takes(0, 1));
	waits(one);
	passes(500);
	is_ok(many);
	ck_assert_uint_eq(many->w.accepted, 1);
	ck_assert_int_eq(many->w.first, 2);
	finish(0, takes(0, 2));
	is_ok(one);
	ck_assert_int_eq(one->w.first, 3);
}
END_TEST

START_TEST(a_submit_does_not_wait_when_only_a_release_makes_room)
{
	struct queue_new big = { { "0123456789", 10, "" }, NULL, 0, -1, false };
	struct caller *late;

	opt.results = 1;
	opt.bytes = 9;
	again();
	ends(submit_to("", &big, EVER), STATUS_RESOURCE_EXHAUSTED,
		"a payload of 10 bytes is too large: the limit for all is 9 bytes (queue.memory)");
	submit();
	submit();
	finish(0, takes(0, 1));
	late = submit_to("", &plain, EVER);
	waits(late); /* the running one may fail, or be released */
	finish(0, takes(0, 2));
	ends(late, STATUS_RESOURCE_EXHAUSTED,
		"2 results are not released: the limit is 1 (queue.results)");
	release(1, 1);
	release(2, 1);
	submit();
}
END_TEST

START_TEST(results_may_exceed_the_memory_limit_up_to_twice)
{
	static const char text[] = "no room";
	struct queue_failure f = { STATUS_INTERNAL, text, "where it was", false, NULL };
	struct queue_new n = plain;
	struct queue_stats s;
	int64_t l;

	opt.bytes = 6;
	opt.slots = 4;
	again();
	n.alone = true;
	for (int i = 0; i < 4; i++)
		submit_as("", &n);
	l = takes(0, 1);
	takes(0, 2);
	takes(0, 3);
	takes(0, 4);
	finish(0, l);	  /* "value" and three payloads */
	finish(0, l + 1); /* "value" twice, and two payloads */
	ends(submit_to("", &plain, now), STATUS_RESOURCE_EXHAUSTED,
		"there is no room for a payload of 1 bytes: payloads and results that are not "
		"released have 12 bytes, and the limit is 6 (queue.memory)");
	finish(0, l + 2);
	is(3, "failed: there is no room for its value of 5 bytes: payloads and results that are "
	      "not released have 12, more than twice queue.memory with it");
	ck_assert_int_eq(finish_late(0, l + 2), STATUS_ABORTED);
	/* Errors count, too; at the limit one loses its details. */
	queue_stats(q, NULL, &s);
	ck_assert_uint_gt(s.bytes, 12);
	ck_assert_int_eq(queue_fail(q, &holders[0], l + 3, &f, now), STATUS_OK);
	is(4, "failed: no room");
	for (int i = 1; i <= 4; i++)
		release(i, 1);
	queue_stats(q, NULL, &s);
	ck_assert_uint_eq(s.bytes, 0);
}
END_TEST

/* --- joins */

START_TEST(a_join_of_an_empty_queue_is_over_at_once)
{
	is_ok(join());
	is_ok(done_of("never"));
	submit();
	ends(done_of(""), STATUS_DEADLINE_EXCEEDED, "the queue has tasks that are not over yet");
	ends(join_of("", now), STATUS_DEADLINE_EXCEEDED,
		"the queue has tasks that are not over yet");
	finish(0, takes(0, 1));
	is_ok(join());
	is_ok(done_of(""));
}
END_TEST

START_TEST(a_submit_after_a_join_waits_for_it)
{
	struct caller *j, *late, *other = new_caller(), *exempt = new_caller();
	int64_t l;

	l = runs(0);
	j = join();
	late = submit_to("", &plain, EVER);
	waits(late);
	ends(submit_to("", &plain, now), STATUS_RESOURCE_EXHAUSTED, "the queue is being joined");
	/* Another queue goes on, and so does the holder of a lease. */
	queue_submit(q, &other->w, "b", &plain, 1, false, EVER, now);
	is_ok(begun(other));
	queue_submit(q, &exempt->w, "", &plain, 1, true, EVER, now);
	is_ok(begun(exempt));
	finish(0, l);
	waits(j);
	finish(0, takes(0, other->w.first));
	waits(late);
	finish(0, takes(0, exempt->w.first));
	is_ok(j);
	is_ok(late);
	is(late->w.first, "queued");
}
END_TEST

START_TEST(a_join_that_times_out_lets_submits_in)
{
	struct caller *j, *late;

	submit();
	j = join_of("", now + 100);
	late = submit_to("", &plain, EVER);
	waits(late);
	passes(100);
	ends(j, STATUS_DEADLINE_EXCEEDED, "the queue has tasks that are not over yet");
	is_ok(late);
}
END_TEST

/* --- errors */

START_TEST(the_first_error_cancels_the_queue_and_is_reported_once)
{
	int64_t bad, slow;
	struct caller *j, *j2, *late;

	for (int i = 0; i < 4; i++)
		submit();
	slow = takes(0, 1);
	bad = takes(1, 2);
	fails(1, bad, "it went wrong");
	ordered("event 1 task-failed: task 2 failed: it went wrong");
	is(1, "running");
	is(2, "failed: it went wrong");
	is(3, "cancelled: task 2 of its queue failed: it went wrong");
	j = join();
	j2 = join();
	late = submit_to("", &plain, EVER);
	waits(j);
	ck_assert_int_eq(finish_late(0, slow), STATUS_ABORTED);
	is(1, "cancelled: task 2 of its queue failed: it went wrong");
	ends(j, STATUS_INTERNAL, "it went wrong");
	ck_assert(j->w.failed_queue && j->w.error.task == 2 && j->w.error.worker == 1);
	ck_assert_int_eq(j->w.exit_code, -1);
	ends(j2, STATUS_INTERNAL, "it went wrong");
	ends(late, STATUS_INTERNAL, "it went wrong");
	is_ok(join());
	finish(0, takes(0, submit()));
	is_ok(join());
}
END_TEST

START_TEST(a_text_that_is_cut_ends_with_a_whole_character)
{
	int64_t a = submit(), b = submit();
	char why[QUEUE_TEXT_MAX] = "";
	struct queue_outcome o;

	for (size_t i = 1; i + 2 < sizeof(why); i += 2)
		memcpy(why + i, "\u00e9", 2);
	why[0] = 'x';
	fails(0, takes(0, a), why);
	ck_assert(queue_outcome(q, b, &o));
	ck_assert_uint_gt(strlen(o.error.message), QUEUE_TEXT_MAX - 2);
	ck_assert_int_eq((unsigned char)o.error.message[strlen(o.error.message) - 1], 0xa9);
}
END_TEST

START_TEST(an_error_cancels_running_tasks)
{
	int64_t slow = runs(0);
	bool cancelled;
	const char *why;

	fails(1, takes(1, submit()), "bad");
	ordered("cancel 0 task 2 of its queue failed: bad");
	ck_assert_int_eq(queue_look(q, 0, slow, &cancelled, &why), STATUS_OK);
	ck_assert(cancelled);
	ck_assert_int_eq(queue_look(q, 1, slow, &cancelled, &why), STATUS_NOT_FOUND);
}
END_TEST

START_TEST(an_error_affects_only_its_queue)
{
	int64_t there = submit_as("b", &plain), bad = submit();

	takes(0, there);
	fails(1, takes(1, bad), "bad");
	is(there, "running");
	submit_as("b", &plain);
	ends(done_of(""), STATUS_INTERNAL, "bad");
	ends(done_of("b"), STATUS_DEADLINE_EXCEEDED, "the queue has tasks that are not over yet");
}
END_TEST

START_TEST(a_failure_of_a_task_submitted_alone_is_no_queue_error)
{
	struct queue_new n = plain;
	int64_t t;

	n.alone = true;
	t = submit_as("", &n);
	submit();
	fails(0, takes(0, t), "bad");
	is(t, "failed: bad");
	is(2, "queued");
	finish(0, takes(0, 2));
	is_ok(join());
	/* But the failure of another task cancels it, too. */
	t = submit();
	submit_as("", &n);
	fails(0, takes(0, t), "worse");
	is(t + 1, "cancelled: task 3 of its queue failed: worse");
}
END_TEST

START_TEST(a_lease_holder_does_not_wait_for_its_own_failed_queue)
{
	struct caller *a = new_caller();

	takes(0, submit());
	fails(1, takes(1, submit()), "bad");
	queue_submit(q, &a->w, "", &plain, 1, true, EVER, now);
	begun(a);
	ends(a, STATUS_CANCELLED, "the queue has failed: bad");
}
END_TEST

START_TEST(an_error_ends_a_submit_that_waits_for_room)
{
	struct caller *a;
	int64_t l;

	opt.max = 1;
	again();
	a = new_caller();
	takes(0, submit());
	l = takes(1, submit());
	submit();
	queue_submit(q, &a->w, "", &plain, 1, true, EVER, now);
	begun(a);
	waits(a);
	fails(1, l, "bad");
	ends(a, STATUS_CANCELLED, "the queue has failed: bad");
}
END_TEST

START_TEST(tasks_accepted_before_an_error_are_counted_and_forgotten)
{
	const struct queue_new three[3] = { plain, plain, plain };
	struct queue_outcome o;
	struct caller *many, *none;
	int64_t l;

	opt.max = 1;
	again();
	l = takes(0, submit());
	many = new_caller();
	queue_submit(q, &many->w, "", three, 3, false, EVER, now);
	begun(many);
	none = submit_to("", &plain, EVER);
	takes(1, 2);
	waits(many);
	fails(0, l, "bad");
	waits(many);
	ck_assert_int_eq(finish_late(1, 2), STATUS_ABORTED);
	ends(many, STATUS_INTERNAL, "bad");
	ck_assert(many->w.failed_queue && many->w.accepted == 0 && many->w.forgotten == 2);
	ck_assert(!queue_outcome(q, 2, &o) && !queue_outcome(q, 3, &o));
	ends(none, STATUS_INTERNAL, "bad");
	ck_assert(none->w.failed_queue && none->w.forgotten == 0);
	ck_assert(queue_outcome(q, 1, &o));
}
END_TEST

/* --- cancellations */

START_TEST(a_cancellation_is_over_when_no_task_of_it_runs)
{
	int64_t l = runs(0);
	struct caller *all;

	submit();
	is_ok(cancel(2, EVER));
	is(2, "cancelled: enough");
	ends(cancel(1, now), STATUS_DEADLINE_EXCEEDED,
		"some of the tasks that were cancelled still run");
	ordered("cancel 0 enough");
	submit();
	all = cancel_all("");
	waits(all);
	is(3, "cancelled: the task was cancelled");
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	is_ok(all);
	ck_assert_uint_eq(all->w.accepted, 1);
	is(1, "cancelled: enough");
	is_ok(join());
	work(0);
	ordered_nothing();
}
END_TEST

START_TEST(a_worker_that_ignores_a_cancellation_is_killed_and_not_blamed)
{
	struct caller *c;

	opt.deaths = 1;
	again();
	takes(0, submit());
	c = cancel(1, EVER);
	passes(999);
	waits(c);
	n_orders = 0;
	passes(1);
	ordered("kill 0 ");
	waits(c);
	queue_worker_gone(q, 0, "was killed by SIGKILL", true, true, now);
	is_ok(c);
	is(1, "cancelled: enough");
}
END_TEST

START_TEST(a_try_over_its_limit_fails_when_it_has_ended)
{
	struct queue_new n = plain;
	struct caller *f;
	int64_t l;

	n.limit_ms = 200;
	f = fetch(submit_as("", &n));
	l = takes(0, 1);
	ck_assert_int_eq(item.limit_ms, 200);
	passes(199);
	is(1, "running");
	passes(1);
	ordered("cancel 0 it ran for longer than its limit of 200 ms");
	waits(f);
	passes(1000);
	ordered("kill 0 ");
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	is_ok(f);
	is(1, "failed: it ran for longer than its limit of 200 ms");
	ends(join(), STATUS_DEADLINE_EXCEEDED, "it ran for longer than its limit of 200 ms");
}
END_TEST

START_TEST(a_queue_ends_with_its_last_keeper)
{
	struct queue_outcome o;
	struct caller *late;

	opt.max = 1;
	again();
	ck_assert_int_eq(queue_keep(q, "mine"), STATUS_OK);
	ck_assert_int_eq(queue_keep(q, "mine"), STATUS_OK);
	ck_assert_int_eq(queue_keep(q, "a/b"), STATUS_INVALID_ARGUMENT);
	submit_as("mine", &plain);
	takes(0, 1);
	submit_as("mine", &plain);
	late = submit_to("mine", &plain, EVER);
	queue_unkeep(q, "mine", now);
	is(2, "queued");
	queue_unkeep(q, "mine", now);
	ck_assert(!queue_outcome(q, 2, &o));
	ends(late, STATUS_CANCELLED, "its coordinator is gone");
	ordered("cancel 0 its coordinator is gone");
	dies(0, "was killed");
	ck_assert(!queue_outcome(q, 1, &o));
}
END_TEST

/* --- the whole */

START_TEST(closed_queues_accept_no_task_and_workers_get_closed)
{
	struct caller *idle, *late;
	int64_t l;

	opt.max = 1;
	again();
	l = runs(0);
	idle = work(1);
	queue_close(q, now);
	ends(submit_to("", &plain, EVER), STATUS_FAILED_PRECONDITION, "the queues are closed");
	waits(idle);
	finish(0, l);
	is_ok(idle);
	ck_assert_ptr_null(idle->w.lease);
	late = work(0);
	is_ok(late);
	ck_assert_ptr_null(late->w.lease);
}
END_TEST

static const struct queue_error ps = { STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL", "", 5,
	-1 };

START_TEST(a_stop_ends_all_waits_and_keeps_the_tasks)
{
	struct caller *w[6];
	int64_t id = submit();

	takes(0, id);
	w[0] = join();
	w[1] = fetch(id);
	w[2] = cancel(id, EVER);
	w[3] = submit_to("", &plain, EVER);
	w[4] = work(1);
	w[5] = new_caller();
	queue_stop(q, STATUS_CANCELLED, "the group stops", false);
	for (int i = 0; i < 5; i++)
		ends(w[i], STATUS_CANCELLED, "the group stops");
	queue_join(q, &w[5]->w, "", EVER, now);
	begun(w[5]);
	ends(w[5], STATUS_CANCELLED, "the group stops");
	queue_go(q);
	submit_as("b", &plain);
	takes(1, 2);
	queue_stop(q, STATUS_CANCELLED, "it is over", true);
	queue_go(q);
	ends(join(), STATUS_CANCELLED, "it is over");
}
END_TEST

START_TEST(a_wait_that_ends_before_its_answer_does_no_harm)
{
	struct caller *w = work(0);

	queue_submit(q, &new_caller()->w, "", &plain, 1, false, EVER, now);
	ck_assert(!w->over);
	queue_worker_gone(q, 0, "was killed", false, true, now);
	ends(w, STATUS_CANCELLED, "its process or its connection is gone");
	is(1, "queued");
	starts(0);
	takes(0, 1);
	w = work(1);
	queue_submit(q, &new_caller()->w, "", &plain, 1, false, EVER, now);
	queue_holder_gone(q, &holders[1], now);
	ends(w, STATUS_CANCELLED, "its process or its connection is gone");
	is(2, "queued");
	finish(1, takes(1, 2));
	/* The worker that asked for it has gone away. */
	w = work(1);
	queue_submit(q, &new_caller()->w, "", &plain, 1, false, EVER, now);
	gone_away(w);
	is(3, "queued");
}
END_TEST

static uint64_t put_back(const char *queue)
{
	struct queue_stats s;

	queue_stats(q, queue, &s);
	return s.put_back;
}

START_TEST(the_count_of_put_back_tasks_survives_their_release)
{
	starts(0);
	submit_quietly("mine");
	ck_assert_int_eq(queue_put_back(q, &holders[0], takes(0, 1), now), STATUS_OK);
	finish(0, takes(0, 1));
	ck_assert_uint_eq(put_back("mine"), 1);
	release(1, 1);
	ck_assert_uint_eq(put_back("mine"), 1);
	ck_assert_uint_eq(put_back(NULL), 1);
	submit_quietly("mine");
	ck_assert_int_eq(queue_put_back(q, &holders[0], takes(0, 2), now), STATUS_OK);
	ck_assert_uint_eq(put_back("mine"), 2);
	/* Queues with nothing but a count make room for others. */
	finish(0, takes(0, 2));
	release(2, 1);
	for (int i = 0; i < QUEUE_QUEUES_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "q%d", i);
		submit_quietly(name);
	}
	ck_assert_uint_eq(put_back("mine"), 0);
	ck_assert_uint_eq(put_back(NULL), 2);
}
END_TEST

/* --- what is written down */

START_TEST(a_queue_with_a_keeper_is_in_no_journal)
{
	struct queue_outcome o;
	struct queue_stats s;

	opt.journal = true;
	for (int rewritten = 0; rewritten < 2; rewritten++) {
		again();
		ck_assert_int_eq(queue_keep(q, "mine"), STATUS_OK);
		submit_quietly("mine");
		submit_quietly("all");
		submit_quietly("mine");
		crashes(rewritten);
		ck_assert(!queue_outcome(q, 1, &o));
		is(2, "queued");
		ck_assert(!queue_outcome(q, 3, &o));
		queue_stats(q, "mine", &s);
		ck_assert(!s.has_error);
	}
}
END_TEST

static struct caller *outside_joins(const char *queue)
{
	struct caller *a = new_caller();

	a->w.outside = true;
	queue_join(q, &a->w, queue, EVER, now);
	return begun(a);
}

START_TEST(tasks_from_before_the_first_keeper_end_with_it)
{
	struct queue_outcome o;

	opt.journal = true;
	for (int rewritten = 0; rewritten < 2; rewritten++) {
		struct queue_wait s = { .outside = true };

		again();
		queue_submit(q, &s, "mine", &plain, 1, false, EVER, now);
		queue_wait_fini(q, &s, now);
		submit_quietly("all");
		queue_fail_all(q, &ps, 75, now);
		queue_unfail(q, now);
		ck_assert_int_eq(queue_keep(q, "mine"), STATUS_OK);
		submit_quietly("mine");
		crashes(rewritten);
		ck_assert(!queue_outcome(q, 1, &o) && !queue_outcome(q, 3, &o));
		is(2, "cancelled: ps:0 was killed by SIGKILL");
		is_ok(outside_joins("mine"));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue");
	TCase *t = tcase_create("queue");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, tasks_are_leased_in_order_and_put_back_behind_others);
	tcase_add_test(t, a_waiting_worker_gets_the_next_task);
	tcase_add_test(t, only_its_holder_ends_a_lease_and_once);
	tcase_add_test(t, a_value_that_is_too_long_leaves_the_lease);
	tcase_add_test(t, an_outcome_stays_until_it_is_released);
	tcase_add_test(t, a_fetch_of_any_ends_with_the_first);
	tcase_add_test(t, a_task_that_is_released_before_it_is_over_runs_and_is_forgotten);
	tcase_add_test(t, an_impossible_submit_is_refused_as_a_whole);
	tcase_add_test(t, running_tasks_do_not_count_against_the_limit);
	tcase_add_test(t, tasks_put_back_may_exceed_the_limit);
	tcase_add_test(t, submitters_wait_in_order_and_are_accepted_as_there_is_room);
	tcase_add_test(t, a_submit_does_not_wait_when_only_a_release_makes_room);
	tcase_add_test(t, results_may_exceed_the_memory_limit_up_to_twice);
	tcase_add_test(t, a_join_of_an_empty_queue_is_over_at_once);
	tcase_add_test(t, a_submit_after_a_join_waits_for_it);
	tcase_add_test(t, a_join_that_times_out_lets_submits_in);
	tcase_add_test(t, the_first_error_cancels_the_queue_and_is_reported_once);
	tcase_add_test(t, a_text_that_is_cut_ends_with_a_whole_character);
	tcase_add_test(t, an_error_cancels_running_tasks);
	tcase_add_test(t, an_error_affects_only_its_queue);
	tcase_add_test(t, a_failure_of_a_task_submitted_alone_is_no_queue_error);
	tcase_add_test(t, a_lease_holder_does_not_wait_for_its_own_failed_queue);
	tcase_add_test(t, an_error_ends_a_submit_that_waits_for_room);
	tcase_add_test(t, tasks_accepted_before_an_error_are_counted_and_forgotten);
	tcase_add_test(t, a_cancellation_is_over_when_no_task_of_it_runs);
	tcase_add_test(t, a_worker_that_ignores_a_cancellation_is_killed_and_not_blamed);
	tcase_add_test(t, a_try_over_its_limit_fails_when_it_has_ended);
	tcase_add_test(t, a_queue_ends_with_its_last_keeper);
	tcase_add_test(t, closed_queues_accept_no_task_and_workers_get_closed);
	tcase_add_test(t, a_stop_ends_all_waits_and_keeps_the_tasks);
	tcase_add_test(t, a_wait_that_ends_before_its_answer_does_no_harm);
	tcase_add_test(t, the_count_of_put_back_tasks_survives_their_release);
	tcase_add_test(t, a_queue_with_a_keeper_is_in_no_journal);
	tcase_add_test(t, tasks_from_before_the_first_keeper_end_with_it);
	suite_add_tcase(s, t);
	return suite_run(s);
}
