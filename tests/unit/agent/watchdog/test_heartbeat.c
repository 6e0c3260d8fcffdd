/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/heartbeat.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <stdio.h>

enum { TOKEN = 77 };

static const struct spec_heartbeat nothing = { .period_ms = SPEC_UNSET,
	.timeout_ms = SPEC_UNSET,
	.failures = SPEC_UNSET,
	.start_timeout_ms = SPEC_UNSET,
	.progress_timeout_ms = SPEC_UNSET,
	.log_timeout_ms = SPEC_UNSET,
	.log_pattern_timeout_ms = SPEC_UNSET,
	.progress_file_timeout_ms = SPEC_UNSET,
	.progress_start_timeout_ms = SPEC_UNSET };

static struct spec_heartbeat spec;
static struct heartbeat h;
static struct heartbeat_sample now_is;

static void begin(void)
{
	now_is = (struct heartbeat_sample){ .expected = TOKEN };
	heartbeat_start(&h, &spec, 1000);
}

static void setup(void)
{
	spec = nothing;
	spec.period_ms = 100;
	spec.failures = 3;
	begin();
}

static struct heartbeat_verdict look(uint64_t ms)
{
	struct heartbeat_verdict v = heartbeat_check(&h, &now_is, ms);

	ck_assert_int_eq(v.finding == HEARTBEAT_FINE, !*v.text);
	return v;
}

static struct heartbeat_verdict look_beaten(uint64_t ms)
{
	now_is.token = TOKEN;
	now_is.beats++;
	return look(ms);
}

#define is(v, expected)                                                                          \
	do {                                                                                     \
		struct heartbeat_verdict v_ = (v);                                               \
		ck_assert_msg(v_.finding == (expected), "%d: \"%s\"", (int)v_.finding, v_.text); \
	} while (0)

START_TEST(the_first_and_second_miss_warn_and_the_third_is_fatal)
{
	struct heartbeat_verdict v;

	is(look_beaten(1100), HEARTBEAT_FINE);
	v = look(1200);
	ck_assert_int_eq(v.finding, HEARTBEAT_MISSED);
	ck_assert_str_eq(v.text, "no beat for 100ms (1 of 3)");
	is(look(1300), HEARTBEAT_MISSED);
	v = look(1400);
	ck_assert_int_eq(v.finding, HEARTBEAT_LOST);
	ck_assert_str_eq(v.text, "no beat for 300ms (3 of 3)");
	ck_assert_uint_eq(heartbeat_next(&h, 1400), UINT64_MAX);
	is(look(1500), HEARTBEAT_FINE);
}
END_TEST

START_TEST(reported_worker_is_checked_again_from_its_next_sign)
{
	spec.on_failure = SPEC_HEARTBEAT_REPORT;
	begin();
	is(look_beaten(1100), HEARTBEAT_FINE);
	for (uint64_t t = 1200; t < 9000; t += 1000) {
		is(look(t), HEARTBEAT_MISSED);
		is(look(t + 100), HEARTBEAT_MISSED);
		is(look(t + 200), HEARTBEAT_LOST);
		ck_assert_uint_eq(heartbeat_next(&h, t + 200), t + 300);
		for (uint64_t k = 300; k < 900; k += 100)
			is(look(t + k), HEARTBEAT_FINE);
		is(look_beaten(t + 900), HEARTBEAT_BACK);
	}
	spec.on_failure = SPEC_HEARTBEAT_RESTART;
}
END_TEST

START_TEST(a_beat_between_resets_the_misses)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	for (uint64_t t = 1200; t < 9000; t += 300) {
		is(look(t), HEARTBEAT_MISSED);
		is(look(t + 100), HEARTBEAT_MISSED);
		is(look_beaten(t + 200), HEARTBEAT_BACK);
	}
}
END_TEST

START_TEST(wrong_token_fails_at_once)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	now_is.token = TOKEN + 1;
	is(look(1110), HEARTBEAT_STALE);
	is(look(1120), HEARTBEAT_FINE);
}
END_TEST

START_TEST(wrong_token_fails_before_the_first_beat)
{
	now_is.token = TOKEN + 1;
	is(look(1001), HEARTBEAT_STALE);
}
END_TEST

