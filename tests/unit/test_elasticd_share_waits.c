/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for what comes by a ring that end otherwise than by an answer, and what else may happen to
 * them. */
#include "worker/private.h"

/* After it, for Check has a macro fail(). */
#include "tests/unit/fake_share.h"
#include "tests/unit/fake_signals.h"

/* --- time, signals, other threads */

static void gets_for_a_moment(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", 1, &me->value, &me->n);
}

START_TEST(a_silent_agent_does_not_keep_a_caller_beyond_its_limit)
{
	shares();
	worker_start(&w, gets_for_a_moment, h);
	ck_assert_ptr_nonnull(strstr(ring_hear(), "'timeout_ms':1"));
	ck_assert_int_eq(worker_end(&w), ELASTICD_DEADLINE_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(w.text, "the agent has not answered"));
	no_more_on(fd);
}
END_TEST

START_TEST(an_agent_that_says_nothing_does_not_keep_a_caller)
{
	shares();
	h->silence_ms = 50;
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	ck_assert_int_eq(worker_end(&w), ELASTICD_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent does not answer");
	no_more_on(fd);
}
END_TEST

/* Else each answer would cost the agent a system call. */
START_TEST(who_has_slept_on_the_socket_wants_no_bell_any_more)
{
	shares();
	worker_start(&w, gets, h);
	ck_assert_str_eq(ring_hear(), GET);
	until_on_socket();
	ring_say(GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
	ck_assert(!ring_tell(&ring));
}
END_TEST

START_TEST(closing_the_handle_ends_a_wait)
{
	shares();
	worker_start(&w, gets, h);
	ck_assert_str_eq(ring_hear(), GET);
	elasticd_close(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_CANCELLED);
	no_more_on(fd);
	close(fd);
	h = handle_open(&fd);
}
END_TEST

/* Nothing goes to a new connection then. */
START_TEST(a_call_that_nobody_took_is_cancelled_with_its_handle)
{
	call_lies_there();
	elasticd_cancel(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_CANCELLED);
}
END_TEST

static void interrupted(void (*fn)(struct worker *), const char *request)
{
	worker_start(&w, fn, h);
	ck_assert_ptr_nonnull(strstr(ring_hear(), request));
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_INTERRUPTED);
	no_more_on(fd);
}

START_TEST(a_signal_ends_a_wait)
{
	handle_usr1(0);
	shares();
	interrupted(gets, "Get");
}
END_TEST

START_TEST(a_signal_ends_a_wait_with_a_limit)
{
	handle_usr1(0);
	shares();
	interrupted(gets_for_a_minute, "Get");
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static void goes_on(void (*fn)(struct worker *), const char *answer)
{
	atomic_store(&handled, 0);
	worker_start(&w, fn, h);
	ck_assert_ptr_nonnull(strstr(ring_hear(), "'key':'k'"));
	signal_often(&w);
	ring_say(answer);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
}

START_TEST(a_signal_with_restart_does_not)
{
	handle_usr1(SA_RESTART);
	shares();
	goes_on(gets, GET_DONE);
	goes_on(gets_for_a_minute, GET_DONE);
}
END_TEST

START_TEST(what_does_not_wait_is_not_interrupted)
{
	handle_usr1(0);
	shares();
	goes_on(puts_text, PUT_DONE);
}
END_TEST

static void puts_again_and_again(struct worker *me)
{
	do {
		puts_text(me);
		atomic_fetch_add(&ends, me->r == ELASTICD_INTERRUPTED);
	} while (me->r == ELASTICD_INTERRUPTED);
}

START_TEST(a_call_that_a_signal_has_ended_goes_on_over_its_ring)
{
	handle_usr1(0);
	shares();
	elasticd_interruptible(h, 1);
	for (int i = 0; i < 3; i++) {
		atomic_store(&ends, 0);
		worker_start(&w, puts_again_and_again, h);
		ck_assert_str_eq(ring_hear(), PUT);
		signal_until_ended(&w, 3);
		ck_assert_int_eq(ring_ready(&ring), 0);
		ring_say(PUT_DONE);
		ck_assert_int_eq(worker_end(&w), 0);
	}
	one_call_by_ring();
}
END_TEST

/* The connection is dropped, and with it the question. */
START_TEST(a_call_that_a_signal_has_ended_before_it_had_its_ring_begins_anew)
{
	handle_usr1(0);
	elasticd_interruptible(h, 1);
	atomic_store(&ends, 0);
	calls_before(fd);
	worker_start(&w, puts_again_and_again, h);
	ck_assert_str_eq(agent_hear(fd), SHARE);
	signal_until_ended(&w, 1);
	ck_assert_str_eq(agent_hear(fd), "");
	put_again_on_a_new_one();
}
END_TEST
#endif

/* --- a place at a queue, whose leases are its connection's */

static struct elasticd_work *work;
static const struct elasticd_item *item;

#define FINISH "{'method':'io.elasticd.Queue.Finish','parameters':{'lease':7,'next':true}}"
#define ITEM                                                                                  \
	"{'parameters':{'item':{'kind':'task','lease':7,'task':41,'index':3,'incarnation':1," \
	"'attempt':0}}}"

static void asks_work(struct worker *me)
{
	me->r = elasticd_work_next(work, -1, &item);
}

static void finishes_and_goes_on(struct worker *me)
{
	me->r = elasticd_work_finish_next(work, NULL, -1, &item);
}

static void work_begins(struct elasticd_queue **ret)
{
	ck_assert_int_eq(elasticd_queue_open(h, "trials", ret), 0);
	ck_assert_int_eq(elasticd_work_open(h, &work), 0);
	worker_start(&w, asks_work, h);
	bells = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(bells), "Work"));
	agent_say(bells, ITEM);
	ck_assert_int_eq(worker_end(&w), 0);
	for (int i = 0; i < CALLS_BEFORE; i++) {
		worker_start(&w, finishes_and_goes_on, h);
		ck_assert_str_eq(agent_hear(bells), FINISH);
		agent_say(bells, ITEM);
		ck_assert_int_eq(worker_end(&w), 0);
	}
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_str_eq(agent_hear(bells), SHARE);
}

