// SPDX-License-Identifier: Apache-2.0
/* The work queue as workers see it: deaths, blame, resources, calls, pools, and time limits. */
#include "tests/unit/queue_test.h"
#include "tests/unit/run.h"

/* --- deaths */

START_TEST(the_task_of_a_dead_worker_goes_to_another)
{
	struct caller *idle;

	runs(0);
	idle = work(1);
	dies(0, "was killed");
	given(idle);
	ck_assert_int_eq(item.task, 1);
	finish(1, item.lease);
	is_ok(join());
}
END_TEST

START_TEST(without_a_limit_of_deaths_a_task_is_always_put_back)
{
	ck_assert_int_eq(queue_worker_name(q, 0, "worker:0"), 0);
	submit();
	for (int i = 0; i < 20; i++) {
		starts(0);
		takes(0, 1);
		ck_assert_uint_eq(item.tries, i);
		dies(0, "was killed by SIGKILL");
		ordered("event 0 put-back: task 1 is put back: worker:0 was killed by SIGKILL");
		is(1, "queued");
	}
}
END_TEST

START_TEST(the_limit_of_deaths_fails_the_task_and_ignores_stops)
{
	opt.deaths = 2;
	again();
	ck_assert_int_eq(queue_worker_name(q, 0, "worker:0"), 0);
	starts(0);
	takes(0, submit());
	queue_worker_gone(q, 0, "was ended", true, true, now);
	starts(0);
	takes(0, 1);
	dies(0, "was killed by SIGKILL");
	is(1, "queued");
	starts(1);
	takes(1, 1);
	queue_holder_gone(q, &holders[1], now);
	takes(1, 1);
	dies(1, "was killed by SIGKILL");
	is(1, "failed: 2 workers died with it (queue.deaths): worker:0, worker 1");
	ends(join(), STATUS_ABORTED, "2 workers died with it (queue.deaths): worker:0, worker 1");
}
END_TEST

START_TEST(a_dead_worker_gets_nothing_until_its_next_start)
{
	struct caller *w;

	starts(0);
	w = work(0);
	dies(0, "was killed");
	ends(w, STATUS_CANCELLED, "its process is gone");
	ends(work(0), STATUS_CANCELLED, "its process is gone");
	submit();
	ck_assert_int_eq(queue_worker_started(q, 0, 7, NULL, true, now), 0);
	takes(0, 1);
	ck_assert_int_eq(item.start, 7);
	ck_assert_int_eq(item.worker, 0);
}
END_TEST

START_TEST(a_worker_has_no_more_than_its_slots)
{
	opt.slots = 2;
	again();
	runs(0);
	ck_assert(queue_worker_has_lease(q, 0) && !queue_worker_has_lease(q, 1));
	work(0);
	ends(work(0), STATUS_RESOURCE_EXHAUSTED, "the worker has all of its 2 slots (queue.slots)");
	ends(work_until(1, now), STATUS_DEADLINE_EXCEEDED, "there is nothing to do");
}
END_TEST

/* --- blame */

START_TEST(failures_below_the_blame_limit_are_absorbed)
{
	opt.blame_limit = 3;
	again();
	fails_as(0, runs(0), "no route", true, "ps:0");
	ordered("event 0 put-back: task 1 is put back: no route");
	finish(0, takes(0, 1));
	/* Successes, and failures in another queue, do not count. */
	submit_as("b", &plain);
	fails_as(1, takes(1, 2), "no route", true, "ps:0");
	is(2, "queued");
	fails_as(1, takes(1, 2), "no route", true, "ps:1");
	is(2, "queued");
	fails_as(1, takes(1, 2), "no route", true, "ps:0");
	is(2, "failed: no route");
}
END_TEST

START_TEST(without_a_blame_each_task_has_its_own_count)
{
	opt.blame_limit = 2;
	again();
	submit();
	submit();
	fails_as(0, takes(0, 1), "busy", true, NULL);
	fails_as(0, takes(0, 2), "busy", true, "");
	is(1, "queued");
	fails_as(0, takes(0, 1), "busy", true, NULL);
	is(1, "failed: busy");
	is(2, "cancelled: task 1 of its queue failed: busy");
}
END_TEST

START_TEST(without_a_blame_limit_all_retryable_failures_are_absorbed)
{
	submit();
	for (int i = 0; i < 50; i++)
		fails_as(0, takes(0, 1), "busy", true, "ps:0");
	is(1, "queued");
	fails(0, takes(0, 1), "busy");
	is(1, "failed: busy");
}
END_TEST

