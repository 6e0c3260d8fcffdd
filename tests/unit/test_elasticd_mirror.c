/* SPDX-License-Identifier: Apache-2.0 */
/* What is read in the mirror, and when the agent is asked instead. */
#include "worker/private.h"

/* After it, for Check has a macro fail(). */
#include "common/key_mirror.h"
#include "tests/unit/fake_nowait.h"

static struct key_mirror *mirror;

static void share_with(struct key_mirror *m)
{
	int fds[] = { ring_fd, key_mirror_fd(m) };

	share_begins();
	agent_hands_over(fd, SHARED_BOTH, fds, 2);
	close(fds[1]);
	share_ends();
}

static void setup_mirror(void)
{
	setup_share();
	board_slot(board, 3)->expected = 77;
	ck_assert_int_eq(key_mirror_new(&mirror), 0);
	share_with(mirror);
	key_mirror_show(mirror, "k", "shown", 5, 7);
}

static void teardown_mirror(void)
{
	teardown_share();
	mirror = key_mirror_free(mirror);
}

/* Without a word to the agent, who is played by this thread. */
static void is_shown(const char *key, const char *expected)
{
	size_t n = 0;
	void *value;

	ck_assert_int_eq(elasticd_get(h, key, 60000, &value, &n), 0);
	ck_assert_uint_eq(n, strlen(expected));
	ck_assert_str_eq(value, expected);
	free(value);
	ck_assert_int_eq(elasticd_get(h, key, 0, &value, NULL), 0);
	ck_assert_str_eq(value, expected);
	free(value);
}

/* From the agent, by the ring. */
static void is_asked_for(void)
{
	worker_start(&w, gets, h);
	ck_assert_str_eq(ring_hear(), GET);
	ring_say(GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(w.value, "v");
	free(w.value);
}

START_TEST(what_is_shown_is_not_asked_for)
{
	is_shown("k", "shown");
	is_shown("//k/", "shown");
	key_mirror_show(mirror, "k", "more", 4, 8);
	is_shown("k", "more");
	key_mirror_show(mirror, "empty", "", 0, 9);
	is_shown("empty", "");
	ck_assert_int_eq(ring_ready(&ring), 0);
	no_other_bytes();
}
END_TEST

START_TEST(what_is_written_and_not_answered_is_newer)
{
	ck_assert_int_eq(puts_soon("k", "soon"), 0);
	is_shown("k", "soon");
	hears_put("k", "soon");
	ring_say(PUT_DONE);
	is_shown("k", "shown");
}
END_TEST

/* Else two who write and then look at what the other one writes might both find nothing. */
START_TEST(another_key_is_read_once_what_is_written_was_answered)
{
	key_mirror_show(mirror, "other", "before", 6, 8);
	ck_assert_int_eq(puts_soon("k", "soon"), 0);
	hears_put("k", "soon");
	worker_start(&w, gets_another, h);
	until_it_waits();
	key_mirror_show(mirror, "other", "behind", 6, 9);
	ring_say(PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(w.value, "behind");
	free(w.value);
}
END_TEST

START_TEST(what_is_not_shown_is_asked_for)
{
	key_mirror_forget(mirror, "k", 8);
	is_asked_for();
	key_mirror_show(mirror, "k", "shown", 5, 8);
	is_shown("k", "shown");
	key_mirror_forget_all(mirror, 9);
	is_asked_for();
}
END_TEST

START_TEST(a_mirror_of_another_time_shows_nothing)
{
	key_mirror_clear(mirror);
	key_mirror_show(mirror, "k", "other", 5, 100);
	is_asked_for();
}
END_TEST

START_TEST(while_the_group_has_an_error_the_agent_is_asked)
{
	board->error = 1;
	is_asked_for();
	board->error = 0;
	is_shown("k", "shown");
}
END_TEST

START_TEST(an_earlier_process_of_the_task_asks_and_is_refused)
{
	board_slot(board, 3)->expected = 78;
	worker_start(&w, gets, h);
	ck_assert_str_eq(ring_hear(), GET);
	ring_say("{'error':'io.elasticd.Worker.Aborted','parameters':"
		 "{'message':'this is an earlier process of worker:3'}}");
	ck_assert_int_eq(worker_end(&w), ELASTICD_ABORTED);
}
END_TEST

START_TEST(a_handle_that_is_cancelled_reads_nothing)
{
	void *value;

	elasticd_cancel(h);
	ck_assert_int_eq(elasticd_get(h, "k", 0, &value, NULL), ELASTICD_CANCELLED);
}
END_TEST

static void gets_until_it_is_asked_for(struct worker *me)
{
	do {
		free(me->value);
		me->value = NULL;
		gets(me);
	} while (me->r == 0 && strcmp(me->value, "shown") == 0);
}

/* Whoever reads again and again finds out by itself. */
START_TEST(a_mirror_whose_agent_is_gone_is_not_used_for_long)
{
	is_shown("k", "shown");
	fd = close_fd(fd);
	worker_start(&w, gets_until_it_is_asked_for, h);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), GET);
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(w.value, "v");
	free(w.value);
}
END_TEST

