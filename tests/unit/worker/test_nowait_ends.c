/* SPDX-License-Identifier: Apache-2.0 */
/* Puts that do not wait: how they fail, signals, other threads, and children. */
#include "worker/base/handle.h"

/* After the header of handles, since Check has a macro fail(). */
#include "tests/unit/fake_nowait.h"

/* --- failing */

START_TEST(a_flush_returns_the_first_error_once)
{
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(puts_soon("k", "v"), 0);
	for (int i = 0; i < 4; i++)
		hears_put("k", "v");
	agent_say(fd, PUT_DONE);
	agent_say(fd, FULL);
	agent_say(fd, MISSING_OTHER);
	agent_say(fd, PUT_DONE);
	worker_start(&w, flushes, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(w.text, "it is full");
	flushed();
}
END_TEST

START_TEST(the_next_write_returns_the_error_and_does_nothing)
{
	one_under_way();
	agent_say(fd, FULL);
	ck_assert_int_eq(puts_soon("k", "not this"), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(elasticd_error_text(), "it is full");
	hears_no_more();
	ck_assert_int_eq(puts_soon("k", "this"), 0);
	hears_put("k", "this");
	agent_say(fd, PUT_DONE);
	flushed();
}
END_TEST

START_TEST(other_calls_do_not_return_the_error)
{
	one_under_way();
	agent_say(fd, FULL);
	one_call();
	ck_assert_str_eq(w.text, "");
	ck_assert_int_eq(elasticd_flush(h, -1), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

static void flush_says_gone(void)
{
	worker_start(&w, flushes, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(w.text, "the agent is gone"));
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}

START_TEST(a_flush_is_unavailable_when_the_agent_is_gone)
{
	one_under_way();
	fd = close_fd(fd);
	flush_says_gone();
}
END_TEST

START_TEST(another_call_connects_again)
{
	one_under_way();
	fd = close_fd(fd);
	worker_start(&w, puts_text, h);
	put_again_on_a_new_one();
	flush_says_gone();
}
END_TEST

START_TEST(a_dead_connection_is_replaced_before_a_write)
{
	fd = close_fd(fd);
	worker_start(&w, puts_soon_there, h);
	fd = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "'value':'soon'"));
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void is_silent_for(void (*fn)(struct worker *me))
{
	h->silence_ms = 50;
	worker_start(&w, fn, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent does not answer");
	no_more_on(fd);
}

START_TEST(a_silent_agent_does_not_keep_a_flush)
{
	one_under_way();
	is_silent_for(flushes);
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

START_TEST(a_silent_agent_does_not_keep_a_write_without_room)
{
	fill();
	is_silent_for(puts_last);
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

START_TEST(a_call_to_a_silent_agent_leaves_the_error_to_the_flush)
{
	one_under_way();
	is_silent_for(puts_text);
	flush_says_gone();
}
END_TEST

START_TEST(an_error_before_the_silence_is_the_first_error)
{
	one_under_way();
	ck_assert_int_eq(puts_soon("k", "two"), 0);
	agent_say(fd, FULL);
	h->silence_ms = 50;
	worker_start(&w, flushes, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

static void flushes_for_a_moment(struct worker *me)
{
	me->r = elasticd_flush(me->h, 1);
}

START_TEST(a_flush_that_took_too_long_can_go_on)
{
	one_under_way();
	ck_assert_int_eq(elasticd_flush(h, 0), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	worker_start(&w, flushes_for_a_moment, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	reads_own("k", "soon");
	agent_say(fd, FULL);
	ck_assert_int_eq(elasticd_flush(h, 0), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
}
END_TEST

/* Bytes after a malformed answer are not read. */
START_TEST(a_malformed_answer_ends_the_connection)
{
	one_under_way();
	ck_assert_int_eq(puts_soon("other", "two"), 0);
	hears_put("other", "two");
	h->silence_ms = 2 * HANG_MS;
	agent_say(fd, "what?");
	worker_start(&w, gets, h);
	no_more_on(fd);
	close(fd);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), GET);
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
	flush_says_gone();
}
END_TEST

START_TEST(closing_the_handle_ends_a_flush)
{
	one_under_way();
	worker_start(&w, flushes, h);
	until_it_waits(&w);
	elasticd_cancel(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	no_more_on(fd);
	ck_assert_int_eq(puts_soon("k", "v"), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_flush(h, -1), ELASTICD_STATUS_CANCELLED);
}
END_TEST

/* The agent can read the writes after the handle is gone. */
START_TEST(closing_the_handle_does_not_wait)
{
	ck_assert_int_eq(puts_soon("k", "soon"), 0);
	elasticd_close(h);
	hears_put("k", "soon");
	no_more_on(fd);
	close(fd);
	h = handle_open(&fd);
}
END_TEST

/* --- signals and threads */

START_TEST(a_signal_ends_a_flush_but_no_write)
{
	handle_usr1(0);
	one_under_way();
	for (int i = 0; i < 3; i++) {
		worker_start(&w, flushes, h);
		ck_assert_int_eq(signal_until_done(&w), ELASTICD_STATUS_INTERRUPTED);
	}
	reads_own("k", "soon");
	agent_say(fd, PUT_DONE);
	flushed();
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static void puts_last_until_it_goes(struct worker *me)
{
	do {
		puts_last(me);
		atomic_fetch_add(&ends, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(an_interrupted_write_was_not_handed_over)
{
	handle_usr1(0);
	elasticd_interruptible(h, 1);
	fill();
	atomic_store(&ends, 0);
	worker_start(&w, puts_last_until_it_goes, h);
	signal_until_ended(&w, 3);
	hears_no_more();
	for (int i = 0; i < AT_ONCE; i++)
		agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	hears_put("last", "v");
	hears_no_more();
	agent_say(fd, PUT_DONE);
	flushed();
}
END_TEST

#endif

#ifndef __SANITIZE_THREAD__
static void puts_soon_until_it_goes(struct worker *me)
{
	do {
		puts_soon_there(me);
		atomic_fetch_add(&ends, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

/* No connection is free when it begins, and one is when it is made again. */
START_TEST(an_interrupted_ordinary_write_is_not_done_twice)
{
	struct worker first;
	int other;

	handle_usr1(0);
	elasticd_interruptible(h, 1);
	atomic_store(&ends, 0);
	worker_start(&w, gets, h);
	ck_assert_str_eq(agent_hear(fd), GET);
	worker_start(&first, puts_soon_until_it_goes, h);
	other = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(other), "'value':'soon'"));
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
	signal_until_ended(&first, 1);
	agent_say(other, PUT_DONE);
	ck_assert_int_eq(worker_end(&first), 0);
	hears_no_more();
	ck_assert_int_eq(elasticd_flush(h, 0), 0);
	close(other);
}
END_TEST
#endif

START_TEST(a_signal_ends_the_wait_for_another_thread)
{
	struct worker other;

	handle_usr1(0);
	one_under_way();
	worker_start(&other, flushes, h);
	until_it_waits(&other);
	worker_start(&w, gets_another, h);
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_STATUS_INTERRUPTED);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&other), 0);
}
END_TEST

enum { THREADS = 4, WRITES = 200 };

static void puts_many(struct worker *me)
{
	char key[32], value[32];

	snprintf(key, sizeof(key), "%p", (void *)me);
	for (int i = 0; i < WRITES && !me->r; i++) {
		snprintf(value, sizeof(value), "%d", i);
		me->r = elasticd_put(me->h, key, value, strlen(value), NOWAIT);
		if (!me->r && i % 50 == 49)
			me->r = elasticd_flush(me->h, -1);
	}
}

/* Each thread's writes stay in order. */
START_TEST(threads_write_side_by_side)
{
	struct worker all[THREADS];
	int next[THREADS] = { 0 }, left = THREADS * WRITES;

	for (int i = 0; i < THREADS; i++)
		worker_start(&all[i], puts_many, h);
	while (left) {
		const char *text = agent_hear(fd);

		for (int i = 0; i < THREADS; i++) {
			char expected[96];

			snprintf(expected, sizeof(expected), "'key':'%p','value':'%d'",
				(void *)&all[i], next[i]);
			if (!strstr(text, expected))
				continue;
			next[i]++;
			left--;
		}
		agent_say(fd, PUT_DONE);
	}
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(next[i], WRITES);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(worker_end(&all[i]), 0);
}
END_TEST

static int child_of_it(void)
{
	void *value;
	int r = elasticd_flush(h, -1);

	if (r == 0)
		r = elasticd_put(h, "k", "v", 1, NOWAIT);
	if (r == 0)
		r = elasticd_get(h, "k", -1, &value, NULL);
	if (r == 0) {
		r = strcmp(value, "v");
		free(value);
	}
	elasticd_close(h);
	return r;
}

START_TEST(a_child_has_no_writes_of_its_parent)
{
	int theirs, status;
	pid_t pid;

	one_under_way();
	pid = fork();
	if (pid == 0)
		_exit(child_of_it());
	theirs = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(theirs), "Put"));
	agent_say(theirs, PUT_DONE);
	ck_assert_ptr_nonnull(strstr(agent_hear(theirs), "Get"));
	agent_say(theirs, GET_DONE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	reads_own("k", "soon");
	agent_say(fd, PUT_DONE);
	flushed();
	close(theirs);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("nowait");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_flush_returns_the_first_error_once);
	tcase_add_test(t, the_next_write_returns_the_error_and_does_nothing);
	tcase_add_test(t, other_calls_do_not_return_the_error);
	tcase_add_test(t, a_flush_is_unavailable_when_the_agent_is_gone);
	tcase_add_test(t, another_call_connects_again);
	tcase_add_test(t, a_dead_connection_is_replaced_before_a_write);
	tcase_add_test(t, a_silent_agent_does_not_keep_a_flush);
	tcase_add_test(t, a_silent_agent_does_not_keep_a_write_without_room);
	tcase_add_test(t, a_call_to_a_silent_agent_leaves_the_error_to_the_flush);
	tcase_add_test(t, an_error_before_the_silence_is_the_first_error);
	tcase_add_test(t, a_flush_that_took_too_long_can_go_on);
	tcase_add_test(t, a_malformed_answer_ends_the_connection);
	tcase_add_test(t, closing_the_handle_ends_a_flush);
	tcase_add_test(t, closing_the_handle_does_not_wait);
	tcase_add_test(t, a_signal_ends_a_flush_but_no_write);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
	tcase_add_test(t, an_interrupted_write_was_not_handed_over);
	tcase_add_test(t, an_interrupted_ordinary_write_is_not_done_twice);
#endif
	tcase_add_test(t, a_signal_ends_the_wait_for_another_thread);
	tcase_add_test(t, threads_write_side_by_side);
	tcase_add_test(t, a_child_has_no_writes_of_its_parent);
	return tests_run(t);
}
