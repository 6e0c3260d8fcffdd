/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator's calls to an agent, and their answers. */
#include "tests/unit/fake_queue.h"

static int64_t numbers[8];
static size_t accepted;

static struct elasticd_queue_new_task text_task(const char *text)
{
	return (struct elasticd_queue_new_task){ .payload = { text, strlen(text), NULL } };
}

static void submits_one(struct worker *me)
{
	static const char *const needs[] = { "data", "model" };
	struct elasticd_queue_new_task t = text_task("a\"b");

	t.payload.format = "json";
	t.resources = needs;
	t.n_resources = 2;
	t.limit_ms = 5000;
	t.alone = 1;
	me->r = elasticd_queue_submit(q, &t, 1, 60000, numbers, &accepted);
}

START_TEST(a_task_is_sent_with_all_its_members)
{
	worker_start(&w, submits_one, h);
	queue_hears(fd, "Submit",
		"'queue':'trials','payload':'a\\'b','format':'json','resources':['data','model'],"
		"'limit_ms':5000,'alone':true,'wait_ms':60000");
	agent_answers(fd, "'task':17");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(accepted, 1);
	ck_assert_int_eq(numbers[0], 17);
}
END_TEST

static void submits_three(struct worker *me)
{
	const struct elasticd_queue_new_task t[] = { text_task("a"),
		{ .payload = { "\0", 1, NULL } }, text_task("") };

	me->r = elasticd_queue_submit(q, t, 3, -1, numbers, &accepted);
}

START_TEST(many_tasks_go_in_one_message_and_the_rest_when_there_is_room)
{
	worker_start(&w, submits_three, h);
	queue_hears(fd, "SubmitMany",
		"'queue':'trials','tasks':[{'payload':'a'},{'base64':'AA=='},{'payload':''}]");
	agent_answers(fd, "'first':5,'accepted':3");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(accepted, 3);
	ck_assert_int_eq(numbers[0], 5);
	ck_assert_int_eq(numbers[2], 7);
}
END_TEST

/* With no time to wait, the agent's answer is sent before the call: later it could be too late. */
static void submits_three_for_a_while(struct worker *me)
{
	const struct elasticd_queue_new_task t[] = { text_task("a"), text_task("b"),
		text_task("c") };

	me->r = elasticd_queue_submit(q, t, 3, 0, numbers, &accepted);
}

START_TEST(fewer_tasks_are_accepted_when_the_time_is_over)
{
	agent_answers(fd, "'first':5,'accepted':2");
	worker_start(&w, submits_three_for_a_while, h);
	queue_hears(fd, "SubmitMany",
		"'queue':'trials','tasks':[{'payload':'a'},{'payload':'b'},{'payload':'c'}],"
		"'wait_ms':0");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(accepted, 2);
	queue_refuses(fd, "ResourceExhausted", "'message':'the queue is full'");
	worker_start(&w, submits_three_for_a_while, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "SubmitMany"));
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_uint_eq(accepted, 0);
}
END_TEST

static char *big;
enum { BIG = 300000 };

static void submits_big_ones(struct worker *me)
{
	const struct elasticd_queue_new_task t[] = { { .payload = { big, BIG, NULL } },
		{ .payload = { big, BIG, NULL } }, text_task("c") };

	me->r = elasticd_queue_submit(q, t, 3, -1, numbers, &accepted);
}

/* Reads a message that is too long for agent_hear(). */
static size_t hear_long(int from)
{
	static char data[1 << 16];
	size_t n = 0;
	ssize_t got;

	/* Nothing follows it before it was answered. */
	do {
		agent_await(from);
		got = recv(from, data, sizeof(data), 0);
		ck_assert_int_gt(got, 0);
		n += (size_t)got;
	} while (data[got - 1]);
	return n;
}

