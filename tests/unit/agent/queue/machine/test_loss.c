// SPDX-License-Identifier: Apache-2.0
/* All queues fail: which waits end with that, which error a client outside the job gets that comes
 * later, and how long the error is kept. */
#include "tests/unit/queue_test.h"
#include "tests/unit/run.h"

static const struct queue_error ps = { STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL", "", 5,
	-1 };

static int64_t outside_submits(const char *queue)
{
	struct queue_wait s = { .outside = true };

	queue_submit(q, &s, queue, &plain, 1, false, EVER, now);
	ck_assert(s.is_over);
	ck_assert_int_eq(s.status, STATUS_OK);
	queue_wait_fini(q, &s, now);
	return s.first;
}

/* True when the client got a loss. The records stay. */
static bool is_told(const char *queue, bool outside)
{
	struct queue_wait w = { .outside = outside };
	bool is;

	queue_join(q, &w, queue, EVER, now);
	ck_assert(w.is_over);
	is = w.failed_queue;
	ck_assert_int_eq(w.status, is ? STATUS_UNAVAILABLE : STATUS_OK);
	ck_assert(!is || (w.exit_code == 75 && strcmp(w.error.message, ps.message) == 0));
	queue_wait_fini(q, &w, now);
	return is;
}

static void all_fail(void)
{
	queue_fail_all(q, &ps, 75, now);
}

/* The loss of "a" was not reported, that of "b" was, "c" has lost no task. */
static void loses(bool rewritten)
{
	again();
	outside_submits("a");
	outside_submits("b");
	all_fail();
	ck_assert(is_told("b", true));
	queue_unfail(q, now);
	crashes(rewritten);
}

START_TEST(an_unreported_loss_waits_for_a_client_outside)
{
	opt.journal = true;
	for (int rewritten = 0; rewritten < 2; rewritten++) {
		loses(rewritten);
		ck_assert(!is_told("b", true) && !is_told("c", true));
		/* To a worker the queue is as new. */
		ck_assert(!is_told("a", false));
		ck_assert(is_told("a", true));
		ck_assert(!is_told("a", true));
		crashes(rewritten);
		ck_assert(!is_told("a", true));
	}
}
END_TEST

START_TEST(a_loss_reported_to_a_worker_stays_for_clients_outside)
{
	struct caller *parked;

	outside_submits("a");
	parked = join_of("a", EVER);
	all_fail();
	ends(parked, STATUS_UNAVAILABLE, ps.message);
	ck_assert(is_told("a", false));
	queue_unfail(q, now);
	submit_as("a", &plain);
	ck_assert(is_told("a", true));
	ck_assert_int_eq(cancel_all("a")->w.status, STATUS_OK);
	ck_assert(!is_told("a", true));
}
END_TEST

START_TEST(one_waiting_client_outside_gets_the_loss_for_all)
{
	struct caller *parked[2] = { new_caller(), new_caller() };

	outside_submits("a");
	parked[1]->w.outside = true;
	for (int i = 0; i < 2; i++) {
		queue_join(q, &parked[i]->w, "a", EVER, now);
		begun(parked[i]);
	}
	all_fail();
	for (int i = 0; i < 2; i++)
		ends(parked[i], STATUS_UNAVAILABLE, ps.message);
	queue_unfail(q, now);
	ck_assert(!is_told("a", true));
}
END_TEST

static struct caller *fetches(int64_t task, bool outside)
{
	struct caller *a = new_caller();

	a->w.outside = outside;
	queue_fetch(q, &a->w, &task, 1, false, EVER, now);
	return begun(a);
}

