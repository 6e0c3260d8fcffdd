/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value store's mirror, beside the history of the store that it mirrors. Whatever somebody
 * was told, by an answer or as a change, says how new all must be that is found from then on: what
 * is found of a key is its value at that revision or at a later one. The store may tell its changes
 * long after its answers, fail, and break off its watches.
 */
#include "agent/kv.h"
#include "common/key_mirror.h"

#include "tests/unit/child.h"
#include "tests/unit/store_late.h"

#include <stdio.h>
#include <sys/queue.h>

enum { KEYS = 8, LOG = 20000, STEPS = 1500 };

static int steps(void)
{
	return walk_length(STEPS, STEPS / 2, STEPS / 4);
}

static const char *const keys[KEYS] = { "a", "a/b", "a/b/c", "a/c", "b", "b/a", "c", "d/e" };

/* All that has happened in the store, told by itself, at once. */
struct change {
	int64_t revision;
	int key, attempt; /* -1: persistent */
	char value[32];	  /* "": deleted */
};

static struct loop *loop;
static struct store *store;
static struct late *late; /* the same as store, where it is late */
static struct store_watch *history;
static struct change changes[LOG];
static int n_changes;
static struct kv *kv;
static struct key_mirror_reader *reader;
static int attempt;
static unsigned seed, counter, open_calls;
static int64_t told, telling; /* the newest revision that anybody knows; that of this turn */
static int hits;
static struct error err;

