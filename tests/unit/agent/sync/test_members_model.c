/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the members with a model, which keeps all waits in one table and goes through it after
 * each step: all orders of events in a small world, and random walks in a larger one. */

#include "tests/unit/members_test.h"
#include "tests/unit/run.h"

static void setup(void)
{
	static const struct members_options opt = { .answer = on_answer, .name = name_of };

	n_answers = 0;
	ck_assert_int_eq(members_new(&opt, &m), 0);
}

enum { SLOTS = 4, WAITS = 64 };

struct model_wait {
	intptr_t token; /* 0: free */
	char kind;
	int slot;
	unsigned set;
	uint64_t deadline;
};

struct model {
	unsigned known, alive, recoverable, observer, left;
	int error_slot;
	enum status error_code; /* OK: none */
	unsigned leave_failed;
	enum status
		own[SLOTS]; /* each worker's own error; counted: those that count for the group */
	unsigned counted;
	bool stopped;
	struct model_wait waits[WAITS];
	struct answered told[WAITS];
	int n_told;
};

static void model_answer(struct model *o, struct model_wait *w, enum status status, unsigned slots)
{
	struct answered *t = &o->told[o->n_told++];

	*t = (struct answered){
		.token = w->token, .status = status, .slots = slots, .error_slot = -1
	};
	if (w->kind == 'e' && status == STATUS_OK) {
		t->error_slot = o->error_slot;
		t->error_code = o->error_code;
	}
	w->token = 0;
}

static unsigned model_must_leave(const struct model *o)
{
	return o->alive & ~o->left & ~o->recoverable & ~o->observer;
}

static unsigned model_called(const struct model *o, unsigned set)
{
	unsigned called = 0;

	for (int i = 0; i < WAITS; i++)
		if (o->waits[i].token && o->waits[i].kind == 'a' && o->waits[i].set == set)
			called |= 1u << o->waits[i].slot;
	return called;
}

static void model_settle(struct model *o)
{
	for (int i = 0; i < WAITS; i++) {
		struct model_wait *w = &o->waits[i];
		unsigned set = w->set, living = set & o->alive & ~o->left;

		if (!w->token)
			continue;
		if (w->kind == 'e' && o->error_code)
			model_answer(o, w, STATUS_OK, 0);
		else if (w->kind == 'l' && o->error_code)
			model_answer(o, w,
				o->leave_failed ? STATUS_DEADLINE_EXCEEDED : STATUS_ABORTED,
				o->leave_failed ? o->leave_failed : model_must_leave(o));
		else if (w->kind == 'l' && !model_must_leave(o))
			model_answer(o, w, STATUS_OK, 0);
		else if (w->kind == 'a' && !(living & ~model_called(o, set)))
			for (int k = WAITS - 1; k >= i; k--)
				if (o->waits[k].token && o->waits[k].kind == 'a' &&
					o->waits[k].set == set)
					model_answer(o, &o->waits[k], STATUS_OK, living);
	}
}

static void model_error(struct model *o, int slot, enum status code)
{
	if (o->error_code)
		return;
	o->error_code = code;
	o->error_slot = slot;
}

/* A new process of slot ends the group's error, if that was of its last process. */
static void model_started(struct model *o, int slot)
{
	o->own[slot] = STATUS_OK;
	o->counted &= ~(1u << slot);
	if (!o->error_code || o->leave_failed || o->error_slot != slot)
		return;
	o->error_code = STATUS_OK;
	for (int s = 0; s < SLOTS; s++)
		if (o->counted & 1u << s)
			model_error(o, s, o->own[s]);
}

static void model_wait(struct model *o, struct model_wait w)
{
	int i = 0;

	while (o->waits[i].token)
		i++;
	if (w.kind == 'a' && !o->stopped && !(w.set & 1u << w.slot))
		model_answer(o, &w, STATUS_INVALID_ARGUMENT, 0);
	else if (w.kind == 'l' && !(o->known & 1u << w.slot))
		model_answer(o, &w, STATUS_INVALID_ARGUMENT, 0);
	else if (o->stopped && !(w.kind == 'e' && o->error_code))
		model_answer(o, &w, STATUS_ABORTED, 0);
	else
		o->waits[i] = w;
	if (w.kind == 'l')
		o->left |= o->known & 1u << w.slot;
	model_settle(o);
}

static void model_ended(struct model *o, int slot, bool bad)
{
	unsigned bit = 1u << slot;

	if (!(o->alive & bit))
		return;
	o->alive &= ~bit;
	for (int i = 0; i < WAITS; i++)
		if (o->waits[i].token && o->waits[i].kind != 'e' && o->waits[i].slot == slot)
			model_answer(o, &o->waits[i], STATUS_CANCELLED, 0);
	if (bad && !o->own[slot])
		o->own[slot] = STATUS_UNAVAILABLE;
	if (bad && !((o->recoverable | o->observer | o->left) & bit)) {
		o->counted |= bit;
		model_error(o, slot, STATUS_UNAVAILABLE);
	}
	model_settle(o);
}