START_TEST(tasks_that_do_not_fit_into_one_message_go_in_several)
{
	big = malloc(BIG);
	memset(big, 'x', BIG);
	worker_start(&w, submits_big_ones, h);
	ck_assert_uint_lt(hear_long(fd), 512 << 10);
	agent_answers(fd, "'first':5,'accepted':1");
	ck_assert_uint_lt(hear_long(fd), 512 << 10);
	agent_answers(fd, "'first':9,'accepted':2");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(accepted, 3);
	ck_assert_int_eq(numbers[0], 5);
	ck_assert_int_eq(numbers[1], 9);
	ck_assert_int_eq(numbers[2], 10);
	worker_start(&w, submits_big_ones, h);
	hear_long(fd);
	agent_answers(fd, "'first':5,'accepted':1");
	hear_long(fd);
	queue_failed(fd, "'code':'Internal','message':'no','task':5,'worker':'worker:1'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERNAL);
	ck_assert_uint_eq(accepted, 1);
	free(big);
}
END_TEST

static int64_t error_task;
static int error_exit;
static char error_details[64], error_worker[64];

static void joins(struct worker *me)
{
	me->r = elasticd_queue_join(q, 60000);
	error_task = elasticd_queue_error_task();
	error_exit = elasticd_queue_error_exit_code();
	strcpy(error_details, elasticd_queue_error_details());
	strcpy(error_worker, elasticd_queue_error_worker());
}

START_TEST(a_join_returns_the_error_of_the_queue)
{
	worker_start(&w, joins, h);
	queue_hears(fd, "Join", "'queue':'trials','timeout_ms':60000");
	queue_refuses(fd, "QueueFailed",
		"'error':{'code':'Unavailable','message':'ps:0 was killed','details':'line 1',"
		"'worker':'ps:0','task':12},'exit_code':3");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_str_eq(w.text, "ps:0 was killed");
	ck_assert_int_eq(error_task, 12);
	ck_assert_int_eq(error_exit, 3);
	ck_assert_str_eq(error_details, "line 1");
	ck_assert_str_eq(error_worker, "ps:0");
	worker_start(&w, joins, h);
	queue_hears(fd, "Join", "'queue':'trials','timeout_ms':60000");
	queue_failed(fd, "'code':'Internal','message':'no'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERNAL);
	ck_assert(error_task == 0 && error_exit == -1 && !*error_details && !*error_worker);
	worker_start(&w, joins, h);
	queue_hears(fd, "Join", "'queue':'trials','timeout_ms':60000");
	queue_refuses(fd, "DeadlineExceeded", "'message':'2 tasks are not over'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(error_task, -1);
}
END_TEST

static void joins_by_default(struct worker *me)
{
	me->r = elasticd_queue_join(q, ELASTICD_DEFAULT_LIMIT(50));
}

static void joins_with_a_task(struct worker *me)
{
	me->r = elasticd_queue_work_next(work, -1, &item);
	if (!me->r)
		joins_by_default(me);
}

START_TEST(the_agent_keeps_a_default_limit_but_for_a_thread_with_a_task)
{
	worker_start(&w, joins_by_default, h);
	queue_hears(fd, "Join", "'queue':'trials','timeout_ms':50");
	queue_refuses(fd, "DeadlineExceeded", "'message':'2 tasks are not over'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	/* So the agent can refuse to wait for that task; else the library keeps the limit. */
	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	worker_start(&w, joins_with_a_task, h);
	work_fd = agent_greets();
	queue_hears(work_fd, "Work", "");
	agent_answers(work_fd, ITEM("7", "41", ""));
	queue_hears(fd, "Join", "'queue':'trials','lease':7");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(w.text, "nothing came within 50 ms");
	close_fd(fd);
	fd = -1;
}
END_TEST

static void asks_done(struct worker *me)
{
	bool done = false;

	me->r = elasticd_queue_done(q, &done);
	me->n = (size_t)done;
}

START_TEST(done_says_whether_the_queue_is_empty)
{
	worker_start(&w, asks_done, h);
	queue_hears(fd, "Done", "'queue':'trials'");
	agent_answers(fd, "'done':true");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 1);
	worker_start(&w, asks_done, h);
	queue_hears(fd, "Done", "'queue':'trials'");
	agent_answers(fd, "'done':false");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 0);
}
END_TEST

static struct elasticd_queue_outcome *outcomes;
static size_t n_outcomes;

static void fetches_one(struct worker *me)
{
	const int64_t task = 5;

	me->r = elasticd_queue_fetch(
		q, &task, 1, ELASTICD_FETCH_RELEASE, 60000, &outcomes, &n_outcomes);
}

START_TEST(an_outcome_has_all_members_of_the_answer)
{
	worker_start(&w, fetches_one, h);
	queue_hears(fd, "Fetch", "'task':5,'release':true,'timeout_ms':60000");
	agent_say(fd, "{'parameters':{'outcome':{'task':5,'state':'succeeded',"
		      "'value':'a\\u00e9\\n\\ud83d\\ude00\\/','format':'json',"
		      "'worker':'worker:1','tries':2,'new':[{'a':1.5},null]}}}");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(n_outcomes, 1);
	ck_assert_int_eq(outcomes->task, 5);
	ck_assert_int_eq(outcomes->state, ELASTICD_TASK_SUCCEEDED);
	ck_assert_str_eq(outcomes->value, "a\xc3\xa9\n\xf0\x9f\x98\x80/");
	ck_assert_uint_eq(outcomes->len, strlen(outcomes->value));
	ck_assert_str_eq(outcomes->format, "json");
	ck_assert_str_eq(outcomes->worker, "worker:1");
	ck_assert_int_eq(outcomes->tries, 2);
	ck_assert_int_eq(outcomes->code, 0);
	elasticd_queue_outcomes_free(outcomes, n_outcomes);
	worker_start(&w, fetches_one, h);
	queue_hears(fd, "Fetch", "'task':5,'release':true,'timeout_ms':60000");
	/* The same JSON, not as an agent writes it. */
	agent_say(fd, "{ 'parameters': {'outcome': {'task': 5, 'state': 'failed', 'tries': 1,"
		      "'error':{'code':'Internal','message':'no','details':'d'}} } }");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(outcomes->state, ELASTICD_TASK_FAILED);
	ck_assert_int_eq(outcomes->code, ELASTICD_STATUS_INTERNAL);
	ck_assert_str_eq(outcomes->message, "no");
	ck_assert_str_eq(outcomes->details, "d");
	ck_assert_ptr_null(outcomes->value);
	elasticd_queue_outcomes_free(outcomes, n_outcomes);
}
END_TEST

static void fetches_three(struct worker *me)
{
	const int64_t tasks[] = { 5, 6, 7 };

	me->r = elasticd_queue_fetch(
		q, tasks, 3, ELASTICD_FETCH_RELEASE, -1, &outcomes, &n_outcomes);
}

#define DONE(n) "{'task':" n ",'state':'succeeded','base64':'AA==','worker':'w:0','tries':1}"

START_TEST(many_outcomes_come_in_several_answers_and_are_released_last)
{
	worker_start(&w, fetches_three, h);
	queue_hears(fd, "FetchMany", "'tasks':[5,6,7]");
	agent_answers(fd, "'outcomes':[" DONE("5") "," DONE("6") "]");
	queue_hears(fd, "Fetch", "'task':7");
	agent_answers(fd, "'outcome':" DONE("7"));
	queue_hears(fd, "Release", "'tasks':[5,6,7]");
	agent_answers(fd, "'released':3");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(n_outcomes, 3);
	ck_assert_int_eq(outcomes[2].task, 7);
	ck_assert_uint_eq(outcomes[2].len, 1);
	elasticd_queue_outcomes_free(outcomes, n_outcomes);
	worker_start(&w, fetches_three, h);
	queue_hears(fd, "FetchMany", "'tasks':[5,6,7]");
	agent_answers(fd, "'outcomes':[" DONE("5") "]");
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "FetchMany"));
	queue_refuses(fd, "NotFound", "'message':'task 6 is not there'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
}
END_TEST

static void fetches_any(struct worker *me)
{
	const int64_t tasks[] = { 5, 6 };

	me->r = elasticd_queue_fetch(q, tasks, 2, ELASTICD_FETCH_ANY | ELASTICD_FETCH_RELEASE, 0,
		&outcomes, &n_outcomes);
}

START_TEST(a_fetch_of_any_returns_with_one)
{
	agent_answers(fd, "'outcomes':[" DONE("6") "]");
	worker_start(&w, fetches_any, h);
	queue_hears(fd, "FetchMany", "'tasks':[5,6],'any':true,'release':true,'timeout_ms':0");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(n_outcomes, 1);
	ck_assert_int_eq(outcomes->task, 6);
	elasticd_queue_outcomes_free(outcomes, n_outcomes);
	agent_answers(fd, "'outcomes':[]");
	worker_start(&w, fetches_any, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "FetchMany"));
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERNAL);
}
END_TEST

