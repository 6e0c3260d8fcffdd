/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the barriers with a model, which keeps bits where they keep lists: all orders of events
 * in small worlds, and long random walks in larger ones. */

#include "agent/sync/barrier.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <stdio.h>

enum { SLOTS = 5, NAMES = 3, TOLD = 64 };

struct told {
	intptr_t token;
	enum status status;
	unsigned missing;
	int64_t generation;
};

struct told_list {
	struct told items[TOLD];
	int n;
};

static void told_add(struct told_list *l, struct told t)
{
	if (l->n == TOLD)
		ck_abort_msg("too many answers");
	l->items[l->n++] = t;
}

struct pending {
	bool is;
	struct told what;
};

struct model_name {
	bool open;
	unsigned set, arrived;
	intptr_t token[SLOTS];
	uint64_t deadline;
	int64_t uses;
	struct pending pending[SLOTS];
};

struct model {
	struct model_name names[NAMES];
	unsigned ended, halted; /* halted: those of ended that an operator stopped */
	bool stopped;
	enum status stop;
	struct told_list told;
};

static void model_close(
	struct model *m, struct model_name *n, enum status status, unsigned missing, unsigned knows)
{
	struct told what = { .status = status, .missing = missing, .generation = n->uses++ };

	for (int s = 0; s < SLOTS; s++) {
		what.token = n->token[s];
		if (n->token[s])
			told_add(&m->told, what);
		n->token[s] = 0;
		if (n->set & 1u << s)
			n->pending[s].is = false;
		if (n->set & ~n->arrived & ~knows & ~m->ended & 1u << s)
			n->pending[s] = (struct pending){ true, what };
	}
	n->open = false;
}

static void model_overdue(struct model *m, struct model_name *n, uint64_t now)
{
	if (n->open && n->deadline <= now)
		model_close(m, n, STATUS_DEADLINE_EXCEEDED, n->set & ~n->arrived, 0);
}

static void model_fail_wrong_call(struct model *m, struct model_name *n, int slot, intptr_t token)
{
	told_add(&m->told, (struct told){ .token = token,
				   .status = STATUS_INVALID_ARGUMENT,
				   .missing = 1u << slot,
				   .generation = n->uses });
	model_close(m, n, STATUS_INVALID_ARGUMENT, 1u << slot, 1u << slot);
}

/* Members have ended: the first of them is the reason of the failure. */
static void model_close_ended(struct model *m, struct model_name *n, unsigned ended)
{
	bool halted = ended & -ended & m->halted;

	model_close(m, n, halted ? STATUS_FAILED_PRECONDITION : STATUS_INTERNAL, ended, 0);
}

static void model_join(struct model *m, struct model_name *n, int slot, intptr_t token)
{
	if (n->token[slot])
		told_add(&m->told, (struct told){ .token = n->token[slot],
					   .status = STATUS_CANCELLED,
					   .generation = n->uses });
	n->token[slot] = token;
	n->arrived |= 1u << slot;
}

static void model_arrive(struct model *m, int name, int slot, unsigned set, uint64_t deadline,
	uint64_t now, intptr_t token)
{
	struct model_name *n = &m->names[name];
	bool fresh;

	if (m->stopped) {
		told_add(&m->told, (struct told){ .token = token, .status = m->stop });
		return;
	}
	model_overdue(m, n, now);
	if (n->pending[slot].is) {
		n->pending[slot].is = false;
		n->pending[slot].what.token = token;
		told_add(&m->told, n->pending[slot].what);
		return;
	}
	fresh = !n->open;
	if (fresh) {
		n->open = true;
		n->set = set;
		n->arrived = 0;
		n->deadline = deadline;
	}
	if (!(set & 1u << slot) || set != n->set) {
		model_fail_wrong_call(m, n, slot, token);
		return;
	}
	model_join(m, n, slot, token);
	if (fresh && (set & m->ended))
		model_close_ended(m, n, set & m->ended);
	else if (n->arrived == n->set)
		model_close(m, n, STATUS_OK, 0, 0);
	else
		model_overdue(m, n, now);
}

static void model_ended(struct model *m, int slot, bool bad, bool recoverable, bool halted)
{
	unsigned bit = 1u << slot;

	if (!recoverable && !(m->ended & bit))
		m->halted = halted ? m->halted | bit : m->halted & ~bit;
	if (!recoverable)
		m->ended |= bit;
	for (int i = 0; i < NAMES; i++) {
		struct model_name *n = &m->names[i];

		if (!n->open || !(n->set & bit) || ((n->arrived & bit) && !bad))
			continue;
		if (!recoverable) {
			model_close(m, n, halted ? STATUS_FAILED_PRECONDITION : STATUS_INTERNAL,
				bit, 0);
			continue;
		}
		model_join(m, n, slot, 0);
		n->arrived &= ~bit;
	}
}

