/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/restart_budget.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOON 1000000 /* a now_ms that leaves room before it */

#define NO_LIMITS                                              \
	{                                                      \
		SPEC_UNSET, SPEC_UNSET, SPEC_UNSET, SPEC_UNSET \
	}

static struct spec_restart policy_of(int max)
{
	return (struct spec_restart){ .max = max,
		.max_by_cause = NO_LIMITS,
		.window_ms = SPEC_UNSET,
		.backoff_max_ms = SPEC_UNSET,
		.healthy_after_ms = SPEC_UNSET };
}

static const struct restart_fault exit_3 = { .cause = RESTART_EXIT, .value = 3 };

static struct restart_decision decide(const struct spec_restart *p, struct restart_budget *b,
	const struct restart_fault *f, uint64_t now_ms)
{
	struct restart_decision d;

	memset(&d, 0xee, sizeof(d));
	restart_decide(p, b, f, now_ms, &d);
	ck_assert_ptr_nonnull(memchr(d.text, '\0', sizeof(d.text)));
	ck_assert_int_gt(strlen(d.text), 0);
	return d;
}

/*
 * A model written from the specification's text: it keeps the history of all restarts granted, and
 * computes each answer from the whole history.
 */
struct granted {
	uint64_t at;
	bool counted;
	enum restart_cause cause;
};

struct model {
	struct granted history[256];
	int n;
	int streak; /* delays in a row since the last healthy attempt */
	int quick;  /* uncounted restarts in a row of attempts that ended at once */
};

static enum spec_exit_class model_class(const struct spec_restart *p, const struct restart_fault *f)
{
	if (f->cause == RESTART_EXIT || f->cause == RESTART_SIGNAL) {
		for (size_t i = 0; i < p->n_codes; i++)
			if (p->codes[i].is_signal == (f->cause == RESTART_SIGNAL) &&
				p->codes[i].value == f->value)
				return p->codes[i].class;
		return SPEC_EXIT_COUNT;
	}
	if (f->cause == RESTART_EXEC)
		return SPEC_EXIT_FATAL;
	return f->cause == RESTART_AGENT_LOST || f->cause == RESTART_HEARTBEAT ? SPEC_EXIT_COUNT
									       : SPEC_EXIT_FREE;
}

static int model_counted(const struct model *m, uint64_t since)
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += m->history[i].counted && m->history[i].at > since;
	return n;
}

static bool model_cause_grants(
	const struct spec_restart *p, const struct model *m, enum restart_cause cause)
{
	int n = 0, limits[RESTART_N_CAUSES] = { [RESTART_EXIT] = p->max_by_cause.exit,
		[RESTART_SIGNAL] = p->max_by_cause.signal,
		[RESTART_HEARTBEAT] = p->max_by_cause.heartbeat,
		[RESTART_AGENT_LOST] = p->max_by_cause.agent_lost };

	for (int i = 0; i < m->n; i++)
		n += m->history[i].counted && m->history[i].cause == cause;
	return limits[cause] == SPEC_UNSET || n < limits[cause];
}

static bool model_grants(const struct spec_restart *p, const struct model *m,
	const struct restart_fault *f, uint64_t now)
{
	enum spec_exit_class class = model_class(p, f);

	if (f->cause == RESTART_OPERATOR || f->cause == RESTART_SCALE)
		return true;
	if (p->policy == SPEC_RESTART_NEVER || class == SPEC_EXIT_FATAL)
		return false;
	if (f->cause == RESTART_FINISHED)
		return p->policy == SPEC_RESTART_ALWAYS;
	if (class == SPEC_EXIT_FREE)
		return true;
	if (!model_cause_grants(p, m, f->cause))
		return false;
	if (p->max != SPEC_UNSET && model_counted(m, 0) >= p->max)
		return false;
	return p->window_ms == SPEC_UNSET ||
	       model_counted(m, now - (uint64_t)p->window_ms) < p->window_max;
}

static uint64_t model_delay(const struct spec_restart *p, int streak)
{
	double delay = (double)p->backoff_ms, max = delay * 64;

	while (streak-- > 0 && delay < 1e12)
		delay *= 2;
	if (p->backoff_max_ms != SPEC_UNSET)
		max = (double)p->backoff_max_ms;
	return (uint64_t)(delay < max ? delay : max);
}