static void cancels(struct worker *me)
{
	const int64_t tasks[] = { 5, 6 };
	size_t n = 0;

	me->r = elasticd_queue_cancel(q, tasks, 2, "why", 60000, &n);
	me->n = n;
}

static void cancels_all(struct worker *me)
{
	me->r = elasticd_queue_cancel(q, NULL, 0, NULL, -1, NULL);
}

START_TEST(cancelling_some_or_all)
{
	worker_start(&w, cancels, h);
	queue_hears(fd, "Cancel",
		"'queue':'trials','tasks':[5,6],'reason':'why',"
		"'timeout_ms':60000");
	agent_answers(fd, "'cancelled':2");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 2);
	worker_start(&w, cancels_all, h);
	queue_hears(fd, "Cancel", "'queue':'trials'");
	agent_answers(fd, "'cancelled':0");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

static void does_small_things(struct worker *me)
{
	const struct elasticd_queue_bytes payload = { "p", 1, "text" };
	struct elasticd_queue_stats s;
	const int64_t task = 5;

	me->r = elasticd_queue_release(q, &task, 1) ||
		elasticd_queue_resource_create(h, "data", &payload) ||
		elasticd_queue_resource_drop(h, "data") || elasticd_queue_close_all(h) ||
		elasticd_queue_stats(h, q, &s) || elasticd_queue_stats(h, NULL, &s);
	me->n = (size_t)s.queued;
}

