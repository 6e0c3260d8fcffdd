/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store/store.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"
#include "tests/unit/store_test.h"

#include <errno.h>

static struct store *store;
static struct store_watch *watch;

static void setup(void)
{
	trace_clear();
	watch = NULL;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(store_new(loop, 1 << 20, &store), 0);
}

static void teardown(void)
{
	watch = store_watch_free(watch);
	store = store_free(store);
	loop = loop_free(loop);
}

static void put(const char *name, const char *key, const char *value, bool create)
{
	struct store_put p = { .key = key, .value = value, .len = strlen(value), .create = create };

	ck_assert_int_eq(store_put(store, &p, on_traced, tag(name), NULL), 0);
}

static void range(const char *name, const char *begin, const char *end)
{
	struct store_span span = { begin, end };

	ck_assert_int_eq(store_range(store, &span, 1, on_traced, tag(name), NULL), 0);
}

static void get(const char *name, const char *key)
{
	range(name, key, NULL);
}

static int read_key(const char *key, store_answer_fn fn, void *arg, struct store_op **ret)
{
	return store_range(store, &(struct store_span){ key, NULL }, 1, fn, arg, ret);
}

static void delete (const char *name, const char *begin, const char *end)
{
	struct store_span span = { begin, end };

	ck_assert_int_eq(store_delete(store, &span, 1, on_traced, tag(name), NULL), 0);
}

static struct store_watch *watch_new(
	const char *name, const char *begin, const char *end, int64_t since)
{
	struct store_span span = { begin, end };
	struct store_watch *w;

	ck_assert_int_eq(store_watch_new(store, &span, since, on_traced_change, tag(name), &w), 0);
	return w;
}

/* Settles, and compares all reports since the last call. */
static void told(const char *expected)
{
	settle();
	ck_assert_str_eq(trace, expected);
	trace_clear();
}

START_TEST(a_put_can_be_read)
{
	get("g", "a");
	put("p", "a", "1", false);
	get("g", "a");
	put("p", "a", "2", false);
	get("g", "a");
	ck_assert_str_eq(trace, "");
	told(" g:OK p:OK g:OK a=1 p:OK g:OK a=2");
}
END_TEST

static struct store_answer seen;
static struct store_entry seen_entry;

static void on_seen(void *arg, const struct store_answer *a)
{
	seen = *a;
	if (a->n)
		seen_entry = a->entries[0];
}

START_TEST(revisions_count_changes)
{
	put("", "a", "1", false);
	put("", "b", "1", false);
	put("", "a", "2", false);
	put("", "a", "3", true);
	ck_assert_int_eq(read_key("a", on_seen, NULL, NULL), 0);
	settle();
	ck_assert_int_eq(seen.revision, 3);
	ck_assert_int_eq(seen_entry.revision, 3);
	delete ("", "", "");
	delete ("", "", "");
	put("", "a", "1", false);
	ck_assert_int_eq(read_key("a", on_seen, NULL, NULL), 0);
	settle();
	ck_assert_int_eq(seen.revision, 5);
	ck_assert_int_eq(seen_entry.revision, 5);
}
END_TEST

START_TEST(a_key_is_created_once)
{
	put("p", "a", "1", true);
	put("q", "a", "2", true);
	get("g", "a");
	delete ("d", "a", NULL);
	put("r", "a", "3", true);
	told(" p:OK q:AlreadyExists a=1 g:OK a=1 d:OK -1 r:OK");
}
END_TEST

static void put_other(const char *key, const char *other, bool create)
{
	struct store_put p = {
		.key = key, .value = key, .len = 1, .create = create, .other = other
	};

	ck_assert_int_eq(store_put(store, &p, on_traced, tag("p"), NULL), 0);
}

START_TEST(a_key_excludes_another)
{
	watch = watch_new("w", "", "", -1);
	put_other("a", "b", true);
	put_other("b", "a", true);
	told(" w+a=a p:OK p:AlreadyExists a=a");
	put_other("b", "a", false);
	range("r", "", "");
	told(" w-a w+b=b p:OK r:OK b=b");
	put_other("b", "a", false);
	told(" w+b=b p:OK");
}
END_TEST