START_TEST(worker_without_beats_is_fine_without_a_start_timeout)
{
	for (uint64_t t = 1100; t < 100000; t += 100)
		is(look(t), HEARTBEAT_FINE);
}
END_TEST

START_TEST(worker_without_beats_is_lost_at_the_start_timeout)
{
	struct heartbeat_verdict v;

	spec.start_timeout_ms = 250;
	begin();
	is(look(1100), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_FINE);
	ck_assert_uint_eq(heartbeat_next(&h, 1200), 1250);
	v = look(1250);
	ck_assert_int_eq(v.finding, HEARTBEAT_LOST);
	ck_assert_str_eq(v.text, "no first beat for 250ms");
}
END_TEST

START_TEST(a_timeout_longer_than_the_period_is_a_miss_each_time_it_passes)
{
	spec.timeout_ms = 250;
	begin();
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_FINE);
	is(look(1300), HEARTBEAT_FINE);
	ck_assert_uint_eq(heartbeat_next(&h, 1300), 1350);
	is(look(1350), HEARTBEAT_MISSED);
	is(look(1450), HEARTBEAT_FINE);
	is(look(1550), HEARTBEAT_FINE);
	is(look(1600), HEARTBEAT_MISSED);
	is(look(1700), HEARTBEAT_FINE);
	is(look(1800), HEARTBEAT_FINE);
	is(look(1850), HEARTBEAT_LOST);
}
END_TEST

START_TEST(frequent_checks_find_no_more_misses)
{
	int misses = 0;

	is(look_beaten(1100), HEARTBEAT_FINE);
	for (uint64_t t = 1101; t < 1400; t++)
		misses += look(t).finding == HEARTBEAT_MISSED;
	ck_assert_int_eq(misses, 2);
	is(look(1400), HEARTBEAT_LOST);
}
END_TEST

START_TEST(one_check_finds_one_miss_at_most)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1299), HEARTBEAT_MISSED);
	is(look(1398), HEARTBEAT_FINE);
	is(look(1399), HEARTBEAT_MISSED);
}
END_TEST

START_TEST(time_in_which_the_agent_did_not_run_does_not_count)
{
	spec.progress_timeout_ms = 1000;
	spec.start_timeout_ms = 5000;
	begin();
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1150), HEARTBEAT_FINE);
	/* The check due at 1200 comes an hour late, which does not count. */
	is(look(3601200), HEARTBEAT_MISSED);
	is(look(3601300), HEARTBEAT_MISSED);
	is(look_beaten(3601399), HEARTBEAT_BACK);
	for (uint64_t t = 3601499; t < 3601900; t += 100)
		is(look_beaten(t), HEARTBEAT_FINE);
	is(look_beaten(3601999), HEARTBEAT_FINE);
	is(look_beaten(3602000), HEARTBEAT_STUCK); /* 200 ms of the 1000 were before the sleep */
}
END_TEST

START_TEST(beat_while_the_agent_did_not_run_counts)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look_beaten(99999), HEARTBEAT_FINE);
	is(look(100098), HEARTBEAT_FINE);
	is(look(100099), HEARTBEAT_MISSED);
}
END_TEST

START_TEST(agent_that_is_always_late_still_finds_a_lost_worker)
{
	int looks = 0;

	is(look_beaten(1100), HEARTBEAT_FINE);
	for (uint64_t t = 1100; !h.over; looks++)
		look(t += 350);
	ck_assert_int_eq(looks, 3);
}
END_TEST

START_TEST(no_check_fails_while_paused)
{
	spec.progress_timeout_ms = 500;
	begin();
	is(look_beaten(1100), HEARTBEAT_FINE);
	heartbeat_pause(&h, 1150);
	ck_assert_uint_eq(heartbeat_next(&h, 1150), UINT64_MAX);
	for (uint64_t t = 1200; t < 9000; t += 50)
		is(look(t), HEARTBEAT_FINE);
	now_is.token = TOKEN + 1;
	is(look(9000), HEARTBEAT_FINE);
	heartbeat_resume(&h, 9000);
	is(look(9001), HEARTBEAT_STALE);
}
END_TEST

