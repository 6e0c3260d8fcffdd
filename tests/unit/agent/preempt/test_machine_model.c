/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All orders of events of a few workers under a notice, and long random lives of many workers. In
 * each reached state two things hold: if only time passes, the end comes; and if all workers obey,
 * each saves and leaves before the limit.
 */

#include "agent/preempt/machine_private.h"
#include "tests/unit/preempt_world.h"
#include "tests/unit/run.h"

enum { SMALL = 3, SEEN = 1 << 20 };

struct snapshot {
	struct preempt p;
	struct preempt_worker t[SMALL];
	struct world w;
};

static struct {
	uint64_t hash;
	int depth;
} * seen;
static unsigned long states, events, ends;
static int spare; /* the starts that may follow */

/* The machine keeps its address, so that pointers into it stay valid. */
static void save(struct snapshot *s)
{
	s->p = *p;
	for (int i = 0; i < w.n; i++)
		s->t[i] = *p->workers[i];
	memcpy(&s->w, &w, offsetof(struct world, t) + (size_t)w.n * sizeof(w.t[0]));
}

static void restore(const struct snapshot *s)
{
	*p = s->p;
	memcpy(&w, &s->w, offsetof(struct world, t) + (size_t)s->w.n * sizeof(w.t[0]));
	for (int i = 0; i < w.n; i++) {
		char *name = p->workers[i]->name; /* a start makes a new one, of the same text */

		*p->workers[i] = s->t[i];
		p->workers[i]->name = name;
	}
}

static void mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	*h ^= *h >> 29;
}

static uint64_t ago(uint64_t t)
{
	return w.now - t;
}

static uint64_t hash_worker(const struct preempt_worker *t, const struct wworker *o)
{
	uint64_t h = 1;
	unsigned bits = t->running | t->has_question << 1 | t->stepped << 2 | t->classified << 3 |
			t->signalled << 4 | t->based << 5 | t->has_saved << 6 |
			t->ordered_exit << 7 | t->ordered << 8 | t->saved << 9 |
			(unsigned)t->meaning << 10;
	unsigned other = o->runs | o->stepped << 1 | o->connected << 2 | o->member << 3 |
			 o->signalled << 4 | o->saved << 5 | o->based << 6 | o->ordered_exit << 7 |
			 (unsigned)o->doing << 8 | (unsigned)o->starts << 12;

	mix(&h, bits);
	mix(&h, other);
	mix(&h, (uint64_t)o->step);
	mix(&h, o->steps);
	if (t->has_question) {
		uint64_t before = 0;

		for (int i = 0; i < w.n; i++)
			before += w.t[i].doing == ASK && w.t[i].asked < o->asked;
		mix(&h, before);
		mix(&h, ago(t->question_ms));
	}
	if (!w.up)
		return h;
	mix(&h, (uint64_t)t->step);
	mix(&h, (uint64_t)t->saved_step);
	if (t->based) {
		mix(&h, t->base_steps);
		mix(&h, ago(t->base_ms));
		mix(&h, (uint64_t)t->saving_ms);
		mix(&h, t->six_ms);
		mix(&h, t->took_ms);
		mix(&h, t->advance);
		mix(&h, (uint64_t)t->base_step);
		mix(&h, o->six);
	}
	if (t->ordered && !t->saved)
		mix(&h, ago(t->order_ms));
	return h;
}

/* The order of the slots does not matter. */
static uint64_t hash_all(void)
{
	uint64_t h = 7, sum = 0, x = 0;
	unsigned bits = w.up | w.over << 1 | w.reading << 2 | w.stale << 3 | w.min << 4 |
			w.announced << 5 | w.final << 6 | w.ordered << 7 | p->await_read << 8 |
			p->read_again << 9 | p->again << 10 | p->agreed << 11 |
			(unsigned)p->reading << 12 | p->state << 14;

	for (int i = 0; i < w.n; i++) {
		uint64_t one = hash_worker(p->workers[i], &w.t[i]);

		sum += one;
		x ^= one * one;
	}
	mix(&h, sum);
	mix(&h, x);
	mix(&h, bits);
	mix(&h, (uint64_t)(w.rounds | w.notices << 4 | w.cancels << 8));
	if (!w.up)
		return h;
	mix(&h, (uint64_t)w.save_at);
	mix(&h, (uint64_t)w.step);
	mix(&h, w.limit - w.now);
	mix(&h, p->longest_ms);
	mix(&h, p->check_ms - w.now);
	mix(&h, w.now - p->since_ms);
	return h;
}

