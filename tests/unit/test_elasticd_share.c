/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: how the library gets one, what goes through it, and all that can go wrong. */
#include "worker/private.h"

/* After it, for Check has a macro fail(). */
#include "tests/unit/fake_share.h"

#include <dirent.h>

/* --- whether there is one */

START_TEST(after_a_few_calls_they_go_through_a_ring)
{
	shares();
	for (int i = 0; i < 100; i++)
		one_call_by_ring();
}
END_TEST

START_TEST(who_does_not_want_one_has_none)
{
	elasticd_close(h);
	close(fd);
	setenv("ELASTICD_SHARE", "0", 1);
	h = handle_open(&fd);
	for (int i = 0; i < 3 * CALLS_BEFORE; i++)
		one_call(fd);
}
END_TEST

/* A second connection, while the first one is kept by a call. */
static int second_connection(struct worker *other)
{
	int s;

	worker_start(other, gets, h);
	ck_assert_str_eq(agent_hear(fd), GET);
	worker_start(&w, puts_text, h);
	s = agent_greets();
	ck_assert_str_eq(agent_hear(s), PUT);
	agent_say(s, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	return s;
}

static void second_ends(struct worker *other, int s)
{
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(other), 0);
	free(other->value);
	close(s);
}

static void refused(const char *answer)
{
	share_begins();
	agent_say(fd, answer);
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	/* That is no failure of the thread's. */
	ck_assert_str_eq(w.text, "");
	for (int i = 0; i < 2 * CALLS_BEFORE; i++)
		one_call(fd);
}

static void refused_for_ever(const char *answer)
{
	struct worker other;
	int s;

	refused(answer);
	s = second_connection(&other);
	for (int i = 0; i < 2 * CALLS_BEFORE; i++)
		one_call(s);
	second_ends(&other, s);
}

START_TEST(an_agent_that_knows_of_none_is_not_asked_again)
{
	refused_for_ever("{'error':'org.varlink.service.MethodNotFound','parameters':"
			 "{'method':'io.elasticd.Worker.Share'}}");
}
END_TEST

START_TEST(a_task_that_has_enough_does_not_ask_again)
{
	refused_for_ever("{'error':'io.elasticd.Worker.ResourceExhausted','parameters':"
			 "{'message':'this task has 16 rings already'}}");
}
END_TEST

START_TEST(another_refusal_is_of_one_connection)
{
	struct worker other;
	int s;

	refused("{'error':'io.elasticd.Worker.FailedPrecondition','parameters':"
		"{'message':'another call of this connection is open'}}");
	s = second_connection(&other);
	calls_before(s);
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(agent_hear(s), SHARE);
	agent_hands_over(s, SHARED, &ring_fd, 1);
	bells = s;
	share_ends();
	second_ends(&other, s);
}
END_TEST

/* --- what is no ring */

static int n_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Then it goes on without, and nothing is left open. */
static void no_ring(const char *answer, const int *fds, size_t n)
{
	int before = n_descriptors();

	share_begins();
	agent_hands_over(fd, answer, fds, n);
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	for (int i = 0; i < 2 * CALLS_BEFORE; i++)
		one_call(fd);
	ck_assert_int_eq(n_descriptors(), before);
}

START_TEST(an_answer_without_a_descriptor_is_no_ring)
{
	no_ring(SHARED, NULL, 0);
}
END_TEST

START_TEST(more_descriptors_than_were_told_are_no_ring)
{
	const int fds[] = { ring_fd, ring_fd, ring_fd, ring_fd };

	no_ring(SHARED, fds, 4);
}
END_TEST

START_TEST(a_descriptor_of_something_else_is_no_ring)
{
	no_ring(SHARED, &agent_listener, 1);
}
END_TEST

START_TEST(memory_that_can_be_cut_short_is_no_ring)
{
	int memory = memfd_create("short", MFD_CLOEXEC);

	ck_assert_int_eq(ftruncate(memory, 4096 + 2 * RING_BYTES), 0);
	no_ring(SHARED, &memory, 1);
	close(memory);
}
END_TEST

START_TEST(a_ring_of_another_size_is_none)
{
	no_ring("{'parameters':{'version':1,'ring_bytes':32768,'mirror':false}}", &ring_fd, 1);
}
END_TEST

START_TEST(a_ring_of_another_version_is_none)
{
	no_ring("{'parameters':{'version':2,'ring_bytes':16384,'mirror':false}}", &ring_fd, 1);
}
END_TEST

START_TEST(a_mirror_that_does_not_come_is_no_ring_either)
{
	no_ring(SHARED_BOTH, &ring_fd, 1);
}
END_TEST