START_TEST(silence_begins_again_after_a_pause)
{
	struct heartbeat_verdict v;

	is(look_beaten(1100), HEARTBEAT_FINE);
	heartbeat_pause(&h, 1199);
	heartbeat_resume(&h, 9000);
	ck_assert_uint_eq(heartbeat_next(&h, 9000), 9100);
	is(look(9099), HEARTBEAT_FINE);
	v = look(9100);
	ck_assert_int_eq(v.finding, HEARTBEAT_MISSED);
	ck_assert_str_eq(v.text, "no beat for 199ms (1 of 3)");
}
END_TEST

START_TEST(misses_before_a_pause_still_count)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_MISSED);
	heartbeat_pause(&h, 1250);
	heartbeat_resume(&h, 5000);
	is(look(5100), HEARTBEAT_MISSED);
	heartbeat_pause(&h, 5150);
	heartbeat_resume(&h, 9000);
	is(look(9100), HEARTBEAT_LOST);
	heartbeat_pause(&h, 9150);
	heartbeat_resume(&h, 9200);
	ck_assert_uint_eq(heartbeat_next(&h, 9200), UINT64_MAX);
	is(look(9300), HEARTBEAT_FINE);
}
END_TEST

START_TEST(beat_during_a_pause_is_seen_afterwards)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_MISSED);
	heartbeat_pause(&h, 1250);
	is(look_beaten(1300), HEARTBEAT_FINE);
	heartbeat_resume(&h, 9000);
	is(look(9100), HEARTBEAT_BACK);
}
END_TEST

START_TEST(start_limit_moves_by_the_pause)
{
	spec.start_timeout_ms = 250;
	begin();
	is(look(1100), HEARTBEAT_FINE);
	heartbeat_pause(&h, 1200);
	heartbeat_resume(&h, 9000);
	ck_assert_uint_eq(heartbeat_next(&h, 9000), 9050);
	is(look(9049), HEARTBEAT_FINE);
	is(look(9050), HEARTBEAT_LOST);
}
END_TEST

START_TEST(pausing_twice_is_pausing_once)
{
	spec.start_timeout_ms = 250;
	begin();
	heartbeat_resume(&h, 1100);
	ck_assert_uint_eq(heartbeat_next(&h, 1000), 1100);
	heartbeat_pause(&h, 1100);
	heartbeat_pause(&h, 2000);
	heartbeat_resume(&h, 3000);
	heartbeat_resume(&h, 4000);
	is(look(3149), HEARTBEAT_FINE);
	is(look(3150), HEARTBEAT_LOST);
}
END_TEST

START_TEST(reported_and_paused_worker_is_checked_again_from_its_next_sign)
{
	spec.on_failure = SPEC_HEARTBEAT_REPORT;
	begin();
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_MISSED);
	is(look(1300), HEARTBEAT_MISSED);
	is(look(1400), HEARTBEAT_LOST);
	heartbeat_pause(&h, 1450);
	is(look_beaten(1500), HEARTBEAT_FINE);
	heartbeat_resume(&h, 9000);
	ck_assert_uint_eq(heartbeat_next(&h, 9000), 9100);
	is(look(9100), HEARTBEAT_BACK);
	spec.on_failure = SPEC_HEARTBEAT_RESTART;
}
END_TEST

START_TEST(agents_delay_before_a_pause_does_not_count)
{
	spec.start_timeout_ms = 250;
	begin();
	/* Due at 1100. */
	heartbeat_pause(&h, 1000000);
	heartbeat_resume(&h, 2000000);
	ck_assert_uint_eq(heartbeat_next(&h, 2000000), 2000100);
	is(look(2000100), HEARTBEAT_FINE);
	is(look(2000149), HEARTBEAT_FINE);
	is(look(2000150), HEARTBEAT_LOST);
}
END_TEST

struct kind {
	size_t limit, count; /* offsets */
	const char *text;
};