START_TEST(with_a_window_old_failures_do_not_count)
{
	opt.blame_limit = 3;
	opt.blame_window_ms = 100;
	again();
	submit();
	for (int i = 0; i < 10; i++) {
		fails_as(0, takes(0, 1), "busy", true, "ps:0");
		passes(51);
	}
	is(1, "queued");
	fails_as(0, takes(0, 1), "busy", true, "ps:0");
	passes(49);
	is(1, "queued");
	fails_as(0, takes(0, 1), "busy", true, "ps:0");
	is(1, "failed: busy");
}
END_TEST

/* --- what watches */

START_TEST(a_stall_is_reported_once_until_a_task_ends)
{
	int64_t l;

	opt.stall_ms = 5000;
	again();
	passes(20000);
	l = runs(0);
	passes(4999);
	ordered_nothing();
	passes(1);
	ordered("stall -1 stall: no task has ended for 5 s; 1 run");
	passes(50000);
	ordered_nothing();
	runs(1);
	finish(0, l);
	passes(5000);
	ordered("stall -1 stall: no task has ended for 5 s; 1 run");
}
END_TEST

START_TEST(tasks_that_no_worker_takes_for_too_long_are_an_error)
{
	struct caller *j;
	int64_t l;

	opt.recovery_timeout_ms = 3000;
	again();
	submit();
	submit();
	j = join();
	passes(2999);
	waits(j);
	/* A worker that has a task, or waits for one, works; one that only lives does not. */
	l = takes(0, 1);
	passes(9000);
	finish(0, l);
	passes(2999);
	waits(j);
	passes(1);
	ends(j, STATUS_UNAVAILABLE, "no worker has taken work for 3 s");
	ck_assert_int_eq(j->w.error.task, -1);
	is(2, "cancelled: its queue failed: no worker has taken work for 3 s");
	ordered("event -1 no-worker: no worker has taken work for 3 s");
	is_ok(join());
	/* Without tasks no worker is needed. */
	passes(9000);
	submit();
	j = join();
	passes(2999);
	waits(j);
	finish(0, takes(0, 3));
	is_ok(j);
	work(0);
	passes(9000);
	ordered_nothing();
}
END_TEST

START_TEST(a_wait_for_the_callers_own_task_is_found_by_its_lease)
{
	const int64_t both[] = { 2, 1 };
	struct queue_bytes init = BYTES("seed 1");
	int64_t own = takes(0, submit());

	submit();
	ck_assert_int_eq(queue_own_task(q, 0, own, "", NULL, 0), 1);
	ck_assert_int_eq(queue_own_task(q, 0, own, "other", NULL, 0), -1);
	ck_assert_int_eq(queue_own_task(q, 0, own, "", both, 2), 1);
	ck_assert_int_eq(queue_own_task(q, 0, own, "", both, 1), -1);
	/* The lease belongs to that worker. */
	ck_assert_int_eq(queue_own_task(q, 1, own, "", NULL, 0), -1);
	ck_assert_int_eq(queue_own_task(q, 0, own + 1, "", NULL, 0), -1);
	ck_assert_int_eq(queue_own_task(q, 0, -1, "", NULL, 0), -1);
	finish(0, own);
	ck_assert_int_eq(queue_own_task(q, 0, own, "", NULL, 0), -1);
	/* Work other than a task belongs to no queue. */
	ck_assert_int_eq(queue_worker_started(q, 1, 0, &init, true, now), 0);
	ck_assert_int_eq(queue_own_task(q, 1, takes_chore(1, QUEUE_ITEM_INIT), "", NULL, 0), -1);
}
END_TEST

/* --- init */

START_TEST(init_comes_first_and_tasks_after_it)
{
	struct queue_bytes init = BYTES("seed 1");
	int64_t l;

	submit();
	ck_assert_int_eq(queue_worker_started(q, 0, 0, &init, true, now), 0);
	l = takes_chore(0, QUEUE_ITEM_INIT);
	ck_assert_mem_eq(item.payload.data, "seed 1", 6);
	finish(0, l);
	takes(0, 1);
}
END_TEST

