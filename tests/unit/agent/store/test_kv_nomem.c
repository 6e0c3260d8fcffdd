/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the same calls again and again, each time with the next allocation failing, alone or with
 * all after it. Every accepted call is answered once, and afterwards everything works. Address
 * sanitizer and valgrind have an allocator of their own, which this test cannot replace. */
#include "agent/store/kv.h"

#include "tests/unit/child.h"
#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct loop *loop;
static struct store *store;
static struct kv *kv;
static struct kv_watch *watches[4];
static struct error err;
static int accepted, answered, over;
static int wrong; /* Check's assertions allocate, so failures are counted instead */

static void on_answer(void *arg, const struct store_answer *a)
{
	wrong += a->status != STATUS_OK && !a->message;
	answered++;
}

static void on_change(void *arg, const struct store_entry *e, enum status status)
{
	over += !e;
}

static void turns(void)
{
	for (int i = 0; i < 6; i++)
		loop_run_once(loop, false);
}

static bool took(int r)
{
	wrong += r != 0 && r != -ENOMEM;
	accepted += r == 0;
	return r == 0;
}

static void put(const char *key, bool overwrite, bool persistent)
{
	took(kv_put(kv, key, "v", 1, overwrite, persistent, on_answer, NULL, NULL, &err));
}

static void get(const char *key, int64_t timeout_ms)
{
	took(kv_get(kv, key, true, timeout_ms, on_answer, NULL, NULL, &err));
}

static void watch(int i, const char *key, int64_t since)
{
	watches[i] = NULL;
	if (took(kv_watch_new(kv, key, since, on_change, NULL, &watches[i], &err)))
		accepted--;
	else
		over++;
}

static void ask_everything(void)
{
	put("a", false, false);
	put("b/c", false, true);
	turns();
	watch(0, "", 0);
	watch(1, "b", -1);
	get("a", 60000);
	get("later", -1);
	get("never", 60000);
	turns();
	put("later", false, false);
	put("b/c", true, false);
	turns();
	took(kv_list(kv, "", on_answer, NULL, NULL, &err));
	took(kv_delete(kv, "b", on_answer, NULL, NULL, &err));
	turns();
	kv_begin(kv, 1);
	turns();
	put("d", true, false);
	watch(2, "d", -1);
	watch(3, "d", 0);
	get("e", -1);
	turns();
	kv_stop(kv, STATUS_ABORTED, "stopped");
	turns();
}

/* Waits for all answers; a timer makes the store work again. */
static void wait_for_all(void)
{
	while (answered < accepted || over < 4)
		loop_run_once(loop, true);
	ck_assert_int_eq(answered, accepted);
	ck_assert_int_eq(over, 4);
	ck_assert_int_eq(wrong, 0);
}

static void on_timer(void *arg)
{
}

static bool run(int mode, long at)
{
	struct loop_timer *timer;
	int before;

	accepted = answered = over = 0;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(store_new(loop, 1 << 20, &store), 0);
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
	/* A loop without memory for a timer runs it at once, again and again. */
	ck_assert_int_eq(loop_timer_new(loop, on_timer, NULL, &timer), 0);
	loop_timer_arm(timer, UINT32_MAX);
	which = mode;
	allocations = 0;
	fail_at = at;
	ask_everything();
	fail_at = 0;
	wait_for_all();
	kv_begin(kv, 2);
	before = answered;
	get("x", -1);
	turns();
	put("x", false, false);
	while (answered < before + 2)
		loop_run_once(loop, true);
	ck_assert_int_eq(answered, accepted);
	for (int i = 0; i < 4; i++)
		watches[i] = kv_watch_free(watches[i]);
	kv = kv_free(kv);
	store = store_free(store);
	loop_timer_free(timer);
	loop = loop_free(loop);
	return allocations >= at;
}

START_TEST(any_single_allocation_may_fail)
{
	long at = 1;

	while (run(ALONE, at))
		at++;
	ck_assert(at == 1 || at > 30);
}
END_TEST

START_TEST(all_allocations_from_one_on_may_fail)
{
	long at = 1;

	while (run(ALL, at))
		at++;
	ck_assert(at == 1 || at > 30);
}
END_TEST

START_TEST(creation_may_fail)
{
	which = ALONE;
	for (long at = 1;; at++) {
		int r;

		ck_assert_int_eq(loop_new(&loop), 0);

		store = NULL;
		kv = NULL;
		allocations = 0;
		fail_at = at;
		r = store_new(loop, 1 << 20, &store);
		if (r == 0)
			r = kv_new(loop, store, &kv);
		fail_at = 0;
		ck_assert(r == 0 || r == -ENOMEM);
		accepted = answered = 0;
		if (r == 0)
			put("a", false, false);
		while (answered < accepted)
			loop_run_once(loop, true);
		kv = kv_free(kv);
		store = store_free(store);
		loop = loop_free(loop);
		if (allocations < at)
			break;
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("kv_nomem");
	TCase *tc = tcase_create("kv_nomem");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, any_single_allocation_may_fail);
	tcase_add_test(tc, all_allocations_from_one_on_may_fail);
	tcase_add_test(tc, creation_may_fail);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