static const struct kind kinds[] = {
	{ offsetof(struct spec_heartbeat, progress_timeout_ms),
		offsetof(struct heartbeat_sample, steps), "no step for 300ms" },
	{ offsetof(struct spec_heartbeat, log_timeout_ms),
		offsetof(struct heartbeat_sample, log_bytes), "no output for 300ms" },
	{ offsetof(struct spec_heartbeat, log_pattern_timeout_ms),
		offsetof(struct heartbeat_sample, log_matches),
		"no line that matches log_pattern for 300ms" },
	{ offsetof(struct spec_heartbeat, progress_file_timeout_ms),
		offsetof(struct heartbeat_sample, file_changes),
		"no change of progress_file for 300ms" },
};

static void set_limit(const struct kind *k, int64_t ms)
{
	*(int64_t *)((char *)&spec + k->limit) = ms;
}

static uint64_t *count_of(const struct kind *k)
{
	return (uint64_t *)((char *)&now_is + k->count);
}

START_TEST(a_worker_without_progress_is_stuck_though_it_beats)
{
	struct heartbeat_verdict v;

	set_limit(&kinds[_i], 300);
	begin();
	for (uint64_t t = 1100; t <= 2000; t += 100) {
		++*count_of(&kinds[_i]);
		is(look_beaten(t), HEARTBEAT_FINE);
	}
	is(look_beaten(2100), HEARTBEAT_FINE);
	is(look_beaten(2200), HEARTBEAT_FINE);
	v = look_beaten(2300);
	ck_assert_int_eq(v.finding, HEARTBEAT_STUCK);
	ck_assert_str_eq(v.text, kinds[_i].text);
}
END_TEST

START_TEST(progress_limit_moves_by_the_pause)
{
	spec = nothing;
	set_limit(&kinds[_i], 300);
	begin();
	++*count_of(&kinds[_i]);
	for (uint64_t t = 1030; t < 1130; t += 30)
		is(look(t), HEARTBEAT_FINE);
	heartbeat_pause(&h, 1130);
	ck_assert_uint_eq(heartbeat_next(&h, 1130), UINT64_MAX);
	heartbeat_resume(&h, 9130);
	for (uint64_t t = 9150; t < 9330; t += 30)
		is(look(t), HEARTBEAT_FINE);
	is(look(9329), HEARTBEAT_FINE);
	ck_assert_uint_eq(heartbeat_next(&h, 9329), 9330);
	is(look(9330), HEARTBEAT_STUCK);
}
END_TEST

START_TEST(progress_is_checked_without_a_period)
{
	spec = nothing;
	set_limit(&kinds[_i], 800);
	begin();
	ck_assert_uint_eq(heartbeat_next(&h, 1000), 1100);
	*count_of(&kinds[_i]) = 5;
	is(look(1100), HEARTBEAT_FINE);
	for (uint64_t t = 1200; t < 1900; t += 100)
		is(look(t), HEARTBEAT_FINE);
	is(look(1900), HEARTBEAT_STUCK);
}
END_TEST

START_TEST(until_the_first_sign_the_limit_is_that_of_the_start)
{
	set_limit(&kinds[_i], 300);
	spec.progress_start_timeout_ms = 1000;
	begin();
	for (uint64_t t = 1100; t < 2000; t += 100)
		is(look(t), HEARTBEAT_FINE);
	*count_of(&kinds[_i]) = 1;
	is(look(1999), HEARTBEAT_FINE);
	is(look(2099), HEARTBEAT_FINE);
	is(look(2199), HEARTBEAT_FINE);
	is(look(2299), HEARTBEAT_STUCK);

	begin();
	for (uint64_t t = 1100; t < 2000; t += 100)
		is(look(t), HEARTBEAT_FINE);
	is(look(2000), HEARTBEAT_STUCK);
}
END_TEST

START_TEST(each_limit_that_is_set_must_be_kept)
{
	set_limit(&kinds[0], 500);
	set_limit(&kinds[1], 300);
	begin();
	for (uint64_t t = 1100; t < 1300; t += 100) {
		now_is.steps++;
		is(look(t), HEARTBEAT_FINE);
	}
	now_is.steps++;
	is(look(1300), HEARTBEAT_STUCK);
}
END_TEST