START_TEST(a_worker_that_fails_its_init_is_reported_and_gets_nothing)
{
	struct queue_bytes init = BYTES("seed");
	struct caller *w;

	submit();
	ck_assert_int_eq(queue_worker_started(q, 0, 0, &init, true, now), 0);
	fails(0, takes_chore(0, QUEUE_ITEM_INIT), "no seed");
	ordered("event 0 init-failed: worker 0: no seed");
	w = work(0);
	waits(w);
	is(1, "queued");
	dies(0, "failed");
	ck_assert_int_eq(queue_worker_started(q, 0, 1, &init, true, now), 0);
	finish(0, takes_chore(0, QUEUE_ITEM_INIT));
	takes(0, 1);
}
END_TEST

/* --- resources */

static void create(const char *name, enum status s)
{
	struct queue_bytes b = BYTES("how");

	ck_assert_int_eq(queue_resource_create(q, name, &b, now), s);
	drain();
}

static void builds(int worker, const char *name, bool ok)
{
	int64_t l = takes_chore(worker, QUEUE_ITEM_BUILD);

	ck_assert_str_eq(item.name, name);
	if (ok)
		finish(worker, l);
	else
		fails(worker, l, "no disk");
}

START_TEST(resources_are_built_in_order_before_tasks_at_each_start)
{
	starts(0);
	create("r", STATUS_OK);
	create("a", STATUS_OK);
	create("a", STATUS_ALREADY_EXISTS);
	create("no/name", STATUS_INVALID_ARGUMENT);
	submit_needing("a");
	for (int i = 0; i < 2; i++) {
		builds(0, "r", true);
		builds(0, "a", true);
		takes(0, 1);
		ck_assert_uint_eq(item.n_needs, 1);
		ck_assert_str_eq(item.needs[0], "a");
		dies(0, "was killed");
		starts(0);
	}
}
END_TEST

START_TEST(a_later_resource_is_built_before_the_next_task)
{
	int64_t l = runs(0);

	create("r", STATUS_OK);
	submit();
	finish(0, l);
	builds(0, "r", true);
	takes(0, 2);
}
END_TEST

START_TEST(a_build_lost_with_its_connection_is_repeated)
{
	create("r", STATUS_OK);
	takes_chore(0, QUEUE_ITEM_BUILD);
	queue_holder_gone(q, &holders[0], now);
	builds(0, "r", true);
}
END_TEST

START_TEST(a_resource_that_failed_everywhere_fails_only_its_users)
{
	struct queue_resource_view v;
	struct queue_error e;
	struct queue_new n = plain;
	const char *r = "r";

	n.alone = true;
	n.needs = &r;
	n.n_needs = 1;
	ck_assert_int_eq(queue_worker_name(q, 0, "worker:0"), 0);
	starts(0);
	starts(1);
	create("r", STATUS_OK);
	submit_as("", &n);
	submit();
	builds(0, "r", false);
	is(1, "queued"); /* the other worker may */
	finish(0, takes(0, 2));
	builds(1, "r", false);
	is(1, "failed: needs resource r, which worker:0 could not build: no disk");
	ck_assert_int_eq(fetch(1)->w.status, STATUS_OK);
	ck_assert(queue_resource_view(q, 0, &v) && !queue_resource_view(q, 1, &v));
	queue_resource_view(q, 0, &v);
	ck_assert(v.failed == 2 && !v.ready && !v.building);
	ck_assert(queue_resource_error(q, 0, 1, &e));
	ck_assert_str_eq(e.message, "no disk");
	finish(1, takes(1, submit()));
	/* A later worker may. */
	dies(1, "was killed");
	submit_as("", &n);
	is(4, "queued");
	starts(1);
	builds(1, "r", true);
	takes(1, 4);
}
END_TEST

START_TEST(tasks_that_need_a_dropped_resource_fail)
{
	struct caller *j;
	int64_t l;

	create("r", STATUS_OK);
	builds(0, "r", true);
	l = takes(0, submit_needing("r"));
	j = join();
	ck_assert_int_eq(queue_resource_drop(q, "r", now), STATUS_OK);
	ordered("cancel 0 resource r was dropped");
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	is(1, "failed: resource r was dropped");
	ends(j, STATUS_NOT_FOUND, "resource r was dropped");
	ck_assert_int_eq(queue_resource_drop(q, "r", now), STATUS_NOT_FOUND);
	/* A new resource of the same name is not built yet. */
	create("r", STATUS_OK);
	submit_needing("r");
	builds(0, "r", true);
	takes(0, 2);
}
END_TEST

/* --- calls */

static struct caller *call_until(const int *workers, size_t n, uint64_t until, uint64_t answer)
{
	struct queue_bytes b = BYTES("do");
	struct caller *a = new_caller();

