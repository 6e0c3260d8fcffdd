/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store/kv.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <stdio.h>

static struct loop *loop;
static struct store *store;
static struct kv *kv;
static struct kv_watch *watch;
static struct error err;

/* The answers so far, by the caller's letter. */
static char notes[128][1024];

static void *tag(char c)
{
	return &notes[(int)c];
}

static void note(char *to, const char *text)
{
	strncat(to, text, sizeof(notes[0]) - strlen(to) - 1);
}

static void on_note(void *arg, const struct store_answer *a)
{
	char text[256];

	note(arg, status_name(a->status));
	for (size_t i = 0; i < a->n; i++) {
		snprintf(text, sizeof(text), " %s=%.*s", a->entries[i].key, (int)a->entries[i].len,
			(const char *)a->entries[i].value);
		note(arg, text);
	}
	if (a->deleted) {
		snprintf(text, sizeof(text), " %lld", (long long)a->deleted);
		note(arg, text);
	}
	note(arg, ".");
}

static void on_change(void *arg, const struct store_entry *e, enum status status)
{
	char text[256];

	if (!e)
		snprintf(text, sizeof(text), "!%s", status_name(status));
	else if (e->value)
		snprintf(text, sizeof(text), "+%s=%.*s", e->key, (int)e->len,
			(const char *)e->value);
	else
		snprintf(text, sizeof(text), "-%s", e->key);
	note(arg, text);
}

static void settle(void)
{
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, false);
}

static void is(char c, const char *expected)
{
	settle();
	ck_assert_msg(strcmp(notes[(int)c], expected) == 0, "%c: got \"%s\", expected \"%s\"", c,
		notes[(int)c], expected);
	notes[(int)c][0] = '\0';
}

static void setup(void)
{
	memset(notes, 0, sizeof(notes));
	watch = NULL;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(store_new(loop, 32 << 20, &store), 0);
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
}

static void teardown(void)
{
	settle();
	watch = kv_watch_free(watch);
	kv = kv_free(kv);
	settle();
	store = store_free(store);
	loop = loop_free(loop);
}

enum { INSERT = 0, OVERWRITE = 1, PERSISTENT = 2 };

static void put(char who, const char *key, const char *value, int flags)
{
	ck_assert_int_eq(kv_put(kv, key, value, strlen(value), flags & OVERWRITE,
				 flags & PERSISTENT, on_note, tag(who), NULL, &err),
		0);
}

static struct kv_call *get_timed(char who, const char *key, int64_t timeout_ms)
{
	struct kv_call *call;

	ck_assert_int_eq(kv_get(kv, key, true, timeout_ms, on_note, tag(who), &call, &err), 0);
	return call;
}

static struct kv_call *get(char who, const char *key)
{
	return get_timed(who, key, -1);
}

static void try(char who, const char *key)
{
	ck_assert_int_eq(kv_get(kv, key, false, -1, on_note, tag(who), NULL, &err), 0);
}

static void list(char who, const char *key)
{
	ck_assert_int_eq(kv_list(kv, key, on_note, tag(who), NULL, &err), 0);
}

static void delete (char who, const char *key)
{
	ck_assert_int_eq(kv_delete(kv, key, on_note, tag(who), NULL, &err), 0);
}

static struct kv_watch *watch_new(char who, const char *key, int64_t since)
{
	struct kv_watch *w;

	ck_assert_int_eq(kv_watch_new(kv, key, since, on_change, tag(who), &w, &err), 0);
	return w;
}

START_TEST(keys_are_normalised)
{
	static const char *const pairs[][2] = { { "//a//b/", "a/b" }, { "a", "a" }, { "", "" },
		{ "///", "" }, { "/path/to/k", "path/to/k" }, { "a/b//", "a/b" }, { " /", " " } };

	for (size_t i = 0; i < 7; i++) {
		_cleanup_free_ char *key = kv_normalise(pairs[i][0]);

		ck_assert_str_eq(key, pairs[i][1]);
	}
	put('p', "//path//to///k", "1", INSERT);
	try('g', "path/to/k/");
	is('p', "OK.");
	is('g', "OK path/to/k=1.");
}
END_TEST