/* The least delay of uncounted restarts that follow each other quickly. */
static uint64_t model_brake(struct model *m, int64_t ran_ms)
{
	static const uint64_t waits[] = { 100, 200, 400, 800, 1600, 3200, 6400 };

	m->quick = ran_ms < 1000 ? m->quick + 1 : 0;
	if (m->quick <= 5)
		return 0;
	return m->quick - 6 < 7 ? waits[m->quick - 6] : 10000;
}

static void check_step(const struct spec_restart *p, struct model *m, struct restart_budget *b,
	const struct restart_fault *f, uint64_t now)
{
	struct restart_budget before = *b;
	bool grants = model_grants(p, m, f, now);
	bool asked = f->cause == RESTART_OPERATOR || f->cause == RESTART_SCALE;
	bool counted = grants && !asked && model_class(p, f) == SPEC_EXIT_COUNT;
	struct restart_decision d = decide(p, b, f, now);
	uint64_t delay, brake;

	if (p->healthy_after_ms != SPEC_UNSET && f->ran_ms >= p->healthy_after_ms)
		m->streak = 0;
	ck_assert_msg(d.restart == grants, "cause %s, value %d: %s", restart_cause_name(f->cause),
		f->value, d.text);
	ck_assert_int_eq(d.counted, counted);
	ck_assert_int_eq(b->used, before.used + counted);
	ck_assert_int_eq(b->free, before.free + (grants && !counted));
	ck_assert_int_eq(b->by_cause[f->cause], before.by_cause[f->cause] + grants);
	delay = grants && !asked ? model_delay(p, m->streak) : 0;
	brake = grants && !asked && !counted ? model_brake(m, f->ran_ms) : 0;
	ck_assert_uint_eq(d.delay_ms, delay > brake ? delay : brake);
	if (grants && !asked)
		m->streak++;
	if (grants)
		m->history[m->n++] = (struct granted){ now, counted, f->cause };
	if (p->window_ms != SPEC_UNSET)
		ck_assert_int_eq(restart_window_used(p, b, now),
			model_counted(m, now - (uint64_t)p->window_ms));
}

static void check_left(
	const struct spec_restart *p, const struct model *m, struct restart_budget *b, uint64_t now)
{
	struct restart_budget copy = *b;
	struct model model = *m;
	struct spec_restart any = *p;
	int left = restart_left(p, b, now), granted = 0;

	any.max_by_cause = (struct spec_max_by_cause)NO_LIMITS;
	p = &any;

	/* restart_left() is the number of counted restarts that would still be granted. */
	while (granted < 20 && model_grants(p, &model, &exit_3, now)) {
		ck_assert(decide(p, &copy, &exit_3, now).restart);
		model.history[model.n++] = (struct granted){ now, true, RESTART_EXIT };
		granted++;
	}
	ck_assert_int_eq(left, granted == 20 ? -1 : granted);
}

static void check_policy(const struct spec_restart *p, uint32_t *seed)
{
	static const int64_t ran[] = { 0, 49, 50, 51, 1000 };
	struct restart_budget b = { 0 };
	struct model m = { 0 };
	uint64_t now = SOON;

	for (int i = 0; i < 40; i++) {
		struct restart_fault f = {
			.cause = next_random(seed) % RESTART_N_CAUSES,
			.value = (int)(next_random(seed) % 6),
			.ran_ms = ran[next_random(seed) % 5],
		};

		now += next_random(seed) % 60;
		check_step(p, &m, &b, &f, now);
		check_left(p, &m, &b, now);
	}
}

