/* SPDX-License-Identifier: Apache-2.0 */
/* The work queue where no agent supervises the process: its threads are the workers. */
#include "tests/unit/alone_agent.h"

/* A thread sanitizer has a thread of its own. */
#ifdef __SANITIZE_THREAD__
enum { OTHER_THREADS = 1 };
#else
enum { OTHER_THREADS = 0 };
#endif

enum { MANY = 500, THREADS = 4 };

static struct elasticd *h;
static struct elasticd_queue *q;
static struct worker w;

static void setup(void)
{
	alone_environment();
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_queue_open(h, NULL, &q), 0);
}

static void teardown(void)
{
	elasticd_queue_close(q);
	elasticd_close(h);
}

static int64_t submit(const char *payload)
{
	const struct elasticd_queue_new_task t = { .payload = {
							   payload, strlen(payload), "text" } };
	int64_t n = -1;
	size_t accepted;

	ck_assert_msg(elasticd_queue_submit(q, &t, 1, -1, &n, &accepted) == 0, "%s",
		elasticd_error_text());
	ck_assert_uint_eq(accepted, 1);
	return n;
}

static struct elasticd_queue_outcome *fetch(int64_t task, int flags)
{
	struct elasticd_queue_outcome *o = NULL;
	size_t n = 0;

	ck_assert_msg(elasticd_queue_fetch(q, &task, 1, flags, -1, &o, &n) == 0, "%s",
		elasticd_error_text());
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(o->task, task);
	return o;
}

static struct elasticd_queue_work *place(void)
{
	struct elasticd_queue_work *work = NULL;

	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	return work;
}

static const struct elasticd_queue_item *next(struct elasticd_queue_work *work)
{
	const struct elasticd_queue_item *i = NULL;

	ck_assert_msg(elasticd_queue_work_next(work, 0, &i) == 0, "%s", elasticd_error_text());
	ck_assert_ptr_nonnull(i);
	return i;
}