static void model_started(struct model *m, int slot)
{
	m->ended &= ~(1u << slot);
	for (int i = 0; i < NAMES; i++)
		m->names[i].pending[slot].is = false;
}

static bool model_cancel(struct model *m, int name, enum status status, unsigned knows)
{
	struct model_name *n = &m->names[name];

	if (!n->open)
		return false;
	model_close(m, n, status, n->set & ~n->arrived, knows);
	return true;
}

static uint64_t model_expire(struct model *m, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < NAMES; i++) {
		model_overdue(m, &m->names[i], now);
		if (m->names[i].open && m->names[i].deadline < next)
			next = m->names[i].deadline;
	}
	return next;
}

static void model_end(struct model *m, enum status status)
{
	for (int i = 0; i < NAMES; i++) {
		model_cancel(m, i, status, 0);
		m->names[i] = (struct model_name){ 0 };
	}
}

enum what { ARRIVE, END, START, CANCEL, FAIL, FORGET, EXPIRE, STOP, RESET, HALT };

struct op {
	enum what what;
	int name, slot;
	unsigned set;
	uint64_t deadline; /* after now, 0: none */
	bool bad, recoverable;
	uint64_t later;
};

/* The barriers and the model, side by side. */
struct world {
	struct barriers *b;
	struct model m;
	struct told_list told;
	uint64_t now;
	intptr_t next_token;
	intptr_t last[NAMES][SLOTS];
	struct op path[16]; /* the last steps */
	size_t steps;
};

static const char *world_path(const struct world *w)
{
	static const char letters[] = "aescfgXSRh";
	static char text[1024];
	size_t used = 0, n = sizeof(w->path) / sizeof(w->path[0]);

	for (size_t i = w->steps > n ? w->steps - n : 0; i < w->steps; i++) {
		const struct op *op = &w->path[i % n];

		used += (size_t)snprintf(text + used, sizeof(text) - used, " %c%d/%d/%x%s%s",
			letters[op->what], op->name, op->slot, op->set, op->bad ? "b" : "",
			op->recoverable ? "r" : "");
	}
	return text;
}

/* ck_assert_msg() writes to a file each time, which is slow here. */
#define must(w, ok, ...)                                              \
	do {                                                          \
		if (!(ok)) {                                          \
			fprintf(stderr, "after%s:\n", world_path(w)); \
			ck_abort_msg(__VA_ARGS__);                    \
		}                                                     \
	} while (0)

static const char *world_slot(void *arg, int slot)
{
	static char text[SLOTS][16];

	(void)arg;
	snprintf(text[slot], sizeof(text[slot]), "worker:%d", slot);
	return text[slot];
}

static void world_told(void *arg, void *token, const struct barrier_answer *a)
{
	struct world *w = arg;
	struct told t = {
		.token = (intptr_t)token, .status = a->status, .generation = a->generation
	};
	char name[16];

	for (size_t i = 0; i < a->n_missing; i++) {
		must(w, i == 0 || a->missing[i - 1] < a->missing[i], "missing is not sorted");
		t.missing |= 1u << a->missing[i];
		if (a->status == STATUS_CANCELLED || a->status == STATUS_ABORTED)
			continue;
		snprintf(name, sizeof(name), "worker:%d", a->missing[i]);
		must(w, strstr(a->message, name), "%s", a->message);
	}
	must(w, (a->status == STATUS_OK) == !*a->message, "%s", a->message);
	told_add(&w->told, t);
}

static int told_order(const void *a, const void *b)
{
	intptr_t x = ((const struct told *)a)->token, y = ((const struct told *)b)->token;

	return (x > y) - (x < y);
}

static void world_check(struct world *w)
{
	struct told_list *is = &w->told, *want = &w->m.told;

	must(w, is->n == want->n, "%d answers, expected %d", is->n, want->n);
	qsort(is->items, (size_t)is->n, sizeof(struct told), told_order);
	qsort(want->items, (size_t)want->n, sizeof(struct told), told_order);
	for (int i = 0; i < is->n; i++) {
		const struct told *x = &is->items[i], *y = &want->items[i];

		must(w,
			x->token == y->token && x->status == y->status &&
				x->missing == y->missing && x->generation == y->generation,
			"call %ld: %s gen %ld missing %x, expected call %ld: %s gen %ld missing %x",
			(long)x->token, status_name(x->status), (long)x->generation, x->missing,
			(long)y->token, status_name(y->status), (long)y->generation, y->missing);
	}
	is->n = want->n = 0;
}