/* True when this state was reached before with at least as many events to follow. */
static bool was_seen(int depth)
{
	uint64_t h = hash_all() | 1;
	size_t i = h % SEEN;

	while (seen[i].hash && seen[i].hash != h)
		i = (i + 1) % SEEN;
	if (seen[i].hash && seen[i].depth >= depth)
		return true;
	if (!seen[i].hash && ++states > SEEN / 4 * 3)
		ck_abort_msg("too many states");
	seen[i].hash = h;
	seen[i].depth = depth;
	return false;
}

/* No worker acts any more. */
static void only_time_goes_on(void)
{
	for (int i = 0; w.up && !w.over; i++) {
		uint64_t due = preempt_due_ms(p);

		if (w.reading)
			do_look();
		else if (due == UINT64_MAX || i > 200)
			wrong("it waits for ever");
		else
			do_time(due > w.now ? due - w.now : 0);
	}
	ends++;
}

static void goes_on(int slot)
{
	struct wworker *t = &w.t[slot];
	int64_t by = 1;

	/* No worker is far behind: all belong to one training. */
	for (int i = 0; i < w.n; i++)
		if (w.t[i].runs && w.t[i].stepped && w.t[i].step - t->step > by)
			by = w.t[i].step - t->step;
	if (!t->runs || t->doing == ASK)
		return;
	if (t->doing == SAVE || t->doing == LAST)
		do_saved(slot);
	else if (t->doing == TOLD)
		do_end(slot, PREEMPT_END_LEFT);
	else if (t->signalled && (!t->stepped || w.how == SPEC_PREEMPT_SIGNAL))
		do_end(slot, PREEMPT_END_SIGNAL);
	else if (!w.over && (t->stepped || t->connected))
		do_step(slot, by);
	else if (w.over)
		do_end(slot, PREEMPT_END_SIGNAL);
}

/* All workers do as ordered. */
static void all_do_as_they_should(void)
{
	bool member[WORLD_WORKERS], any = w.how != SPEC_PREEMPT_AGREE;
	char text[256];

	if (!w.up || w.over || rest() < 6000)
		return;
	for (int i = 0; i < w.n; i++)
		any = any || (w.t[i].runs && w.t[i].connected);
	if (!any)
		return; /* workers that are neither asked nor signalled stay */
	for (int i = 0; i < w.n; i++)
		member[i] = w.t[i].runs && w.t[i].stepped && w.how != SPEC_PREEMPT_SIGNAL;
	for (int pass = 0; pass < 300 && !w.over; pass++) {
		for (int i = 0; i < w.n && !w.over; i++)
			goes_on(i);
		for (int i = 0; i < 2 && w.reading; i++)
			do_look();
		if (!w.over)
			do_time(250);
	}
	if (!w.over || w.now >= w.limit)
		wrong("all do as they should, and it is not over: %s at step %lld, with %llu ms left",
			preempt_state_name(preempt_view(p).state), (long long)w.step,
			(unsigned long long)rest());
	for (int i = 0; i < w.n; i++)
		if (member[i] && w.t[i].saved_at < 0)
			wrong("%d should have saved", i);
	preempt_missing(p, text, sizeof(text));
	for (int i = 0; i < w.n; i++)
		if (member[i] && !w.t[i].saved)
			wrong("%d should have saved in the last round: %s", i, text);
}

/* --- all orders --- */

enum what { STEP, JUMP, SAVED, DONE, LEFT, SIGNALLED, OTHER, START, FORGET, PER_WORKER };
enum what_else { LOOK = 100, SOON, LATER, LEAVE_NOW, MINUTE, HURRY, CANCEL };