START_TEST(a_loss_reported_by_a_fetch_is_not_reported_again)
{
	int64_t a = outside_submits("a"), b = outside_submits("b"), c = outside_submits("c");
	struct caller *waiting, *worker;

	takes(0, a);
	waiting = fetches(b, true);
	worker = fetches(c, false);
	all_fail();
	ends(waiting, STATUS_UNAVAILABLE, ps.message);
	ends(worker, STATUS_UNAVAILABLE, ps.message);
	/* It runs until its worker has answered. */
	ends(fetches(a, true), STATUS_UNAVAILABLE, ps.message);
	queue_unfail(q, now);
	ck_assert_int_eq(cancel_all("a")->w.status, STATUS_OK);
	dies(0, "was killed");
	ck_assert(!is_told("a", true));
	ck_assert(!is_told("b", true));
	ck_assert(is_told("c", true));
}
END_TEST

START_TEST(a_queue_used_only_by_workers_keeps_no_loss)
{
	struct caller *late;

	submit_as("a", &plain);
	submit_as("joined", &plain);
	submit_as("done", &plain);
	ck_assert_int_eq(queue_keep(q, "kept"), STATUS_OK);
	submit_as("kept", &plain);
	for (int i = 0; i < 2; i++) {
		late = new_caller();
		late->w.outside = true;
		if (i)
			queue_done(q, &late->w, "done", now, now);
		else
			queue_join(q, &late->w, "joined", now, now);
		begun(late);
		ck_assert_int_eq(late->w.status, STATUS_DEADLINE_EXCEEDED);
	}
	all_fail();
	queue_unfail(q, now);
	ck_assert(!is_told("a", true));
	ck_assert(is_told("joined", true));
	ck_assert(is_told("done", true));
	ck_assert(is_told("kept", true));
}
END_TEST

START_TEST(the_oldest_of_too_many_losses_is_forgotten)
{
	char name[8];
	int64_t t;

	opt.journal = true;
	for (int rewritten = 0; rewritten < 2; rewritten++) {
		again();
		/* A queue with more than a loss stays. */
		outside_submits("first");
		for (int i = 1; i < QUEUE_QUEUES_MAX; i++) {
			snprintf(name, sizeof(name), "q%d", i);
			t = outside_submits(name);
			writes_down();
			ck_assert_uint_eq(queue_release(q, &t, 1, now), 1);
		}
		all_fail();
		queue_unfail(q, now);
		submit_quietly("new");
		ck_assert_int_eq(queue_keep(q, "newer"), STATUS_OK);
		crashes(rewritten);
		ck_assert(!is_told("q1", true) && !is_told("q2", true));
		ck_assert(is_told("q3", true));
		ck_assert(is_told("q1023", true));
		ck_assert(is_told("first", true));
	}
}
END_TEST

START_TEST(a_loss_ends_all_waits_with_the_exit_code)
{
	struct caller *j, *f, *late;
	int64_t l;

	submit();
	submit_as("b", &plain);
	l = takes(0, 1);
	j = join();
	f = fetch(2);
	queue_fail_all(q, &ps, 75, now);
	ends(f, STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL");
	ck_assert(f->w.failed_queue && f->w.exit_code == 75);
	ends(j, STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL");
	is(2, "cancelled: ps:0 was killed by SIGKILL");
	late = submit_to("", &plain, EVER);
	ends(late, STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL");
	ck_assert_int_eq(late->w.exit_code, 75);
	ends(done_of(""), STATUS_UNAVAILABLE, "ps:0 was killed by SIGKILL");
	ck_assert_int_eq(finish_late(0, l), STATUS_ABORTED);
	queue_unfail(q, now);
	is_ok(join());
	submit();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue_loss");
	TCase *t = tcase_create("queue_loss");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_loss_ends_all_waits_with_the_exit_code);
	tcase_add_test(t, an_unreported_loss_waits_for_a_client_outside);
	tcase_add_test(t, a_loss_reported_to_a_worker_stays_for_clients_outside);
	tcase_add_test(t, one_waiting_client_outside_gets_the_loss_for_all);
	tcase_add_test(t, a_loss_reported_by_a_fetch_is_not_reported_again);
	tcase_add_test(t, a_queue_used_only_by_workers_keeps_no_loss);
	tcase_add_test(t, the_oldest_of_too_many_losses_is_forgotten);
	suite_add_tcase(s, t);
	return suite_run(s);
}