static void model_expire(struct model *o, uint64_t now)
{
	unsigned called[1 << SLOTS], stays = model_must_leave(o);
	bool leave = false;

	for (unsigned set = 0; set < 1u << SLOTS; set++)
		called[set] = model_called(o, set);
	for (int i = 0; i < WAITS; i++) {
		struct model_wait *w = &o->waits[i];

		if (!w->token || w->deadline > now)
			continue;
		if (w->kind == 'l')
			leave = true;
		else
			model_answer(o, w, STATUS_DEADLINE_EXCEEDED,
				w->kind == 'a' ? w->set & o->alive & ~o->left & ~called[w->set]
					       : 0);
	}
	if (leave) {
		int slot = 0;

		while (!(stays & 1u << slot))
			slot++;
		o->leave_failed = stays;
		model_error(o, slot, STATUS_DEADLINE_EXCEEDED);
	}
	model_settle(o);
}

static void model_end(struct model *o, enum status status)
{
	for (int i = 0; i < WAITS; i++)
		if (o->waits[i].token)
			model_answer(o, &o->waits[i], status, 0);
}

static int by_token(const void *a, const void *b)
{
	intptr_t x = ((const struct answered *)a)->token, y = ((const struct answered *)b)->token;

	return (x > y) - (x < y);
}

static void model_compare(struct model *o, int step)
{
	if (n_answers != o->n_told)
		ck_abort_msg("step %d: %d answers, expected %d", step, n_answers, o->n_told);
	qsort(answers, (size_t)n_answers, sizeof(answers[0]), by_token);
	qsort(o->told, (size_t)n_answers, sizeof(answers[0]), by_token);
	for (int i = 0; i < n_answers; i++) {
		const struct answered *x = &answers[i], *y = &o->told[i];

		if (x->token != y->token || x->status != y->status || x->slots != y->slots ||
			x->error_slot != y->error_slot || x->error_code != y->error_code)
			ck_abort_msg("step %d: call %ld: %s %x %d, expected call %ld: %s %x %d",
				step, (long)x->token, status_name(x->status), x->slots,
				x->error_slot, (long)y->token, status_name(y->status), y->slots,
				y->error_slot);
	}
	for (int s = 0; s < SLOTS; s++)
		if (members_left(m, s) != !!(o->left & 1u << s))
			ck_abort_msg("step %d: worker:%d", step, s);
	if (!members_group_error(m) != !o->error_code ||
		(o->error_code && members_group_error(m)->slot != o->error_slot))
		ck_abort_msg("step %d: the group's error", step);
	n_answers = o->n_told = 0;
}

static struct model world;
static uint64_t world_now;
static intptr_t world_token;

/* A default set, which is that of all slots here, is a set like any other. */
static int world_wait_alive(
	int slot, const int *members, size_t n, uint64_t deadline, intptr_t token)
{
	bool begun = n == SLOTS && members_begun_default(m, slot);

	if (n < SLOTS || (token % 3 == 0 && !begun))
		return members_wait_alive(m, slot, members, n, false, deadline, (void *)token);
	return members_wait_alive(
		m, slot, begun ? &slot : members, begun ? 1 : n, true, deadline, (void *)token);
}

static void world_wait(char kind, int slot, unsigned set, uint64_t deadline)
{
	intptr_t token = ++world_token;
	int members[SLOTS], r;
	size_t n = 0;

	for (int s = SLOTS - 1; s >= 0; s--)
		if (set & 1u << s)
			members[n++] = s;
	model_wait(&world, (struct model_wait){ token, kind, slot, set, deadline });
	if (kind == 'e')
		r = members_wait_error(m, deadline, (void *)token);
	else if (kind == 'a')
		r = world_wait_alive(slot, members, n, deadline, token);
	else
		r = members_leave(m, slot, deadline, (void *)token);
	if (r != 0)
		ck_abort_msg("%c: %d", kind, r);
}

static void world_start(int slot, bool recoverable, bool observer)
{
	unsigned bit = 1u << slot;

	if (world.alive & bit)
		return;
	world.known |= bit;
	world.alive |= bit;
	world.left &= ~bit;
	world.recoverable = recoverable ? world.recoverable | bit : world.recoverable & ~bit;
	world.observer = observer ? world.observer | bit : world.observer & ~bit;
	model_started(&world, slot);
	if (members_started(m, slot, recoverable, observer) != 0)
		ck_abort_msg("start");
}