static bool worker_can(int slot, enum what what)
{
	const struct wworker *t = &w.t[slot];

	if (what == START)
		return !t->runs && t->starts < 1 && spare;
	if (!t->runs)
		return false;
	switch (what) {
	case STEP:
		return t->doing != ASK && t->steps < (w.up ? 14 : 7);
	case JUMP:
		return t->doing == TRAIN && w.up && !w.min && t->step < w.step;
	case SAVED:
		return w.up && (t->doing == SAVE || t->doing == LAST) && !t->saved;
	case SIGNALLED:
		return t->signalled;
	case LEFT:
		return t->ordered_exit || t->doing == SAVE;
	case FORGET:
		return t->doing == ASK;
	default:
		return w.up;
	}
}

static bool world_can(int what)
{
	switch (what) {
	case LOOK:
		return w.reading;
	case SOON:
	case LATER:
		return w.up && !w.over && !w.reading;
	case LEAVE_NOW:
	case MINUTE:
		return w.notices < 2 && w.cancels < 2 && !w.over;
	case HURRY:
		return w.notices == 1 && !w.over;
	default:
		return w.up && w.cancels < 1;
	}
}

static void worker_does(int slot, enum what what)
{
	switch (what) {
	case STEP:
		do_step(slot, 1);
		break;
	case JUMP:
		do_step(slot, 3);
		break;
	case SAVED:
		do_saved(slot);
		break;
	case START:
		do_start(slot);
		break;
	case FORGET:
		do_forget(slot);
		break;
	default:
		do_end(slot, (enum preempt_end)(what - DONE));
	}
}

static void world_does(int what)
{
	uint64_t due = preempt_due_ms(p);

	switch (what) {
	case LOOK:
		do_look();
		break;
	case SOON:
		do_time(700);
		break;
	case LATER:
		do_time(due > w.now ? due - w.now : 0);
		break;
	case LEAVE_NOW:
		do_notice(false, 0);
		break;
	case MINUTE:
		do_notice(true, 60000);
		break;
	case HURRY:
		do_notice(true, 9000);
		break;
	default:
		do_cancel();
	}
}

static void all_orders(int depth);

static void one_order(const struct snapshot *before, int depth, int slot, int what)
{
	size_t used = strlen(trail);

	snprintf(trail + used, sizeof(trail) - used, " %d:%d", slot, what);
	events++;
	if (slot >= 0)
		worker_does(slot, (enum what)what);
	else
		world_does(what);
	all_orders(depth - 1);
	trail[used] = '\0';
	restore(before);
}

static void all_orders(int depth)
{
	struct snapshot before;

	if (was_seen(depth))
		return;
	save(&before);
	only_time_goes_on();
	restore(&before);
	if (states % 4 == 0) {
		all_do_as_they_should();
		restore(&before);
	}
	if (depth == 0)
		return;
	for (int i = 0; i < w.n; i++)
		for (int what = 0; what < PER_WORKER; what++)
			if (worker_can(i, (enum what)what))
				one_order(&before, depth, i, what);
	for (int what = LOOK; what <= CANCEL; what++)
		if (world_can(what))
			one_order(&before, depth, -1, what);
}

/* Each worker as it is when the notice comes: l(ibrary, steps), m(ute, has spoken to the agent),
 * p(lain), a(bsent). */
static void begin(const char *workers, enum spec_preempt_how how)
{
	spec = (struct spec_preemption){ .how = how, .grace_ms = SPEC_UNSET, .timeout_ms = 50000 };
	p = preempt_new(&spec, STOP_MS);
	w = (struct world){
		.n = (int)strlen(workers), .how = how, .now = 1000000, .step = INT64_MIN
	};
	trail[0] = '\0';
	for (int i = 0; i < w.n; i++) {
		do_start(i);
		w.t[i].starts = workers[i] != 'a';
		if (workers[i] == 'a')
			do_end(i, PREEMPT_END_DONE);
		w.t[i].connected = workers[i] == 'l' || workers[i] == 'm';
		if (workers[i] != 'l')
			continue;
		w.t[i].stepped = true;
		w.t[i].step = 5;
		w.t[i].steps = 6;
	}
}

