/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/policy/stop_machine.h: every state with every event and every input. */
#include "agent/policy/stop_machine.h"
#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

enum { NOW = 1000000, INPUTS = 16 };

#define NEVER UINT64_MAX

/* The meaning of one letter of the table below. limit_ms: how long the next state may last; 0: the
 * present limit goes on. */
struct outcome {
	char letter;
	enum stop_state next;
	unsigned actions;
	uint64_t limit_ms;
};

static const struct outcome outcomes[] = {
	{ 'D', STOP_DUMPING, STOP_DO_DUMP, STOP_DUMP_MS },
	{ 'T', STOP_STOPPING, STOP_DO_SEND, NEVER },
	{ 'B', STOP_KILLING, STOP_DO_SEND | STOP_DO_KILL, STOP_GIVE_UP_MS },
	{ 'K', STOP_KILLING, STOP_DO_KILL, STOP_GIVE_UP_MS },
	{ 'M', STOP_KILLING, STOP_DO_KILL_MORE, STOP_GIVE_UP_MS },
	{ 'C', STOP_CLEANING, STOP_DO_CLEAN, STOP_LEFTOVER_MS },
	{ 'S', STOP_SWEEPING, STOP_DO_SWEEP, STOP_GIVE_UP_MS },
	{ 'G', STOP_IDLE, STOP_DO_GIVE_UP, NEVER },
	{ 'A', STOP_IDLE, STOP_DO_ABANDON, NEVER },
	{ 'F', STOP_IDLE, STOP_DO_FINISH, NEVER },
	{ 'I', STOP_IDLE, 0, NEVER },
	/* the state stays */
	{ 'd', STOP_DUMPING, 0, 0 },
	{ 't', STOP_STOPPING, 0, 0 },
	{ 'c', STOP_CLEANING, 0, 0 },
	{ 'l', STOP_CLEANING, STOP_DO_CHECK, 0 },
	{ 's', STOP_SWEEPING, STOP_DO_SWEEP, 0 },
};

/* One letter for each event, in this order: END LIMIT KILL ENDED DUE GONE LEAVE. '-' is refused,
 * '.' is ignored; digits depend on the input. */
static const char *const expected[] = {
	[STOP_IDLE] = "1 . . . - - .",
	[STOP_DUMPING] = "d d K 2 3 - I",
	[STOP_STOPPING] = "t t K 2 K - I",
	[STOP_KILLING] = ". . M S G - I",
	[STOP_CLEANING] = "c c S l S F I",
	[STOP_SWEEPING] = ". . S s A F I",
};

static struct stop_input input(int i)
{
	return (struct stop_input){
		.now_ms = NOW,
		.timeout_ms = i & 1 ? 0 : 30000,
		.alive = i & 2,
		.dump = i & 4,
		.main_only = i & 8,
	};
}

static char expected_letter(
	const struct stop_machine *m, enum stop_event e, const struct stop_input *in)
{
	char letter = expected[m->state][2 * e];
	bool overdue = m->deadline_ms <= NOW;

	switch (letter) {
	case '1': /* a new stop */
		if (!in->alive)
			return in->main_only || !in->timeout_ms ? 'S' : 'C';
		return in->dump ? 'D' : in->timeout_ms ? 'T' : 'B';
	case '2': /* workers have ended */
		return in->main_only || overdue ? 'S' : 'C';
	case '3': /* the dump is over */
		return overdue ? 'B' : 'T';
	default:
		return letter;
	}
}

static const struct outcome *outcome(char letter)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (outcomes[i].letter == letter)
			return &outcomes[i];
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void check_times(const struct stop_machine *before, const struct stop_machine *m,
	const struct outcome *o, enum stop_event e, const struct stop_input *in)
{
	uint64_t deadline = before->deadline_ms, limit = before->limit_ms;
	bool killed = m->state == STOP_KILLING || m->state == STOP_SWEEPING;

	if (e == STOP_EV_LIMIT || (e == STOP_EV_END && before->state == STOP_IDLE))
		deadline = NOW + in->timeout_ms;
	if (e == STOP_EV_END)
		deadline = min64(deadline, NOW + in->timeout_ms);
	if (o->limit_ms)
		limit = o->limit_ms == NEVER ? NEVER : NOW + o->limit_ms;
	if (m->state == STOP_DUMPING && o->limit_ms)
		limit = NOW + min64(STOP_DUMP_MS, in->timeout_ms / 2);
	ck_assert_uint_eq(m->deadline_ms, deadline);
	ck_assert_uint_eq(m->limit_ms, limit);
	if (m->state != STOP_IDLE)
		ck_assert_uint_eq(m->due_ms, killed ? limit : min64(limit, deadline));
}

