/* SPDX-License-Identifier: Apache-2.0 */
/* Makes random calls to the key-value store and to a model of it without callbacks, which does each
 * call at once and predicts its answer. */
#include "agent/store/kv.h"

#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/run.h"

#include <stdio.h>

enum { KEYS = 10, LOG = 20000, CALLS = 64, WATCHES = 6, TEXT = 1024 };

static const char *const keys[KEYS] = {
	/* sorted */
	"a", "a/b", "a/b/c", "a/c", "a0", "ab", "b", "b/a", "c", "d/e/f"
};

struct value {
	bool there, persistent;
	char text[48];
};

struct change {
	int64_t revision;
	int key, attempt;
	bool persistent, deleted;
	char text[48];
};

struct call {
	struct kv_call *call;
	bool used, wait, settled, ended; /* settled: expected is known */
	int key;
	char expected[TEXT];
};

struct watch {
	struct kv_watch *watch;
	const char *key;
	int next; /* place in the log */
	int64_t since;
	enum status over; /* expected */
	bool ended;
};

static unsigned seed;
static struct loop *loop;
static struct store *store;
static struct kv *kv;
static struct value model[KEYS];
static struct change changes[LOG];
static int n_changes, attempt, counter;
static int64_t revision;
static bool stopped;
static struct call calls[CALLS];
static struct watch watches[WATCHES];

static unsigned draw(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void change(int key, bool persistent, bool deleted)
{
	struct change *c = &changes[n_changes++];

	ck_assert_int_lt(n_changes, LOG);
	*c = (struct change){ revision, key, attempt, persistent, deleted, "" };
	memcpy(c->text, model[key].text, sizeof(c->text));
}

/* Whether key is below (or, where itself is set, is) dir. */
static bool below(const char *key, const char *dir, bool itself)
{
	size_t n = strlen(dir);

	if (n == 0)
		return true;
	return strncmp(key, dir, n) == 0 && (key[n] == '/' || (itself && !key[n]));
}

static void describe(char *text, const char *key, const char *value)
{
	size_t n = strlen(text);

	snprintf(text + n, TEXT - n, " %s=%s", key, value);
}

/* A value names its write: "key:attempt:p:number". */
static void check_entry(const struct store_entry *e)
{
	char value[64], text[64];

	snprintf(value, sizeof(value), "%.*s", (int)e->len, (const char *)e->value);
	snprintf(text, sizeof(text), "%s:%d:e:", e->key, attempt);
	if (strncmp(value, text, strlen(text)) == 0)
		return;
	snprintf(text, sizeof(text), "%s:", e->key);
	ck_assert_msg(strncmp(value, text, strlen(text)) == 0 && strstr(value, ":p:"),
		"attempt %d sees %s in %s", attempt, value, e->key);
}

static void on_answer(void *arg, const struct store_answer *a)
{
	struct call *c = arg;
	char got[TEXT];

	ck_assert(c->used);
	c->used = false;
	snprintf(got, sizeof(got), "%s", status_name(a->status));
	for (size_t i = 0; i < a->n; i++) {
		char value[64];

		snprintf(value, sizeof(value), "%.*s", (int)a->entries[i].len,
			(const char *)a->entries[i].value);
		describe(got, a->entries[i].key, value);
		check_entry(&a->entries[i]);
	}
	if (a->deleted)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), " %lld",
			(long long)a->deleted);
	ck_assert_msg(c->settled && strcmp(got, c->expected) == 0,
		"seed %u: got \"%s\", expected \"%s\"", seed, got,
		c->settled ? c->expected : "nothing");
}

static bool concerns(const struct watch *w, const struct change *c)
{
	return c->revision > w->since && below(keys[c->key], w->key, true) &&
	       (c->persistent || c->attempt == attempt);
}

static void on_change(void *arg, const struct store_entry *e, enum status status)
{
	struct watch *w = arg;
	const struct change *c;

	ck_assert(!w->ended);
	if (e && e->value)
		check_entry(e);
	if (!e) {
		w->ended = true;
		ck_assert(status == w->over);
		return;
	}
	while (w->next < n_changes && !concerns(w, &changes[w->next]))
		w->next++;
	ck_assert_int_lt(w->next, n_changes);
	c = &changes[w->next++];
	ck_assert_str_eq(e->key, keys[c->key]);
	ck_assert_int_eq(e->revision, c->revision);
	ck_assert_int_eq(!e->value, c->deleted);
	ck_assert(!e->value || (strlen(c->text) == e->len && !memcmp(c->text, e->value, e->len)));
}