START_TEST(one_thread_submits_then_works_then_fetches)
{
	const struct elasticd_queue_bytes value = { "done", 4, "text" };
	int64_t a = submit("a"), b = submit("b");
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = next(work);
	struct elasticd_queue_outcome *o;
	bool done = true;

	ck_assert_int_eq(i->kind, ELASTICD_ITEM_TASK);
	ck_assert_int_eq(i->task, a);
	ck_assert_str_eq(i->payload, "a");
	ck_assert_str_eq(i->format, "text");
	ck_assert(i->tries == 0 && i->index == 0 && i->start == 0);
	ck_assert_int_eq(elasticd_queue_done(q, &done), 0);
	ck_assert_int_eq(done, 0);
	ck_assert_int_eq(elasticd_queue_work_finish_next(work, &value, 0, &i), 0);
	ck_assert_int_eq(i->task, b);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	ck_assert_int_eq(elasticd_queue_work_next(work, 0, &i), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	ck_assert_int_eq(elasticd_queue_done(q, &done), 0);
	ck_assert_int_eq(done, 1);
	o = fetch(a, ELASTICD_FETCH_RELEASE);
	ck_assert_int_eq(o->state, ELASTICD_TASK_SUCCEEDED);
	ck_assert_str_eq(o->value, "done");
	ck_assert_str_eq(o->format, "text");
	ck_assert_str_eq(o->worker, "worker:0");
	ck_assert_int_eq(o->tries, 1);
	elasticd_queue_outcomes_free(o, 1);
	ck_assert_int_eq(elasticd_queue_fetch(q, &a, 1, 0, -1, &o, &(size_t){ 0 }),
		ELASTICD_STATUS_NOT_FOUND);
	elasticd_queue_work_close(work);
}
END_TEST

START_TEST(a_wait_that_would_never_end_is_refused)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;
	struct elasticd_queue_outcome *o;
	int64_t a;
	size_t n;

	if (OTHER_THREADS) {
		elasticd_queue_work_close(work);
		return;
	}
	/* No other thread could submit a task. */
	ck_assert_int_eq(elasticd_queue_work_next(work, -1, &i), 0);
	ck_assert_ptr_null(i);
	a = submit("a");
	ck_assert_int_eq(elasticd_queue_join(q, -1), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "no other thread"));
	ck_assert_int_eq(
		elasticd_queue_fetch(q, &a, 1, 0, -1, &o, &n), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_queue_join(q, 1), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	/* A limit that is not the program's changes nothing. */
	ck_assert_int_eq(elasticd_queue_join(q, ELASTICD_DEFAULT_LIMIT(600000)),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(
		elasticd_queue_fetch(q, &a, 1, 0, 0, &o, &n), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	i = next(work);
	ck_assert_int_eq(elasticd_queue_cancel(q, &a, 1, NULL, -1, NULL),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	ck_assert_int_eq(
		elasticd_queue_cancel(q, &a, 1, NULL, 0, NULL), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_ABORTED);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	elasticd_queue_work_close(work);
}
END_TEST

START_TEST(the_first_error_is_returned_once_and_the_queue_goes_on)
{
	const struct elasticd_queue_failure no = {
		.code = ELASTICD_STATUS_OUT_OF_RANGE, .message = "no", .details = "line 1"
	};
	int64_t a = submit("a"), b = submit("b");
	struct elasticd_queue_work *work = place();
	struct elasticd_queue_outcome *o;

	next(work);
	ck_assert_int_eq(elasticd_queue_work_fail(work, &no), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "no"));
	ck_assert_int_eq(elasticd_queue_error_task(), a);
	ck_assert_int_eq(elasticd_queue_error_exit_code(), -1);
	ck_assert_str_eq(elasticd_queue_error_details(), "line 1");
	ck_assert_str_eq(elasticd_queue_error_worker(), "worker:0");
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	o = fetch(a, 0);
	ck_assert_int_eq(o->state, ELASTICD_TASK_FAILED);
	ck_assert_int_eq(o->code, ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_str_eq(o->details, "line 1");
	elasticd_queue_outcomes_free(o, 1);
	o = fetch(b, 0);
	ck_assert_int_eq(o->state, ELASTICD_TASK_CANCELLED);
	elasticd_queue_outcomes_free(o, 1);
	submit("c");
	next(work);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	elasticd_queue_work_close(work);
}
END_TEST

START_TEST(a_task_that_was_put_back_goes_to_the_next_slot)
{
	int64_t a = submit("a");
	struct elasticd_queue_work *work = place();

	next(work);
	elasticd_queue_work_close(work);
	work = place();
	ck_assert_int_eq(next(work)->task, a);
	ck_assert_int_eq(elasticd_queue_work_put_back(work), 0);
	ck_assert_int_eq(elasticd_queue_work_put_back(work), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(next(work)->task, a);
	ck_assert_int_eq(
		elasticd_queue_work_next(work, 0, &(const struct elasticd_queue_item *){ NULL }),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	elasticd_queue_work_close(work);
}
END_TEST

START_TEST(a_resource_is_built_before_the_first_task_that_needs_it)
{
	static const char *const needs[] = { "data" };
	const struct elasticd_queue_bytes payload = { "p", 1, NULL };
	struct elasticd_queue_new_task t = {
		.payload = { "a", 1, NULL }, .resources = needs, .n_resources = 1
	};
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i;
	int64_t n;
	size_t accepted;

	ck_assert_int_eq(elasticd_queue_resource_create(h, "data", &payload), 0);
	ck_assert_int_eq(elasticd_queue_resource_create(h, "data", &payload),
		ELASTICD_STATUS_ALREADY_EXISTS);
	ck_assert_int_eq(elasticd_queue_submit(q, &t, 1, -1, &n, &accepted), 0);
	i = next(work);
	ck_assert_int_eq(i->kind, ELASTICD_ITEM_BUILD);
	ck_assert_str_eq(i->name, "data");
	ck_assert_str_eq(i->payload, "p");
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	i = next(work);
	ck_assert_int_eq(i->task, n);
	ck_assert_uint_eq(i->n_resources, 1);
	ck_assert_str_eq(i->resources[0], "data");
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	ck_assert_int_eq(elasticd_queue_resource_drop(h, "data"), 0);
	ck_assert_int_eq(elasticd_queue_resource_drop(h, "data"), ELASTICD_STATUS_NOT_FOUND);
	ck_assert_int_eq(
		elasticd_queue_submit(q, &t, 1, -1, &n, &accepted), ELASTICD_STATUS_NOT_FOUND);
	elasticd_queue_work_close(work);
}
END_TEST

/* --- with threads */

static void submits_one(struct worker *me)
{
	poll(NULL, 0, 20);
	submit("late");
}

START_TEST(a_loop_ends_after_the_last_thread_that_could_submit)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;

	if (OTHER_THREADS) {
		elasticd_queue_work_close(work);
		return;
	}
	worker_start(&w, submits_one, h);
	ck_assert_int_eq(pthread_detach(w.thread), 0);
	ck_assert_int_eq(elasticd_queue_work_next(work, -1, &i), 0);
	ck_assert_str_eq(i->payload, "late");
	ck_assert_int_eq(elasticd_queue_work_finish_next(work, NULL, -1, &i), 0);
	ck_assert_ptr_null(i);
	elasticd_queue_work_close(work);
}
END_TEST

static void ends_soon(struct worker *me)
{
	poll(NULL, 0, 20);
}

START_TEST(a_join_fails_after_the_last_thread_that_could_work)
{
	if (OTHER_THREADS)
		return;
	submit("a");
	worker_start(&w, ends_soon, h);
	ck_assert_int_eq(pthread_detach(w.thread), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "no other thread"));
}
END_TEST

static atomic_int worked;

/* Echoes until the test stops it. */
static void echoes(struct worker *me)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;

	me->r = elasticd_queue_work_next(work, -1, &i);
	while (me->r == 0 && i && !(i->len == 4 && memcmp(i->payload, "stop", 4) == 0)) {
		const struct elasticd_queue_bytes value = { i->payload, i->len, i->format };

		worked++;
		me->r = elasticd_queue_work_finish_next(work, &value, -1, &i);
	}
	if (me->r == 0 && i)
		me->r = elasticd_queue_work_finish(work, NULL);
	elasticd_queue_work_close(work);
}

START_TEST(threads_do_the_tasks_of_another_thread)
{
	struct elasticd_queue_new_task tasks[MANY];
	struct elasticd_queue_outcome *o = NULL;
	struct worker workers[THREADS];
	static int64_t numbers[MANY];
	static char text[MANY][8];
	size_t n = 0, accepted = 0;

	for (int i = 0; i < THREADS; i++)
		worker_start(&workers[i], echoes, h);
	for (int i = 0; i < MANY; i++) {
		snprintf(text[i], sizeof(text[i]), "%d", i);
		tasks[i] = (struct elasticd_queue_new_task){ .payload = { text[i], strlen(text[i]),
								     "" } };
	}
	worked = 0;
	ck_assert_int_eq(elasticd_queue_submit(q, tasks, MANY, -1, numbers, &accepted), 0);
	ck_assert_uint_eq(accepted, MANY);
	ck_assert_int_eq(elasticd_queue_fetch(q, numbers, 3, ELASTICD_FETCH_ANY, -1, &o, &n), 0);
	ck_assert_uint_ge(n, 1);
	elasticd_queue_outcomes_free(o, n);
	ck_assert_int_eq(
		elasticd_queue_fetch(q, numbers, MANY, ELASTICD_FETCH_RELEASE, -1, &o, &n), 0);
	ck_assert_uint_eq(n, MANY);
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(o[i].task, numbers[i]);
		ck_assert_str_eq(o[i].value, text[i]);
	}
	elasticd_queue_outcomes_free(o, n);
	ck_assert_int_eq(worked, MANY);
	for (int i = 0; i < THREADS; i++)
		submit("stop");
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(worker_end(&workers[i]), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
}
END_TEST

static atomic_bool has_it;

static void works_until_cancelled(struct worker *me)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;

	me->r = elasticd_queue_work_next(work, -1, &i);
	has_it = true;
	while (!elasticd_queue_work_cancelled(work))
		poll(NULL, 0, 1);
	strcpy(me->missing, elasticd_error_text());
	me->n = me->missing[0] != '\0';
	me->r = elasticd_queue_work_finish(work, NULL);
	elasticd_queue_work_close(work);
}

START_TEST(a_thread_learns_that_its_task_was_cancelled)
{
	int64_t a = submit("a");
	struct elasticd_queue_outcome *o;
	size_t n = 0;

	has_it = false;
	worker_start(&w, works_until_cancelled, h);
	while (!has_it)
		poll(NULL, 0, 1);
	ck_assert_int_eq(elasticd_queue_cancel(q, &a, 1, "nobody wants it", -1, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ABORTED);
	ck_assert_uint_eq(w.n, 1);
	o = fetch(a, ELASTICD_FETCH_RELEASE);
	ck_assert_int_eq(o->state, ELASTICD_TASK_CANCELLED);
	elasticd_queue_outcomes_free(o, 1);
}
END_TEST

static void *joins_itself(void *arg)
{
	const struct elasticd_queue_bytes value = { "done", 4, "text" };
	struct elasticd_queue_work *work = place();
	int64_t task = next(work)->task;
	struct elasticd_queue_outcome *o;
	struct elasticd_queue *other;
	size_t n;

	(void)arg;
	ck_assert_int_eq(elasticd_queue_join(q, -1), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "deadlock"));
	ck_assert_int_eq(elasticd_queue_cancel(q, &task, 1, NULL, -1, &n),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "deadlock"));
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	ck_assert_int_eq(elasticd_queue_fetch(q, &task, 1, ELASTICD_FETCH_ANY, -1, &o, &n),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "deadlock"));
	/* With a time limit it waits, and also for the task of another slot. */
	ck_assert_int_eq(elasticd_queue_join(q, 1), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	/* A limit that is not the program's changes nothing. */
	ck_assert_int_eq(elasticd_queue_join(q, ELASTICD_DEFAULT_LIMIT(600000)),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(
		elasticd_queue_fetch(q, &task, 1, 0, 1, &o, &n), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_queue_open(h, "other", &other), 0);
	ck_assert_int_eq(elasticd_queue_join(other, -1), 0);
	ck_assert_int_eq(elasticd_queue_cancel(other, NULL, 0, NULL, -1, &n), 0);
	elasticd_queue_close(other);
	ck_assert_int_eq(elasticd_queue_work_finish(work, &value), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	elasticd_queue_work_close(work);
	return NULL;
}

START_TEST(a_thread_does_not_wait_for_its_own_task)
{
	pthread_t thread;

	submit("a");
	ck_assert_int_eq(pthread_create(&thread, NULL, joins_itself, NULL), 0);
	/* Another thread may wait for this task. */
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(a_try_has_its_limit)
{
	struct elasticd_queue_new_task t = {
		.payload = { "a", 1, NULL }, .limit_ms = 20, .alone = 1
	};
	struct elasticd_queue_outcome *o;
	size_t accepted;
	int64_t n;

	ck_assert_int_eq(elasticd_queue_submit(q, &t, 1, -1, &n, &accepted), 0);
	worker_start(&w, works_until_cancelled, h);
	o = fetch(n, ELASTICD_FETCH_RELEASE);
	ck_assert_int_eq(o->state, ELASTICD_TASK_FAILED);
	ck_assert_int_eq(o->code, ELASTICD_STATUS_DEADLINE_EXCEEDED);
	elasticd_queue_outcomes_free(o, 1);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ABORTED);
}
END_TEST

static void waits_for_work(struct worker *me)
{
	struct elasticd_queue_work *work = NULL;
	const struct elasticd_queue_item *i = NULL;

	me->r = elasticd_queue_work_open(me->h, &work);
	if (me->r == 0)
		me->r = elasticd_queue_work_next(work, 600000, &i);
	elasticd_queue_work_close(work);
}

static void until_it_waits(void)
{
	struct elasticd_queue_stats s;

	do {
		sched_yield();
		ck_assert_int_eq(elasticd_queue_stats(h, NULL, &s), 0);
	} while (!s.free);
}

START_TEST(a_call_is_answered_by_a_thread)
{
	const struct elasticd_queue_bytes payload = { "stop", 4, NULL };
	static const char *const self[] = { "worker:0" }, *const other[] = { "worker:1" };
	struct elasticd_queue_answer *a = NULL;
	size_t n = 0;

	worker_start(&w, echoes, h);
	ck_assert_int_eq(elasticd_queue_call(h, other, 1, &payload, -1, -1, &a, &n),
		ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_msg(elasticd_queue_call(h, self, 1, &payload, 600000, 600000, &a, &n) == 0, "%s",
		elasticd_error_text());
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(a[0].worker, "worker:0");
	ck_assert_int_eq(a[0].code, 0);
	elasticd_queue_answers_free(a, n);
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static atomic_int interrupted;

static void on_signal(int signo)
{
}

static void handle_usr1(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	atomic_store(&interrupted, 0);
}

/* Sends signals until n calls of the thread were interrupted. */
static void interrupt(const struct worker *me, int n)
{
	while (atomic_load(&interrupted) < n) {
		pthread_kill(me->thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
}

static void calls_again_and_again(struct worker *me)
{
	const struct elasticd_queue_bytes payload = { "p", 1, "text" };
	struct elasticd_queue_answer *a = NULL;

	do {
		me->r = elasticd_queue_call(h, NULL, 0, &payload, 600000, 600000, &a, &me->n);
		if (me->r == ELASTICD_STATUS_INTERRUPTED && atomic_fetch_add(&interrupted, 1) == 9)
			break;
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
	if (me->r == ELASTICD_STATUS_INTERRUPTED)
		elasticd_give_up(h);
	else
		elasticd_queue_answers_free(a, me->n);
}

START_TEST(an_interrupted_call_is_not_made_twice)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;

	handle_usr1();
	worker_start(&w, calls_again_and_again, h);
	ck_assert_int_eq(elasticd_queue_work_next(work, 600000, &i), 0);
	ck_assert_int_eq(i->kind, ELASTICD_ITEM_CALL);
	interrupt(&w, 3);
	ck_assert_int_eq(elasticd_queue_work_cancelled(work), 0);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 1);
	ck_assert_int_eq(elasticd_queue_work_next(work, 0, &i), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	/* A call that is not made again is given up. */
	atomic_store(&interrupted, 0);
	worker_start(&w, calls_again_and_again, h);
	ck_assert_int_eq(elasticd_queue_work_next(work, 600000, &i), 0);
	interrupt(&w, 10);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERRUPTED);
	while (!elasticd_queue_work_cancelled(work)) /* the agent learns of it a moment later */
		poll(NULL, 0, 1);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), ELASTICD_STATUS_ABORTED);
	elasticd_queue_work_close(work);
}
END_TEST

static void works_again_and_again(struct worker *me)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;

	me->r = elasticd_queue_work_next(work, 600000, &i);
	has_it = true;
	do {
		me->r = elasticd_queue_work_finish_next(work, NULL, 600000, &i);
		atomic_fetch_add(&interrupted, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
	me->n = me->r == 0 ? i->len : 0;
	if (me->r == 0)
		me->r = elasticd_queue_work_finish(work, NULL);
	elasticd_queue_work_close(work);
}

START_TEST(an_interrupted_answer_goes_on_with_the_next_item)
{
	int64_t a = submit("a");

	handle_usr1();
	has_it = false;
	worker_start(&w, works_again_and_again, h);
	while (!has_it)
		poll(NULL, 0, 1);
	interrupt(&w, 3);
	elasticd_queue_outcomes_free(fetch(a, ELASTICD_FETCH_RELEASE), 1);
	submit("bcd");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_uint_eq(w.n, 3);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
}
END_TEST
#endif

START_TEST(cancelling_the_handle_ends_waits)
{
	struct elasticd *other;

	ck_assert_int_eq(elasticd_open(&other), 0);
	worker_start(&w, waits_for_work, other);
	until_it_waits();
	elasticd_cancel(other);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	elasticd_close(other);
}
END_TEST

START_TEST(a_child_works_without_its_parents_item)
{
	struct elasticd_queue_work *work = place();
	int64_t a = submit("a"), b;
	int status;
	pid_t child;

	ck_assert_int_eq(next(work)->task, a);
	b = submit("b");
	child = fork();
	if (child == 0) {
		const struct elasticd_queue_item *i = NULL;
		int r = elasticd_queue_work_finish(work, NULL) !=
			ELASTICD_STATUS_FAILED_PRECONDITION;

		r = r || elasticd_queue_work_next(work, 60000, &i) || i->task != b ||
		    elasticd_queue_work_finish(work, NULL);
		_exit(r);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(elasticd_queue_work_finish(work, NULL), 0);
	ck_assert_int_eq(elasticd_queue_join(q, -1), 0);
	elasticd_queue_work_close(work);
}
END_TEST

START_TEST(connecting_needs_an_elasticd)
{
	struct elasticd *other;

	ck_assert_int_eq(elasticd_queue_connect("job", "/nonexistent/control.sock", &other),
		ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_int_eq(
		elasticd_queue_connect("", NULL, &other), ELASTICD_STATUS_INVALID_ARGUMENT);
}
END_TEST

/* The last test: the queues stay closed. */
START_TEST(workers_get_no_item_once_closed_queues_are_empty)
{
	struct elasticd_queue_work *work = place();
	const struct elasticd_queue_item *i = NULL;
	struct elasticd_queue_stats s;
	const struct elasticd_queue_new_task t = { .payload = { "x", 1, NULL } };
	size_t accepted;
	int64_t n;

	submit("a");
	worker_start(&w, waits_for_work, h);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(elasticd_queue_stats(h, q, &s), 0);
	ck_assert(s.queued == 1 && s.running == 0 && s.put_back == 1 && !s.closed);
	ck_assert_int_eq(elasticd_queue_close_all(h), 0);
	ck_assert_int_eq(elasticd_queue_stats(h, NULL, &s), 0);
	ck_assert_int_eq(s.closed, 1);
	ck_assert_int_eq(elasticd_queue_submit(q, &t, 1, -1, &n, &accepted),
		ELASTICD_STATUS_FAILED_PRECONDITION);
	next(work);
	ck_assert_int_eq(elasticd_queue_work_finish_next(work, NULL, -1, &i), 0);
	ck_assert_ptr_null(i);
	elasticd_queue_work_close(work);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("alone_queue");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, one_thread_submits_then_works_then_fetches);
	tcase_add_test(tc, a_wait_that_would_never_end_is_refused);
	tcase_add_test(tc, the_first_error_is_returned_once_and_the_queue_goes_on);
	tcase_add_test(tc, a_task_that_was_put_back_goes_to_the_next_slot);
	tcase_add_test(tc, a_resource_is_built_before_the_first_task_that_needs_it);
	tcase_add_test(tc, a_loop_ends_after_the_last_thread_that_could_submit);
	tcase_add_test(tc, a_join_fails_after_the_last_thread_that_could_work);
	tcase_add_test(tc, threads_do_the_tasks_of_another_thread);
	tcase_add_test(tc, a_thread_learns_that_its_task_was_cancelled);
	tcase_add_test(tc, a_thread_does_not_wait_for_its_own_task);
	tcase_add_test(tc, a_try_has_its_limit);
	tcase_add_test(tc, a_call_is_answered_by_a_thread);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, an_interrupted_call_is_not_made_twice);
	tcase_add_test(tc, an_interrupted_answer_goes_on_with_the_next_item);
#endif
	tcase_add_test(tc, cancelling_the_handle_ends_waits);
	tcase_add_test(tc, a_child_works_without_its_parents_item);
	tcase_add_test(tc, connecting_needs_an_elasticd);
	tcase_add_test(tc, workers_get_no_item_once_closed_queues_are_empty);
	return tests_run(tc);
}