START_TEST(nothing_is_checked_where_nothing_is_set)
{
	struct spec_heartbeat s = nothing;

	ck_assert(!heartbeat_wanted(&s));
	heartbeat_start(&h, &s, 5);
	ck_assert_uint_eq(heartbeat_next(&h, 5), UINT64_MAX);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		spec = nothing;
		set_limit(&kinds[i], 1);
		ck_assert(heartbeat_wanted(&spec));
	}
	s.period_ms = 1;
	ck_assert(heartbeat_wanted(&s));
}
END_TEST

START_TEST(clock_that_goes_back_counts_as_standing_still)
{
	is(look_beaten(1100), HEARTBEAT_FINE);
	is(look(900), HEARTBEAT_FINE);
	is(look(1199), HEARTBEAT_FINE);
	is(look(1200), HEARTBEAT_MISSED);
}
END_TEST

/* A model with a clock of its own, which stands still while the agent does not run, and by which it
 * measures everything. */
struct model {
	const struct spec_heartbeat *s;
	uint64_t clock, wall, due; /* due: on the wall */
	uint64_t beat, miss, step; /* on the clock, when */
	bool beaten, stepped, over;
	int misses;
};

static uint64_t model_step_limit(const struct model *m)
{
	if (m->s->progress_timeout_ms == SPEC_UNSET)
		return UINT64_MAX / 2;
	if (!m->stepped && m->s->progress_start_timeout_ms != SPEC_UNSET)
		return (uint64_t)m->s->progress_start_timeout_ms;
	return (uint64_t)m->s->progress_timeout_ms;
}

static uint64_t model_timeout(const struct model *m)
{
	return (uint64_t)(m->s->timeout_ms == SPEC_UNSET ? m->s->period_ms : m->s->timeout_ms);
}

static uint64_t model_since(const struct model *m)
{
	return m->beat > m->miss ? m->beat : m->miss;
}

static void model_plan(struct model *m)
{
	uint64_t at = m->clock + (uint64_t)m->s->period_ms;

	if (m->beaten && model_since(m) + model_timeout(m) < at)
		at = model_since(m) + model_timeout(m);
	if (!m->beaten && m->s->start_timeout_ms != SPEC_UNSET &&
		(uint64_t)m->s->start_timeout_ms < at)
		at = (uint64_t)m->s->start_timeout_ms;
	if (m->step + model_step_limit(m) < at)
		at = m->step + model_step_limit(m);
	m->due = m->wall + (at - m->clock);
}

static enum heartbeat_finding model_beats(struct model *m, bool beat)
{
	if (beat) {
		bool back = m->misses > 0;

		m->beaten = true;
		m->beat = m->clock;
		m->misses = 0;
		return back ? HEARTBEAT_BACK : HEARTBEAT_FINE;
	}
	if (!m->beaten)
		return m->s->start_timeout_ms != SPEC_UNSET &&
				       m->clock >= (uint64_t)m->s->start_timeout_ms
			       ? HEARTBEAT_LOST
			       : HEARTBEAT_FINE;
	if (m->clock - model_since(m) < model_timeout(m))
		return HEARTBEAT_FINE;
	m->miss = m->clock;
	return ++m->misses < m->s->failures ? HEARTBEAT_MISSED : HEARTBEAT_LOST;
}

/* Moves its clock on to wall, without the time by which the agent was late. */
static void model_to(struct model *m, uint64_t wall)
{
	if (wall >= m->due + (uint64_t)m->s->period_ms)
		m->clock += m->due - m->wall;
	else
		m->clock += wall - m->wall;
	m->wall = wall;
}

static enum heartbeat_finding model_look(struct model *m, uint64_t wall, bool beat, bool step)
{
	enum heartbeat_finding finding;

	if (m->over)
		return HEARTBEAT_FINE;
	model_to(m, wall);
	finding = model_beats(m, beat);
	if (step) {
		m->step = m->clock;
		m->stepped = true;
	} else if (m->clock - m->step >= model_step_limit(m) && finding != HEARTBEAT_LOST) {
		finding = HEARTBEAT_STUCK;
	}
	m->over = finding == HEARTBEAT_LOST || finding == HEARTBEAT_STUCK;
	model_plan(m);
	return finding;
}

static void model_paused(struct model *m, uint64_t from, uint64_t until)
{
	model_to(m, from);
	m->wall = until;
	m->miss = m->clock; /* silence counts from here */
	model_plan(m);
	if (m->due < until)
		m->due = until;
}