static struct call *call_new(void)
{
	for (int i = 0; i < CALLS; i++) {
		if (calls[i].used)
			continue;
		memset(&calls[i], 0, sizeof(calls[i]));
		calls[i].used = calls[i].settled = true;
		snprintf(calls[i].expected, TEXT, "OK");
		return &calls[i];
	}
	return NULL;
}

static void model_put(struct call *c, int k, bool overwrite, bool persistent, const char *value)
{
	struct value *v = &model[k];

	if (v->there && !overwrite) {
		snprintf(c->expected, TEXT, "AlreadyExists");
		describe(c->expected, keys[k], v->text);
		return;
	}
	revision++;
	if (v->there && v->persistent != persistent)
		change(k, v->persistent, true);
	*v = (struct value){ .there = true, .persistent = persistent };
	snprintf(v->text, sizeof(v->text), "%s", value);
	change(k, persistent, false);
	for (int i = 0; i < CALLS; i++) {
		if (!calls[i].used || calls[i].settled || calls[i].key != k)
			continue;
		calls[i].settled = true;
		snprintf(calls[i].expected, TEXT, "OK");
		describe(calls[i].expected, keys[k], value);
	}
}

static void do_put(struct call *c)
{
	int k = (int)draw(KEYS);
	bool overwrite = draw(2), persistent = draw(3) == 0;
	struct error err;
	char value[48];

	snprintf(value, sizeof(value), "%s:%d:%c:%d", keys[k], attempt, persistent ? 'p' : 'e',
		counter++);
	ck_assert_int_eq(kv_put(kv, keys[k], value, strlen(value), overwrite, persistent, on_answer,
				 c, &c->call, &err),
		0);
	model_put(c, k, overwrite, persistent, value);
}

static void do_get(struct call *c, bool wait)
{
	int k = (int)draw(KEYS);
	struct error err;

	c->key = k;
	c->wait = wait;
	ck_assert_int_eq(kv_get(kv, keys[k], wait, -1, on_answer, c, &c->call, &err), 0);
	if (model[k].there)
		describe(c->expected, keys[k], model[k].text);
	else if (wait && !stopped)
		c->settled = false;
	else
		snprintf(c->expected, TEXT, "%s", wait ? "Aborted" : "NotFound");
}

static void do_list(struct call *c)
{
	const char *dir = draw(3) ? keys[draw(KEYS)] : "";
	struct error err;

	ck_assert_int_eq(kv_list(kv, dir, on_answer, c, &c->call, &err), 0);
	for (int i = 0; i < KEYS; i++)
		if (model[i].there && below(keys[i], dir, false))
			describe(c->expected, keys[i], model[i].text);
}

static int model_delete(const char *dir, bool itself, bool persistent, bool first)
{
	int n = 0;

	for (int i = 0; i < KEYS; i++) {
		if (!model[i].there || model[i].persistent != persistent ||
			(itself ? strcmp(keys[i], dir) != 0 : !below(keys[i], dir, false)))
			continue;
		revision += first && !n;
		change(i, persistent, true);
		model[i].there = false;
		n++;
	}
	return n;
}

static void do_delete(struct call *c)
{
	const char *dir = keys[draw(KEYS)];
	struct error err;
	int n;

	ck_assert_int_eq(kv_delete(kv, dir, on_answer, c, &c->call, &err), 0);
	n = model_delete(dir, true, false, true);
	n += model_delete(dir, true, true, !n);
	n += model_delete(dir, false, false, !n);
	n += model_delete(dir, false, true, !n);
	if (n)
		snprintf(c->expected, TEXT, "OK %d", n);
}

