/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the library to an agent, and their answers. */
#include "tests/unit/fake_handle.h"

static void puts_text(struct worker *me)
{
	me->r = elasticd_put(me->h, "//a//b/", "text", 4, 0);
}

static void puts_bytes(struct worker *me)
{
	me->r = elasticd_put(
		me->h, "k", "a\0\xff", 3, ELASTICD_PUT_OVERWRITE | ELASTICD_PUT_PERSISTENT);
}

START_TEST(a_value_goes_as_text_or_else_as_base64)
{
	worker_start(&w, puts_text, h);
	agent_hears(fd, "Put", "'key':'a/b','value':'text'");
	agent_answers(fd, "'revision':1");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, puts_bytes, h);
	agent_hears(fd, "Put", "'key':'k','base64':'YQD/','overwrite':true,'persistent':true");
	agent_answers(fd, "'revision':2");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void gets_now(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", 0, &me->value, &me->n);
}

START_TEST(a_get_sends_its_time_limit)
{
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	agent_answers(fd, "'entry':{'key':'k','value':'v','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 1);
	ck_assert_str_eq(w.value, "v");
	free(w.value);
	worker_start(&w, gets_for_a_minute, h);
	agent_hears(fd, "Get", "'key':'k','wait':true,'timeout_ms':60000");
	agent_answers(fd, "'entry':{'key':'k','base64':'YQD/','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 3);
	ck_assert_int_eq(memcmp(w.value, "a\0\xff", 4), 0);
	free(w.value);
	/* The answer is sent before the call: a call that does not wait gives a slow agent little
	 * time. */
	agent_refuses(fd, "NotFound", "'message':'no key k'");
	worker_start(&w, gets_now, h);
	agent_hears(fd, "Get", "'key':'k'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
	ck_assert_str_eq(w.text, "no key k");
	ck_assert_ptr_null(w.value);
}
END_TEST

START_TEST(an_answer_may_come_in_pieces)
{
	static const char answer[] =
		"{\"parameters\":{\"entry\":{\"key\":\"k\",\"value\":\"v\",\"revision\":1}}}";

	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	for (size_t i = 0; i < sizeof(answer); i++)
		ck_assert_int_eq(send(fd, answer + i, 1, MSG_NOSIGNAL), 1);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
}
END_TEST

static void meets(struct worker *me)
{
	static const char *const members[] = { "worker:3", "chief:0" };

	me->r = elasticd_barrier(me->h, "b", members, 2, 60000);
}

START_TEST(an_error_has_status_text_and_missing_workers)
{
	worker_start(&w, meets, h);
	agent_hears(
		fd, "Barrier", "'name':'b','members':['worker:3','chief:0'],'timeout_ms':60000");
	agent_refuses(fd, "DeadlineExceeded",
		"'message':'2 did not come','missing':['worker:1','chief:0']");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(w.text, "2 did not come");
	ck_assert_str_eq(w.missing, "worker:1 chief:0");
	/* Each thread has a failure of its own. */
	ck_assert_str_eq(elasticd_error_text(), "");
}
END_TEST

static void one_error(const char *answer, int status, const char *text)
{
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	agent_say(fd, answer);
	ck_assert_int_eq(worker_end(&w), status);
	ck_assert_str_eq(w.text, text);
}

START_TEST(errors_of_varlink_have_a_status_too)
{
	one_error("{'error':'org.varlink.service.InvalidParameter','parameters':"
		  "{'parameter':'key'}}",
		ELASTICD_STATUS_INVALID_ARGUMENT, "key: the agent does not accept this parameter");
	one_error("{'error':'org.varlink.service.MethodNotFound','parameters':{'method':'x'}}",
		ELASTICD_STATUS_UNIMPLEMENTED, "org.varlink.service.MethodNotFound");
	one_error("{'error':'io.elasticd.Worker.Odd','parameters':{}}", ELASTICD_STATUS_UNKNOWN,
		"io.elasticd.Worker.Odd");
	one_error("{'parameters':{'entry':{'key':'k'}}}", ELASTICD_STATUS_INTERNAL,
		"the agent's answer is malformed");
	one_error("nonsense", ELASTICD_STATUS_INTERNAL, "the agent's answer is malformed");
}
END_TEST

static void lists(struct worker *me)
{
	me->r = elasticd_list(me->h, "", (struct elasticd_entry **)&me->value, &me->n);
}

static void deletes(struct worker *me)
{
	int64_t n = 0;

	me->r = elasticd_delete(me->h, "a", &n);
	me->n = (size_t)n;
}

START_TEST(lists_and_deletes)
{
	struct elasticd_entry *e;

	worker_start(&w, lists, h);
	agent_hears(fd, "List", "'key':''");
	agent_answers(fd, "'entries':[{'key':'a','value':'1','revision':4},"
			  "{'key':'b','base64':'','revision':5}],'revision':5");
	ck_assert_int_eq(worker_end(&w), 0);
	e = w.value;
	ck_assert_uint_eq(w.n, 2);
	ck_assert_str_eq(e[0].key, "a");
	ck_assert_str_eq(e[0].value, "1");
	ck_assert_int_eq(e[0].revision, 4);
	ck_assert_uint_eq(e[1].len, 0);
	ck_assert_str_eq(e[1].value, "");
	elasticd_entries_free(e, w.n);
	worker_start(&w, deletes, h);
	agent_hears(fd, "Delete", "'key':'a'");
	agent_answers(fd, "'deleted':3");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 3);
}
END_TEST

static void asks_alive(struct worker *me)
{
	me->r = elasticd_alive(me->h, NULL, 0, -1, (char ***)&me->value, &me->n);
}

static void asks_states(struct worker *me)
{
	static const char *const roles[] = { "worker" };

	me->r = elasticd_states(me->h, roles, 1, (struct elasticd_worker **)&me->value, &me->n);
}

START_TEST(alive_and_states)
{
	struct elasticd_worker *m;

	worker_start(&w, asks_alive, h);
	agent_hears(fd, "Alive", "");
	agent_answers(fd, "'alive':['chief:0','worker:3']");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 2);
	ck_assert_str_eq(((char **)w.value)[1], "worker:3");
	elasticd_names_free(w.value, w.n);

	worker_start(&w, asks_states, h);
	agent_hears(fd, "States", "'roles':['worker']");
	agent_answers(fd,
		"'members':[{'worker':'worker:0','rank':1,'start':2,'state':'failed',"
		"'recoverable':false,'healthy':false,'left':true,'error':{'code':'Aborted',"
		"'message':'bad','worker':'worker:0','reported':true,'time_us':1}}]");
	ck_assert_int_eq(worker_end(&w), 0);
	m = w.value;
	ck_assert_str_eq(m->worker, "worker:0");
	ck_assert_str_eq(m->state, "failed");
	ck_assert(m->rank == 1 && m->start == 2 && !m->healthy && m->left);
	ck_assert_int_eq(m->error->code, ELASTICD_STATUS_ABORTED);
	ck_assert_str_eq(m->error->message, "bad");
	elasticd_workers_free(m, w.n);
}
END_TEST

static void tells(struct worker *me)
{
	me->r = elasticd_result(me->h, "42", 2) || elasticd_barrier_cancel(me->h, "b", "why") ||
		elasticd_report_error(me->h, ELASTICD_STATUS_UNAVAILABLE, "gone") ||
		elasticd_ready(me->h) || elasticd_leave(me->h, 60000);
}

static void hears_of_an_error(struct worker *me)
{
	me->r = elasticd_wait_error(me->h, -1, (struct elasticd_error **)&me->value);
}

START_TEST(results_errors_and_leaving)
{
	struct elasticd_error *e;

	worker_start(&w, tells, h);
	agent_hears(fd, "Result", "'value':'42'");
	agent_answers(fd, "");
	agent_hears(fd, "CancelBarrier", "'name':'b','message':'why'");
	agent_answers(fd, "");
	agent_hears(fd, "ReportError", "'code':'Unavailable','message':'gone'");
	agent_answers(fd, "");
	agent_hears(fd, "Ready", "");
	agent_answers(fd, "");
	agent_hears(fd, "Leave", "'timeout_ms':60000");
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, hears_of_an_error, h);
	agent_hears(fd, "WaitError", "");
	agent_answers(fd, "'error':{'code':'Internal','message':'m','worker':'chief:0',"
			  "'reported':false,'time_us':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	e = w.value;
	ck_assert_int_eq(e->code, ELASTICD_STATUS_INTERNAL);
	ck_assert_str_eq(e->worker, "chief:0");
	elasticd_error_free(e);
}
END_TEST

static void invalid(int r, const char *text)
{
	ck_assert_int_eq(r, ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_msg(strstr(elasticd_error_text(), text) != NULL, "%s", elasticd_error_text());
}

START_TEST(bad_arguments_never_reach_the_agent)
{
	char *big = calloc(1, (1 << 20) + 1), key[1026];
	const char *const none[] = { NULL };
	const struct elasticd_queue_bytes payload = { .data = "", .len = 0 };
	struct elasticd_worker *members;
	struct elasticd_queue_answer *answers;
	char **names;
	int64_t deleted;
	size_t n;

	memset(key, 'k', sizeof(key));
	key[1025] = '\0';
	invalid(elasticd_put(h, "", "", 0, 0), "key: expected at least 1 byte");
	invalid(elasticd_put(h, "//", "", 0, 0), "key: expected at least 1 byte");
	invalid(elasticd_put(h, NULL, "", 0, 0), "key: expected a text");
	invalid(elasticd_put(h, key, "", 0, 0), "key: expected at most 1024 bytes, got 1025");
	invalid(elasticd_put(h, "\xff", "", 0, 0), "key: expected UTF-8");
	invalid(elasticd_put(h, "k", NULL, 1, 0), "value: expected 1 bytes, got NULL");
	invalid(elasticd_put(h, "k", big, (1 << 20) + 1, 0), "value: expected at most 1048576");
	invalid(elasticd_put(h, "k", "", 0, 8), "flags: unknown bits 0x8");
	invalid(elasticd_result(h, big, (1 << 20) + 1), "value: expected at most");
	invalid(elasticd_delete(h, "/", &deleted), "key: expected at least 1 byte");
	invalid(elasticd_barrier(h, "", NULL, 0, 0), "name: expected at least 1 byte");
	invalid(elasticd_barrier(h, key, NULL, 0, 0), "name: expected at most 256");
	invalid(elasticd_barrier(h, "b", NULL, 2, 0), "members: expected 2 names");
	invalid(elasticd_barrier(h, "b", none, 1, 0), "members: expected a text");
	invalid(elasticd_barrier(h, "b", none, 0, 0), "members: expected at least 1 name");
	invalid(elasticd_alive(h, none, 0, 0, &names, &n), "members: expected at least 1 name");
	invalid(elasticd_states(h, none, 0, &members, &n), "roles: expected at least 1 name");
	invalid(elasticd_queue_call(h, none, 0, &payload, 0, 0, &answers, &n),
		"workers: expected at least 1 name");
	invalid(elasticd_report_error(h, 0, "x"), "code: expected 1 to 16, got 0");
	free(big);
}
END_TEST

START_TEST(a_connection_that_died_while_idle_is_replaced)
{
	close(fd);
	worker_start(&w, puts_text, h);
	fd = agent_greets();
	agent_hears(fd, "Put", "'key':'a/b','value':'text'");
	agent_answers(fd, "'revision':1");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(an_agent_that_dies_during_a_call_is_unavailable)
{
	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	close(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	close(agent_listener);
	unlink(agent_path);
	fd = agent_listener = -1;
	ck_assert_int_eq(elasticd_put(h, "k", "", 0, 0), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "cannot connect"));
}
END_TEST

static void puts_much(struct worker *me)
{
	enum { MUCH = 700000 }; /* more than a socket takes */
	char *value = malloc(MUCH);

	memset(value, 'x', MUCH);
	me->r = elasticd_put(me->h, "k", value, MUCH, 0);
	free(value);
}

START_TEST(a_refusal_counts_before_the_whole_call_was_sent)
{
	fd = close_fd(fd);
	worker_start(&w, puts_much, h);
	fd = agent_accept();
	agent_await(fd);
	agent_refuses(fd, "ResourceExhausted", "'message':'no more than 1000 connections'");
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(w.text, "no more than 1000 connections");
}
END_TEST

START_TEST(threads_do_not_wait_for_each_other)
{
	struct worker other;
	int second;

	worker_start(&w, gets, h);
	agent_hears(fd, "Get", "'key':'k','wait':true");
	worker_start(&other, puts_text, h);
	second = agent_greets();
	agent_hears(second, "Put", "'key':'a/b','value':'text'");
	agent_answers(second, "'revision':1");
	ck_assert_int_eq(worker_end(&other), 0);
	agent_answers(fd, "'entry':{'key':'k','value':'v','revision':1}");
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
	close(second);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("calls");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_value_goes_as_text_or_else_as_base64);
	tcase_add_test(t, a_get_sends_its_time_limit);
	tcase_add_test(t, an_answer_may_come_in_pieces);
	tcase_add_test(t, an_error_has_status_text_and_missing_workers);
	tcase_add_test(t, errors_of_varlink_have_a_status_too);
	tcase_add_test(t, lists_and_deletes);
	tcase_add_test(t, alive_and_states);
	tcase_add_test(t, results_errors_and_leaving);
	tcase_add_test(t, bad_arguments_never_reach_the_agent);
	tcase_add_test(t, a_connection_that_died_while_idle_is_replaced);
	tcase_add_test(t, an_agent_that_dies_during_a_call_is_unavailable);
	tcase_add_test(t, a_refusal_counts_before_the_whole_call_was_sent);
	tcase_add_test(t, threads_do_not_wait_for_each_other);
	return tests_run(t);
}
