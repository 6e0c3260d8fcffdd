/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that end without an answer, streams, and fork(). */
#include "worker/base/handle.h"

/* After the header of handles, since Check has a macro fail(). */
#include "tests/unit/fake_handle.h"
#include "tests/unit/fake_signals.h"

static void gets_for_a_moment(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", 1, &me->value, &me->n);
}

static void puts_text(struct worker *me)
{
	me->r = elasticd_put(me->h, "k", "v", 1, 0);
}

START_TEST(a_silent_agent_does_not_keep_a_caller_beyond_its_limit)
{
	worker_start(&w, gets_for_a_moment, h);
	agent_hears(fd, "Get", "'key':'k','wait':true,'timeout_ms':1");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(w.text, "the agent has not answered"));
	/* It hangs up, so that no later answer is taken for another call's. */
	ck_assert_str_eq(agent_hear(fd), "");
}
END_TEST

START_TEST(closing_the_handle_ends_a_wait)
{
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	elasticd_close(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(agent_hear(fd), "");
	close(fd);
	h = handle_open(&fd);
}
END_TEST

/* --- signals */

static void interrupted(void (*fn)(struct worker *), const char *request)
{
	worker_start(&w, fn, h);
	ck_assert_str_eq(agent_hear(fd), request);
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_STATUS_INTERRUPTED);
	ck_assert_str_eq(agent_hear(fd), "");
	close(fd);
}

START_TEST(a_signal_without_restart_ends_a_wait)
{
	handle_usr1(0);
	interrupted(gets, "{'method':'io.elasticd.Worker.Get','parameters':"
			  "{'key':'k','wait':true}}");
	worker_start(&w, gets_for_a_minute, h);
	fd = agent_greets();
	agent_hears(fd, "Get", "'key':'k','wait':true,'timeout_ms':60000");
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_STATUS_INTERRUPTED);
}
END_TEST

__attribute__((unused)) static void goes_on(void (*fn)(struct worker *))
{
	atomic_store(&handled, 0);
	worker_start(&w, fn, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "'key':'k'"));
	signal_often(&w);
	agent_answers(fd, "'entry':{'key':'k','value':'v','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
}

START_TEST(a_signal_with_restart_ends_no_wait)
{
	handle_usr1(SA_RESTART);
	goes_on(gets);
	goes_on(gets_for_a_minute);
}
END_TEST

START_TEST(a_call_that_does_not_wait_is_not_interrupted)
{
	handle_usr1(0);
	goes_on(puts_text);
}
END_TEST

static char big[1 << 20];

static void puts_much(struct worker *me)
{
	me->r = elasticd_put(me->h, "big", big, sizeof(big), 0);
}

/* The length of the value that puts_much() writes. */
static void agent_hears_much(void)
{
	static char text[4096];
	size_t len = 0, of_value = 0;
	bool ended = false;

	while (!ended) {
		ssize_t n;

		agent_await(fd);
		n = recv(fd, text, sizeof(text), 0);
		ck_assert_int_gt(n, 0);
		for (ssize_t i = 0; i < n; i++)
			of_value += text[i] == 'x';
		len += (size_t)n;
		ended = text[n - 1] == '\0';
	}
	ck_assert_uint_eq(of_value, sizeof(big));
	ck_assert_uint_lt(len, sizeof(big) + 100);
}

