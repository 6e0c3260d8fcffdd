/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that go together: one write, answers in order, each with its own end. */
#include "worker/base/handle.h"

/* After the header of handles, since Check has a macro fail(). */
#include "tests/unit/fake_handle.h"

enum { MANY = 100, LARGE = 40000 };

static struct elasticd_op ops[MANY];
static size_t n_ops;
static int timeout_ms;
static atomic_int interrupted;

static void makes(struct worker *me)
{
	me->r = elasticd_pipeline(me->h, ops, n_ops, timeout_ms);
}

static void begin(size_t n, int ms)
{
	memset(ops, 0, sizeof(ops));
	n_ops = n;
	timeout_ms = ms;
}

static void op_is(size_t i, enum elasticd_op_kind kind, const char *key, const char *value)
{
	ops[i] = (struct elasticd_op){
		.kind = kind, .key = key, .value = value, .len = value ? strlen(value) : 0
	};
}

static void ended(size_t i, int status, const char *text)
{
	ck_assert_int_eq(ops[i].done, 1);
	ck_assert_int_eq(ops[i].status, status);
	if (text)
		ck_assert_str_eq(ops[i].text, text);
	else
		ck_assert_ptr_null(ops[i].text);
}

/* Everything that was written has been heard. */
static void agent_has_heard_all(void)
{
	char c;

	ck_assert_int_eq(recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(all_calls_go_before_the_first_answer)
{
	begin(4, 0);
	op_is(0, ELASTICD_OP_PUT, "//a", "1");
	ops[0].flags = ELASTICD_PUT_OVERWRITE;
	op_is(1, ELASTICD_OP_GET, "b", NULL);
	op_is(2, ELASTICD_OP_DELETE, "c", NULL);
	op_is(3, ELASTICD_OP_GET, "d", NULL);
	worker_start(&w, makes, h);
	agent_hears(fd, "Put", "'key':'a','value':'1','overwrite':true");
	agent_hears(fd, "Get", "'key':'b'");
	agent_hears(fd, "Delete", "'key':'c'");
	agent_hears(fd, "Get", "'key':'d'");
	agent_answers(fd, "'revision':1");
	agent_answers(fd, "'entry':{'key':'b','value':'2','revision':1}");
	agent_answers(fd, "'deleted':5");
	agent_answers(fd, "'entry':{'key':'d','base64':'YQD/','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	for (size_t i = 0; i < n_ops; i++)
		ended(i, 0, NULL);
	ck_assert_str_eq(ops[1].ret_value, "2");
	ck_assert_uint_eq(ops[1].ret_len, 1);
	ck_assert_int_eq(ops[2].ret_deleted, 5);
	ck_assert_uint_eq(ops[3].ret_len, 3);
	elasticd_ops_clear(ops, n_ops);
	ck_assert_ptr_null(ops[1].ret_value);
	ck_assert_int_eq(ops[1].done, 0);
}
END_TEST

START_TEST(each_call_has_its_own_error_and_the_others_are_made)
{
	begin(6, -1);
	op_is(0, ELASTICD_OP_PUT, "a", "1");
	op_is(1, ELASTICD_OP_PUT, "", "1");
	op_is(2, ELASTICD_OP_GET, "b", NULL);
	op_is(3, 9, "k", NULL);
	op_is(4, ELASTICD_OP_PUT, "k", "1");
	ops[4].len = WORKER_VALUE_MAX + 1;
	op_is(5, ELASTICD_OP_PUT, "c", "1");
	worker_start(&w, makes, h);
	agent_hears(fd, "Put", "'key':'a','value':'1'");
	agent_hears(fd, "Get", "'key':'b','wait':true");
	agent_hears(fd, "Put", "'key':'c','value':'1'");
	agent_refuses(fd, "AlreadyExists", "'message':'it is there'");
	agent_refuses(fd, "Cancelled", "'message':'stopped'");
	agent_answers(fd, "'revision':1");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ALREADY_EXISTS);
	ck_assert_str_eq(w.text, "it is there");
	ended(0, ELASTICD_STATUS_ALREADY_EXISTS, "it is there");
	ended(1, ELASTICD_STATUS_INVALID_ARGUMENT, "key: expected at least 1 byte, got \"\"");
	ended(2, ELASTICD_STATUS_CANCELLED, "stopped");
	ended(3, ELASTICD_STATUS_INVALID_ARGUMENT,
		"kind: expected PUT (1), GET (2) or DELETE (3), got 9");
	ended(4, ELASTICD_STATUS_INVALID_ARGUMENT,
		"value: expected at most 1048576 bytes, got 1048577");
	ended(5, 0, NULL);
	elasticd_ops_clear(ops, n_ops);
}
END_TEST

START_TEST(many_calls_go_in_pieces)
{
	begin(MANY, 0);
	for (size_t i = 0; i < MANY; i++)
		op_is(i, ELASTICD_OP_PUT, "k", "v");
	worker_start(&w, makes, h);
	for (int i = 0; i < 64; i++)
		agent_hears(fd, "Put", "'key':'k','value':'v'");
	agent_has_heard_all();
	for (int i = 0; i < 64; i++)
		agent_answers(fd, "'revision':1");
	for (int i = 64; i < MANY; i++)
		agent_hears(fd, "Put", "'key':'k','value':'v'");
	for (int i = 64; i < MANY; i++)
		agent_answers(fd, "'revision':1");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(large_calls_go_alone)
{
	char large[LARGE + 1];

	memset(large, 'x', LARGE);
	large[LARGE] = '\0';
	begin(3, 0);
	for (size_t i = 0; i < 3; i++)
		op_is(i, ELASTICD_OP_PUT, "k", large);
	worker_start(&w, makes, h);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_uint_gt(strlen(agent_hear(fd)), LARGE);
		agent_has_heard_all();
		agent_answers(fd, "'revision':1");
	}
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void three_gets(int ms)
{
	begin(3, ms);
	op_is(0, ELASTICD_OP_GET, "a", NULL);
	op_is(1, ELASTICD_OP_GET, "b", NULL);
	op_is(2, ELASTICD_OP_GET, "c", NULL);
	worker_start(&w, makes, h);
}

START_TEST(without_an_agent_the_unanswered_calls_are_unavailable)
{
	static const char text[] = "the agent has closed the connection: it is gone";

	three_gets(0);
	agent_hears(fd, "Get", "'key':'a'");
	agent_hears(fd, "Get", "'key':'b'");
	agent_hears(fd, "Get", "'key':'c'");
	agent_answers(fd, "'entry':{'key':'a','value':'1','revision':1}");
	shutdown(fd, SHUT_RDWR);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ended(0, 0, NULL);
	ended(1, ELASTICD_STATUS_UNAVAILABLE, text);
	ended(2, ELASTICD_STATUS_UNAVAILABLE, text);
	elasticd_ops_clear(ops, n_ops);
}
END_TEST

START_TEST(a_silent_agent_does_not_keep_a_pipeline)
{
	h->silence_ms = 50;
	three_gets(0);
	agent_hears(fd, "Get", "'key':'a'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ended(2, ELASTICD_STATUS_UNAVAILABLE, "the agent does not answer");
	elasticd_ops_clear(ops, n_ops);
}
END_TEST

START_TEST(closing_the_handle_ends_a_pipeline)
{
	three_gets(-1);
	agent_hears(fd, "Get", "'key':'a','wait':true");
	elasticd_close(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ended(2, ELASTICD_STATUS_CANCELLED, "the handle was closed");
	elasticd_ops_clear(ops, n_ops);
	close(fd);
	h = handle_open(&fd);
}
END_TEST

START_TEST(a_connection_that_died_while_idle_is_replaced)
{
	close(fd);
	three_gets(0);
	fd = agent_greets();
	agent_hears(fd, "Get", "'key':'a'");
	agent_hears(fd, "Get", "'key':'b'");
	agent_hears(fd, "Get", "'key':'c'");
	for (int i = 0; i < 3; i++)
		agent_refuses(fd, "NotFound", "'message':'none'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
	elasticd_ops_clear(ops, n_ops);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static void on_signal(int signo)
{
}

static void handle_usr1(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
}

static void makes_again_and_again(struct worker *me)
{
	do {
		makes(me);
		atomic_fetch_add(&interrupted, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

static void signal_until_interrupted(int more)
{
	int n = atomic_load(&interrupted) + more;

	while (atomic_load(&interrupted) < n) {
		pthread_kill(w.thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
}

START_TEST(an_interrupted_pipeline_goes_on_and_makes_no_call_twice)
{
	handle_usr1();
	elasticd_interruptible(h, 1);
	begin(3, -1);
	op_is(0, ELASTICD_OP_PUT, "a", "1");
	op_is(1, ELASTICD_OP_GET, "b", NULL);
	op_is(2, ELASTICD_OP_PUT, "c", "1");
	worker_start(&w, makes_again_and_again, h);
	agent_hears(fd, "Put", "'key':'a','value':'1'");
	agent_hears(fd, "Get", "'key':'b','wait':true");
	agent_hears(fd, "Put", "'key':'c','value':'1'");
	signal_until_interrupted(2);
	agent_answers(fd, "'revision':1");
	signal_until_interrupted(3);
	agent_answers(fd, "'entry':{'key':'b','value':'2','revision':1}");
	signal_until_interrupted(2);
	agent_has_heard_all();
	agent_refuses(fd, "AlreadyExists", "'message':'it is there'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ALREADY_EXISTS);
	ended(0, 0, NULL);
	ended(1, 0, NULL);
	ck_assert_str_eq(ops[1].ret_value, "2");
	elasticd_ops_clear(ops, n_ops);
	/* The connection can be used again. */
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	agent_answers(fd, "'entry':{'key':'k','value':'v','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
}
END_TEST

static void makes_and_gives_up(struct worker *me)
{
	makes(me);
	atomic_fetch_add(&interrupted, me->r == ELASTICD_STATUS_INTERRUPTED);
	elasticd_give_up(me->h);
}

START_TEST(giving_up_a_pipeline_closes_its_connection)
{
	handle_usr1();
	begin(2, -1);
	op_is(0, ELASTICD_OP_GET, "a", NULL);
	op_is(1, ELASTICD_OP_GET, "b", NULL);
	worker_start(&w, makes_and_gives_up, h);
	agent_hears(fd, "Get", "'key':'a','wait':true");
	agent_hears(fd, "Get", "'key':'b','wait':true");
	signal_until_interrupted(1);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERRUPTED);
	ck_assert_int_eq(ops[0].done, 0);
	ck_assert_str_eq(agent_hear(fd), "");
}
END_TEST
#endif

int main(void)
{
	TCase *t = tcase_create("pipeline");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, all_calls_go_before_the_first_answer);
	tcase_add_test(t, each_call_has_its_own_error_and_the_others_are_made);
	tcase_add_test(t, many_calls_go_in_pieces);
	tcase_add_test(t, large_calls_go_alone);
	tcase_add_test(t, without_an_agent_the_unanswered_calls_are_unavailable);
	tcase_add_test(t, a_silent_agent_does_not_keep_a_pipeline);
	tcase_add_test(t, closing_the_handle_ends_a_pipeline);
	tcase_add_test(t, a_connection_that_died_while_idle_is_replaced);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(t, an_interrupted_pipeline_goes_on_and_makes_no_call_twice);
	tcase_add_test(t, giving_up_a_pipeline_closes_its_connection);
#endif
	return tests_run(t);
}
