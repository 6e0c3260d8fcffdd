// SPDX-License-Identifier: Apache-2.0
/*
 * The same life of a work queue again and again, each time with the next allocation failing, alone
 * or with all after it: no accepted task is lost, every wait ends, and afterwards everything works.
 * This test cannot replace the allocators of the address sanitizer and valgrind.
 */
#include "agent/queue/machine/queue.h"
#include "tests/unit/child.h"
#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <errno.h>

enum { WAITS = 64, TASKS = 256 };

static struct queues *q;
static uint64_t now;
static struct queue_wait waits[WAITS];
static bool used[WAITS];
static bool accepted[TASKS], released[TASKS];
static char holders[4];
static int wrong; /* Check's assertions allocate, so errors are counted instead */

static const struct queue_options options = { .first_task = 1,
	.max = 6,
	.slots = 2,
	.cancel_grace_ms = 100,
	.recovery_timeout_ms = 5000,
	.blame_limit = 2,
	.blame_window_ms = 1000,
	.deaths = 2,
	.stall_ms = 300,
	.journal = true };

/* Ends a lease at once: the k-th task fails, in one way or another. */
static void deal(const struct queue_wait *w)
{
	struct queue_failure f = { STATUS_INTERNAL, "it went wrong", "where", false, "ps:0" };
	struct queue_bytes v = { "value", 5, "text" };
	struct queue_item_view x;
	void *holder;

	queue_item(w->lease, &x);
	holder = &holders[x.worker];
	f.retryable = x.task % 5 == 3;
	if (x.task % 5 == 3 || x.task % 11 == 10 || (x.kind == QUEUE_ITEM_BUILD && x.worker == 1))
		(void)!queue_fail(q, holder, x.lease, &f, now);
	else if (x.task % 7 != 5) /* it keeps the others */
		(void)!queue_finish(q, holder, x.lease, &v, now);
}

static void over(struct queue_wait *w)
{
	if (w->kind == QUEUE_WAIT_SUBMIT && w->status == STATUS_OK)
		for (size_t i = 0; i < w->accepted; i++)
			accepted[w->first + (int64_t)i] = true;
	wrong += w->status != STATUS_OK && !*w->text && !w->failed_queue;
	if (w->kind == QUEUE_WAIT_WORK && w->lease)
		deal(w);
	used[w - waits] = false;
	queue_wait_fini(q, w, now);
}

static void drain(void)
{
	struct queue_order d;
	struct queue_wait *w;

	do {
		while (queue_next_order(q, &d) != QUEUE_ORDER_NOTHING)
			;
		w = queue_over(q);
		if (w)
			over(w);
	} while (w);
}

static struct queue_wait *a_wait(void)
{
	for (int i = 0; i < WAITS; i++)
		if (!used[i]) {
			used[i] = true;
			return &waits[i];
		}
	wrong++;
	return NULL;
}

static const char *const need[] = { "r" };
static const struct queue_new tasks[3] = {
	{ { "payload", 7, "text" }, need, 1, 50, false },
	{ { "payload", 7, "" }, NULL, 0, -1, true },
	{ { "payload", 7, "" }, NULL, 0, -1, false },
};

static void submit(const char *queue, int from, size_t n, uint64_t until)
{
	struct queue_wait *w = a_wait();

	queue_submit(q, w, queue, tasks + from, n, false, until, now);
	drain();
}

static void work(int worker)
{
	struct queue_wait *w = a_wait();

	queue_work(q, w, worker, &holders[worker], now, now);
	drain();
}

static void serve(int turns)
{
	for (int i = 0; i < turns; i++)
		work(i % 2);
}

static void start(int worker)
{
	struct queue_bytes init = { "init", 4, "" };

	(void)!queue_worker_started(q, worker, 0, worker ? NULL : &init, true, now);
	(void)!queue_worker_name(q, worker, "worker:0");
	drain();
}

static void passes(uint64_t ms)
{
	now += ms;
	queue_expire(q, now);
	drain();
}