#define STATS                                                                                  \
	"'stats':{'queued':3,'running':1,'succeeded':0,'failed':0,'cancelled':0,'put_back':0," \
	"'bytes':4,'waiting':0,'workers':1,'free':0,'closed':true}"

START_TEST(calls_that_do_not_wait)
{
	worker_start(&w, does_small_things, h);
	queue_hears(fd, "Release", "'tasks':[5]");
	agent_answers(fd, "'released':1");
	queue_hears(fd, "CreateResource", "'name':'data','payload':'p','format':'text'");
	agent_answers(fd, "");
	queue_hears(fd, "DropResource", "'name':'data'");
	agent_answers(fd, "");
	queue_hears(fd, "Close", "");
	agent_answers(fd, "");
	queue_hears(fd, "Stats", "'queue':'trials'");
	agent_answers(fd, STATS);
	queue_hears(fd, "Stats", "");
	agent_answers(fd, STATS);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 3);
}
END_TEST

static struct elasticd_queue_answer *answers;

static void calls_all(struct worker *me)
{
	static const char *const workers[] = { "worker:0", "worker:1" };
	const struct elasticd_queue_bytes payload = { "p", 1, NULL };

	me->r = elasticd_queue_call(me->h, workers, 2, &payload, 60000, 1000, &answers, &me->n);
}

START_TEST(a_call_has_the_answers_of_all)
{
	worker_start(&w, calls_all, h);
	queue_hears(fd, "Call",
		"'workers':['worker:0','worker:1'],'payload':'p',"
		"'answer_timeout_ms':1000,'timeout_ms':60000");
	agent_answers(fd, "'answers':[{'worker':'worker:0','value':'v','format':'text'},"
			  "{'worker':'worker:1','error':{'code':'Aborted','message':'no'}}]");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 2);
	ck_assert_str_eq(answers[0].value, "v");
	ck_assert_int_eq(answers[0].code, 0);
	ck_assert_str_eq(answers[1].worker, "worker:1");
	ck_assert_int_eq(answers[1].code, ELASTICD_STATUS_ABORTED);
	ck_assert_str_eq(answers[1].message, "no");
	elasticd_queue_answers_free(answers, w.n);
}
END_TEST

static struct elasticd_queue *own;

static void opens_own(struct worker *me)
{
	me->r = elasticd_queue_open(me->h, NULL, &own);
}

START_TEST(a_queue_without_a_name_is_kept_until_it_is_closed)
{
	char expected[200];
	int kept;

	worker_start(&w, opens_own, h);
	kept = agent_greets();
	ck_assert_ptr_nonnull(strstr(strcpy(expected, agent_hear(kept)), "Keep"));
	agent_continues(kept, "");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_ptr_nonnull(strstr(expected, elasticd_queue_name(own)));
	elasticd_queue_close(own);
	ck_assert_str_eq(agent_hear(kept), "");
	close_fd(kept);
}
END_TEST

static void joins_own(struct worker *me)
{
	me->r = elasticd_queue_join(own, -1);
}

