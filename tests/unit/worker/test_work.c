/* SPDX-License-Identifier: Apache-2.0 */
/* A slot of a worker at the queue, with an agent that the test plays. */
#include "worker/base/handle.h"

#include "tests/unit/fake_queue.h"

#include <poll.h>

enum { QUEUE_VALUE_BYTES = 1 << 20 };

START_TEST(an_item_has_all_members_of_the_answer)
{
	work_begins();
	agent_answers(work_fd, "'item':{'kind':'task','lease':7,'task':41,'payload':'a\\nb',"
			       "'format':'json','resources':['data','model'],'limit_ms':500,"
			       "'index':3,'start':1,'tries':2}");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->kind, ELASTICD_ITEM_TASK);
	ck_assert(item->lease == 7 && item->task == 41 && item->limit_ms == 500);
	ck_assert(item->index == 3 && item->start == 1 && item->tries == 2);
	ck_assert_uint_eq(item->len, 2 + 1);
	ck_assert_str_eq(item->payload, "a\nb");
	ck_assert_str_eq(item->format, "json");
	ck_assert_uint_eq(item->n_resources, 2);
	ck_assert_str_eq(item->resources[0], "data");
	ck_assert_str_eq(item->resources[1], "model");
	ck_assert_str_eq(item->name, "");
}
END_TEST

static void fails_to_build(struct worker *me)
{
	const struct elasticd_queue_failure no = { .code = ELASTICD_STATUS_NOT_FOUND,
		.message = "no file",
		.details = "line 1",
		.retryable = 1,
		.blame = "worker:3" };

	me->r = elasticd_queue_work_fail_next(work, &no, 0, &item);
}

START_TEST(a_failed_build_may_have_no_next_item)
{
	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	worker_start(&w, asks_work_for_a_minute, h);
	work_fd = agent_greets();
	queue_hears(work_fd, "Work", "'timeout_ms':60000");
	agent_answers(work_fd, "'item':{'kind':'build','lease':9,'name':'data','base64':'YQD/',"
			       "'index':3,'start':1,'tries':0}");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->kind, ELASTICD_ITEM_BUILD);
	ck_assert_str_eq(item->name, "data");
	ck_assert_int_eq(item->task, -1);
	ck_assert_uint_eq(item->len, 3);
	ck_assert_int_eq(memcmp(item->payload, "a\0\xff", 4), 0);
	/* The answer is sent before the call: a call that does not wait gives a slow agent little
	 * time. */
	queue_refuses(work_fd, "DeadlineExceeded", "'message':'there is nothing to be done'");
	worker_start(&w, fails_to_build, h);
	queue_hears(work_fd, "Fail",
		"'lease':9,'code':'NotFound','message':'no file','details':'line 1',"
		"'retryable':true,'blame':'worker:3','next':true,'timeout_ms':0");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_queue_work_put_back(work), ELASTICD_STATUS_FAILED_PRECONDITION);
}
END_TEST

static void finishes_and_goes_on(struct worker *me)
{
	const struct elasticd_queue_bytes value = { "v", 1, "text" };

	me->r = elasticd_queue_work_finish_next(work, &value, -1, &item);
}

static void finishes_with_nothing(struct worker *me)
{
	me->r = elasticd_queue_work_finish(work, NULL);
}

static void puts_back(struct worker *me)
{
	me->r = elasticd_queue_work_put_back(work);
}