START_TEST(an_insert_happens_once)
{
	put('p', "a", "1", INSERT);
	put('q', "/a", "2", INSERT);
	try('g', "a");
	put('r', "a", "3", OVERWRITE);
	try('h', "a");
	is('p', "OK.");
	is('q', "AlreadyExists a=1.");
	is('g', "OK a=1.");
	is('r', "OK.");
	is('h', "OK a=3.");
}
END_TEST

START_TEST(a_try_does_not_wait)
{
	try('g', "a");
	is('g', "NotFound.");
}
END_TEST

START_TEST(no_call_is_answered_from_inside)
{
	put('p', "a", "1", INSERT);
	get('g', "a");
	ck_assert_str_eq(tag('p'), "");
	ck_assert_str_eq(tag('g'), "");
	is('g', "OK a=1.");
}
END_TEST

START_TEST(all_that_wait_get_the_insert)
{
	for (char c = 'a'; c <= 'j'; c++)
		get(c, "k");
	get('x', "other");
	is('a', "");
	put('p', "k", "v", INSERT);
	delete ('D', "k");
	for (char c = 'a'; c <= 'j'; c++)
		is(c, "OK k=v.");
	is('x', "");
	is('D', "OK 1.");
	try('g', "k");
	is('g', "NotFound.");
}
END_TEST

START_TEST(a_wait_ends_only_with_a_later_write)
{
	put('p', "k", "1", INSERT);
	delete ('d', "k");
	get('g', "k");
	is('g', "");
	put('p', "k", "2", INSERT);
	is('g', "OK k=2.");
}
END_TEST

START_TEST(a_wait_outlives_deletions)
{
	get('g', "a/k");
	settle();
	delete ('d', "a");
	delete ('d', "a/k");
	is('g', "");
	put('p', "a/k", "1", PERSISTENT);
	is('g', "OK a/k=1.");
}
END_TEST

static void wait_for(char c)
{
	while (!notes[(int)c][0])
		loop_run_once(loop, true);
}

START_TEST(a_wait_has_a_time_limit)
{
	uint64_t begin = loop_now_ms();

	get_timed('g', "a", 30);
	get_timed('h', "b", 10);
	get('x', "a");
	get_timed('z', "a", 0);
	is('z', "DeadlineExceeded.");
	wait_for('g');
	ck_assert_uint_ge(loop_now_ms() - begin, 30);
	is('h', "DeadlineExceeded.");
	is('g', "DeadlineExceeded.");
	put('p', "a", "1", INSERT);
	is('x', "OK a=1.");
	get_timed('z', "a", 0);
	is('z', "OK a=1.");
	is('g', "");
}
END_TEST

START_TEST(a_cancelled_wait_is_not_answered)
{
	struct kv_call *g = get('g', "a"), *h = get_timed('h', "a", 60000);

	settle();
	kv_cancel(g);
	put('p', "a", "1", INSERT);
	is('h', "OK a=1.");
	is('g', "");
	h = get('h', "b");
	kv_cancel(h);
	is('h', "");
	ck_assert_ptr_null(kv_cancel(NULL));
}
END_TEST

START_TEST(a_list_has_what_is_below)
{
	put('p', "dir/b", "1", INSERT);
	put('p', "dir/a/x", "2", PERSISTENT);
	put('p', "dir", "3", INSERT);
	put('p', "dir_key", "4", INSERT);
	put('p', "dir0", "5", PERSISTENT);
	put('p', "wrong/dir/x", "6", INSERT);
	put('p', "dir/c", "7", PERSISTENT);
	list('l', "/dir/");
	list('m', "none");
	list('n', "");
	is('l', "OK dir/a/x=2 dir/b=1 dir/c=7.");
	is('m', "OK.");
	is('n', "OK dir=3 dir/a/x=2 dir/b=1 dir/c=7 dir0=5 dir_key=4 wrong/dir/x=6.");
}
END_TEST