static void world_arrive(struct world *w, const struct op *op, const char *name)
{
	uint64_t deadline = op->deadline ? w->now + op->deadline : UINT64_MAX;
	intptr_t token = ++w->next_token;
	int members[SLOTS];
	size_t n = 0;

	for (int s = SLOTS - 1; s >= 0; s--)
		if (op->set & 1u << s)
			members[n++] = s;
	model_arrive(&w->m, op->name, op->slot, op->set, deadline, w->now, token);
	w->last[op->name][op->slot] = token;
	ck_assert_int_eq(barriers_arrive(w->b, name, op->slot, members, n, false, deadline, w->now,
				 (void *)token),
		0);
}

static void world_forget(struct world *w, const struct op *op)
{
	intptr_t token = w->last[op->name][op->slot];

	if (w->m.names[op->name].token[op->slot] == token)
		w->m.names[op->name].token[op->slot] = 0;
	barriers_forget(w->b, (void *)token);
}

static void world_step(struct world *w, const struct op *op)
{
	static const char *const names[NAMES] = { "x", "y", "a longer name" };
	const char *name = names[op->name];
	bool ok;

	w->path[w->steps++ % (sizeof(w->path) / sizeof(w->path[0]))] = *op;
	w->now += op->later;
	switch (op->what) {
	case ARRIVE:
		world_arrive(w, op, name);
		break;
	case END:
		model_ended(&w->m, op->slot, op->bad, op->recoverable, false);
		barriers_worker_ended(w->b, op->slot, op->bad, op->recoverable, "exit code 3");
		break;
	case HALT:
		model_ended(&w->m, op->slot, false, false, true);
		barriers_worker_stopped(w->b, op->slot);
		break;
	case START:
		model_started(&w->m, op->slot);
		barriers_worker_started(w->b, op->slot);
		break;
	case CANCEL:
		ok = model_cancel(&w->m, op->name, STATUS_CANCELLED, 0);
		must(w,
			barriers_fail(w->b, name, -1, STATUS_CANCELLED, "enough") ==
				(ok ? 0 : -ENOENT),
			"cancel");
		break;
	case FAIL:
		ok = model_cancel(&w->m, op->name, STATUS_ABORTED, 1u << op->slot);
		must(w,
			barriers_fail(w->b, name, op->slot, STATUS_ABORTED, "no") ==
				(ok ? 0 : -ENOENT),
			"fail");
		break;
	case FORGET:
		world_forget(w, op);
		break;
	case EXPIRE:
		must(w, model_expire(&w->m, w->now) == barriers_expire(w->b, w->now),
			"next deadline");
		break;
	case STOP:
		model_end(&w->m, STATUS_ABORTED);
		w->m.stopped = true;
		w->m.stop = STATUS_ABORTED;
		barriers_stop(w->b, STATUS_ABORTED, "over");
		break;
	case RESET:
		model_end(&w->m, STATUS_CANCELLED);
		w->m.stopped = false;
		w->m.ended = 0;
		barriers_reset(w->b);
		break;
	}
	world_check(w);
}

static void world_clear(struct world *w)
{
	barriers_reset(w->b);
	memset(w->m.names, 0, sizeof(w->m.names));
	w->m.ended = 0;
	w->m.stopped = false;
	w->told.n = w->m.told.n = 0;
	w->now = 1000;
	w->steps = 0;
	memset(w->last, 0, sizeof(w->last));
}

/* Every sequence of depth steps. */
static void all_orders(const struct op *ops, size_t n, int depth)
{
	struct world w = { 0 };
	size_t at[8] = { 0 };
	int i;

	ck_assert_int_eq(barriers_new(world_told, world_slot, &w, &w.b), 0);
	do {
		world_clear(&w);
		for (i = 0; i < depth; i++)
			world_step(&w, &ops[at[i]]);
		for (i = depth - 1; i >= 0 && ++at[i] == n; i--)
			at[i] = 0;
	} while (i >= 0);
	barriers_free(w.b);
}

START_TEST(all_orders_of_three_members_at_one_name)
{
	static const struct op ops[] = {
		{ ARRIVE, .slot = 0, .set = 7, .deadline = 10 },
		{ ARRIVE, .slot = 1, .set = 7 },
		{ ARRIVE, .slot = 2, .set = 7 },
		{ END, .slot = 0, .bad = true },
		{ END, .slot = 2, .bad = true, .recoverable = true },
		{ END, .slot = 1 },
		{ HALT, .slot = 1 },
		{ START, .slot = 0 },
		{ START, .slot = 2 },
		{ EXPIRE, .later = 10 },
		{ FORGET, .slot = 0 },
	};
	all_orders(ops, sizeof(ops) / sizeof(ops[0]), walk_length(5, 4, 3));
}
END_TEST