START_TEST(an_answer_and_the_next_item_take_one_round_trip)
{
	work_has();
	ck_assert_int_eq(
		elasticd_queue_work_next(work, 0, &item), ELASTICD_STATUS_FAILED_PRECONDITION);
	worker_start(&w, finishes_and_goes_on, h);
	queue_hears(work_fd, "Finish", "'lease':7,'value':'v','format':'text','next':true");
	agent_answers(work_fd, ITEM("8", "42", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 42);
	ck_assert_uint_eq(item->len, 0);
	worker_start(&w, finishes_with_nothing, h);
	queue_hears(work_fd, "Finish", "'lease':8");
	agent_answers(work_fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, asks_work_for_a_minute, h);
	queue_hears(work_fd, "Work", "'timeout_ms':60000");
	agent_answers(work_fd, ITEM("9", "43", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, puts_back, h);
	queue_hears(work_fd, "PutBack", "'lease':9");
	agent_answers(work_fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(closed_queues_are_no_error)
{
	work_has();
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	queue_refuses(work_fd, "Closed", "'message':'there will be nothing any more'");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_ptr_null(item);
	worker_start(&w, asks_work, h);
	queue_hears(work_fd, "Work", "");
	queue_refuses(work_fd, "Closed", "'message':'there will be nothing any more'");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_ptr_null(item);
}
END_TEST

START_TEST(an_aborted_answer_ends_the_item_but_a_refused_one_does_not)
{
	work_has();
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	queue_refuses(work_fd, "ResourceExhausted", "'message':'no memory'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	queue_refuses(work_fd, "Aborted", "'message':'it was cancelled'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ABORTED);
	ck_assert_int_eq(
		elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
}
END_TEST

START_TEST(without_its_connection_a_slot_has_no_item_and_connects_again)
{
	int fresh;

	work_has();
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	work_fd = close_fd(work_fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_int_eq(
		elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
	worker_start(&w, asks_work, h);
	fresh = agent_greets();
	queue_hears(fresh, "Work", "");
	agent_answers(fresh, ITEM("1", "44", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, finishes_with_nothing, h);
	queue_hears(fresh, "Finish", "'lease':1");
	agent_answers(fresh, "");
	ck_assert_int_eq(worker_end(&w), 0);
	/* The connection dies while no call is under way. */
	close_fd(fresh);
	worker_start(&w, asks_work, h);
	work_fd = agent_greets();
	queue_hears(work_fd, "Work", "");
	agent_answers(work_fd, ITEM("1", "45", ""));
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void closes(struct worker *me)
{
	elasticd_queue_work_close(work);
}

START_TEST(closing_waits_until_the_item_is_put_back)
{
	work_has();
	worker_start(&w, closes, h);
	queue_hears(work_fd, "PutBack", "'lease':7");
	ck_assert_int_eq(pthread_tryjoin_np(w.thread, NULL), EBUSY);
	agent_answers(work_fd, "");
	worker_end(&w);
	work = NULL;
	ck_assert_str_eq(agent_hear(work_fd), "");
}
END_TEST

START_TEST(closing_ends_without_an_agent)
{
	work_has();
	worker_start(&w, closes, h);
	queue_hears(work_fd, "PutBack", "'lease':7");
	work_fd = close_fd(work_fd);
	worker_end(&w);
	work = NULL;
}
END_TEST

/* --- stopped slots */

static void stops(struct worker *me)
{
	elasticd_queue_work_stop(work);
}

/* The worker shuts its connection, and waits until the agent closes that. */
static void stop_begins(struct worker *stopper)
{
	worker_start(stopper, stops, h);
	ck_assert_str_eq(agent_hear(work_fd), "");
	ck_assert_int_eq(pthread_tryjoin_np(stopper->thread, NULL), EBUSY);
}

START_TEST(stopping_ends_the_wait_of_another_thread)
{
	struct worker stopper;

	work_begins();
	stop_begins(&stopper);
	queue_refuses(work_fd, "Cancelled", "'message':'this connection is shut for writing'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	worker_end(&stopper);
	ck_assert_int_eq(elasticd_queue_work_next(work, -1, &item), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(elasticd_error_text(), "the slot was stopped");
}
END_TEST

START_TEST(an_item_that_comes_when_the_slot_is_stopped_goes_back)
{
	struct worker stopper;

	work_begins();
	stop_begins(&stopper);
	agent_answers(work_fd, ITEM("7", "41", ""));
	ck_assert_int_eq(pthread_tryjoin_np(stopper.thread, NULL), EBUSY);
	work_fd = close_fd(work_fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	worker_end(&stopper);
	ck_assert_int_eq(
		elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
}
END_TEST

START_TEST(stopping_does_not_wait_for_ever_for_an_agent_that_is_silent)
{
	struct worker stopper;

	h->silence_ms = 50;
	work_begins();
	worker_start(&stopper, stops, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	worker_end(&stopper);
}
END_TEST

START_TEST(a_stopped_slot_answers_the_item_that_it_has)
{
	work_has();
	elasticd_queue_work_stop(work);
	worker_start(&w, finishes_and_goes_on, h);
	queue_hears(work_fd, "Finish", "'lease':7,'value':'v','format':'text'");
	agent_answers(work_fd, "");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(w.text, "the slot was stopped");
	ck_assert_int_eq(
		elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
}
END_TEST

START_TEST(a_handle_that_is_cancelled_ends_the_wait)
{
	work_begins();
	elasticd_cancel(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_queue_work_next(work, -1, &item), ELASTICD_STATUS_CANCELLED);
}
END_TEST

/* --- cancelled items */

static void looks(struct worker *me)
{
	me->r = elasticd_queue_work_cancelled(work);
}

START_TEST(cancelled_asks_the_agent_only_when_the_board_has_changed)
{
	struct pollfd quiet = { .events = POLLIN };

	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	work_has();
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	quiet.fd = fd;
	ck_assert_int_eq(poll(&quiet, 1, 0), 0);
	atomic_fetch_add(&board_slot(board, 3)->cancels, 1);
	worker_start(&w, looks, h);
	queue_hears(fd, "Look", "'lease':7");
	agent_answers(fd, "'cancelled':false");
	ck_assert_int_eq(worker_end(&w), 0);
	/* Another lease of the process was cancelled. */
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	atomic_fetch_add(&board_slot(board, 3)->cancels, 1);
	for (int i = 0; i < 2; i++) {
		worker_start(&w, looks, h);
		queue_hears(fd, "Look", "'lease':7");
		agent_answers(fd, "'cancelled':true,'reason':'nobody wants it'");
		ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
		ck_assert_str_eq(w.text, "nobody wants it");
	}
	worker_start(&w, looks, h);
	queue_hears(fd, "Look", "'lease':7");
	queue_refuses(fd, "NotFound", "'message':'lease 7 is over'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
}
END_TEST

START_TEST(a_cancellation_before_the_item_was_read_is_seen)
{
	work_begins();
	atomic_fetch_add(&board_slot(board, 3)->cancels, 1);
	agent_answers(work_fd, ITEM("7", "41", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, looks, h);
	queue_hears(fd, "Look", "'lease':7");
	agent_answers(fd, "'cancelled':true");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(w.text, "the task was cancelled");
}
END_TEST

/* --- signals, and children */

static void on_signal(int s)
{
}

static void handle_usr1(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
}

/* Sends signals until the thread's call has ended. */
static void interrupt(struct worker *me)
{
	while (pthread_tryjoin_np(me->thread, NULL) != 0) {
		pthread_kill(me->thread, SIGUSR1);
		poll(NULL, 0, 10);
	}
	ck_assert_int_eq(me->r, ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(an_interrupted_wait_goes_on)
{
	handle_usr1();
	work_begins();
	interrupt(&w);
	worker_start(&w, asks_work_for_a_minute, h);
	agent_answers(work_fd, ITEM("7", "41", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 41);
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	interrupt(&w);
	worker_start(&w, finishes_and_goes_on, h);
	agent_answers(work_fd, ITEM("8", "42", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 42);
	worker_start(&w, finishes_and_goes_on, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(work_fd), "Finish"));
	interrupt(&w);
	/* The interrupted wait has reached its limit, and this call has a longer one. */
	worker_start(&w, asks_work, h);
	queue_refuses(work_fd, "DeadlineExceeded", "'message':'there is nothing to be done'");
	queue_hears(work_fd, "Work", "");
	agent_answers(work_fd, ITEM("9", "43", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 43);
}
END_TEST

static char large[QUEUE_VALUE_BYTES];

static void finishes_at_length(struct worker *me)
{
	const struct elasticd_queue_bytes value = { large, sizeof(large), NULL };

	me->r = elasticd_queue_work_finish_next(work, &value, -1, &item);
}

/* How long the next message is. */
static size_t hears_length(int from)
{
	char data[4096];
	size_t n = 0;
	ssize_t more;

	do {
		agent_await(from);
		more = recv(from, data, sizeof(data), 0);
		ck_assert_int_gt(more, 0);
		n += (size_t)more;
	} while (data[more - 1]);
	return n;
}

START_TEST(an_answer_that_was_sent_in_part_goes_on)
{
	handle_usr1();
	memset(large, 'x', sizeof(large));
	work_has();
	/* More than fits into the socket's buffer. */
	worker_start(&w, finishes_at_length, h);
	agent_await(work_fd);
	interrupt(&w);
	ck_assert_int_eq(
		elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "on its way"));
	worker_start(&w, finishes_at_length, h);
	ck_assert_uint_eq(
		hears_length(work_fd), sizeof("{'method':'io.elasticd.Queue.Finish','parameters':"
					      "{'lease':7,'value':'','next':true}}") +
					       sizeof(large));
	agent_answers(work_fd, ITEM("8", "42", ""));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(item->task, 42);
}
END_TEST

START_TEST(a_child_does_not_have_its_parents_item)
{
	pid_t child;
	int child_fd, status;

	work_has();
	child = fork();
	if (child == 0) {
		int r = elasticd_queue_work_finish(work, NULL);

		if (r == ELASTICD_STATUS_FAILED_PRECONDITION)
			r = elasticd_queue_work_next(work, -1, &item);
		r = r || item->task != 50;
		elasticd_queue_work_close(work);
		_exit(r);
	}
	child_fd = agent_greets();
	queue_hears(child_fd, "Work", "");
	agent_answers(child_fd, ITEM("8", "50", ""));
	queue_hears(child_fd, "PutBack", "'lease':8");
	agent_answers(child_fd, "");
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close_fd(child_fd);
	worker_start(&w, finishes_with_nothing, h);
	queue_hears(work_fd, "Finish", "'lease':7");
	agent_answers(work_fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static int64_t number;
static size_t accepted;

static void submits(struct worker *me)
{
	const struct elasticd_queue_new_task t = { .payload = { "x", 1, NULL } };

	/* It is the same call with another time limit. */
	do
		me->r = elasticd_queue_submit(
			q, &t, 1, me->n++ % 2 ? -1 : 600000, &number, &accepted);
	while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(an_interrupted_submit_is_not_made_twice)
{
	handle_usr1();
	w.n = 0;
	worker_start(&w, submits, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "Submit"));
	for (int i = 0; i < 20; i++) {
		pthread_kill(w.thread, SIGUSR1);
		poll(NULL, 0, 5);
	}
	agent_answers(fd, "'task':17");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(number, 17);
}
END_TEST

START_TEST(bad_answers_are_refused_at_once)
{
	const struct elasticd_queue_failure ok = { .code = 0, .message = "m" },
					    no_text = { .code = ELASTICD_STATUS_INTERNAL };

	work_has();
	ck_assert_int_eq(elasticd_queue_work_fail(work, &ok), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(
		elasticd_queue_work_fail(work, &no_text), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_queue_work_finish(
				 work, &(struct elasticd_queue_bytes){ "x", (1 << 20) + 1, NULL }),
		ELASTICD_STATUS_INVALID_ARGUMENT);
	worker_start(&w, finishes_with_nothing, h);
	queue_hears(work_fd, "Finish", "'lease':7");
	agent_answers(work_fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(an_item_that_makes_no_sense_goes_back)
{
	static const char *const bad[] = {
		"'item':{'kind':'other','lease':7,'index':0,'start':0,'tries':0}",
		"'item':{'kind':'task','index':0,'start':0,'tries':0}",
		"'item':{'kind':'task','lease':7,'base64':'?'}",
		"'item':{'kind':'task','lease':7,'resources':[1]}",
		"'item':'x'",
	};

	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char answer[256];

		worker_start(&w, asks_work, h);
		work_fd = agent_greets();
		queue_hears(work_fd, "Work", "");
		snprintf(answer, sizeof(answer), "{'parameters':{%s}}", bad[i]);
		agent_say(work_fd, answer);
		ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERNAL);
		ck_assert_str_eq(agent_hear(work_fd), "");
		work_fd = close_fd(work_fd);
	}
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("work");

	tcase_add_checked_fixture(tc, setup_queue, teardown_queue);
	tcase_add_test(tc, an_item_has_all_members_of_the_answer);
	tcase_add_test(tc, a_failed_build_may_have_no_next_item);
	tcase_add_test(tc, an_answer_and_the_next_item_take_one_round_trip);
	tcase_add_test(tc, closed_queues_are_no_error);
	tcase_add_test(tc, an_aborted_answer_ends_the_item_but_a_refused_one_does_not);
	tcase_add_test(tc, without_its_connection_a_slot_has_no_item_and_connects_again);
	tcase_add_test(tc, closing_waits_until_the_item_is_put_back);
	tcase_add_test(tc, closing_ends_without_an_agent);
	tcase_add_test(tc, stopping_ends_the_wait_of_another_thread);
	tcase_add_test(tc, an_item_that_comes_when_the_slot_is_stopped_goes_back);
	tcase_add_test(tc, stopping_does_not_wait_for_ever_for_an_agent_that_is_silent);
	tcase_add_test(tc, a_stopped_slot_answers_the_item_that_it_has);
	tcase_add_test(tc, a_handle_that_is_cancelled_ends_the_wait);
	tcase_add_test(tc, cancelled_asks_the_agent_only_when_the_board_has_changed);
	tcase_add_test(tc, a_cancellation_before_the_item_was_read_is_seen);
	tcase_add_test(tc, an_interrupted_wait_goes_on);
	tcase_add_test(tc, an_answer_that_was_sent_in_part_goes_on);
	tcase_add_test(tc, a_child_does_not_have_its_parents_item);
	tcase_add_test(tc, an_interrupted_submit_is_not_made_twice);
	tcase_add_test(tc, bad_answers_are_refused_at_once);
	tcase_add_test(tc, an_item_that_makes_no_sense_goes_back);
	return tests_run(tc);
}