START_TEST(an_answer_that_is_none_costs_the_connection)
{
	share_begins();
	agent_say(fd, "nonsense");
	close(fd);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(the_answer_may_come_in_pieces)
{
	share_begins();
	agent_hands_over_some(fd, SHARED, 1, &ring_fd, 1);
	for (size_t i = 1; i < sizeof(SHARED); i++)
		ck_assert_int_eq(
			send(fd, SHARED[i] == '\'' ? "\"" : &SHARED[i], 1, MSG_NOSIGNAL), 1);
	share_ends();
}
END_TEST

START_TEST(an_agent_that_hangs_up_instead_costs_one_connection)
{
	share_begins();
	close(fd);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	for (int i = 0; i < 3 * CALLS_BEFORE; i++)
		one_call(fd);
}
END_TEST

START_TEST(an_agent_that_says_nothing_to_it_does_not_keep_a_caller)
{
	calls_before(fd);
	h->silence_ms = 50;
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(agent_hear(fd), SHARE);
	ck_assert_int_eq(worker_end(&w), ELASTICD_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent does not answer");
	ck_assert_str_eq(agent_hear(fd), "");
}
END_TEST

/* --- both ways */

static char big[1 << 20];

static void puts_much(struct worker *me)
{
	me->r = elasticd_put(me->h, "big", big, sizeof(big), 0);
}

/* All of it, over the socket. */
static void agent_hears_much(void)
{
	size_t of_value = 0;
	bool ended = false;

	while (!ended) {
		static char text[4096];
		ssize_t n;

		agent_await(fd);
		n = recv(fd, text, sizeof(text), 0);
		ck_assert_int_gt(n, 0);
		for (ssize_t i = 0; i < n; i++)
			of_value += text[i] == 'x';
		ended = text[n - 1] == '\0' && of_value;
	}
	ck_assert_uint_eq(of_value, sizeof(big));
}

START_TEST(what_the_ring_has_no_room_for_goes_over_the_socket)
{
	memset(big, 'x', sizeof(big));
	shares();
	for (int i = 0; i < 3; i++) {
		worker_start(&w, puts_much, h);
		agent_hears_much();
		/* A bell that comes late is no answer. */
		ck_assert_int_eq(send(fd, "", 1, MSG_NOSIGNAL), 1);
		agent_say(fd, PUT_DONE);
		ck_assert_int_eq(worker_end(&w), 0);
		one_call_by_ring();
	}
}
END_TEST

START_TEST(a_bell_wakes_who_sleeps_on_the_socket)
{
	shares();
	for (int i = 0; i < 3; i++) {
		worker_start(&w, gets, h);
		ck_assert_str_eq(ring_hear(), GET);
		until_on_socket();
		ring_say(GET_DONE);
		ck_assert_int_eq(worker_end(&w), 0);
		free(w.value);
		/* One too many. */
		ck_assert_int_eq(send(fd, "", 1, MSG_NOSIGNAL), 1);
	}
	no_other_bytes();
}
END_TEST

static struct elasticd_op ops[3];

static void reads_several(struct worker *me)
{
	for (int i = 0; i < 3; i++)
		ops[i] = (struct elasticd_op){ .op = ELASTICD_GET, .key = "k" };
	me->r = elasticd_pipeline(me->h, ops, 3, -1);
}

static void several_came(void)
{
	ck_assert_int_eq(worker_end(&w), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_str_eq(ops[i].ret_value, "v");
	elasticd_ops_clear(ops, 3);
}

static void several_begin(void)
{
	worker_start(&w, reads_several, h);
	for (int i = 0; i < 3; i++)
		ck_assert_str_eq(ring_hear(), GET);
}

START_TEST(several_calls_go_through_the_ring_together)
{
	shares();
	several_begin();
	for (int i = 0; i < 3; i++)
		ring_say(GET_DONE);
	several_came();
	no_other_bytes();
}
END_TEST

/* As when answers are longer than the ring. */
START_TEST(answers_that_spill_follow_those_in_the_ring)
{
	shares();
	for (int i = 0; i < 20; i++) {
		several_begin();
		if (i % 4 == 1)
			until_on_socket();
		if (i % 4 != 2)
			ring_say(GET_DONE);
		ring_spill(&ring);
		ring_told();
		if (i % 4 == 2)
			agent_say(fd, GET_DONE);
		agent_say(fd, GET_DONE);
		if (i % 4 == 3)
			poll(NULL, 0, 1);
		agent_say(fd, GET_DONE);
		several_came();
		one_call_by_ring();
	}
}
END_TEST

START_TEST(bytes_on_the_socket_that_are_no_bells_are_not_understood)
{
	shares();
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), ELASTICD_INTERNAL);
}
END_TEST

START_TEST(a_counter_that_cannot_be_is_not_understood)
{
	char *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);

	ck_assert_ptr_ne(words, MAP_FAILED);
	shares();
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	memset(words + 128, 0xee, 4); /* what the agent says to have sent */
	ring_told();
	ck_assert_int_eq(worker_end(&w), ELASTICD_INTERNAL);
	munmap(words, 4096);
}
END_TEST

/* --- an agent that goes away */

START_TEST(a_ring_that_was_closed_while_idle_is_replaced)
{
	shares();
	ring_close(&ring);
	fd = close_fd(fd);
	worker_start(&w, puts_text, h);
	put_again_on_a_new_one();
}
END_TEST