START_TEST(long_orders_of_the_most_common_events)
{
	static const struct op ops[] = {
		{ ARRIVE, .slot = 0, .set = 7, .deadline = 2 },
		{ ARRIVE, .slot = 1, .set = 7, .deadline = 9 },
		{ ARRIVE, .slot = 2, .set = 7, .later = 1 },
		{ END, .slot = 2, .bad = true, .recoverable = true },
		{ EXPIRE, .later = 2 },
	};
	all_orders(ops, sizeof(ops) / sizeof(ops[0]), walk_length(7, 6, 4));
}
END_TEST

START_TEST(all_orders_of_all_events_at_two_names)
{
	static struct op ops[64];
	size_t n = 0;

	for (int name = 0; name < 2; name++) {
		for (int s = 0; s < 3; s++) {
			ops[n++] = (struct op){ ARRIVE, .name = name, .slot = s, .set = 7 };
		}
		ops[n++] = (struct op){ CANCEL, .name = name };
	}
	ops[n++] = (struct op){ FAIL, .slot = 1 };
	ops[n++] = (struct op){ FORGET, .slot = 0 };
	ops[n++] = (struct op){ ARRIVE, .slot = 0, .set = 3, .deadline = 5 };
	ops[n++] = (struct op){ ARRIVE, .slot = 2, .set = 3 };
	for (int s = 0; s < 2; s++) {
		ops[n++] = (struct op){ END, .slot = s, .bad = true };
		ops[n++] = (struct op){ END, .slot = s };
		ops[n++] = (struct op){ END, .slot = s, .bad = true, .recoverable = true };
		ops[n++] = (struct op){ START, .slot = s };
	}
	ops[n++] = (struct op){ EXPIRE, .later = 5 };
	ops[n++] = (struct op){ .what = STOP };
	ops[n++] = (struct op){ .what = RESET };
	all_orders(ops, n, walk_length(4, 3, 2));
}
END_TEST

START_TEST(sets_that_differ_and_callers_that_are_no_members_in_all_orders)
{
	static const struct op ops[] = {
		{ ARRIVE, .slot = 0, .set = 3 },
		{ ARRIVE, .slot = 1, .set = 3 },
		{ ARRIVE, .slot = 1, .set = 6 },
		{ ARRIVE, .slot = 2, .set = 6 },
		{ ARRIVE, .slot = 2, .set = 3 },
		{ ARRIVE, .slot = 0, .set = 1 },
		{ ARRIVE, .slot = 0, .set = 0 },
		{ .what = CANCEL },
		{ START, .slot = 1 },
	};
	all_orders(ops, sizeof(ops) / sizeof(ops[0]), walk_length(5, 4, 3));
}
END_TEST

static unsigned dice(uint64_t *seed, unsigned n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % n;
}

static struct op random_op(uint64_t *seed)
{
	static const enum what likely[] = { ARRIVE, ARRIVE, ARRIVE, ARRIVE, ARRIVE, ARRIVE, ARRIVE,
		ARRIVE, ARRIVE, END, HALT, START, START, CANCEL, FAIL, FORGET, FORGET, EXPIRE,
		EXPIRE };
	static const unsigned sets[] = { 31, 31, 31, 31, 31, 7, 7, 3, 24, 30, 1, 0 };
	struct op op = { .what = likely[dice(seed, sizeof(likely) / sizeof(likely[0]))] };

	if (dice(seed, 400) == 0)
		op.what = dice(seed, 3) ? RESET : STOP;
	op.name = (int)dice(seed, NAMES);
	op.slot = (int)dice(seed, SLOTS);
	op.set = sets[dice(seed, 12)];
	op.deadline = dice(seed, 2) ? dice(seed, 20) : 0;
	op.bad = dice(seed, 2);
	op.recoverable = dice(seed, 2);
	op.later = dice(seed, 3);
	return op;
}

START_TEST(random_walks_of_five_members_at_three_names)
{
	struct world w = { 0 };
	int walks = walk_length(60, 20, 2);

	ck_assert_int_eq(barriers_new(world_told, world_slot, &w, &w.b), 0);
	for (int walk = 0; walk < walks; walk++) {
		uint64_t seed = (uint64_t)walk + 1;

		world_clear(&w);
		for (int i = 0; i < 2000; i++) {
			struct op op = random_op(&seed);

			world_step(&w, &op);
		}
	}
	barriers_free(w.b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("barrier_model");
	TCase *t = tcase_create("model");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, all_orders_of_three_members_at_one_name);
	tcase_add_test(t, long_orders_of_the_most_common_events);
	tcase_add_test(t, all_orders_of_all_events_at_two_names);
	tcase_add_test(t, sets_that_differ_and_callers_that_are_no_members_in_all_orders);
	tcase_add_test(t, random_walks_of_five_members_at_three_names);
	suite_add_tcase(s, t);
	return suite_run(s);
}