static void check_cell(struct stop_machine before, enum stop_event e, const struct stop_input *in)
{
	char letter = expected_letter(&before, e, in);
	struct stop_machine m = before;
	unsigned actions = 0xdead;
	int r = stop_step(&m, e, in, &actions);
	const struct outcome *o;

	if (letter == '-' || letter == '.') {
		ck_assert_msg(r == (letter == '-' ? -EINVAL : 1), "%s, %s: result %d",
			stop_state_name(before.state), stop_event_name(e), r);
		ck_assert_msg(!memcmp(&m, &before, sizeof(m)) && actions == 0xdead,
			"%s, %s: changed by an event that means nothing",
			stop_state_name(before.state), stop_event_name(e));
		return;
	}
	o = outcome(letter);
	ck_assert_msg(r == 0 && m.state == o->next && actions == o->actions,
		"%s, %s: result %d, went to %s with actions %#x", stop_state_name(before.state),
		stop_event_name(e), r, stop_state_name(m.state), actions);
	check_times(&before, &m, o, e, in);
}

/* The deadline and the limit are in the future, are now, or are over. */
START_TEST(every_event_has_its_answer_in_every_state)
{
	static const uint64_t times[] = { NOW - 1, NOW, NOW + 1, NOW + 700, NOW + 40000 };
	enum { N = sizeof(times) / sizeof(times[0]) };

	for (int s = 0; s < STOP_N_STATES; s++)
		for (int e = 0; e < STOP_N_EVENTS; e++)
			for (int i = 0; i < INPUTS * N * N; i++) {
				struct stop_input in = input(i % INPUTS);
				struct stop_machine m = { .state = s,
					.deadline_ms = times[i / INPUTS % N],
					.limit_ms = times[i / INPUTS / N] };

				check_cell(m, e, &in);
			}
}
END_TEST

/* A stop in which no process ends: each step comes when the one before said. */
static void check_ladder(
	const struct stop_input *in, const uint64_t *after_ms, const unsigned *actions, int n)
{
	struct stop_machine m = { 0 };
	struct stop_input at = *in;
	unsigned done = 0;

	ck_assert_int_eq(stop_step(&m, STOP_EV_END, &at, &done), 0);
	for (int i = 0; i < n; i++) {
		ck_assert_msg(done == actions[i] && at.now_ms == in->now_ms + after_ms[i],
			"step %d: actions %#x after %d ms", i, done, (int)(at.now_ms - in->now_ms));
		if (m.state == STOP_IDLE)
			break;
		at = (struct stop_input){ .now_ms = m.due_ms };
		ck_assert_int_eq(stop_step(&m, STOP_EV_DUE, &at, &done), 0);
	}
	ck_assert_int_eq(m.state, STOP_IDLE);
}

START_TEST(each_step_comes_at_its_time)
{
	static const unsigned plain[] = { STOP_DO_SEND, STOP_DO_KILL, STOP_DO_GIVE_UP };
	static const unsigned dumped[] = { STOP_DO_DUMP, STOP_DO_SEND, STOP_DO_KILL,
		STOP_DO_GIVE_UP };
	static const unsigned at_once[] = { STOP_DO_SEND | STOP_DO_KILL, STOP_DO_GIVE_UP };
	static const unsigned rest[] = { STOP_DO_CLEAN, STOP_DO_SWEEP, STOP_DO_ABANDON };
	struct stop_input in = { .now_ms = NOW, .timeout_ms = 30000, .alive = true };

	check_ladder(&in, (uint64_t[]){ 0, 30000, 40000 }, plain, 3);
	in.dump = true;
	check_ladder(&in, (uint64_t[]){ 0, 1000, 30000, 40000 }, dumped, 4);
	in.timeout_ms = 600;
	check_ladder(&in, (uint64_t[]){ 0, 300, 600, 10600 }, dumped, 4);
	in = (struct stop_input){ .now_ms = NOW, .alive = true };
	check_ladder(&in, (uint64_t[]){ 0, 10000 }, at_once, 2);
	in = (struct stop_input){ .now_ms = NOW, .timeout_ms = 30000 };
	check_ladder(&in, (uint64_t[]){ 0, 2000, 12000 }, rest, 3);
	in.timeout_ms = 500;
	check_ladder(&in, (uint64_t[]){ 0, 500, 10500 }, rest, 3);
}
END_TEST