	queue_call(q, &a->w, workers, n, &b, until, answer, now);
	return begun(a);
}

static struct caller *call(void)
{
	return call_until(NULL, 0, EVER, EVER);
}

static void answers(const struct caller *a, size_t i, int worker, const char *text)
{
	struct queue_answer x;

	ck_assert(queue_answer(a->w.answers, i, &x));
	ck_assert_int_eq(x.worker, worker);
	ck_assert_str_eq(x.error.message, x.ok ? "" : text);
	if (x.ok)
		ck_assert_str_eq("value", text);
}

START_TEST(a_call_is_answered_by_all_before_their_next_tasks)
{
	struct caller *c;
	int64_t l = runs(0);

	starts(1);
	submit();
	c = call();
	finish(0, l);
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	waits(c);
	fails(1, takes_chore(1, QUEUE_ITEM_CALL), "bad");
	is_ok(c);
	answers(c, 0, 0, "value");
	answers(c, 1, 1, "bad");
	takes(0, 2);
	is_ok(join_of("none", now));
}
END_TEST

START_TEST(a_call_of_some_workers_answers_for_dead_ones_too)
{
	int who[] = { 3, 0, 3 };
	struct caller *c;

	starts(0);
	starts(1);
	c = call_until(who, 3, EVER, EVER);
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	is_ok(c);
	answers(c, 0, 0, "value");
	answers(c, 1, 3, "worker 3 does not run");
	ck_assert(!queue_answer(c->w.answers, 2, &(struct queue_answer){ 0 }));
}
END_TEST

START_TEST(a_call_without_workers_waits_for_the_first)
{
	struct caller *c = call();

	waits(c);
	starts(0);
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	is_ok(c);
}
END_TEST

START_TEST(a_worker_that_does_not_answer_is_cancelled_and_killed)
{
	struct caller *c, *late;

	starts(0);
	c = call_until(NULL, 0, EVER, 100);
	late = call_until(NULL, 0, now + 100, EVER);
	takes_chore(0, QUEUE_ITEM_CALL);
	passes(100);
	is_ok(c);
	answers(c, 0, 0, "it has not answered for 100 ms");
	ordered("cancel 0 it has not answered for 100 ms");
	ends(late, STATUS_DEADLINE_EXCEEDED, "some of the workers have not answered the call");
	passes(1000);
	ordered("kill 0 ");
}
END_TEST

START_TEST(a_call_whose_caller_is_gone_is_cancelled)
{
	struct caller *c;
	int64_t l;

	starts(0);
	c = call();
	l = takes_chore(0, QUEUE_ITEM_CALL);
	gone_away(c);
	ordered("cancel 0 its caller no longer waits");
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	runs(0);
}
END_TEST

/* The ways in which a chore becomes unwanted: its caller goes, its time is over, or the resource is
 * dropped. */
START_TEST(a_worker_at_an_unwanted_chore_gets_no_other_work)
{
	struct caller *c = NULL, *other;
	int64_t l;

	opt.slots = 2;
	again();
	starts(0);
	if (_i == 2)
		create("r", STATUS_OK);
	else
		c = call_until(NULL, 0, EVER, 100);
	l = takes_chore(0, _i == 2 ? QUEUE_ITEM_BUILD : QUEUE_ITEM_CALL);
	submit();
	other = work(0);
	if (_i == 0)
		gone_away(c);
	else if (_i == 1)
		passes(100);
	else
		ck_assert_int_eq(queue_resource_drop(q, "r", now), STATUS_OK);
	drain();
	waits(other);
	submit();
	waits(other);
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	given(other);
	ck_assert_int_eq(item.task, 1);
	takes(0, 2);
}
END_TEST

START_TEST(a_pool_answers_when_whole_and_a_death_breaks_it)
{
	struct caller *c;
	int64_t l;

	opt.pool = true;
	again();
	ck_assert_int_eq(queue_worker_name(q, 1, "worker:1"), 0);
	c = call();
	starts(0);
	waits(work_until(0, EVER)); /* not whole yet */
	starts(1);
	queue_whole(q, now);
	given(&callers[1]);
	ck_assert_int_eq(item.kind, QUEUE_ITEM_CALL);
	l = item.lease;
	dies(1, "was killed by SIGKILL");
	ordered("event 1 pool-broken: the pool is broken: worker:1 was killed by SIGKILL");
	waits(c); /* it waits until all are there */
	finish(0, l);
	is_ok(c);
	answers(c, 0, 0, "value");
	answers(c, 1, 1, "worker:1 was killed by SIGKILL");
	ends(call(), STATUS_UNAVAILABLE, "the pool is broken: worker:1 was killed by SIGKILL");
	starts(1);
	queue_whole(q, now);
	c = call();
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	finish(1, takes_chore(1, QUEUE_ITEM_CALL));
	is_ok(c);
}
END_TEST