static void work_ends(struct elasticd_queue *q)
{
	elasticd_work_close(work);
	elasticd_queue_close(q);
	close(bells);
}

/* Over the ring. */
static void one_item(void)
{
	ck_assert_str_eq(ring_hear(), FINISH);
	ring_say(ITEM);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 41);
}

START_TEST(a_place_has_a_ring_of_its_own)
{
	struct elasticd_queue *q;

	work_begins(&q);
	agent_hands_over(bells, SHARED, &ring_fd, 1);
	one_item();
	worker_start(&w, finishes_and_goes_on, h);
	one_item();
	work_ends(q);
}
END_TEST

START_TEST(a_signal_while_it_gets_one_costs_no_lease)
{
	struct elasticd_queue *q;

	handle_usr1(0);
	work_begins(&q);
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_INTERRUPTED);
	agent_hands_over(bells, SHARED, &ring_fd, 1);
	worker_start(&w, asks_work, h);
	one_item();
	/* And one while it waits on the ring. */
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_str_eq(ring_hear(), FINISH);
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_INTERRUPTED);
	ring_say(ITEM);
	worker_start(&w, asks_work, h);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 41);
	work_ends(q);
}
END_TEST

/* --- fork() */

START_TEST(a_child_does_not_use_the_ring_of_its_parent)
{
	int theirs, status;
	pid_t pid;

	shares();
	pid = fork();
	if (pid == 0) {
		int r = elasticd_put(h, "k", "v", 1, 0);

		elasticd_close(h);
		_exit(r);
	}
	theirs = agent_greets();
	ck_assert_str_eq(agent_hear(theirs), PUT);
	one_call_by_ring();
	agent_say(theirs, PUT_DONE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	one_call_by_ring();
	close(theirs);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("share");

	tcase_add_checked_fixture(t, setup_share, teardown_share);
	tcase_add_test(t, a_silent_agent_does_not_keep_a_caller_beyond_its_limit);
	tcase_add_test(t, an_agent_that_says_nothing_does_not_keep_a_caller);
	tcase_add_test(t, who_has_slept_on_the_socket_wants_no_bell_any_more);
	tcase_add_test(t, closing_the_handle_ends_a_wait);
	tcase_add_test(t, a_call_that_nobody_took_is_cancelled_with_its_handle);
	tcase_add_test(t, a_signal_ends_a_wait);
	tcase_add_test(t, a_signal_ends_a_wait_with_a_limit);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
	tcase_add_test(t, a_signal_with_restart_does_not);
	tcase_add_test(t, what_does_not_wait_is_not_interrupted);
	tcase_add_test(t, a_call_that_a_signal_has_ended_goes_on_over_its_ring);
	tcase_add_test(t, a_call_that_a_signal_has_ended_before_it_had_its_ring_begins_anew);
#endif
	tcase_add_test(t, a_place_has_a_ring_of_its_own);
	tcase_add_test(t, a_signal_while_it_gets_one_costs_no_lease);
	tcase_add_test(t, a_child_does_not_use_the_ring_of_its_parent);
	return tests_run(t);
}