START_TEST(ranges_are_sorted_and_bounded)
{
	static const char *const keys[] = { "b", "a/b", "a", "a0", "a/\xff", "\xff", "a/a" };

	for (size_t i = 0; i < 7; i++)
		put("p", keys[i], "", false);
	settle();
	trace_clear();
	range("r", "a/", "a0");
	range("r", "b", "");
	range("r", "a", NULL);
	range("r", "c", "d");
	range("r", "b", "a");
	told(" r:OK a/a= a/b= a/\xff= r:OK b= \xff= r:OK a= r:OK r:OK");
}
END_TEST

START_TEST(spans_are_read_and_deleted_together)
{
	struct store_span spans[] = { { "c", NULL }, { "a", "b" }, { "x", NULL } };

	for (const char *k = "c\0a\0ab\0b\0d\0"; *k; k += strlen(k) + 1)
		put("p", k, "", false);
	settle();
	trace_clear();
	watch = watch_new("w", "", "", -1);
	ck_assert_int_eq(store_range(store, spans, 3, on_traced, tag("r"), NULL), 0);
	ck_assert_int_eq(store_delete(store, spans, 3, on_seen, NULL, NULL), 0);
	range("r", "", "");
	told(" r:OK c= a= ab= w-c w-a w-ab r:OK b= d=");
	ck_assert_int_eq(seen.deleted, 3);
	ck_assert_int_eq(seen.revision, 6);
}
END_TEST

START_TEST(requests_outside_the_limits_are_refused)
{
	static char key[STORE_KEY_MAX + 2], big[STORE_VALUE_MAX + 1];
	struct store_span span = { key, NULL }, spans[STORE_SPANS_MAX + 1] = { 0 };
	struct store_put p = { .key = key, .value = big };

	memset(key, 'k', STORE_KEY_MAX + 1);
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("p"), NULL), -EINVAL);
	ck_assert_int_eq(read_key(key, on_traced, tag("g"), NULL), -EINVAL);
	ck_assert_int_eq(store_range(store, &span, 1, on_traced, tag("r"), NULL), -EINVAL);
	ck_assert_int_eq(
		store_watch_new(store, &span, -1, on_traced_change, NULL, &watch), -EINVAL);
	ck_assert_int_eq(read_key("", on_traced, tag("g"), NULL), -EINVAL);
	for (int i = 0; i <= STORE_SPANS_MAX; i++)
		spans[i] = (struct store_span){ "a", NULL };
	ck_assert_int_eq(
		store_delete(store, spans, STORE_SPANS_MAX + 1, on_traced, NULL, NULL), -EINVAL);
	p = (struct store_put){ .key = "a", .value = big, .len = sizeof(big) };
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("p"), NULL), -EINVAL);
	p = (struct store_put){ .key = "a", .other = "a" };
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("p"), NULL), -EINVAL);
	key[STORE_KEY_MAX] = '\0';
	get("g", key);
	told(" g:OK");
}
END_TEST

START_TEST(a_full_store_refuses_and_keeps_what_it_has)
{
	static char big[900000];
	struct store_put p = { .key = "big", .value = big, .len = sizeof(big) };

	put("p", "a", "1", false);
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("big"), NULL), 0);
	told(" p:OK big:OK");
	p.key = "more";
	ck_assert_int_eq(store_put(store, &p, on_seen, NULL, NULL), 0);
	get("g", "more");
	p.other = "big";
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("swap"), NULL), 0);
	get("g", "big");
	p.other = NULL;
	ck_assert_int_eq(store_put(store, &p, on_traced, tag("over"), NULL), 0);
	told(" g:OK swap:OK g:OK over:OK");
	ck_assert_int_eq(seen.status, STATUS_RESOURCE_EXHAUSTED);
	ck_assert_int_eq(seen.revision, 2);
}
END_TEST

static void on_again(void *arg, const struct store_answer *a)
{
	trace_add(" outer");
	get("inner", "a");
	ck_assert_str_eq(trace, " outer");
}