START_TEST(an_agent_that_was_killed_while_idle_is_replaced)
{
	shares();
	fd = close_fd(fd);
	/* It was awake: no bell says that nobody is there. */
	ring_wake(&ring);
	worker_start(&w, puts_text, h);
	put_again_on_a_new_one();
}
END_TEST

START_TEST(an_agent_that_was_killed_asleep_is_replaced)
{
	shares();
	ck_assert(ring_sleep(&ring));
	fd = close_fd(fd);
	worker_start(&w, puts_text, h);
	put_again_on_a_new_one();
}
END_TEST

START_TEST(a_call_that_nobody_took_is_made_on_a_new_connection)
{
	call_lies_there();
	put_again_on_a_new_one();
	/* That is no failure of the thread's. */
	ck_assert_str_eq(w.text, "");
}
END_TEST

START_TEST(a_call_in_a_ring_that_was_closed_is_made_on_a_new_connection)
{
	call_lies_there();
	ring_close(&ring);
	ring_told();
	put_again_on_a_new_one();
}
END_TEST

START_TEST(several_calls_that_nobody_took_are_made_on_a_new_connection)
{
	shares();
	ck_assert(ring_sleep(&ring));
	worker_start(&w, reads_several, h);
	agent_await(fd);
	fd = close_fd(fd);
	fd = agent_greets();
	for (int i = 0; i < 3; i++)
		ck_assert_str_eq(agent_hear(fd), GET);
	for (int i = 0; i < 3; i++)
		agent_say(fd, GET_DONE);
	several_came();
}
END_TEST

static void one_byte_taken(void)
{
	char c;

	call_lies_there();
	ck_assert_int_eq(ring_read(&ring, &c, 1), 1);
}

START_TEST(a_call_that_was_taken_in_part_is_not_made_twice)
{
	one_byte_taken();
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_UNAVAILABLE);
	ck_assert_str_eq(w.text, "the agent has closed the connection: it is gone");
}
END_TEST

START_TEST(a_call_in_part_in_a_ring_that_was_closed_is_not_made_twice)
{
	one_byte_taken();
	ring_close(&ring);
	ring_told();
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_UNAVAILABLE);
}
END_TEST

START_TEST(an_answer_before_the_end_is_heard)
{
	shares();
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(ring_hear(), PUT);
	until_on_socket();
	ck_assert_int_eq(ring_write(&ring, "{\"parameters\":{}}", sizeof("{'parameters':{}}")), 0);
	ring_close(&ring);
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("share");

	tcase_add_checked_fixture(t, setup_share, teardown_share);
	tcase_add_test(t, after_a_few_calls_they_go_through_a_ring);
	tcase_add_test(t, who_does_not_want_one_has_none);
	tcase_add_test(t, an_agent_that_knows_of_none_is_not_asked_again);
	tcase_add_test(t, a_task_that_has_enough_does_not_ask_again);
	tcase_add_test(t, another_refusal_is_of_one_connection);
	tcase_add_test(t, an_answer_without_a_descriptor_is_no_ring);
	tcase_add_test(t, more_descriptors_than_were_told_are_no_ring);
	tcase_add_test(t, a_descriptor_of_something_else_is_no_ring);
	tcase_add_test(t, memory_that_can_be_cut_short_is_no_ring);
	tcase_add_test(t, a_ring_of_another_size_is_none);
	tcase_add_test(t, a_ring_of_another_version_is_none);
	tcase_add_test(t, a_mirror_that_does_not_come_is_no_ring_either);
	tcase_add_test(t, an_answer_that_is_none_costs_the_connection);
	tcase_add_test(t, the_answer_may_come_in_pieces);
	tcase_add_test(t, an_agent_that_hangs_up_instead_costs_one_connection);
	tcase_add_test(t, an_agent_that_says_nothing_to_it_does_not_keep_a_caller);
	tcase_add_test(t, what_the_ring_has_no_room_for_goes_over_the_socket);
	tcase_add_test(t, a_bell_wakes_who_sleeps_on_the_socket);
	tcase_add_test(t, several_calls_go_through_the_ring_together);
	tcase_add_test(t, answers_that_spill_follow_those_in_the_ring);
	tcase_add_test(t, bytes_on_the_socket_that_are_no_bells_are_not_understood);
	tcase_add_test(t, a_counter_that_cannot_be_is_not_understood);
	tcase_add_test(t, a_ring_that_was_closed_while_idle_is_replaced);
	tcase_add_test(t, an_agent_that_was_killed_while_idle_is_replaced);
	tcase_add_test(t, an_agent_that_was_killed_asleep_is_replaced);
	tcase_add_test(t, a_call_that_nobody_took_is_made_on_a_new_connection);
	tcase_add_test(t, a_call_in_a_ring_that_was_closed_is_made_on_a_new_connection);
	tcase_add_test(t, several_calls_that_nobody_took_are_made_on_a_new_connection);
	tcase_add_test(t, a_call_that_was_taken_in_part_is_not_made_twice);
	tcase_add_test(t, a_call_in_part_in_a_ring_that_was_closed_is_not_made_twice);
	tcase_add_test(t, an_answer_before_the_end_is_heard);
	return tests_run(t);
}