START_TEST(decisions_agree_with_a_model_under_every_kind_of_policy)
{
	static const int maxes[] = { SPEC_UNSET, 0, 1, 3, 10 };
	static const struct {
		int64_t ms;
		int max;
	} windows[] = { { SPEC_UNSET, 0 }, { 100, 1 }, { 100, 3 }, { 1, 1 } };
	static const struct {
		int64_t ms, max;
	} backoffs[] = { { 0, SPEC_UNSET }, { 10, SPEC_UNSET }, { 10, 25 }, { 10, 0 }, { 0, 50 } };
	static const struct spec_max_by_cause limits[] = { NO_LIMITS, { 0, 2, SPEC_UNSET, 1 },
		{ 2, SPEC_UNSET, 1, SPEC_UNSET } };
	static const int64_t healthy[] = { SPEC_UNSET, 0, 50 };
	struct spec_exit_rule codes[] = { { false, 1, SPEC_EXIT_FREE },
		{ false, 2, SPEC_EXIT_FATAL }, { true, 2, SPEC_EXIT_FREE },
		{ true, 4, SPEC_EXIT_FATAL }, { false, 4, SPEC_EXIT_COUNT },
		{ false, 1, SPEC_EXIT_FATAL } };
	uint32_t seed = 88172645u;

	/* Steps of this size meet every value of every key. */
	for (int i = 0; i < 3 * 5 * 4 * 5 * 3 * 2; i += walk_length(1, 7, 23)) {
		struct spec_restart p = {
			.policy = i % 3,
			.max = maxes[i / 3 % 5],
			.max_by_cause = limits[(i + i / 3) % 3],
			.window_ms = windows[i / 15 % 4].ms,
			.window_max = windows[i / 15 % 4].max,
			.backoff_ms = backoffs[i / 60 % 5].ms,
			.backoff_max_ms = backoffs[i / 60 % 5].max,
			.healthy_after_ms = healthy[i / 300 % 3],
			.codes = codes,
			.n_codes = i / 900 ? 6 : 0,
		};

		check_policy(&p, &seed);
	}
}
END_TEST

START_TEST(texts_say_what_was_decided)
{
	struct spec_exit_rule codes[] = { { false, 7, SPEC_EXIT_FATAL },
		{ true, 9, SPEC_EXIT_FATAL }, { false, 42, SPEC_EXIT_FREE } };
	struct spec_restart p = policy_of(2), never = policy_of(2), none = policy_of(0);
	struct restart_budget b = { 0 };
	struct restart_fault f = exit_3;

	p.codes = codes;
	p.n_codes = 3;
	never.policy = SPEC_RESTART_NEVER;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "restart 1 of 2");
	f.value = 42;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "restart (exit), not counted");
	f.value = 7;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "exit code 7 is fatal by restart.codes");
	f = (struct restart_fault){ .cause = RESTART_SIGNAL, .value = 9 };
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "signal 9 is fatal by restart.codes");
	f.value = 11;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "restart 2 of 2");
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "all 2 restarts are used");
	ck_assert_str_eq(decide(&never, &b, &f, SOON).text, "restart.policy is never");
	ck_assert_str_eq(
		decide(&none, &b, &f, SOON).text, "no restarts are configured (restart.max is 0)");
	f.cause = RESTART_OPERATOR;
	ck_assert_str_eq(decide(&never, &b, &f, SOON).text, "restart (operator), not counted");
	f.cause = RESTART_FINISHED;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text, "all workers succeeded");
	f.cause = RESTART_EXEC;
	ck_assert_str_eq(decide(&p, &b, &f, SOON).text,
		"a command that cannot be executed is not tried again");
}
END_TEST

START_TEST(a_cause_may_have_a_limit_of_its_own)
{
	struct spec_restart p = policy_of(5);
	struct restart_budget b = { 0 }, again = { 0 };
	struct restart_fault killed = { .cause = RESTART_SIGNAL, .value = 9 };
	struct restart_fault hung = { .cause = RESTART_HEARTBEAT };
	json_t *saved;

	p.max_by_cause.signal = 2;
	p.max_by_cause.heartbeat = 0;
	ck_assert_int_eq(restart_max_of(&p, RESTART_SIGNAL), 2);
	ck_assert_int_eq(restart_max_of(&p, RESTART_EXIT), -1);
	ck_assert_int_eq(restart_max_of(&p, RESTART_OPERATOR), -1);
	ck_assert_str_eq(decide(&p, &b, &killed, SOON).text, "restart 1 of 5");
	ck_assert(decide(&p, &b, &killed, SOON).restart);
	saved = restart_save(&b);
	ck_assert_int_eq(restart_load(&again, saved, SOON), 0);
	json_decref(saved);
	ck_assert_str_eq(decide(&p, &again, &killed, SOON).text,
		"the limit of 2 restarts by signal is used (restart.max_by_cause)");
	ck_assert_int_eq(again.used, 2);
	ck_assert_str_eq(decide(&p, &again, &hung, SOON).text,
		"no restarts by heartbeat are configured (restart.max_by_cause)");
	ck_assert_str_eq(decide(&p, &again, &exit_3, SOON).text, "restart 3 of 5");
	/* A restart that an event reports counts, too, unless the event says otherwise. */
	memset(&again, 0, sizeof(again));
	restart_replay(&again, "signal", false, SOON);
	restart_replay(&again, "signal", true, SOON);
	ck_assert(decide(&p, &again, &killed, SOON).restart);
	ck_assert(!decide(&p, &again, &killed, SOON).restart);
}
END_TEST

