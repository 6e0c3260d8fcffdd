// SPDX-License-Identifier: Apache-2.0
/* Workers whose connections end before their deaths are known. */
#include "tests/unit/queue_test.h"
#include "tests/unit/run.h"

#define BOTH "failed: 2 workers died with it (queue.deaths): worker 0, worker 1"

static void deaths(unsigned n, int slots)
{
	opt.deaths = n;
	opt.slots = slots;
	opt.journal = true;
	again();
}

static void loses(char *holder)
{
	queue_holder_gone(q, holder, now);
	drain();
}

START_TEST(a_death_after_a_lost_connection_counts_for_the_task)
{
	deaths(2, 1);
	starts(0);
	takes(0, submit());
	loses(&holders[0]);
	is(1, "queued");
	ordered_nothing();
	dies(0, "was killed by SIGKILL");
	ordered("event 0 put-back: task 1 is put back: worker 0 was killed by SIGKILL");
	is(1, "queued");
	starts(1);
	takes(1, 1);
	loses(&holders[1]);
	is(1, "queued");
	dies(1, "was killed by SIGKILL");
	is(1, BOTH);
}
END_TEST

START_TEST(a_task_that_runs_elsewhere_fails_when_it_is_put_back)
{
	struct caller *other;

	deaths(1, 1);
	starts(0);
	takes(0, submit());
	other = work(1);
	loses(&holders[0]);
	given(other);
	dies(0, "was killed");
	is(1, "running");
	ck_assert_int_eq(queue_put_back(q, &holders[1], item.lease, now), STATUS_OK);
	is(1, "failed: 1 workers died with it (queue.deaths): worker 0");
}
END_TEST

START_TEST(a_second_worker_may_finish_the_task)
{
	struct caller *other;

	deaths(1, 1);
	starts(0);
	takes(0, submit());
	other = work(1);
	loses(&holders[0]);
	given(other);
	dies(0, "was killed");
	finish(1, item.lease);
	is(1, "succeeded");
	is_ok(join());
}
END_TEST

START_TEST(a_worker_ended_on_purpose_dies_with_no_task)
{
	deaths(1, 1);
	starts(0);
	takes(0, submit());
	loses(&holders[0]);
	queue_worker_gone(q, 0, "was ended", true, true, now);
	ordered("event 0 put-back: task 1 is put back: worker 0 was ended");
	is(1, "queued");
	starts(0);
	dies(0, "was killed");
	is(1, "queued");
}
END_TEST

START_TEST(a_task_put_back_on_request_counts_no_death)
{
	deaths(1, 1);
	starts(0);
	ck_assert_int_eq(queue_put_back(q, &holders[0], runs(0), now), STATUS_OK);
	dies(0, "was killed");
	is(1, "queued");
}
END_TEST

START_TEST(a_new_connection_or_a_later_answer_proves_life)
{
	deaths(1, 2);
	starts(0);
	takes(0, submit());
	loses(&holders[0]);
	queue_worker_lives(q, 0);
	queue_worker_lives(q, 7);
	dies(0, "was killed");
	is(1, "queued");
	starts(0);
	takes(0, 1);
	loses(&holders[0]);
	submit();
	finish(0, takes(0, 1));
	takes(0, 2);
	loses(&holders[0]);
	fails(0, takes(0, 2), "no such file");
	dies(0, "was killed");
	is(1, "succeeded");
	is(2, "failed: no such file");
}
END_TEST

START_TEST(a_later_finished_task_proves_life)
{
	deaths(1, 2);
	starts(0);
	submit();
	submit();
	takes(0, 1);
	loses(&holders[0]);
	finish(0, takes(0, 2));
	dies(0, "was killed");
	is(1, "queued");
}
END_TEST

START_TEST(a_task_that_never_arrived_counts_no_death)
{
	deaths(1, 1);
	starts(0);
	work(0);
	submit_quietly("");
	loses(&holders[0]);
	dies(0, "was killed");
	is(1, "queued");
}
END_TEST