static unsigned draw(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void on_history(void *arg, const struct store_entry *e, bool gap)
{
	struct change *c = &changes[n_changes];
	const char *name;
	int n;

	ck_assert(!gap);
	if (sscanf(e->key, "kv/a/%d/%n", &c->attempt, &n) != 1) {
		c->attempt = -1;
		n = (int)strlen("kv/p/");
	}
	name = e->key + n;
	c->revision = e->revision;
	c->key = -1;
	for (int i = 0; i < KEYS; i++)
		if (strcmp(keys[i], name) == 0)
			c->key = i;
	ck_assert_int_ge(c->key, 0);
	snprintf(c->value, sizeof(c->value), "%.*s", (int)e->len, e->value ? (char *)e->value : "");
	ck_assert_int_lt(++n_changes, LOG);
}

/* Whether the key had this value, which is no other's, at revision told or later. */
static bool was_so(int key, const char *value)
{
	const struct change *now = NULL;

	for (int i = 0; i < n_changes; i++) {
		const struct change *c = &changes[i];

		if (c->key != key || (c->attempt >= 0 && c->attempt != attempt))
			continue;
		if (c->revision > told && now && strcmp(now->value, value) == 0)
			return true;
		if (*c->value)
			now = c;
		else if (now && now->attempt == c->attempt)
			now = NULL;
	}
	return now && strcmp(now->value, value) == 0;
}

static const char *found(int key)
{
	static char value[KEY_MIRROR_ENTRY_MAX + 1];
	size_t len;

	if (!reader || !key_mirror_get(reader, keys[key], strlen(keys[key]), value, &len))
		return NULL;
	value[len] = '\0';
	return value;
}

static void check(void)
{
	for (int i = 0; i < KEYS; i++) {
		const char *value = found(i);

		if (!value)
			continue;
		hits++;
		ck_assert_msg(was_so(i, value), "%s is found as \"%s\" after revision %lld",
			keys[i], value, (long long)told);
	}
}

/* What was asked and has no answer: what is asked last has none where the store ends before. */
struct question {
	LIST_ENTRY(question) entry;
	char value[64]; /* that was to be written */
};
static LIST_HEAD(, question) questions = LIST_HEAD_INITIALIZER(questions);

static void forget(struct question *q)
{
	LIST_REMOVE(q, entry);
	free(q);
}

static void on_answer(void *arg, const struct store_answer *a)
{
	struct question *q = arg;
	const char *value = q->value;

	open_calls--;
	if (a->status != STATUS_CANCELLED && a->revision > told)
		told = a->revision;
	/* Whoever is told that it may not have happened may know that it has. */
	for (int i = n_changes; a->status == STATUS_UNAVAILABLE && *value && i-- > 0;)
		if (strcmp(changes[i].value, value) == 0 && changes[i].revision > told)
			told = changes[i].revision;
	forget(q);
	check();
}

/* Changes of one revision are told one after the other in a turn, and then heard of. */
static void on_change(void *arg, const struct store_entry *e, enum status status)
{
	if (e && e->revision > telling)
		telling = e->revision;
}

static void turn(void)
{
	loop_run_once(loop, false);
	if (telling > told)
		told = telling;
	check();
}

static void settle(void)
{
	for (int i = 0; i < 400 && open_calls; i++)
		turn();
}

static void open_reader(void)
{
	int fd = kv_mirror_fd(kv);

	ck_assert_int_ge(fd, 0);
	reader = key_mirror_close(reader);
	ck_assert_int_eq(key_mirror_open(fd, &reader), 0);
	close(fd);
}

static void setup(bool is_late)
{
	struct store *inner;

	ck_assert_int_eq(loop_new(&loop), 0);
	if (is_late) {
		late = late_new(loop, 32 << 20, seed);
		store = &late->base;
		inner = late->inner;
	} else {
		ck_assert_int_eq(store_memory_new(loop, 32 << 20, &store), 0);
		inner = store;
	}
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
	/* The youngest watch is told first: before the kv's own. */
	for (int i = 0; i < 50; i++)
		loop_run_once(loop, false);
	ck_assert_int_eq(store_watch_new(inner, &(struct store_span){ "kv/", "kv0" }, 0, on_history,
				 NULL, &history),
		0);
}

static void setup_memory(void)
{
	setup(false);
}

static void teardown(void)
{
	reader = key_mirror_close(reader);
	kv = kv_free(kv);
	for (int i = 0; i < 50; i++)
		loop_run_once(loop, false);
	history = store_watch_free(history);
	store = store_free(store);
	loop = loop_free(loop);
	while (!LIST_EMPTY(&questions))
		forget(LIST_FIRST(&questions));
}

/* --- asking -------------------------------------------------------------------------------------
 */

static void *asked(const char *value)
{
	struct question *q = calloc(1, sizeof(*q));

	ck_assert_ptr_nonnull(q);
	snprintf(q->value, sizeof(q->value), "%s", value);
	LIST_INSERT_HEAD(&questions, q, entry);
	open_calls++;
	return q;
}

static void put(int key, const char *value, bool overwrite, bool persistent)
{
	ck_assert_int_eq(kv_put(kv, keys[key], value, strlen(value), overwrite, persistent,
				 on_answer, asked(value), NULL, &err),
		0);
}

static void get(int key, int64_t timeout_ms)
{
	ck_assert_int_eq(
		kv_get(kv, keys[key], timeout_ms > 0, timeout_ms, on_answer, asked(""), NULL, &err),
		0);
}

static void list(void)
{
	ck_assert_int_eq(kv_list(kv, "", on_answer, asked(""), NULL, &err), 0);
}

static void delete (int key)
{
	ck_assert_int_eq(kv_delete(kv, keys[key], on_answer, asked(""), NULL, &err), 0);
}

static void begin(void)
{
	kv_begin(kv, ++attempt);
	for (int i = 0; i < KEYS; i++)
		ck_assert_ptr_null(found(i));
	if (reader)
		ck_assert(key_mirror_over(reader));
	open_reader();
}

static void random_step(void)
{
	char value[32];
	int key = (int)draw(KEYS);

	snprintf(value, sizeof(value), "%s=%u", keys[key], ++counter);
	switch (draw(12)) {
	case 0:
	case 1:
	case 2:
		put(key, value, true, draw(4) == 0);
		break;
	case 3:
		put(key, value, false, draw(4) == 0);
		break;
	case 4:
		delete (key);
		break;
	case 5:
		list();
		break;
	case 6:
		get(key, 1 + draw(2));
		break;
	default:
		get(key, 0);
	}
	if (draw(400) == 0)
		begin();
	for (unsigned n = draw(4); n; n--)
		turn();
}

static void run(bool is_late, int fail_percent, int gap_percent, unsigned number)
{
	struct kv_watch *watch;

	seed = number;
	setup(is_late);
	ck_assert_int_eq(kv_watch_new(kv, "", -1, on_change, NULL, &watch, &err), 0);
	for (int i = 0; i < steps(); i++) {
		if (i == 50)
			open_reader();
		if (i == 100 && late) {
			late->fail_percent = fail_percent;
			late->gap_percent = gap_percent;
		}
		random_step();
	}
	settle();
	kv_watch_free(watch);
	teardown();
}

START_TEST(what_is_found_is_as_new_as_what_anybody_knows)
{
	run(false, 0, 0, (unsigned)_i + 1);
	ck_assert_int_gt(hits, steps() / 2);
}
END_TEST

START_TEST(so_it_is_over_a_store_that_tells_its_changes_late)
{
	run(true, 0, 0, (unsigned)_i + 1);
	ck_assert_int_gt(hits, steps() / 50);
}
END_TEST

START_TEST(so_it_is_over_a_store_that_fails_and_loses_its_watches)
{
	run(true, 10, 3, (unsigned)_i + 1);
	ck_assert_int_gt(hits, 0);
}
END_TEST

/* --- one by one ---------------------------------------------------------------------------------
 */

static void is_found(int key, const char *value)
{
	ck_assert_ptr_nonnull(found(key));
	ck_assert_str_eq(found(key), value);
}

START_TEST(a_put_is_found_when_it_is_answered)
{
	settle();
	open_reader();
	put(0, "1", true, false);
	settle();
	is_found(0, "1");
	put(0, "2", true, false);
	put(4, "3", true, true);
	settle();
	is_found(0, "2");
	is_found(4, "3");
	/* The other keys stay, whatever is written. */
	for (int i = 0; i < 20; i++) {
		char value[32];

		snprintf(value, sizeof(value), "more %d", i);
		put(6, value, true, false);
		settle();
		is_found(0, "2");
		is_found(6, value);
	}
}
END_TEST

START_TEST(a_key_of_before_the_mirror_is_found_once_it_was_read)
{
	put(0, "1", true, false);
	put(1, "2", true, false);
	settle();
	open_reader();
	ck_assert_ptr_null(found(0));
	get(0, 0);
	settle();
	is_found(0, "1");
	/* To find it there while inserting is to read it. */
	put(1, "3", false, false);
	settle();
	is_found(1, "2");
}
END_TEST

START_TEST(what_is_deleted_is_not_found)
{
	settle();
	open_reader();
	for (int i = 0; i < KEYS; i++)
		put(i, keys[i], true, i % 2);
	settle();
	for (int i = 0; i < KEYS; i++)
		is_found(i, keys[i]);
	delete (1);
	settle();
	is_found(0, "a");
	ck_assert_ptr_null(found(1));
	ck_assert_ptr_null(found(2));
	is_found(3, "a/c");
}
END_TEST

START_TEST(a_key_may_become_persistent_and_again_not)
{
	settle();
	open_reader();
	put(0, "1", true, false);
	put(0, "2", true, true);
	settle();
	is_found(0, "2");
	put(0, "3", true, false);
	settle();
	is_found(0, "3");
}
END_TEST

START_TEST(an_attempt_finds_what_is_persistent_and_nothing_else_of_another)
{
	settle();
	open_reader();
	put(0, "1", true, false);
	put(4, "2", true, true);
	settle();
	begin();
	ck_assert_ptr_null(found(0));
	get(0, 0);
	get(4, 0);
	settle();
	ck_assert_ptr_null(found(0));
	is_found(4, "2");
}
END_TEST

START_TEST(a_value_that_is_too_long_is_not_found)
{
	char value[KEY_MIRROR_ENTRY_MAX + 1];

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	settle();
	open_reader();
	put(0, "short", true, false);
	settle();
	is_found(0, "short");
	put(0, value, true, false);
	settle();
	ck_assert_ptr_null(found(0));
	get(0, 0);
	settle();
	ck_assert_ptr_null(found(0));
}
END_TEST

static TCase *cases(void)
{
	TCase *tc = tcase_create("kv_mirror");

	tcase_set_timeout(tc, 600);
	tcase_add_loop_test(tc, what_is_found_is_as_new_as_what_anybody_knows, 0, 3);
	tcase_add_loop_test(tc, so_it_is_over_a_store_that_tells_its_changes_late, 0, 8);
	tcase_add_loop_test(tc, so_it_is_over_a_store_that_fails_and_loses_its_watches, 0, 8);
	return tc;
}

static TCase *singles(void)
{
	TCase *tc = tcase_create("single");

	tcase_add_checked_fixture(tc, setup_memory, teardown);
	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, a_put_is_found_when_it_is_answered);
	tcase_add_test(tc, a_key_of_before_the_mirror_is_found_once_it_was_read);
	tcase_add_test(tc, what_is_deleted_is_not_found);
	tcase_add_test(tc, a_key_may_become_persistent_and_again_not);
	tcase_add_test(tc, an_attempt_finds_what_is_persistent_and_nothing_else_of_another);
	tcase_add_test(tc, a_value_that_is_too_long_is_not_found);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("kv_mirror");
	SRunner *runner;
	int failed;

	suite_add_tcase(suite, cases());
	suite_add_tcase(suite, singles());
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