static void world_report(int slot)
{
	unsigned bit = 1u << slot;
	int r = members_report(m, slot, STATUS_INTERNAL, "no", 1);

	if (r != (world.known & bit ? 0 : -EINVAL))
		ck_abort_msg("report: %d", r);
	if (r == 0)
		world.own[slot] = STATUS_INTERNAL;
	if (r == 0 && !(world.recoverable & bit)) {
		world.counted |= bit;
		model_error(&world, slot, STATUS_INTERNAL);
	}
	model_settle(&world);
}

static void world_forget(intptr_t token)
{
	for (int i = 0; i < WAITS; i++)
		if (world.waits[i].token == token)
			world.waits[i].token = 0;
	members_forget(m, (void *)token);
}

static void world_end(bool reset)
{
	model_end(&world, reset ? STATUS_CANCELLED : STATUS_ABORTED);
	if (reset) {
		int n_told = world.n_told;
		struct answered told[WAITS];

		memcpy(told, world.told, sizeof(told));
		world = (struct model){ .n_told = n_told };
		memcpy(world.told, told, sizeof(told));
		members_reset(m);
	} else {
		world.stopped = true;
		members_stop(m, STATUS_ABORTED, "over");
	}
}

/* The event with this number, of WORLD_EVENTS. */
enum { WORLD_EVENTS = 16 };

static void world_step(unsigned event, int slot, unsigned set, uint64_t deadline)
{
	switch (event) {
	case 0:
	case 1:
	case 2:
		world_wait('a', slot, set, deadline);
		break;
	case 3:
	case 4:
		world_wait('l', slot, 0, deadline);
		break;
	case 5:
		world_wait('e', -1, 0, deadline);
		break;
	case 6:
	case 7:
		world_start(slot, set & 1, set == 15 || set == 2);
		break;
	case 8:
	case 9:
		model_ended(&world, slot, event == 9);
		members_ended(m, slot, event == 9, "exit code 1", 1);
		break;
	case 10:
		world_report(slot);
		break;
	case 11:
	case 12:
		world_now += set & 7;
		model_expire(&world, world_now);
		members_expire(m, world_now, 1);
		break;
	case 13:
	case 14:
		world_forget(world_token - slot);
		break;
	default:
		world_end(set != 15);
	}
}

static void world_begin(void)
{
	members_reset(m);
	n_answers = 0;
	world = (struct model){ 0 };
	world_now = 0;
	world_token = 100;
	for (int i = 0; i < 3; i++)
		world_start(i, false, false);
}

static unsigned dice(uint64_t *seed, unsigned n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % n;
}

START_TEST(random_walks_agree_with_the_model)
{
	static const unsigned sets[] = { 7, 7, 7, 3, 15, 2, 1, 14 };
	int walks = walk_length(4000, 1000, 20);

	for (int walk = 0; walk < walks; walk++) {
		uint64_t seed = (uint64_t)walk + 1;

		world_begin();
		for (int i = 0; i < 60; i++) {
			unsigned event = dice(&seed, WORLD_EVENTS);
			int slot = (int)dice(&seed, SLOTS);
			unsigned set = sets[dice(&seed, 8)];

			if (event == 15 && dice(&seed, 4))
				continue;
			world_step(event, slot, set,
				dice(&seed, 2) ? NEVER : world_now + 1 + dice(&seed, 8));
			model_compare(&world, walk * 1000 + i);
		}
	}
}
END_TEST

START_TEST(all_orders_of_three_members_agree_with_the_model)
{
	static const struct {
		unsigned event;
		int slot;
		unsigned set;
		uint64_t deadline;
	} ops[] = { { 0, 0, 7, 3 }, { 0, 1, 7, NEVER }, { 0, 2, 6, NEVER }, { 3, 0, 0, 2 },
		{ 3, 1, 0, NEVER }, { 3, 2, 0, NEVER }, { 5, 0, 0, NEVER }, { 8, 2, 0, 0 },
		{ 9, 1, 0, 0 }, { 6, 1, 1, 0 }, { 10, 2, 0, 0 }, { 11, 0, 3, 0 }, { 13, 0, 0, 0 } };
	const unsigned n = sizeof(ops) / sizeof(ops[0]);
	int depth = walk_length(5, 4, 2);
	unsigned at[8] = { 0 };
	int i;

	do {
		world_begin();
		for (i = 0; i < depth; i++) {
			world_step(ops[at[i]].event, ops[at[i]].slot, ops[at[i]].set,
				ops[at[i]].deadline);
			model_compare(&world, i);
		}
		for (i = depth - 1; i >= 0 && ++at[i] == n; i--)
			at[i] = 0;
	} while (i >= 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("members_model");
	TCase *t = tcase_create("model");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, random_walks_agree_with_the_model);
	tcase_add_test(t, all_orders_of_three_members_agree_with_the_model);
	suite_add_tcase(s, t);
	return suite_run(s);
}