static void small_world(const char *workers, enum spec_preempt_how how, int depth)
{
	seen = calloc(SEEN, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
	states = events = ends = 0;
	spare = strchr(workers, 'a') != NULL;
	begin(workers, how);
	depth -= walk_length(0, 1, 3);
	all_orders(depth);
	printf("%s, %d deep: %lu states, %lu events\n", workers, depth, states, events);
	p = preempt_free(p);
	free(seen);
}

/* --- random lives --- */

static unsigned dice(uint64_t *seed, unsigned n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % n;
}

static void random_worker_does(uint64_t *seed)
{
	static const enum what likely[] = { STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP,
		STEP, STEP, JUMP, SAVED, SAVED, SAVED, SAVED, FORGET, LEFT };
	int slot = (int)dice(seed, (unsigned)w.n);
	enum what what = likely[dice(seed, 18)];

	if (dice(seed, 100) == 0)
		what = (enum what)(DONE + dice(seed, 4));
	if (dice(seed, 20) == 0)
		what = START;
	if (what == STEP ? w.t[slot].runs && w.t[slot].doing != ASK : worker_can(slot, what))
		worker_does(slot, what);
}

static void random_world_does(uint64_t *seed)
{
	unsigned n = dice(seed, 60);

	if (w.reading && n < 30)
		do_look();
	else if (n < 30)
		do_time(dice(seed, 300));
	else if (n < 33 && w.up && !w.over && !w.reading)
		world_does(LATER);
	else if (n < 36)
		do_notice(true, 5000 + dice(seed, 60000));
	else if (n == 36)
		do_notice(false, 0);
	else if (n == 37 && w.up && (w.over || dice(seed, 8) == 0))
		do_cancel();
	if (!w.up)
		for (int i = 0; i < w.n; i++)
			w.t[i].starts = 0;
}

START_TEST(random_lives_of_sixty_four_workers)
{
	static const enum spec_preempt_how hows[] = { SPEC_PREEMPT_AUTO, SPEC_PREEMPT_AUTO,
		SPEC_PREEMPT_AUTO, SPEC_PREEMPT_AGREE, SPEC_PREEMPT_SIGNAL };
	char workers[WORLD_WORKERS + 1];
	int steps = walk_length(40000, 16000, 4000);

	spare = 1;
	for (int life = 0; life < 5; life++) {
		uint64_t seed = (uint64_t)life + 1;

		for (int i = 0; i < WORLD_WORKERS; i++)
			workers[i] = "lllllllmpa"[life == 1 ? 0 : dice(&seed, 10)];
		workers[WORLD_WORKERS] = '\0';
		begin(workers, hows[life]);
		for (int i = 0; i < steps; i++) {
			snprintf(trail, sizeof(trail), " step %d of life %d", i, life);
			if (dice(&seed, 20) == 0)
				random_world_does(&seed);
			else
				random_worker_does(&seed);
		}
		only_time_goes_on();
		p = preempt_free(p);
	}
}
END_TEST

START_TEST(three_workers_that_report_steps)
{
	small_world("lll", SPEC_PREEMPT_AUTO, 8);
}
END_TEST

START_TEST(two_workers_that_report_steps)
{
	small_world("ll", SPEC_PREEMPT_AUTO, 9);
}
END_TEST

START_TEST(one_of_each_kind)
{
	small_world("lmp", SPEC_PREEMPT_AUTO, 7);
}
END_TEST

START_TEST(no_worker_that_reports_steps)
{
	small_world("mmp", SPEC_PREEMPT_AUTO, 7);
}
END_TEST

START_TEST(a_worker_that_starts_late)
{
	small_world("la", SPEC_PREEMPT_AUTO, 8);
}
END_TEST

START_TEST(agreement_alone)
{
	small_world("lmp", SPEC_PREEMPT_AGREE, 7);
}
END_TEST

START_TEST(signals_alone)
{
	small_world("lma", SPEC_PREEMPT_SIGNAL, 7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preempt_model");
	TCase *t = tcase_create("model");

	tcase_set_timeout(t, 600);
	tcase_add_test(t, random_lives_of_sixty_four_workers);
	tcase_add_test(t, three_workers_that_report_steps);
	tcase_add_test(t, two_workers_that_report_steps);
	tcase_add_test(t, one_of_each_kind);
	tcase_add_test(t, no_worker_that_reports_steps);
	tcase_add_test(t, a_worker_that_starts_late);
	tcase_add_test(t, agreement_alone);
	tcase_add_test(t, signals_alone);
	suite_add_tcase(s, t);
	return suite_run(s);
}