START_TEST(a_callbacks_operation_is_answered_later)
{
	ck_assert_int_eq(read_key("a", on_again, NULL, NULL), 0);
	told(" outer inner:OK");
}
END_TEST

static struct store_op *op, *second;

static void on_cancels(void *arg, const struct store_answer *a)
{
	op = store_cancel(op);
	second = store_cancel(second);
	trace_add(" once");
}

START_TEST(a_cancelled_operation_is_not_answered)
{
	struct store_put p = { .key = "a", .value = "1", .len = 1 };

	ck_assert_int_eq(store_put(store, &p, on_traced, tag("p"), &op), 0);
	op = store_cancel(op);
	get("g", "a");
	told(" g:OK a=1");
	ck_assert_int_eq(read_key("a", on_cancels, NULL, &op), 0);
	ck_assert_int_eq(read_key("a", on_traced, tag("x"), &second), 0);
	told(" once");
	ck_assert_ptr_null(store_cancel(NULL));
}
END_TEST

static void on_free(void *arg, const struct store_answer *a)
{
	trace_add(" free");
	store = store_free(store);
}

static void on_free_change(void *arg, const struct store_entry *entry, bool gap)
{
	on_free(arg, NULL);
}

START_TEST(a_callback_may_free_the_store)
{
	ck_assert_int_eq(read_key("a", on_free, NULL, NULL), 0);
	get("x", "a");
	watch = watch_new("w", "", "", 0);
	told(" free");
	watch = store_watch_free(watch);
	ck_assert_int_eq(store_new(loop, 1 << 20, &store), 0);
	ck_assert_int_eq(store_watch_new(store, &(struct store_span){ "", "" }, 0, on_free_change,
				 NULL, &watch),
		0);
	put("p", "a", "1", false);
	put("p", "b", "1", false);
	told(" free");
	ck_assert_ptr_null(store);
}
END_TEST

START_TEST(an_end_without_callbacks)
{
	put("p", "a", "1", false);
	get("g", "a");
	watch = watch_new("w", "", "", -1);
	store = store_free(store);
	told("");
}
END_TEST

START_TEST(a_watch_reports_its_span_in_order)
{
	watch = watch_new("w", "a", "c", -1);
	put("p", "a", "1", false);
	put("p", "c", "1", false);
	put("p", "b", "1", true);
	put("p", "b", "2", true);
	delete ("d", "a", "");
	told(" w+a=1 p:OK p:OK w+b=1 p:OK p:AlreadyExists b=1 w-a w-b d:OK -3");
}
END_TEST

START_TEST(a_watch_resumes_after_a_revision)
{
	struct store_watch *from_now, *later;

	for (int i = 0; i < 6; i++)
		put("p", i & 1 ? "b" : "a", (char[]){ (char)('0' + i), 0 }, false);
	settle();
	trace_clear();
	watch = watch_new("w", "a", NULL, 1);
	from_now = watch_new("n", "", "", -1);
	later = watch_new("l", "", "", 6);
	ck_assert_str_eq(trace, "");
	told(" w+a=2 w+a=4");
	delete ("d", "a", NULL);
	told(" l-a n-a w-a d:OK -1");
	store_watch_free(from_now);
	store_watch_free(later);
}
END_TEST

START_TEST(a_watch_that_begins_too_far_back_has_a_gap)
{
	store = store_free(store);
	ck_assert_int_eq(store_new(loop, 1 << 24, &store), 0);
	for (int i = 0; i < STORE_HISTORY + 10; i++)
		put("", "a", "x", false);
	settle();
	trace_clear();
	watch = watch_new("old", "a", NULL, 9);
	told(" old!gap");
	put("p", "a", "x", false);
	told(" p:OK");
	watch = store_watch_free(watch);
	watch = watch_new("w", "b", NULL, 11);
	told("");
}
END_TEST

START_TEST(history_is_bounded_by_bytes)
{
	static char big[100000];
	struct store_put p = { .key = "a", .value = big, .len = sizeof(big) };

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(store_put(store, &p, on_seen, NULL, NULL), 0);
	settle();
	watch = watch_new("w", "b", NULL, 7);
	told(" w!gap");
	watch = store_watch_free(watch);
	watch = watch_new("w", "b", NULL, 8);
	told("");
}
END_TEST