static void watch(const char *queue)
{
	int64_t ids[2] = { 1, 2 };
	struct queue_wait *f = a_wait(), *j = a_wait();

	queue_fetch(q, f, ids, 2, true, now + 10000, now);
	drain();
	queue_join(q, j, queue, now + 10000, now);
	drain();
}

static void release(int64_t id)
{
	released[id] |= queue_release(q, &id, 1, now) == 1;
	drain();
}

static void live(void)
{
	struct queue_error ps = { STATUS_UNAVAILABLE, "ps:0 was killed", "", -1, -1 };
	struct queue_bytes b = { "how", 3, "" };
	struct queue_wait *w;
	int64_t two = 2;

	start(0);
	start(1);
	(void)!queue_resource_create(q, "r", &b, now);
	submit("", 0, 3, now + 5000);
	submit("b", 0, 3, now + 5000);
	submit("b", 1, 2, now + 5000);
	watch("");
	serve(8);
	w = a_wait();
	queue_call(q, w, NULL, 0, &b, now + 2000, 500, now);
	drain();
	serve(6);
	passes(60);
	queue_worker_gone(q, 1, "was killed", false, true, now);
	start(1);
	serve(6);
	watch("b");
	release(3);
	w = a_wait();
	queue_cancel(q, w, "", &two, 1, "enough", now + 1000, now);
	drain();
	w = a_wait();
	queue_cancel(q, w, "b", NULL, 0, "enough", now + 1000, now);
	drain();
	passes(400);
	queue_holder_gone(q, &holders[0], now);
	drain();
	submit("", 0, 3, now);
	(void)!queue_resource_drop(q, "r", now);
	drain();
	serve(4);
	queue_fail_all(q, &ps, 7, now);
	drain();
	queue_unfail(q, now);
	submit("c", 2, 1, now);
	queue_worker_gone(q, 0, "is over", true, false, now);
	queue_worker_gone(q, 1, "is over", true, false, now);
	passes(6000);
	passes(20000);
}

/* The records are complete. */
static void is_written_down(void)
{
	struct queue_record r;
	struct queue_outcome a, b;
	struct queues *second;
	uint64_t cursor = 0;

	ck_assert_int_eq(queues_new(&options, &second), 0);
	while (queue_dump(q, &cursor, &r))
		ck_assert_int_eq(queue_restore(second, &r), 0);
	for (int64_t id = 1; id < TASKS; id++) {
		bool is = queue_outcome(q, id, &a);

		ck_assert(!accepted[id] || released[id] || is);
		if (is) {
			ck_assert(queue_outcome(second, id, &b));
			ck_assert_int_eq(b.state, a.state);
		}
	}
	queues_free(second);
}

/* With memory again, all waits end, and new tasks are done. */
static void works(void)
{
	struct queue_stats s;

	passes(20000);
	for (int i = 0; i < WAITS; i++)
		ck_assert(!used[i]);
	start(0);
	start(1);
	for (int i = 0; i < 60; i++) {
		serve(2);
		passes(10);
		if (i % 10 == 9) {
			queue_holder_gone(q, &holders[i / 10 % 2], now);
			drain();
		}
	}
	queue_stats(q, NULL, &s);
	ck_assert_uint_eq(s.waiting, 0);
	is_written_down();
	ck_assert_int_eq(wrong, 0);
}

static void forget(void)
{
	memset(used, 0, sizeof(used));
	memset(accepted, 0, sizeof(accepted));
	memset(released, 0, sizeof(released));
	now = 1000;
}

static bool run(int mode, long at)
{
	forget();
	ck_assert_int_eq(queues_new(&options, &q), 0);
	which = mode;
	allocations = 0;
	fail_at = at;
	live();
	fail_at = 0;
	works();
	q = queues_free(q);
	return allocations >= at;
}

static void all_of(int mode)
{
	long at = 1;

	while (run(mode, at))
		at++;
	ck_assert(at == 1 || at > 60);
}