static size_t listed;
static void on_listed(void *arg, const struct store_answer *a)
{
	ck_assert_int_eq(a->status, STATUS_OK);
	listed = a->n;
	for (size_t i = 0; i < a->n; i++)
		ck_assert_uint_eq(a->entries[i].len, STORE_VALUE_MAX);
}

START_TEST(big_values_can_be_listed)
{
	static char big[STORE_VALUE_MAX];
	char key[] = "d/0";

	for (; key[2] <= '9'; key[2]++)
		ck_assert_int_eq(kv_put(kv, key, big, sizeof(big), false, false, on_note, tag('p'),
					 NULL, &err),
			0);
	ck_assert_int_eq(kv_list(kv, "d", on_listed, NULL, NULL, &err), 0);
	is('p', "OK.OK.OK.OK.OK.OK.OK.OK.OK.OK.");
	ck_assert_uint_eq(listed, 10);
}
END_TEST

START_TEST(a_delete_takes_the_subtree_and_nothing_beside_it)
{
	put('p', "dir", "1", INSERT);
	put('p', "dir/x", "1", PERSISTENT);
	put('p', "dir/x/y", "1", INSERT);
	put('p', "dir_key", "1", INSERT);
	put('p', "dir0", "1", PERSISTENT);
	put('p', "di", "1", INSERT);
	delete ('d', "dir/");
	delete ('e', "dir");
	list('l', "/");
	is('d', "OK 3.");
	is('e', "OK.");
	is('l', "OK di=1 dir0=1 dir_key=1.");
}
END_TEST

START_TEST(a_persistent_key_and_another_exclude_each_other)
{
	put('p', "a", "1", PERSISTENT);
	put('q', "a", "2", INSERT);
	put('r', "b", "1", INSERT);
	put('s', "b", "2", PERSISTENT);
	is('p', "OK.");
	is('q', "AlreadyExists a=1.");
	is('r', "OK.");
	is('s', "AlreadyExists b=1.");
	watch = watch_new('w', "a", -1);
	put('p', "a", "3", OVERWRITE);
	list('l', "");
	is('l', "OK a=3 b=1.");
	is('w', "-a+a=3");
	put('p', "b", "3", OVERWRITE | PERSISTENT);
	settle();
	kv_begin(kv, 1);
	list('m', "");
	is('m', "OK b=3.");
	is('w', "!Cancelled");
}
END_TEST

START_TEST(a_new_attempt_sees_persistent_keys_only)
{
	kv_begin(kv, 3);
	put('p', "a", "1", INSERT);
	put('p', "b", "2", PERSISTENT);
	get('g', "c");
	is('g', "");
	put('q', "late", "1", INSERT);
	kv_begin(kv, 4);
	is('g', "Cancelled.");
	is('p', "OK.OK.");
	list('l', "");
	is('l', "OK b=2.");
	try('t', "a");
	is('t', "NotFound.");
	put('p', "a", "1", INSERT);
	is('p', "OK.");
	is('q', "Cancelled.");
}
END_TEST

static struct store_answer left;
static void on_left(void *arg, const struct store_answer *a)
{
	left = *a;
	for (size_t i = 0; i < a->n; i++)
		ck_assert_str_eq(a->entries[i].key, "kv/p/b");
}

START_TEST(nothing_is_left_of_old_attempts)
{
	struct store_span all = { "", "" };

	for (int i = 1; i < 12; i++) {
		kv_begin(kv, i);
		put('p', "a", "1", INSERT);
		put('p', "b", "1", PERSISTENT);
		if (i & 1)
			settle();
	}
	settle();
	kv_begin(kv, 20);
	settle();
	ck_assert_int_eq(store_range(store, &all, 1, on_left, NULL, NULL), 0);
	settle();
	ck_assert_uint_eq(left.n, 1);
}
END_TEST