/* It is looked at for the first time then. */
START_TEST(a_mirror_is_read_while_its_connection_has_a_call)
{
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	is_shown("k", "shown");
	ring_say(PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(a_mirror_is_read_while_its_connection_has_a_call_that_a_signal_has_ended)
{
	handle_usr1(0);
	elasticd_interruptible(h, 1);
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	ck_assert_int_eq(signal_until_done(&w), ELASTICD_INTERRUPTED);
	is_shown("k", "shown");
}
END_TEST

/* Another agent answers at the same path: once it has, the mirror of the first one is none. */
START_TEST(a_mirror_of_another_agent_is_not_used)
{
	struct worker other;

	is_shown("k", "shown");
	fd = close_fd(fd);
	worker_start(&w, puts_text, h);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&other, gets, h);
	ck_assert_str_eq(agent_hear(fd), GET);
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&other), 0);
	ck_assert_str_eq(other.value, "v");
	free(other.value);
}
END_TEST

START_TEST(the_next_agent_brings_its_own_mirror)
{
	struct key_mirror *next;

	ck_assert_int_eq(key_mirror_new(&next), 0);
	key_mirror_show(next, "k", "next", 4, 1);
	ring_fini(&ring);
	close(ring_fd);
	ck_assert_int_eq(ring_new(&ring, &ring_fd), 0);
	fd = close_fd(fd);
	worker_start(&w, puts_text, h);
	bells = fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	share_with(next);
	is_shown("k", "next");
	key_mirror_free(next);
}
END_TEST

START_TEST(memory_that_is_no_mirror_is_not_read)
{
	struct key_mirror *none = mirror;
	int fds[] = { ring_fd, agent_listener };

	teardown_share();
	setup_share();
	board_slot(board, 3)->expected = 77;
	fds[0] = ring_fd;
	fds[1] = agent_listener;
	mirror = NULL;
	key_mirror_free(none);
	share_begins();
	agent_hands_over(fd, SHARED_BOTH, fds, 2);
	share_ends();
	is_asked_for();
}
END_TEST

START_TEST(a_child_has_a_mirror_once_it_shares)
{
	int theirs, status;
	pid_t pid = fork();

	if (pid == 0) {
		void *value;
		int r = elasticd_get(h, "k", -1, &value, NULL);

		if (r == 0)
			r = strcmp(value, "v") != 0;
		if (r == 0)
			free(value);
		elasticd_close(h);
		_exit(r);
	}
	theirs = agent_greets();
	ck_assert_str_eq(agent_hear(theirs), GET);
	agent_say(theirs, GET_DONE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	is_shown("k", "shown");
	close(theirs);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("mirror");

	tcase_add_checked_fixture(t, setup_mirror, teardown_mirror);
	tcase_add_test(t, what_is_shown_is_not_asked_for);
	tcase_add_test(t, what_is_written_and_not_answered_is_newer);
	tcase_add_test(t, another_key_is_read_once_what_is_written_was_answered);
	tcase_add_test(t, what_is_not_shown_is_asked_for);
	tcase_add_test(t, a_mirror_of_another_time_shows_nothing);
	tcase_add_test(t, while_the_group_has_an_error_the_agent_is_asked);
	tcase_add_test(t, an_earlier_process_of_the_task_asks_and_is_refused);
	tcase_add_test(t, a_handle_that_is_cancelled_reads_nothing);
	tcase_add_test(t, a_mirror_whose_agent_is_gone_is_not_used_for_long);
	tcase_add_test(t, a_mirror_is_read_while_its_connection_has_a_call);
	tcase_add_test(t, a_mirror_is_read_while_its_connection_has_a_call_that_a_signal_has_ended);
	tcase_add_test(t, a_mirror_of_another_agent_is_not_used);
	tcase_add_test(t, the_next_agent_brings_its_own_mirror);
	tcase_add_test(t, memory_that_is_no_mirror_is_not_read);
	tcase_add_test(t, a_child_has_a_mirror_once_it_shares);
	return tests_run(t);
}