START_TEST(a_restart_leaves_the_window_when_it_is_as_old_as_the_window)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 };

	p.window_ms = 5000;
	p.window_max = 1;
	ck_assert(decide(&p, &b, &exit_3, SOON).restart);
	ck_assert_str_eq(decide(&p, &b, &exit_3, SOON + 4999).text,
		"1 restarts within the last 5s are the limit");
	ck_assert_int_eq(restart_left(&p, &b, SOON + 4999), 0);
	ck_assert_int_eq(restart_left(&p, &b, SOON + 5000), 1);
	ck_assert(decide(&p, &b, &exit_3, SOON + 5000).restart);
}
END_TEST

START_TEST(the_backoff_doubles_up_to_its_maximum_and_never_overflows)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 };

	p.backoff_ms = 100;
	for (int i = 0; i < 200; i++)
		ck_assert_uint_eq(decide(&p, &b, &exit_3, SOON).delay_ms, i < 6 ? 100u << i : 6400);
	p.backoff_max_ms = INT64_MAX;
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(decide(&p, &b, &exit_3, SOON).delay_ms, INT64_MAX);
	b.streak = 1000000000; /* from a record that someone edited */
	p.backoff_ms = 0;
	ck_assert_uint_eq(decide(&p, &b, &exit_3, SOON).delay_ms, 0);
}
END_TEST

START_TEST(uncounted_restarts_of_short_attempts_are_slowed_down)
{
	static const struct spec_exit_rule free_42 = { false, 42, SPEC_EXIT_FREE };
	struct spec_restart p = policy_of(0);
	struct restart_fault f = { .cause = RESTART_EXIT, .value = 42 };
	struct restart_budget b = { 0 };
	uint64_t waited = 0;

	p.codes = (struct spec_exit_rule *)&free_42;
	p.n_codes = 1;
	for (int i = 0; i < 5; i++)
		ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 0);
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 100);
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 200);
	for (int i = 0; i < 1000; i++)
		waited += decide(&p, &b, &f, SOON).delay_ms;
	ck_assert_uint_gt(waited, 9900000);
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 10000);
	f.ran_ms = 1000;
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 0);
	/* A longer backoff is kept, and an operator's restart does not wait. */
	p.backoff_ms = 30000;
	b.quick = 50;
	f.ran_ms = 0;
	ck_assert_uint_ge(decide(&p, &b, &f, SOON).delay_ms, 30000);
	f.cause = RESTART_OPERATOR;
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 0);
}
END_TEST

START_TEST(a_healthy_attempt_resets_the_backoff_but_not_the_budget)
{
	struct spec_restart p = policy_of(3);
	struct restart_budget b = { 0 };
	struct restart_fault f = exit_3;

	p.backoff_ms = 100;
	p.healthy_after_ms = 60000;
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 100);
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 200);
	f.ran_ms = 60000;
	ck_assert_uint_eq(decide(&p, &b, &f, SOON).delay_ms, 100);
	ck_assert(!decide(&p, &b, &f, SOON).restart);
}
END_TEST

START_TEST(more_restarts_than_are_remembered_still_fill_the_window)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 };

	p.window_ms = 3600000;
	p.window_max = RESTART_WINDOW_MAX * 2;
	for (int i = 0; i < RESTART_WINDOW_MAX; i++)
		ck_assert(decide(&p, &b, &exit_3, SOON + (uint64_t)i).restart);
	ck_assert(!decide(&p, &b, &exit_3, SOON + RESTART_WINDOW_MAX).restart);
	ck_assert_int_eq(restart_left(&p, &b, SOON + RESTART_WINDOW_MAX), 0);
	/* The oldest is forgotten first. */
	ck_assert(decide(&p, &b, &exit_3, SOON + 3600000).restart);
	ck_assert_uint_eq(b.n_times, RESTART_WINDOW_MAX);
	ck_assert_uint_eq(b.times_ms[0], SOON + 1);
	ck_assert_uint_eq(b.times_ms[RESTART_WINDOW_MAX - 1], SOON + 3600000);
}
END_TEST