START_TEST(cleaning_after_a_dump_has_its_own_short_limit)
{
	struct stop_input in = { .now_ms = NOW, .timeout_ms = 600000, .alive = true, .dump = true };
	struct stop_machine m = { 0 };
	unsigned actions;

	ck_assert_int_eq(stop_step(&m, STOP_EV_END, &in, &actions), 0);
	in.now_ms += 10;
	ck_assert_int_eq(stop_step(&m, STOP_EV_ENDED, &in, &actions), 0);
	ck_assert_uint_eq(actions, STOP_DO_CLEAN);
	ck_assert_uint_eq(m.due_ms, NOW + 10 + STOP_LEFTOVER_MS);
	in.now_ms = m.due_ms;
	ck_assert_int_eq(stop_step(&m, STOP_EV_DUE, &in, &actions), 0);
	ck_assert_uint_eq(actions, STOP_DO_SWEEP);
}
END_TEST

/* A second stop makes no step later, in any state. */
START_TEST(a_second_stop_only_hastens_the_first)
{
	uint32_t seed = 2463534242u;

	for (int s = STOP_DUMPING; s < STOP_N_STATES; s++)
		for (int i = 0; i < 1000; i++) {
			struct stop_machine m = { .state = s,
				.deadline_ms = NOW + next_random(&seed) % 60000,
				.limit_ms = NOW + next_random(&seed) % 10000 };
			struct stop_input in = input((int)(next_random(&seed) % INPUTS));
			unsigned actions = 0;
			uint64_t deadline = m.deadline_ms;

			m.due_ms = s == STOP_KILLING || s == STOP_SWEEPING
					   ? m.limit_ms
					   : min64(m.limit_ms, m.deadline_ms);
			uint64_t due = m.due_ms;

			in.timeout_ms = next_random(&seed) % 60000;
			ck_assert_int_ge(stop_step(&m, STOP_EV_END, &in, &actions), 0);
			if (m.due_ms > due || m.deadline_ms > deadline || actions)
				ck_abort_msg("%s: later than before", stop_state_name(s));
		}
}
END_TEST

/* No assertion inside: Check writes a line for every one. */
static void walk(uint32_t *seed, unsigned *visited)
{
	struct stop_machine m = { 0 };
	uint64_t now = NOW;
	bool killed = false;

	for (int i = 0; i < 100; i++) {
		enum stop_event e = next_random(seed) % STOP_N_EVENTS;
		struct stop_input in = input((int)(next_random(seed) % INPUTS));
		unsigned actions = 0;

		now += next_random(seed) % 500;
		if (e == STOP_EV_DUE && m.state != STOP_IDLE && now < m.due_ms)
			now = m.due_ms;
		in.now_ms = now;
		if (stop_step(&m, e, &in, &actions) != 0)
			continue;
		if (killed && actions & (STOP_DO_DUMP | STOP_DO_SEND | STOP_DO_CLEAN))
			ck_abort_msg("signal after SIGKILL, in %s", stop_state_name(m.state));
		killed = m.state != STOP_IDLE &&
			 (killed || actions & (STOP_DO_KILL | STOP_DO_SWEEP));
		if (killed != (m.state == STOP_KILLING || m.state == STOP_SWEEPING))
			ck_abort_msg("%s, although SIGKILL was %ssent", stop_state_name(m.state),
				killed ? "" : "not ");
		if (m.state != STOP_IDLE && m.due_ms == NEVER)
			ck_abort_msg("%s without an end", stop_state_name(m.state));
		*visited |= 1u << m.state;
	}
}

START_TEST(random_walks_have_always_an_end_and_nothing_follows_sigkill)
{
	uint32_t seed = 88172645u;
	unsigned visited = 0;
	int walks = under_valgrind() ? 200 : 5000;

	for (int i = 0; i < walks; i++)
		walk(&seed, &visited);
	ck_assert_uint_eq(visited, (1u << STOP_N_STATES) - 1);
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < STOP_N_STATES; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(stop_state_name(i), stop_state_name(k));
	for (int i = 0; i < STOP_N_EVENTS; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(stop_event_name(i), stop_event_name(k));
	ck_assert_str_eq(stop_state_name(STOP_SWEEPING), "sweeping");
	ck_assert_str_eq(stop_event_name(STOP_EV_LEAVE), "leave");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stop_machine");
	TCase *t = tcase_create("stop");

	tcase_add_test(t, every_event_has_its_answer_in_every_state);
	tcase_add_test(t, each_step_comes_at_its_time);
	tcase_add_test(t, cleaning_after_a_dump_has_its_own_short_limit);
	tcase_add_test(t, a_second_stop_only_hastens_the_first);
	tcase_add_test(t, random_walks_have_always_an_end_and_nothing_follows_sigkill);
	tcase_add_test(t, states_and_events_have_names_of_their_own);
	suite_add_tcase(s, t);
	return suite_run(s);
}