static void on_message(void *arg, const struct store_answer *a)
{
	note(arg, a->message);
}

START_TEST(a_stop_ends_what_waits)
{
	struct kv_watch *w = watch_new('w', "", -1), *v;

	get('g', "a");
	settle();
	ck_assert_int_eq(kv_get(kv, "a", true, -1, on_message, tag('m'), NULL, &err), 0);
	kv_stop(kv, STATUS_ABORTED, "worker:3 failed");
	ck_assert_str_eq(tag('g'), "");
	ck_assert_str_eq(tag('w'), "");
	is('g', "Aborted.");
	is('m', "worker:3 failed");
	is('w', "!Aborted");
	put('p', "b", "1", INSERT);
	get('h', "a");
	get('i', "b");
	v = watch_new('v', "b", -1);
	is('h', "Aborted.");
	is('i', "OK b=1.");
	is('v', "!Aborted");
	kv_watch_free(v);
	kv_begin(kv, 1);
	get('g', "a");
	is('g', "");
	put('p', "a", "1", INSERT);
	is('g', "OK a=1.");
	is('w', "");
	kv_watch_free(w);
}
END_TEST

static void on_waits(void *arg)
{
	(*(int *)arg)++;
}

START_TEST(a_release_ends_what_waits_and_nothing_else)
{
	struct kv_watch *w = watch_new('w', "b", -1);
	int waits = 0;

	kv_on_wait(kv, on_waits, &waits);
	get('g', "a");
	is('g', "");
	ck_assert_int_eq(waits, 1);
	put('p', "b", "1", INSERT);
	get('h', "b"); /* it has its answer, and no longer waits */
	kv_release(kv, STATUS_UNAVAILABLE, "worker:3 is lost");
	ck_assert_str_eq(tag('g'), "");
	is('g', "Unavailable.");
	is('h', "OK b=1.");
	get('i', "a");
	is('i', "");
	put('p', "a", "1", INSERT);
	is('i', "OK a=1.");
	kv_watch_free(w);
}
END_TEST

START_TEST(bad_keys_and_values_are_refused)
{
	static char key[KV_KEY_MAX + 2], big[STORE_VALUE_MAX + 1];

	memset(key, 'k', KV_KEY_MAX + 1);
	ck_assert_int_eq(kv_get(kv, key, true, -1, on_note, tag('g'), NULL, &err), -EINVAL);
	ck_assert_str_eq(err.text, "key: it has 1025 bytes, expected at most 1024");
	ck_assert_int_eq(
		kv_put(kv, "//", "", 0, false, false, on_note, tag('p'), NULL, &err), -EINVAL);
	ck_assert_str_eq(err.text, "key: expected at least one character besides \"/\"");
	ck_assert_int_eq(kv_delete(kv, "", on_note, tag('d'), NULL, &err), -EINVAL);
	ck_assert_int_eq(kv_list(kv, key, on_note, tag('l'), NULL, &err), -EINVAL);
	ck_assert_int_eq(kv_watch_new(kv, key, -1, on_change, NULL, &watch, &err), -EINVAL);
	ck_assert_int_eq(kv_put(kv, "a", big, sizeof(big), false, false, on_note, NULL, NULL, &err),
		-EINVAL);
	ck_assert_str_eq(err.text, "value: it has 1048577 bytes, expected at most 1048576");
	key[KV_KEY_MAX] = '\0';
	kv_begin(kv, INT32_MAX);
	ck_assert_int_eq(
		kv_put(kv, key, big, STORE_VALUE_MAX, false, true, on_note, tag('p'), NULL, &err),
		0);
	delete ('d', key);
	is('p', "OK.");
	is('d', "OK 1.");
}
END_TEST