START_TEST(a_clock_that_went_back_gives_nothing_away)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 };

	p.window_ms = 5000;
	p.window_max = 2;
	ck_assert(decide(&p, &b, &exit_3, SOON).restart);
	ck_assert(decide(&p, &b, &exit_3, SOON).restart);
	ck_assert_int_eq(restart_window_used(&p, &b, SOON - 100000), 2);
	ck_assert(!decide(&p, &b, &exit_3, SOON - 100000).restart);
}
END_TEST

static void assert_same(const struct restart_budget *a, const struct restart_budget *b)
{
	ck_assert_int_eq(a->used, b->used);
	ck_assert_int_eq(a->free, b->free);
	ck_assert_int_eq(a->streak, b->streak);
	ck_assert_int_eq(a->quick, b->quick);
	ck_assert_mem_eq(a->by_cause, b->by_cause, sizeof(a->by_cause));
	ck_assert_uint_eq(a->n_times, b->n_times);
	ck_assert_mem_eq(a->times_ms, b->times_ms, sizeof(a->times_ms));
}

START_TEST(a_saved_budget_is_loaded_again)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 }, loaded;

	for (uint64_t i = 0; i < 2800; i++) {
		struct restart_fault f = { .cause = i % RESTART_N_CAUSES, .value = 1 };

		if (i % 199 == 0) {
			_cleanup_json_ json_t *saved = restart_save(&b);
			_cleanup_free_ char *text = json_dumps(saved, 0);
			_cleanup_json_ json_t *read = json_loads(text, 0, NULL);

			memset(&loaded, 0xee, sizeof(loaded));
			ck_assert_int_eq(restart_load(&loaded, read, SOON + i), 0);
			assert_same(&b, &loaded);
		}
		decide(&p, &b, &f, SOON + i);
	}
	ck_assert_uint_eq(b.n_times, RESTART_WINDOW_MAX);
}
END_TEST

START_TEST(times_from_before_a_reboot_count_as_now)
{
	struct spec_restart p = policy_of(SPEC_UNSET);
	struct restart_budget b = { 0 }, loaded = { 0 };
	_cleanup_json_ json_t *saved = NULL;

	p.window_ms = 5000;
	p.window_max = 2;
	decide(&p, &b, &exit_3, SOON);
	decide(&p, &b, &exit_3, SOON + 10);
	saved = restart_save(&b);
	ck_assert_int_eq(restart_load(&loaded, saved, 77), 0);
	ck_assert_uint_eq(loaded.times_ms[0], 77);
	ck_assert_uint_eq(loaded.times_ms[1], 77);
	ck_assert(!decide(&p, &loaded, &exit_3, 78).restart);
	ck_assert(decide(&p, &loaded, &exit_3, 77 + 5000).restart);
}
END_TEST

#define CAUSES "\"by_cause\":{}"
#define COUNTS "\"used\":1,\"free\":2,\"streak\":3"