static long changes;
static void on_count(void *arg, const struct store_entry *entry, bool gap)
{
	ck_assert(!gap);
	changes++;
}

START_TEST(an_open_watch_misses_nothing_of_many_changes)
{
	struct store_span all = { "", "" };
	int keys = under_valgrind() ? STORE_HISTORY + 100 : 5 * STORE_HISTORY;

	store = store_free(store);
	ck_assert_int_eq(store_new(loop, 1 << 26, &store), 0);
	changes = 0;
	ck_assert_int_eq(store_watch_new(store, &all, -1, on_count, NULL, &watch), 0);
	for (int i = 0; i < keys; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%d", i);
		put("", key, "", true);
	}
	settle();
	ck_assert_int_eq(changes, keys);
	ck_assert_int_eq(store_delete(store, &all, 1, on_seen, NULL, NULL), 0);
	settle();
	ck_assert_int_eq(seen.deleted, keys);
	ck_assert_int_eq(changes, 2 * keys);
}
END_TEST

static struct store_watch *others[3];

static void on_free_others(void *arg, const struct store_entry *entry, bool gap)
{
	trace_add(" freed");
	for (int i = 0; i < 3; i++)
		others[i] = store_watch_free(others[i]);
	others[0] = watch_new("new", "a", NULL, entry->revision);
}

START_TEST(a_watch_may_be_freed_while_changes_are_reported)
{
	others[0] = watch_new("0", "a", NULL, -1);
	ck_assert_int_eq(store_watch_new(store, &(struct store_span){ "a", NULL }, -1,
				 on_free_others, NULL, &others[1]),
		0);
	others[2] = watch_new("2", "a", NULL, -1);
	put("p", "a", "1", false);
	told(" 2+a=1 freed p:OK");
	put("p", "a", "2", false);
	told(" new+a=2 p:OK");
	others[0] = store_watch_free(others[0]);
}
END_TEST

START_TEST(many_keys_are_no_trouble)
{
	int n = under_valgrind() ? 2000 : 100000;

	store = store_free(store);
	ck_assert_int_eq(store_new(loop, 1 << 28, &store), 0);
	for (int i = 0; i < n; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%d", (int)((unsigned)i * 7919u % (unsigned)n));
		put("", key, key, true);
	}
	settle();
	ck_assert_int_eq(
		store_range(store, &(struct store_span){ "", "" }, 1, on_seen, NULL, NULL), 0);
	settle();
	ck_assert_uint_eq(seen.n, (size_t)n);
	ck_assert_int_eq(seen.revision, n);
}
END_TEST

static TCase *cases(void)
{
	TCase *tc = tcase_create("store");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_put_can_be_read);
	tcase_add_test(tc, revisions_count_changes);
	tcase_add_test(tc, a_key_is_created_once);
	tcase_add_test(tc, a_key_excludes_another);
	tcase_add_test(tc, ranges_are_sorted_and_bounded);
	tcase_add_test(tc, spans_are_read_and_deleted_together);
	tcase_add_test(tc, requests_outside_the_limits_are_refused);
	tcase_add_test(tc, a_full_store_refuses_and_keeps_what_it_has);
	tcase_add_test(tc, a_callbacks_operation_is_answered_later);
	tcase_add_test(tc, a_cancelled_operation_is_not_answered);
	tcase_add_test(tc, a_callback_may_free_the_store);
	tcase_add_test(tc, an_end_without_callbacks);
	tcase_add_test(tc, a_watch_reports_its_span_in_order);
	tcase_add_test(tc, a_watch_resumes_after_a_revision);
	tcase_add_test(tc, a_watch_that_begins_too_far_back_has_a_gap);
	tcase_add_test(tc, history_is_bounded_by_bytes);
	tcase_add_test(tc, an_open_watch_misses_nothing_of_many_changes);
	tcase_add_test(tc, a_watch_may_be_freed_while_changes_are_reported);
	tcase_add_test(tc, many_keys_are_no_trouble);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("store");

	suite_add_tcase(suite, cases());
	return suite_run(suite);
}