START_TEST(an_answer_to_an_earlier_lease_proves_nothing)
{
	struct caller *parked;

	deaths(3, 2);
	starts(0);
	takes(0, submit());
	parked = new_caller();
	queue_work(q, &parked->w, 0, &holders[5], EVER, now);
	begun(parked);
	loses(&holders[0]);
	given(parked); /* the same task: the worker asked for it before */
	ck_assert_int_eq(item.task, 1);
	loses(&holders[5]);
	dies(0, "was killed");
	starts(0);
	takes(0, 1);
	dies(0, "was killed");
	starts(1);
	takes(1, 1);
	loses(&holders[1]);
	takes(1, 1);
	dies(1, "was killed");
	is(1, "failed: 3 workers died with it (queue.deaths): worker 0, worker 0, worker 1");
}
END_TEST

START_TEST(a_worker_has_at_most_as_many_dropped_tasks_as_slots)
{
	deaths(1, 2);
	starts(0);
	for (int64_t i = 1; i <= 3; i++) {
		takes(0, submit());
		loses(&holders[0]);
		ck_assert_int_eq(cancel(i, EVER)->w.status, STATUS_OK);
	}
	submit();
	takes(0, 4);
	loses(&holders[0]);
	dies(0, "was killed");
	is(4, "queued");
}
END_TEST

START_TEST(a_late_death_ignores_tasks_that_are_over)
{
	deaths(1, 3);
	starts(0);
	for (int i = 0; i < 3; i++) {
		submit();
		takes(0, i + 1);
	}
	loses(&holders[0]);
	finish(1, takes(1, 1));
	finish(1, takes(1, 2));
	release(2, 1);
	takes(1, 3);
	waits(cancel(3, EVER));
	dies(0, "was killed");
	is(1, "succeeded");
	loses(&holders[1]);
	is(3, "cancelled: enough");
	is_ok(join());
}
END_TEST

START_TEST(late_deaths_survive_the_agent_and_keep_the_order)
{
	deaths(2, 1);
	starts(0);
	submit_quietly("");
	writes_down();
	takes(0, 1);
	queue_holder_gone(q, &holders[0], now);
	writes_down();
	submit_quietly("");
	writes_down();
	queue_worker_gone(q, 0, "was killed", false, true, now);
	crashes(_i);
	starts(1);
	takes(1, 1); /* it was put back before the other one was submitted */
	loses(&holders[1]);
	dies(1, "was killed");
	is(1, "failed: 2 workers died with it (queue.deaths): worker 1");
}
END_TEST

START_TEST(deaths_of_tasks_that_run_elsewhere_survive_the_agent)
{
	struct caller *other;

	deaths(1, 1);
	starts(0);
	submit_quietly("");
	writes_down();
	takes(0, 1);
	other = work(1);
	queue_holder_gone(q, &holders[0], now);
	writes_down();
	queue_worker_gone(q, 0, "was killed", false, true, now);
	writes_down();
	ck_assert(other->w.is_over);
	crashes(_i);
	is(1, "queued");
	starts(1);
	ck_assert_int_eq(queue_put_back(q, &holders[1], takes(1, 1), now), STATUS_OK);
	is(1, "failed: 1 workers died with it (queue.deaths): their names are not known");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue_deaths");
	TCase *t = tcase_create("queue_deaths");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_death_after_a_lost_connection_counts_for_the_task);
	tcase_add_test(t, a_task_that_runs_elsewhere_fails_when_it_is_put_back);
	tcase_add_test(t, a_second_worker_may_finish_the_task);
	tcase_add_test(t, a_worker_ended_on_purpose_dies_with_no_task);
	tcase_add_test(t, a_task_put_back_on_request_counts_no_death);
	tcase_add_test(t, a_new_connection_or_a_later_answer_proves_life);
	tcase_add_test(t, a_later_finished_task_proves_life);
	tcase_add_test(t, a_task_that_never_arrived_counts_no_death);
	tcase_add_test(t, an_answer_to_an_earlier_lease_proves_nothing);
	tcase_add_test(t, a_worker_has_at_most_as_many_dropped_tasks_as_slots);
	tcase_add_test(t, a_late_death_ignores_tasks_that_are_over);
	tcase_add_loop_test(t, late_deaths_survive_the_agent_and_keep_the_order, 0, 2);
	tcase_add_loop_test(t, deaths_of_tasks_that_run_elsewhere_survive_the_agent, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
