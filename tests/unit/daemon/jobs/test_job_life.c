/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of daemon/jobs/job_life.h: every state with every event and every input. */
#include "daemon/jobs/job_life.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

enum { IMPOSSIBLE = -1, IGNORED = -2, INPUTS = 16 };

static struct life_input input(int i)
{
	return (struct life_input){
		.accepted = i & 1, .guard_gone = i & 2, .left_clean = i & 4, .may_resume = i & 8
	};
}

/* For each pair what follows. Where the input matters, the table says so by a letter: A accepted,
 * G the guard is gone, C it left nothing else, M it may be resumed. */
struct expected {
	enum life next;
	enum life_action action;
};

static int judge(enum life s, enum life_event e, const struct life_input *in, struct expected *x)
{
#define THEN(n, a)                                               \
	do {                                                     \
		*x = (struct expected){ LIFE_##n, LIFE_DO_##a }; \
		return 0;                                        \
	} while (0)
	switch (s) {
	case LIFE_STARTING:
	case LIFE_LINKED:
		if (e == LIFE_EV_ANSWERED && s == LIFE_STARTING)
			THEN(LINKED, ATTACH);
		if (e == LIFE_EV_ANSWERED || e == LIFE_EV_GUARD_GONE)
			return IGNORED;
		if (e == LIFE_EV_VERDICT && in->guard_gone && in->left_clean)
			THEN(ENDED, FINISH);
		if (e == LIFE_EV_VERDICT && in->guard_gone)
			THEN(CLEARING, SETTLE);
		if (e == LIFE_EV_VERDICT)
			THEN(CLOSING, ANNOUNCE);
		if (e == LIFE_EV_UNLINKED && in->guard_gone)
			THEN(SWEEPING, SWEEP);
		if (e == LIFE_EV_UNLINKED)
			THEN(LOST, AWAIT);
		if (e == LIFE_EV_CONDEMNED && in->guard_gone)
			THEN(SWEEPING, SWEEP);
		if (e == LIFE_EV_CONDEMNED)
			THEN(LOST, KILL);
		if (e == LIFE_EV_SPAWN_FAILED && s == LIFE_STARTING && !in->accepted)
			THEN(ENDED, ABANDON);
		if (e == LIFE_EV_SPAWN_FAILED && s == LIFE_STARTING)
			THEN(SWEEPING, SWEEP);
		return IMPOSSIBLE;
	case LIFE_LOST:
		if (e == LIFE_EV_UNLINKED)
			return IGNORED;
		if (e == LIFE_EV_VERDICT && in->guard_gone && in->left_clean)
			THEN(ENDED, FINISH);
		if (e == LIFE_EV_VERDICT && in->guard_gone)
			THEN(CLEARING, SETTLE);
		if (e == LIFE_EV_VERDICT)
			THEN(CLOSING, ANNOUNCE);
		if (e == LIFE_EV_GUARD_GONE)
			THEN(SWEEPING, SWEEP);
		if (e == LIFE_EV_FOUND)
			THEN(STARTING, RELINK);
		if (e == LIFE_EV_CONDEMNED || e == LIFE_EV_OVERDUE)
			THEN(LOST, KILL);
		return IMPOSSIBLE;
	case LIFE_SWEEPING:
		if (e == LIFE_EV_UNLINKED || e == LIFE_EV_GUARD_GONE || e == LIFE_EV_CONDEMNED)
			return IGNORED;
		if (e == LIFE_EV_VERDICT)
			THEN(CLEARING, SETTLE);
		if (e == LIFE_EV_SWEPT && in->may_resume)
			THEN(STARTING, RESUME);
		if (e == LIFE_EV_SWEPT)
			THEN(ENDED, GIVE_UP);
		return IMPOSSIBLE;
	case LIFE_CLOSING:
		if (e == LIFE_EV_UNLINKED || e == LIFE_EV_VERDICT)
			return IGNORED;
		if (e == LIFE_EV_CONDEMNED || e == LIFE_EV_OVERDUE)
			THEN(CLOSING, KILL);
		if (e == LIFE_EV_GUARD_GONE && in->guard_gone && in->left_clean)
			THEN(ENDED, CLEAR);
		if (e == LIFE_EV_GUARD_GONE)
			THEN(CLEARING, SEARCH);
		return IMPOSSIBLE;
	case LIFE_CLEARING:
		if (e == LIFE_EV_SWEPT)
			THEN(ENDED, CLEAR);
		return e == LIFE_EV_CONDEMNED || e == LIFE_EV_GUARD_GONE ? IGNORED : IMPOSSIBLE;
	case LIFE_ENDED:
		return e == LIFE_EV_CONDEMNED || e == LIFE_EV_UNLINKED || e == LIFE_EV_GUARD_GONE
			       ? IGNORED
			       : IMPOSSIBLE;
	case LIFE_N:
		break;
	}
	return IMPOSSIBLE;
}

START_TEST(every_state_has_an_answer_to_every_event)
{
	for (int i = 0; i < LIFE_N * LIFE_EV_N * INPUTS; i++) {
		enum life state = i / INPUTS / LIFE_EV_N;
		enum life_event event = i / INPUTS % LIFE_EV_N;
		struct life_input in = input(i);
		struct life_step step = { LIFE_N, LIFE_DO_NOTHING };
		struct expected x = { LIFE_N, LIFE_DO_NOTHING };
		int verdict = judge(state, event, &in, &x);
		int r = life_step(state, event, &in, &step);

		ck_assert_msg(r == (verdict == 0		? 0
					   : verdict == IGNORED ? 1
								: -EINVAL),
			"%s, %s: got %d", life_name(state), life_event_text(event), r);
		ck_assert_msg(step.next == x.next && step.action == x.action,
			"%s, %s, input %d: went to %s by action %d", life_name(state),
			life_event_text(event), i % INPUTS, life_name(step.next), step.action);
	}
}
END_TEST

START_TEST(an_accepted_job_never_ends_without_a_verdict)
{
	for (int i = 0; i < LIFE_N * LIFE_EV_N * INPUTS; i++) {
		struct life_input in = input(i);
		enum life state = i / INPUTS / LIFE_EV_N;
		enum life_event event = i / INPUTS % LIFE_EV_N;
		struct life_step step;

		in.accepted = true;
		if (state == LIFE_ENDED || life_step(state, event, &in, &step) ||
			step.next != LIFE_ENDED)
			continue;
		/* By a verdict just heard, by one heard before, or by elasticd's own. */
		ck_assert(event == LIFE_EV_VERDICT || state == LIFE_CLOSING ||
			  state == LIFE_CLEARING || step.action == LIFE_DO_GIVE_UP);
	}
}
END_TEST

START_TEST(nothing_is_started_before_all_is_swept)
{
	for (int i = 0; i < LIFE_N * LIFE_EV_N * INPUTS; i++) {
		struct life_input in = input(i);
		struct life_step step;

		if (!life_step(i / INPUTS / LIFE_EV_N, i / INPUTS % LIFE_EV_N, &in, &step) &&
			step.action == LIFE_DO_RESUME)
			ck_assert_int_eq(i / INPUTS % LIFE_EV_N, LIFE_EV_SWEPT);
	}
}
END_TEST

START_TEST(states_and_events_have_names)
{
	ck_assert_str_eq(life_name(LIFE_SWEEPING), "sweeping");
	ck_assert_str_eq(life_name(LIFE_N), "?");
	for (int i = 0; i < LIFE_EV_N; i++)
		ck_assert_int_gt((int)life_event_text(i)[0], 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("daemon_job");
	TCase *t = tcase_create("life");

	tcase_add_test(t, every_state_has_an_answer_to_every_event);
	tcase_add_test(t, an_accepted_job_never_ends_without_a_verdict);
	tcase_add_test(t, nothing_is_started_before_all_is_swept);
	tcase_add_test(t, states_and_events_have_names);
	suite_add_tcase(s, t);
	return suite_run(s);
}