static void submits_to_own(struct worker *me)
{
	const struct elasticd_queue_new_task t = { .payload = { "x", 1, NULL } };
	int64_t number;

	me->r = elasticd_queue_submit(own, &t, 1, -1, &number, &me->n);
}

START_TEST(a_queue_without_a_name_is_unavailable_after_its_agent)
{
	int kept, another, undone;

	worker_start(&w, opens_own, h);
	kept = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(kept), "Keep"));
	agent_continues(kept, "");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, joins_own, h);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "Join"));
	close_fd(kept);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(w.text, "the queue is gone"));
	/* Tasks that another agent may have accepted have no keeper: they are undone. */
	worker_start(&w, submits_to_own, h);
	another = agent_accept();
	undone = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(undone), "Keep"));
	agent_continues(undone, "");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(w.text, "the queue is gone"));
	ck_assert_uint_eq(w.n, 0);
	ck_assert_str_eq(agent_hear(undone), "");
	close_fd(another);
	close_fd(undone);
	elasticd_queue_close(own);
}
END_TEST

static void invalid(int r, const char *text)
{
	ck_assert_int_eq(r, ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_msg(strstr(elasticd_error_text(), text) != NULL, "%s", elasticd_error_text());
}

START_TEST(bad_arguments_never_reach_the_agent)
{
	struct elasticd_queue_new_task t = text_task("x");
	const int64_t bad = -1;

	invalid(elasticd_queue_open(h, "a/b", &own), "name: expected 0 to 64 of A-Z");
	t.payload.len = (1 << 20) + 1;
	invalid(elasticd_queue_submit(q, &t, 1, -1, numbers, &accepted),
		"payload: expected at most");
	t = text_task("x");
	t.payload.format = "a word that is much too long for a format";
	invalid(elasticd_queue_submit(q, &t, 1, -1, numbers, &accepted),
		"format: expected at most 31");
	t = text_task("x");
	t.limit_ms = -1;
	invalid(elasticd_queue_submit(q, &t, 1, -1, numbers, &accepted), "limit_ms: expected 0");
	t.limit_ms = INT64_MAX;
	invalid(elasticd_queue_submit(q, &t, 1, -1, numbers, &accepted), "limit_ms: expected 0");
	t = text_task("x");
	t.n_resources = 1;
	invalid(elasticd_queue_submit(q, &t, 1, -1, numbers, &accepted),
		"resources: expected 1 names");
	invalid(elasticd_queue_fetch(q, &bad, 1, 0, -1, &outcomes, &n_outcomes),
		"tasks: expected 0 to");
	invalid(elasticd_queue_fetch(q, &bad, 0, 0, -1, &outcomes, &n_outcomes),
		"tasks: expected at least 1");
	invalid(elasticd_queue_resource_create(h, "", NULL), "name: expected 1 to 64");
	ck_assert_int_eq(elasticd_queue_submit(q, &t, 0, -1, numbers, &accepted), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("queue");

	tcase_add_checked_fixture(tc, setup_queue, teardown_queue);
	tcase_add_test(tc, a_task_is_sent_with_all_its_members);
	tcase_add_test(tc, many_tasks_go_in_one_message_and_the_rest_when_there_is_room);
	tcase_add_test(tc, fewer_tasks_are_accepted_when_the_time_is_over);
	tcase_add_test(tc, tasks_that_do_not_fit_into_one_message_go_in_several);
	tcase_add_test(tc, a_join_returns_the_error_of_the_queue);
	tcase_add_test(tc, the_agent_keeps_a_default_limit_but_for_a_thread_with_a_task);
	tcase_add_test(tc, done_says_whether_the_queue_is_empty);
	tcase_add_test(tc, an_outcome_has_all_members_of_the_answer);
	tcase_add_test(tc, many_outcomes_come_in_several_answers_and_are_released_last);
	tcase_add_test(tc, a_fetch_of_any_returns_with_one);
	tcase_add_test(tc, cancelling_some_or_all);
	tcase_add_test(tc, calls_that_do_not_wait);
	tcase_add_test(tc, a_call_has_the_answers_of_all);
	tcase_add_test(tc, a_queue_without_a_name_is_kept_until_it_is_closed);
	tcase_add_test(tc, a_queue_without_a_name_is_unavailable_after_its_agent);
	tcase_add_test(tc, bad_arguments_never_reach_the_agent);
	return tests_run(tc);
}