START_TEST(an_agent_that_reads_nothing_does_not_keep_a_caller)
{
	memset(big, 'x', sizeof(big));
	h->silence_ms = 50;
	worker_start(&w, puts_much, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent does not answer");
}
END_TEST

START_TEST(an_agent_that_writes_nothing_does_not_keep_a_caller)
{
	h->silence_ms = 50;
	worker_start(&w, puts_text, h);
	agent_hears(fd, "Put", "'key':'k','value':'v'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent does not answer");
	ck_assert_str_eq(agent_hear(fd), "");
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static void puts_again_and_again(struct worker *me)
{
	do {
		me->r = elasticd_put(me->h, "big", big, sizeof(big), 0);
		atomic_fetch_add(&ends, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(an_interrupted_call_goes_on)
{
	handle_usr1(0);
	memset(big, 'x', sizeof(big));
	elasticd_interruptible(h, 1);
	worker_start(&w, puts_again_and_again, h);
	signal_until_ended(&w, 3); /* while it is sent */
	agent_hears_much();
	signal_until_ended(&w, atomic_load(&ends) + 3); /* while its answer is due */
	agent_answers(fd, "'revision':1");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, puts_text, h);
	agent_hears(fd, "Put", "'key':'k','value':'v'");
	agent_answers(fd, "'revision':2");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void puts_and_gives_up(struct worker *me)
{
	puts_text(me);
	atomic_fetch_add(&ends, me->r == ELASTICD_STATUS_INTERRUPTED);
	elasticd_give_up(me->h);
	do
		puts_text(me);
	while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(a_call_that_was_given_up_does_not_go_on)
{
	int fresh;

	handle_usr1(0);
	elasticd_interruptible(h, 1);
	worker_start(&w, puts_and_gives_up, h);
	signal_until_ended(&w, 1);
	agent_hears(fd, "Put", "'key':'k','value':'v'");
	ck_assert_str_eq(agent_hear(fd), "");
	fresh = agent_greets();
	agent_hears(fresh, "Put", "'key':'k','value':'v'");
	agent_answers(fresh, "'revision':1");
	ck_assert_int_eq(worker_end(&w), 0);
	close(fresh);
}
END_TEST
#endif

/* --- fork() */

START_TEST(a_child_has_connections_of_its_own)
{
	pid_t pid = fork();
	int theirs, status;

	if (pid == 0) {
		void *value;
		size_t n;
		int r = elasticd_put(h, "child", "", 0, 0);

		if (!r)
			r = elasticd_get(h, "k", -1, &value, &n);
		if (!r)
			free(value);
		elasticd_beat(h);
		elasticd_close(h);
		_exit(r);
	}
	theirs = agent_greets();
	agent_hears(theirs, "Put", "'key':'child','value':''");
	agent_answers(theirs, "'revision':1");
	agent_hears(theirs, "Get", "'key':'k','wait':true");
	/* Meanwhile its parent goes on with its own. */
	worker_start(&w, puts_text, h);
	agent_hears(fd, "Put", "'key':'k','value':'v'");
	agent_answers(fd, "'revision':2");
	ck_assert_int_eq(worker_end(&w), 0);
	agent_answers(theirs, "'entry':{'key':'k','value':'v','revision':1}");
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(board_slot(board, 3)->beats, 1);
	/* The child's end has not ended the parent's connection. */
	worker_start(&w, puts_text, h);
	agent_hears(fd, "Put", "'key':'k','value':'v'");
	agent_answers(fd, "'revision':3");
	ck_assert_int_eq(worker_end(&w), 0);
	close(theirs);
}
END_TEST

/* --- streams */

static void watches(struct worker *me)
{
	me->r = elasticd_watch_open(me->h, "a", 7, (struct elasticd_watch **)&me->value);
}

/* Up to the agent's first answer, with which it is open. */
static int watch_begins(int *ret_fd)
{
	worker_start(&w, watches, h);
	*ret_fd = agent_greets();
	agent_hears_more(*ret_fd, "Watch", "'key':'a','since':7");
	return *ret_fd;
}

static struct elasticd_watch *watch_open(int *ret_fd)
{
	watch_begins(ret_fd);
	agent_continues(*ret_fd, "'changes':[],'revision':7");
	ck_assert_int_eq(worker_end(&w), 0);
	return w.value;
}

static void change(struct elasticd_watch *watch, const char *key, const char *value, int64_t rev)
{
	struct elasticd_entry *e;

	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), 0);
	ck_assert_str_eq(e->key, key);
	if (value)
		ck_assert_str_eq(e->value, value);
	else
		ck_assert_ptr_null(e->value);
	ck_assert_int_eq(e->revision, rev);
	elasticd_entries_free(e, 1);
}

START_TEST(a_refused_watch_is_not_opened)
{
	int s;

	agent_refuses(watch_begins(&s), "OutOfRange", "'message':'forgotten'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_ptr_null(w.value);
	ck_assert_str_eq(agent_hear(s), "");
	close(s);
	close(watch_begins(&s));
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_null(w.value);
}
END_TEST

START_TEST(changes_in_the_first_answer_are_returned)
{
	struct elasticd_watch *watch;
	int s;

	agent_continues(watch_begins(&s),
		"'changes':[{'key':'a','value':'1','revision':8,'deleted':false}],'revision':8");
	ck_assert_int_eq(worker_end(&w), 0);
	watch = w.value;
	change(watch, "a", "1", 8);
	elasticd_watch_close(watch);
	close(s);
}
END_TEST

START_TEST(a_cancelled_handle_refuses_calls_until_it_is_closed)
{
	struct elasticd_entry *e;
	struct elasticd_watch *watch;
	void *value;
	size_t n;
	int s;

	watch = watch_open(&s);
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	elasticd_cancel(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(agent_hear(fd), "");
	elasticd_cancel(h);
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, 0), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_get(h, "k", -1, &value, &n), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), ELASTICD_STATUS_CANCELLED);
	worker_start(&w, watches, h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	elasticd_beat(h);
	ck_assert_int_eq(elasticd_rank(h), 4);
	elasticd_watch_close(watch);
	close(s);
}
END_TEST

START_TEST(a_watch_returns_one_change_at_a_time)
{
	int s;
	struct elasticd_watch *watch = watch_open(&s);
	struct elasticd_entry *e = NULL;

	ck_assert_int_eq(elasticd_watch_next(watch, 0, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	agent_continues(s, "'changes':[],'revision':7");
	agent_continues(s, "'changes':[{'key':'a','value':'1','revision':8,'deleted':false},"
			   "{'key':'a/b','revision':9,'deleted':true}],'revision':9");
	agent_await(elasticd_watch_fd(watch));
	change(watch, "a", "1", 8);
	change(watch, "a/b", NULL, 9);
	ck_assert_int_eq(elasticd_watch_next(watch, 0, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_watch_next(watch, 1, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	agent_refuses(s, "OutOfRange", "'message':'forgotten'");
	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), ELASTICD_STATUS_OUT_OF_RANGE);
	/* And so for ever. */
	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_ptr_null(e);
	elasticd_watch_close(watch);
	ck_assert_str_eq(agent_hear(s), "");
	close(s);
}
END_TEST

#define CHANGE_9 "'changes':[{'key':'a','value':'2','revision':9,'deleted':false}],'revision':9"

START_TEST(a_child_goes_on_with_its_parents_watch)
{
	int s, theirs, status;
	struct elasticd_watch *watch = watch_open(&s);
	pid_t pid;

	agent_continues(
		s, "'changes':[{'key':'a','value':'1','revision':8,'deleted':false}],'revision':8");
	change(watch, "a", "1", 8);
	pid = fork();
	if (pid == 0) {
		change(watch, "a", "2", 9);
		elasticd_watch_close(watch);
		elasticd_close(h);
		_exit(0);
	}
	theirs = agent_greets();
	agent_hears_more(theirs, "Watch", "'key':'a','since':8");
	agent_continues(theirs, CHANGE_9);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	agent_continues(s, CHANGE_9);
	change(watch, "a", "2", 9);
	elasticd_watch_close(watch);
	close(s);
	close(theirs);
}
END_TEST

static struct elasticd_watch *watched;

static void next_change(struct worker *me)
{
	struct elasticd_entry *e;

	me->r = elasticd_watch_next(watched, -1, &e);
}

START_TEST(a_watch_ends_with_its_handle)
{
	int s;
	struct elasticd_watch *watch = watch_open(&s);
	struct elasticd_entry *e;

	watched = watch;
	worker_start(&w, next_change, h);
	elasticd_close(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), ELASTICD_STATUS_CANCELLED);
	elasticd_watch_close(watch);
	close(s);
	close(fd);
	h = handle_open(&fd);
}
END_TEST

static void follows(struct worker *me)
{
	me->r = elasticd_events_open(me->h, (struct elasticd_events **)&me->value);
}

START_TEST(events_come_in_order)
{
	struct elasticd_events *events;
	struct elasticd_event *e;
	int s;

	worker_start(&w, follows, h);
	s = agent_greets();
	agent_hears_more(s, "Events", "");
	agent_continues(s, "");
	ck_assert_int_eq(worker_end(&w), 0);
	events = w.value;
	agent_continues(s, "'event':{'event':'joined','worker':'chief:0','text':'t'}");
	agent_await(elasticd_events_fd(events));
	ck_assert_int_eq(elasticd_events_next(events, -1, &e), 0);
	ck_assert_str_eq(e->event, "joined");
	ck_assert_str_eq(e->worker, "chief:0");
	ck_assert_ptr_null(e->error);
	elasticd_event_free(e);
	agent_continues(s, "'event':{'event':'error','text':'t','error':{'code':'Aborted',"
			   "'message':'m','worker':'worker:1','reported':true,'time_us':1}}");
	ck_assert_int_eq(elasticd_events_next(events, 60000, &e), 0);
	ck_assert_int_eq(e->error->code, ELASTICD_STATUS_ABORTED);
	elasticd_event_free(e);
	close(s);
	ck_assert_int_eq(elasticd_events_next(events, -1, &e), ELASTICD_STATUS_UNAVAILABLE);
	elasticd_events_close(events);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("waits");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_silent_agent_does_not_keep_a_caller_beyond_its_limit);
	tcase_add_test(t, closing_the_handle_ends_a_wait);
	tcase_add_test(t, a_signal_without_restart_ends_a_wait);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
	tcase_add_test(t, a_signal_with_restart_ends_no_wait);
	tcase_add_test(t, a_call_that_does_not_wait_is_not_interrupted);
	tcase_add_test(t, an_interrupted_call_goes_on);
	tcase_add_test(t, a_call_that_was_given_up_does_not_go_on);
#endif
	tcase_add_test(t, an_agent_that_reads_nothing_does_not_keep_a_caller);
	tcase_add_test(t, an_agent_that_writes_nothing_does_not_keep_a_caller);
	tcase_add_test(t, a_child_has_connections_of_its_own);
	tcase_add_test(t, a_cancelled_handle_refuses_calls_until_it_is_closed);
	tcase_add_test(t, a_refused_watch_is_not_opened);
	tcase_add_test(t, changes_in_the_first_answer_are_returned);
	tcase_add_test(t, a_watch_returns_one_change_at_a_time);
	tcase_add_test(t, a_child_goes_on_with_its_parents_watch);
	tcase_add_test(t, a_watch_ends_with_its_handle);
	tcase_add_test(t, events_come_in_order);
	return tests_run(t);
}