static void end_all(const char *status, enum status over, bool waits_only)
{
	for (int i = 0; i < CALLS; i++) {
		if (!calls[i].used || calls[i].ended || (waits_only && !calls[i].wait))
			continue;
		calls[i].settled = true;
		snprintf(calls[i].expected, TEXT, "%s", status);
		calls[i].ended = true;
	}
	for (int i = 0; i < WATCHES; i++)
		if (watches[i].over == STATUS_OK)
			watches[i].over = over;
}

static void do_begin(void)
{
	kv_begin(kv, ++attempt);
	end_all("Cancelled", STATUS_CANCELLED, false);
	stopped = false;
	/* Deleted with an old attempt: no watch of this attempt reports it. */
	attempt--;
	model_delete("", false, false, true);
	attempt++;
}

static void do_stop(void)
{
	kv_stop(kv, STATUS_ABORTED, "stopped");
	end_all("Aborted", STATUS_ABORTED, true);
	stopped = true;
}

static void do_watch(void)
{
	struct watch *w = &watches[draw(WATCHES)];
	struct error err;

	w->watch = kv_watch_free(w->watch);
	w->ended = false;
	w->over = stopped ? STATUS_ABORTED : STATUS_OK;
	w->key = draw(2) ? keys[draw(KEYS)] : "";
	w->since = revision - (int64_t)draw(60);
	if (w->since < 0)
		w->since = 0;
	for (w->next = n_changes; w->next > 0; w->next--)
		if (changes[w->next - 1].revision <= w->since)
			break;
	ck_assert_int_eq(kv_watch_new(kv, w->key, w->since, on_change, w, &w->watch, &err), 0);
}

static void do_cancel(void)
{
	struct call *c = &calls[draw(CALLS)];

	if (c->used && c->wait) {
		kv_cancel(c->call);
		c->used = false;
	}
}

static void step(void)
{
	unsigned what = draw(100);
	struct call *c = call_new();

	if (!c) {
		do_begin();
		return;
	}
	c->used = what < 80;
	if (what < 30)
		do_put(c);
	else if (what < 45)
		do_get(c, false);
	else if (what < 60)
		do_get(c, true);
	else if (what < 68)
		do_list(c);
	else if (what < 80)
		do_delete(c);
	else if (what < 90)
		do_watch();
	else if (what < 96)
		do_cancel();
	else if (what < 97)
		do_begin();
	else if (what < 98 && !stopped)
		do_stop();
	for (unsigned turns = draw(4); turns > 0; turns--)
		loop_run_once(loop, false);
}

static bool all_answered(void)
{
	for (int i = 0; i < CALLS; i++)
		if (calls[i].used && !(calls[i].wait && !model[calls[i].key].there))
			return false;
	return true;
}

static void finish(void)
{
	while (!all_answered())
		loop_run_once(loop, true);
	for (int i = 0; i < 50; i++)
		loop_run_once(loop, false);
	for (int i = 0; i < WATCHES; i++) {
		struct watch *w = &watches[i];

		if (!w->watch || w->over != STATUS_OK)
			continue;
		while (w->next < n_changes && !concerns(w, &changes[w->next]))
			w->next++;
		ck_assert_int_eq(w->next, n_changes);
	}
}

static void run(unsigned number, int steps)
{
	seed = number;
	attempt = n_changes = counter = 0;
	revision = 0;
	stopped = false;
	memset(model, 0, sizeof(model));
	memset(calls, 0, sizeof(calls));
	memset(watches, 0, sizeof(watches));
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(store_new(loop, 16 << 20, &store), 0);
	ck_assert_int_eq(kv_new(loop, store, &kv), 0);
	for (int i = 0; i < steps; i++)
		step();
	finish();
	for (int i = 0; i < WATCHES; i++)
		kv_watch_free(watches[i].watch);
	kv = kv_free(kv);
	for (int i = 0; i < 50; i++)
		loop_run_once(loop, false);
	store = store_free(store);
	loop = loop_free(loop);
}

START_TEST(random_calls_agree_with_the_model)
{
	unsigned seeds = (unsigned)walk_length(30, 10, 2);
	int steps = walk_length(3000, 3000, 400);

	for (unsigned i = 1; i <= seeds; i++)
		run(i, steps);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_model");
	TCase *tc = tcase_create("store_model");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, random_calls_agree_with_the_model);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