START_TEST(a_watch_reports_its_key_and_all_below)
{
	struct kv_watch *all = watch_new('a', "", -1), *key = watch_new('k', "dir/x", -1);

	watch = watch_new('w', "dir", -1);
	put('p', "dir/x", "1", INSERT);
	put('p', "dir", "2", PERSISTENT);
	put('p', "dir_key", "3", INSERT);
	put('p', "dir/x/y", "4", INSERT);
	put('p', "dir/x", "5", INSERT);
	delete ('d', "dir/x");
	is('w', "+dir/x=1+dir=2+dir/x/y=4-dir/x-dir/x/y");
	is('k', "+dir/x=1+dir/x/y=4-dir/x-dir/x/y");
	is('a', "+dir/x=1+dir=2+dir_key=3+dir/x/y=4-dir/x-dir/x/y");
	kv_watch_free(all);
	kv_watch_free(key);
}
END_TEST

START_TEST(a_watch_does_not_report_earlier_changes)
{
	put('p', "a", "1", INSERT);
	while (!notes['p'][0])
		loop_run_once(loop, false);
	watch = watch_new('w', "a", -1);
	put('p', "a", "2", OVERWRITE);
	is('w', "+a=2");
}
END_TEST

static int64_t revision;
static void on_revision(void *arg, const struct store_answer *a)
{
	revision = a->revision;
}

START_TEST(a_watch_resumes)
{
	struct kv_watch *w[4];

	put('p', "a", "1", INSERT);
	ck_assert_int_eq(kv_list(kv, "", on_revision, NULL, NULL, &err), 0);
	settle();
	put('p', "a", "2", OVERWRITE);
	put('p', "b", "2", INSERT);
	put('p', "a", "3", OVERWRITE);
	settle();
	w[0] = watch_new('0', "a", 0);
	w[1] = watch_new('1', "a", revision);
	w[2] = watch_new('2', "", revision + 2);
	w[3] = watch_new('3', "a", revision + 3);
	put('p', "a", "4", OVERWRITE);
	is('0', "+a=1+a=2+a=3+a=4");
	is('1', "+a=2+a=3+a=4");
	is('2', "+a=3+a=4");
	is('3', "+a=4");
	for (int i = 5; i < 10; i++) {
		put('p', "a", (char[]){ (char)('0' + i), 0 }, OVERWRITE);
		settle();
	}
	for (int i = 0; i < 4; i++) {
		is((char)('0' + i), "+a=5+a=6+a=7+a=8+a=9");
		kv_watch_free(w[i]);
	}
}
END_TEST

START_TEST(a_watch_from_too_long_ago_is_out_of_range)
{
	static char big[STORE_VALUE_MAX];

	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(kv_put(kv, "a", big, sizeof(big), true, false, on_note, tag('p'),
					 NULL, &err),
			0);
	settle();
	watch = watch_new('w', "a", 3);
	is('w', "!OutOfRange");
	put('p', "a", "2", OVERWRITE);
	is('w', "");
}
END_TEST

static struct kv_call *victim;
static struct kv_watch *victims[2];

static void on_cancels(void *arg, const struct store_answer *a)
{
	victim = kv_cancel(victim);
	get('n', "k");
	for (int i = 0; i < 2; i++)
		victims[i] = kv_watch_free(victims[i]);
	note(arg, "done.");
}

START_TEST(a_callback_may_cancel_other_calls)
{
	victims[0] = watch_new('v', "k", -1);
	ck_assert_int_eq(kv_get(kv, "k", true, -1, on_cancels, tag('g'), NULL, &err), 0);
	victim = get('x', "k");
	get('y', "k");
	victims[1] = watch_new('v', "k", -1);
	settle();
	put('p', "k", "1", INSERT);
	is('g', "done.");
	is('x', "");
	is('y', "OK k=1.");
	is('n', "OK k=1.");
	is('v', "+k=1+k=1");
	put('p', "k", "2", OVERWRITE);
	is('v', "");
}
END_TEST

static void on_free(void *arg, const struct store_answer *a)
{
	note(arg, "freed.");
	kv = kv_free(kv);
}

static void on_free_change(void *arg, const struct store_entry *e, enum status status)
{
	on_free(arg, NULL);
}