struct walk {
	struct heartbeat h;
	struct model m;
	struct heartbeat_sample s;
	uint64_t now;
};

static void walk_begin(struct walk *w, const struct spec_heartbeat *s)
{
	*w = (struct walk){ .m = { .s = s, .wall = 1000 }, .s = { .expected = TOKEN } };
	w->now = 1000;
	heartbeat_start(&w->h, s, 1000);
	model_plan(&w->m);
}

/* event: whether it beats or makes a step, and when the check is. Returns a text on a difference.
 */
static const char *walk_step(struct walk *w, unsigned event, uint64_t early)
{
	static char text[256];
	uint64_t due = heartbeat_next(&w->h, w->now);
	uint64_t period = (uint64_t)w->m.s->period_ms;
	struct heartbeat_verdict v;
	enum heartbeat_finding finding;

	if (w->m.over)
		return NULL;
	if (due != w->m.due) {
		snprintf(text, sizeof(text), "due at %lu, expected %lu", (unsigned long)due,
			(unsigned long)w->m.due);
		return text;
	}
	switch (event >> 2) {
	case 0:
		w->now = due;
		break;
	case 1:
		/* A limit that was over while it was paused makes it due at once. */
		w->now = due - (due - w->now) / 2 - (due > w->now ? early % 2 : 0);
		break;
	case 2:
		w->now = due + period - 1 - early;
		break;
	default:
		w->now = due + (early & 1 ? period : period * 7);
	}
	if (event & 1) {
		w->s.token = TOKEN;
		w->s.beats++;
	}
	w->s.steps += event >> 1 & 1;
	finding = model_look(&w->m, w->now, event & 1, event >> 1 & 1);
	v = heartbeat_check(&w->h, &w->s, w->now);
	snprintf(text, sizeof(text), "%d (%s), expected %d", (int)v.finding, v.text, (int)finding);
	return v.finding == finding ? NULL : text;
}

/* Pauses between two checks, and checks meanwhile, which finds nothing. */
static void walk_hold(struct walk *w, uint64_t after, uint64_t ms)
{
	struct heartbeat_verdict v;

	if (w->m.over)
		return;
	heartbeat_pause(&w->h, w->now + after);
	v = heartbeat_check(&w->h, &w->s, w->now + after + ms / 2);
	ck_assert_int_eq(v.finding, HEARTBEAT_FINE);
	ck_assert_uint_eq(heartbeat_next(&w->h, w->now), UINT64_MAX);
	heartbeat_resume(&w->h, w->now + after + ms);
	model_paused(&w->m, w->now + after, w->now + after + ms);
	w->now += after + ms;
}

static const struct spec_heartbeat walked[] = {
	{ .period_ms = 10, .timeout_ms = -1, .failures = 3, .start_timeout_ms = -1 },
	{ .period_ms = 10, .timeout_ms = 25, .failures = 2, .start_timeout_ms = 30 },
	{ .period_ms = 10, .timeout_ms = 4, .failures = 3, .start_timeout_ms = 15 },
	{ .period_ms = 10, .timeout_ms = 10, .failures = 1, .start_timeout_ms = -1 },
	{ .period_ms = 10,
		.timeout_ms = -1,
		.failures = 3,
		.start_timeout_ms = -1,
		.progress_timeout_ms = 25,
		.progress_start_timeout_ms = 40 },
	{ .period_ms = 10,
		.timeout_ms = 15,
		.failures = 3,
		.start_timeout_ms = 20,
		.progress_timeout_ms = 35,
		.progress_start_timeout_ms = -1 },
};

static struct spec_heartbeat walked_spec(size_t i)
{
	struct spec_heartbeat s = walked[i];

	if (s.progress_timeout_ms == 0)
		s.progress_timeout_ms = s.progress_start_timeout_ms = SPEC_UNSET;
	s.log_timeout_ms = s.log_pattern_timeout_ms = s.progress_file_timeout_ms = SPEC_UNSET;
	return s;
}