static const char *const rubbish[] = {
	"null",
	"[]",
	"7",
	"\"used\"",
	"{}",
	"{" COUNTS "}",
	"{" COUNTS "," CAUSES "}",
	"{" COUNTS ",\"times_ms\":[]}",
	"{" COUNTS "," CAUSES ",\"times_ms\":{}}",
	"{" COUNTS "," CAUSES ",\"times_ms\":null}",
	"{" COUNTS "," CAUSES ",\"times_ms\":[-1]}",
	"{" COUNTS "," CAUSES ",\"times_ms\":[\"1\"]}",
	"{" COUNTS "," CAUSES ",\"times_ms\":[1.5]}",
	"{" COUNTS "," CAUSES ",\"times_ms\":[null]}",
	"{" COUNTS ",\"by_cause\":[],\"times_ms\":[]}",
	"{" COUNTS ",\"by_cause\":3,\"times_ms\":[]}",
	"{" COUNTS ",\"by_cause\":{\"exit\":-1},\"times_ms\":[]}",
	"{" COUNTS ",\"by_cause\":{\"exit\":\"1\"},\"times_ms\":[]}",
	"{" COUNTS ",\"by_cause\":{\"exit\":4294967297},\"times_ms\":[]}",
	"{\"used\":-1,\"free\":0,\"streak\":0," CAUSES ",\"times_ms\":[]}",
	"{\"used\":4294967297,\"free\":0,\"streak\":0," CAUSES ",\"times_ms\":[]}",
	"{\"used\":0,\"free\":1e3,\"streak\":0," CAUSES ",\"times_ms\":[]}",
	"{\"used\":0,\"free\":0,\"streak\":-5," CAUSES ",\"times_ms\":[]}",
	"{\"used\":true,\"free\":0,\"streak\":0," CAUSES ",\"times_ms\":[]}",
};

START_TEST(rubbish_is_refused_and_changes_nothing)
{
	_cleanup_json_ json_t *j = json_loads(rubbish[_i], JSON_DECODE_ANY, NULL);
	struct restart_budget b, before;

	memset(&b, 0x11, sizeof(b));
	before = b;
	ck_assert_ptr_nonnull(j);
	ck_assert_msg(restart_load(&b, j, SOON) == -EINVAL, "accepted: %s", rubbish[_i]);
	ck_assert_mem_eq(&b, &before, sizeof(b));
}
END_TEST

START_TEST(a_missing_record_and_too_many_times_are_refused)
{
	struct restart_budget b = { 0 };
	_cleanup_json_ json_t *j = restart_save(&b);
	json_t *times = json_object_get(j, "times_ms");

	ck_assert_int_eq(restart_load(&b, NULL, SOON), -EINVAL);
	for (int i = 0; i < RESTART_WINDOW_MAX; i++)
		json_array_append_new(times, json_integer(i));
	ck_assert_int_eq(restart_load(&b, j, SOON), 0);
	ck_assert_uint_eq(b.n_times, RESTART_WINDOW_MAX);
	json_array_append_new(times, json_integer(5));
	ck_assert_int_eq(restart_load(&b, j, SOON), -EINVAL);
}
END_TEST

START_TEST(a_record_of_a_version_with_fewer_causes_is_good)
{
	_cleanup_json_ json_t *j =
		json_loads("{" COUNTS ",\"by_cause\":{\"exit\":1},\"times_ms\":[5]}", 0, NULL);
	struct restart_budget b;

	ck_assert_int_eq(restart_load(&b, j, SOON), 0);
	ck_assert_int_eq(b.by_cause[RESTART_EXIT], 1);
	ck_assert_int_eq(b.by_cause[RESTART_SIGNAL], 0);
	ck_assert_int_eq(b.free, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("restart");
	TCase *t = tcase_create("restart");

	tcase_add_test(t, decisions_agree_with_a_model_under_every_kind_of_policy);
	tcase_add_test(t, texts_say_what_was_decided);
	tcase_add_test(t, a_cause_may_have_a_limit_of_its_own);
	tcase_add_test(t, a_restart_leaves_the_window_when_it_is_as_old_as_the_window);
	tcase_add_test(t, the_backoff_doubles_up_to_its_maximum_and_never_overflows);
	tcase_add_test(t, uncounted_restarts_of_short_attempts_are_slowed_down);
	tcase_add_test(t, a_healthy_attempt_resets_the_backoff_but_not_the_budget);
	tcase_add_test(t, more_restarts_than_are_remembered_still_fill_the_window);
	tcase_add_test(t, a_clock_that_went_back_gives_nothing_away);
	tcase_add_test(t, a_saved_budget_is_loaded_again);
	tcase_add_test(t, times_from_before_a_reboot_count_as_now);
	tcase_add_loop_test(
		t, rubbish_is_refused_and_changes_nothing, 0, sizeof(rubbish) / sizeof(rubbish[0]));
	tcase_add_test(t, a_missing_record_and_too_many_times_are_refused);
	tcase_add_test(t, a_record_of_a_version_with_fewer_causes_is_good);
	suite_add_tcase(s, t);
	return suite_run(s);
}