START_TEST(each_allocation_may_fail)
{
	all_of(ALONE);
}
END_TEST

START_TEST(all_allocations_from_one_on_may_fail)
{
	all_of(ALL);
}
END_TEST

/* The reason is what needs memory. */
START_TEST(refuses_a_name_that_is_too_long_without_memory)
{
	char name[2 * QUEUE_NAME_MAX];
	struct queue_wait w = { 0 };

	memset(name, 'q', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	forget();
	ck_assert_int_eq(queues_new(&options, &q), 0);
	which = ALONE;
	allocations = 0;
	fail_at = 1;
	queue_submit(q, &w, name, &tasks[1], 1, false, now, now);
	fail_at = 0;
	ck_assert_int_eq(w.status, STATUS_INVALID_ARGUMENT);
	queue_wait_fini(q, &w, now);
	q = queues_free(q);
}
END_TEST

START_TEST(making_and_restoring_a_machine_may_fail)
{
	static const struct queue_error none = { STATUS_OK, "", "", -1, -1 };
	static const struct queue_error bad = { STATUS_INTERNAL, "bad", "", -1, 1 };
	const struct queue_record records[] = {
		{ QUEUE_REC_RESOURCE, -1, -1, 0, "r", { "how", 3, "" }, NULL, 0, none, false },
		{ QUEUE_REC_SUBMIT, 1, 50, 0, "a", { "x", 1, "" }, need, 1, none, false },
		{ QUEUE_REC_TRY, 1, 1, 1, "", { "", 0, "" }, NULL, 0, none, false },
		{ QUEUE_REC_SUBMIT, 2, -1, 0, "b", { "x", 1, "" }, NULL, 0, none, false },
		{ QUEUE_REC_SUCCEED, 2, -1, 1, "", { "v", 1, "" }, NULL, 0, none, false },
		{ QUEUE_REC_FAIL, 1, -1, 2, "", { "", 0, "" }, NULL, 0, bad, true },
		{ QUEUE_REC_ERROR, -1, -1, 0, "c", { "", 0, "" }, NULL, 0, bad, false },
		{ QUEUE_REC_LOSS, -1, -1, 7, "d", { "", 0, "" }, NULL, 0, bad, false },
		{ QUEUE_REC_SUBMIT, 3, -1, 0, "d", { "x", 1, "" }, NULL, 0, none, false },
		{ QUEUE_REC_KEEP, -1, -1, 0, "d", { "", 0, "" }, NULL, 0, none, false },
		{ QUEUE_REC_RELEASE, 9, -1, 0, "", { "", 0, "" }, NULL, 0, none, false },
		{ QUEUE_REC_CLOSE, -1, -1, 0, "", { "", 0, "" }, NULL, 0, none, false },
	};

	struct queue_outcome o;

	forget();
	which = ALONE;
	allocations = 0;
	for (long at = 1; at == 1 || allocations >= at - 1; at++) {
		int k;

		q = NULL;
		allocations = 0;
		fail_at = at;
		k = queues_new(&options, &q);
		for (size_t i = 0; k == 0 && i < sizeof(records) / sizeof(records[0]); i++)
			k = queue_restore(q, &records[i]);
		fail_at = 0;
		ck_assert(k == 0 || k == -ENOMEM);
		if (k == 0)
			ck_assert(queue_outcome(q, 1, &o) && o.state == QUEUE_FAILED &&
				  queue_outcome(q, 2, &o) && o.state == QUEUE_SUCCEEDED &&
				  !queue_outcome(q, 3, &o));
		q = queues_free(q);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("queue_nomem");
	TCase *tc = tcase_create("queue_nomem");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, each_allocation_may_fail);
	tcase_add_test(tc, all_allocations_from_one_on_may_fail);
	tcase_add_test(tc, refuses_a_name_that_is_too_long_without_memory);
	tcase_add_test(tc, making_and_restoring_a_machine_may_fail);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