START_TEST(all_orders_of_beats_steps_and_checks_agree_with_the_model)
{
	struct spec_heartbeat s = walked_spec((size_t)_i);
	int depth = under_valgrind() ? 2 : 4;
	unsigned n = 1u << 4 * (unsigned)depth;
	struct walk w;

	for (unsigned path = 0; path < n; path++) {
		walk_begin(&w, &s);
		for (int i = 0; i < depth; i++) {
			const char *wrong = walk_step(&w, path >> 4 * i & 15, 0);

			if (wrong)
				ck_abort_msg("path %x, step %d: %s", path, i, wrong);
		}
	}
}
END_TEST

START_TEST(random_walks_of_heartbeats_agree_with_the_model)
{
	struct spec_heartbeat s = walked_spec((size_t)_i);
	int walks = under_valgrind() ? 20 : 3000;
	uint64_t seed = 1;
	struct walk w;

	for (int walk = 0; walk < walks; walk++) {
		walk_begin(&w, &s);
		for (int i = 0; i < 50; i++) {
			const char *wrong;

			seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			if ((seed >> 36 & 7) == 0)
				walk_hold(&w, seed >> 32 & 15, seed >> 24 & 63);
			/* beats and steps are likely, so that a walk goes on */
			wrong = walk_step(&w,
				(seed >> 60 & 3 ? 1 : 0) | (seed >> 58 & 3 ? 2 : 0) |
					(unsigned)(seed >> 54 & 3) << 2,
				seed >> 40 & 7);
			if (wrong)
				ck_abort_msg("walk %d, step %d: %s", walk, i, wrong);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("heartbeat");
	TCase *t = tcase_create("heartbeat");
	int n = (int)(sizeof(walked) / sizeof(walked[0]));

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, the_first_and_second_miss_warn_and_the_third_is_fatal);
	tcase_add_test(t, a_beat_between_resets_the_misses);
	tcase_add_test(t, reported_worker_is_checked_again_from_its_next_sign);
	tcase_add_test(t, wrong_token_fails_at_once);
	tcase_add_test(t, wrong_token_fails_before_the_first_beat);
	tcase_add_test(t, worker_without_beats_is_fine_without_a_start_timeout);
	tcase_add_test(t, worker_without_beats_is_lost_at_the_start_timeout);
	tcase_add_test(t, a_timeout_longer_than_the_period_is_a_miss_each_time_it_passes);
	tcase_add_test(t, frequent_checks_find_no_more_misses);
	tcase_add_test(t, one_check_finds_one_miss_at_most);
	tcase_add_test(t, time_in_which_the_agent_did_not_run_does_not_count);
	tcase_add_test(t, beat_while_the_agent_did_not_run_counts);
	tcase_add_test(t, agent_that_is_always_late_still_finds_a_lost_worker);
	tcase_add_test(t, no_check_fails_while_paused);
	tcase_add_test(t, silence_begins_again_after_a_pause);
	tcase_add_test(t, misses_before_a_pause_still_count);
	tcase_add_test(t, beat_during_a_pause_is_seen_afterwards);
	tcase_add_test(t, start_limit_moves_by_the_pause);
	tcase_add_test(t, pausing_twice_is_pausing_once);
	tcase_add_test(t, reported_and_paused_worker_is_checked_again_from_its_next_sign);
	tcase_add_test(t, agents_delay_before_a_pause_does_not_count);
	tcase_add_loop_test(t, progress_limit_moves_by_the_pause, 0, 4);
	tcase_add_loop_test(t, a_worker_without_progress_is_stuck_though_it_beats, 0, 4);
	tcase_add_loop_test(t, progress_is_checked_without_a_period, 0, 4);
	tcase_add_loop_test(t, until_the_first_sign_the_limit_is_that_of_the_start, 0, 4);
	tcase_add_test(t, each_limit_that_is_set_must_be_kept);
	tcase_add_test(t, nothing_is_checked_where_nothing_is_set);
	tcase_add_test(t, clock_that_goes_back_counts_as_standing_still);
	tcase_add_loop_test(t, all_orders_of_beats_steps_and_checks_agree_with_the_model, 0, n);
	tcase_add_loop_test(t, random_walks_of_heartbeats_agree_with_the_model, 0, n);
	suite_add_tcase(s, t);
	return suite_run(s);
}