START_TEST(a_callback_may_free_the_kv)
{
	ck_assert_int_eq(kv_get(kv, "k", true, -1, on_free, tag('g'), NULL, &err), 0);
	get('x', "k");
	settle();
	watch = watch_new('w', "k", 0);
	put('p', "k", "1", INSERT);
	settle();
	is('g', "freed.");
	is('x', "");
	watch = kv_watch_free(watch);
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
	ck_assert_int_eq(kv_watch_new(kv, "", -1, on_free_change, tag('w'), &watch, &err), 0);
	notes['w'][0] = '\0';
	get('x', "k2");
	settle();
	put('p', "k2", "1", OVERWRITE);
	is('w', "freed.");
	is('x', "");
	watch = kv_watch_free(watch);
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
	ck_assert_int_eq(kv_get(kv, "z", true, -1, on_free, tag('g'), NULL, &err), 0);
	get('x', "z");
	kv_stop(kv, STATUS_CANCELLED, "over");
	is('g', "freed.");
	is('x', "");
}
END_TEST

START_TEST(a_write_ends_its_own_of_thousands_of_waits)
{
	int n = under_valgrind() ? 200 : 4096;
	char key[32];

	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "wait/%d", i);
		ck_assert_int_eq(kv_get(kv, key, true, i % 3 ? -1 : 600000, on_note,
					 tag(i == n - 1 ? 'z' : 'y'), NULL, &err),
			0);
	}
	for (int i = 0; i < 1000; i++)
		loop_run_once(loop, false);
	put('p', "wait/0x", "1", INSERT);
	put('p', key, "1", INSERT);
	settle();
	ck_assert_ptr_nonnull(strstr(tag('z'), "=1."));
	ck_assert_str_eq(tag('y'), "");
	kv_stop(kv, STATUS_CANCELLED, "over");
	settle();
	ck_assert_ptr_nonnull(strstr(tag('y'), "Cancelled.Cancelled."));
}
END_TEST

static TCase *cases(void)
{
	TCase *tc = tcase_create("kv");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, keys_are_normalised);
	tcase_add_test(tc, an_insert_happens_once);
	tcase_add_test(tc, a_try_does_not_wait);
	tcase_add_test(tc, no_call_is_answered_from_inside);
	tcase_add_test(tc, all_that_wait_get_the_insert);
	tcase_add_test(tc, a_wait_ends_only_with_a_later_write);
	tcase_add_test(tc, a_wait_outlives_deletions);
	tcase_add_test(tc, a_wait_has_a_time_limit);
	tcase_add_test(tc, a_cancelled_wait_is_not_answered);
	tcase_add_test(tc, a_list_has_what_is_below);
	tcase_add_test(tc, big_values_can_be_listed);
	tcase_add_test(tc, a_delete_takes_the_subtree_and_nothing_beside_it);
	tcase_add_test(tc, a_persistent_key_and_another_exclude_each_other);
	tcase_add_test(tc, a_new_attempt_sees_persistent_keys_only);
	tcase_add_test(tc, nothing_is_left_of_old_attempts);
	tcase_add_test(tc, a_stop_ends_what_waits);
	tcase_add_test(tc, a_release_ends_what_waits_and_nothing_else);
	tcase_add_test(tc, bad_keys_and_values_are_refused);
	tcase_add_test(tc, a_watch_reports_its_key_and_all_below);
	tcase_add_test(tc, a_watch_does_not_report_earlier_changes);
	tcase_add_test(tc, a_watch_resumes);
	tcase_add_test(tc, a_watch_from_too_long_ago_is_out_of_range);
	tcase_add_test(tc, a_callback_may_cancel_other_calls);
	tcase_add_test(tc, a_callback_may_free_the_kv);
	tcase_add_test(tc, a_write_ends_its_own_of_thousands_of_waits);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("kv");

	suite_add_tcase(suite, cases());
	return suite_run(suite);
}