START_TEST(a_late_answer_mends_the_pool_that_it_broke)
{
	struct caller *c;
	int64_t l;

	opt.pool = true;
	again();
	ck_assert_int_eq(queue_worker_name(q, 1, "worker:1"), 0);
	starts(0);
	starts(1);
	queue_whole(q, now);
	c = call_until(NULL, 0, EVER, 100);
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	l = takes_chore(1, QUEUE_ITEM_CALL);
	passes(100);
	is_ok(c);
	answers(c, 1, 1, "it has not answered for 100 ms");
	ordered("event 1 pool-broken: the pool is broken: worker:1 has not answered for 100 ms");
	ends(call(), STATUS_UNAVAILABLE,
		"the pool is broken: worker:1 has not answered for 100 ms");
	ck_assert_int_eq(finish_late(1, l), STATUS_ABORTED);
	c = call_until(NULL, 0, EVER, 100);
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	l = takes_chore(1, QUEUE_ITEM_CALL);
	/* The pool waits for a worker that dies of it. */
	passes(100);
	dies(1, "was killed by SIGKILL");
	ends(call(), STATUS_UNAVAILABLE, "the pool is broken: worker:1 was killed by SIGKILL");
	starts(1);
	queue_whole(q, now);
	c = call();
	finish(0, takes_chore(0, QUEUE_ITEM_CALL));
	finish(1, takes_chore(1, QUEUE_ITEM_CALL));
	is_ok(c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue_workers");
	TCase *t = tcase_create("queue_workers");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_task_of_a_dead_worker_goes_to_another);
	tcase_add_test(t, without_a_limit_of_deaths_a_task_is_always_put_back);
	tcase_add_test(t, the_limit_of_deaths_fails_the_task_and_ignores_stops);
	tcase_add_test(t, a_dead_worker_gets_nothing_until_its_next_start);
	tcase_add_test(t, a_worker_has_no_more_than_its_slots);
	tcase_add_test(t, failures_below_the_blame_limit_are_absorbed);
	tcase_add_test(t, without_a_blame_each_task_has_its_own_count);
	tcase_add_test(t, without_a_blame_limit_all_retryable_failures_are_absorbed);
	tcase_add_test(t, with_a_window_old_failures_do_not_count);
	tcase_add_test(t, a_stall_is_reported_once_until_a_task_ends);
	tcase_add_test(t, tasks_that_no_worker_takes_for_too_long_are_an_error);
	tcase_add_test(t, a_wait_for_the_callers_own_task_is_found_by_its_lease);
	tcase_add_test(t, init_comes_first_and_tasks_after_it);
	tcase_add_test(t, a_worker_that_fails_its_init_is_reported_and_gets_nothing);
	tcase_add_test(t, resources_are_built_in_order_before_tasks_at_each_start);
	tcase_add_test(t, a_later_resource_is_built_before_the_next_task);
	tcase_add_test(t, a_build_lost_with_its_connection_is_repeated);
	tcase_add_test(t, a_resource_that_failed_everywhere_fails_only_its_users);
	tcase_add_test(t, tasks_that_need_a_dropped_resource_fail);
	tcase_add_test(t, a_call_is_answered_by_all_before_their_next_tasks);
	tcase_add_test(t, a_call_of_some_workers_answers_for_dead_ones_too);
	tcase_add_test(t, a_call_without_workers_waits_for_the_first);
	tcase_add_test(t, a_worker_that_does_not_answer_is_cancelled_and_killed);
	tcase_add_test(t, a_call_whose_caller_is_gone_is_cancelled);
	tcase_add_loop_test(t, a_worker_at_an_unwanted_chore_gets_no_other_work, 0, 3);
	tcase_add_test(t, a_pool_answers_when_whole_and_a_death_breaks_it);
	tcase_add_test(t, a_late_answer_mends_the_pool_that_it_broke);
	suite_add_tcase(s, t);
	return suite_run(s);
}
