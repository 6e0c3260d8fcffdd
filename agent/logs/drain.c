/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/drain.h"

#include <errno.h>
#include <stdlib.h>

struct drain {
	struct drain *next;
	struct log_drains *set;
	struct loop_timer *timer;
	bool caught_up;
	uint64_t put[2]; /* the console has written enough when it is here */
	uint64_t timeout_ms, bytes, give_up_ms;
	loop_fn fn;
	void *arg;
};

struct log_drains {
	struct loop *loop;
	bool ends;
	struct tee *tee;
	struct console *console;
	struct drain *all;
};

int log_drains_new(
	struct loop *loop, struct tee *tee, struct console *console, struct log_drains **ret)
{
	struct log_drains *set = calloc(1, sizeof(*set));

	if (!set)
		return -ENOMEM;
	*set = (struct log_drains){ .loop = loop, .tee = tee, .console = console };
	*ret = set;
	return 0;
}

static void drain_free(struct drain *d)
{
	loop_timer_free(d->timer);
	free(d);
}

static bool drain_is_done(struct log_drains *set, struct drain *d)
{
	if (set->ends)
		return true;
	if (set->tee && !d->caught_up && !tee_caught_up(set->tee))
		return false;
	if (!set->console)
		return true;
	if (!d->caught_up) {
		d->put[0] = console_put_bytes(set->console, 0);
		d->put[1] = console_put_bytes(set->console, 1);
		d->caught_up = true;
	}
	console_want_empty(set->console);
	return console_done_bytes(set->console, 0) >= d->put[0] &&
	       console_done_bytes(set->console, 1) >= d->put[1];
}

/* The callback may free the whole set. */
static void drain_finish(struct drain *d)
{
	struct drain **p;
	loop_fn fn = d->fn;
	void *arg = d->arg;

	for (p = &d->set->all; *p != d; p = &(*p)->next)
		;
	*p = d->next;
	log_drains_progress(d->set);
	drain_free(d);
	fn(arg);
}

static void drains_check(void *arg)
{
	struct log_drains *set = arg;

	for (struct drain *d = set->all; d; d = d->next)
		if (drain_is_done(set, d)) {
			drain_finish(d);
			return;
		}
}

void log_drains_progress(struct log_drains *set)
{
	/* Without memory the timeout checks instead. */
	if (set->all && loop_defer(set->loop, drains_check, set) < 0)
		return;
}

/* Changes when the tee reads or the console writes something. */
static uint64_t drains_bytes(const struct log_drains *set)
{
	uint64_t bytes = set->tee ? tee_done_bytes(set->tee) : 0;

	for (int i = 0; i < 2 && set->console; i++)
		bytes += console_done_bytes(set->console, i);
	return bytes;
}

static void drain_wait(struct drain *d)
{
	d->bytes = drains_bytes(d->set);
	loop_timer_arm(d->timer, d->timeout_ms);
}

/* A reader that takes nothing ends the wait. A slow reader gets more time, until give_up_ms. */
static void on_timeout(void *arg)
{
	struct drain *d = arg;

	if (drains_bytes(d->set) != d->bytes && loop_now_ms() < d->give_up_ms)
		drain_wait(d);
	else
		drain_finish(d);
}

void log_drains_end(struct log_drains *set)
{
	set->ends = true;
	log_drains_progress(set);
}

int log_drains_add(
	struct log_drains *set, uint64_t timeout_ms, uint64_t most_ms, loop_fn fn, void *arg)
{
	struct drain *d = calloc(1, sizeof(*d)), **p;
	int r;

	if (!d)
		return -ENOMEM;
	*d = (struct drain){ .set = set, .fn = fn, .arg = arg, .timeout_ms = timeout_ms };
	d->give_up_ms = loop_now_ms() + most_ms;
	r = loop_timer_new(set->loop, on_timeout, d, &d->timer);
	if (r < 0) {
		free(d);
		return r;
	}
	drain_wait(d);
	for (p = &set->all; *p; p = &(*p)->next)
		;
	*p = d;
	if (set->tee)
		tee_mark(set->tee);
	log_drains_progress(set);
	return 0;
}

struct log_drains *log_drains_free(struct log_drains *set)
{
	if (!set)
		return NULL;
	loop_cancel(set->loop, drains_check, set);
	while (set->all) {
		struct drain *d = set->all;

		set->all = d->next;
		drain_free(d);
	}
	free(set);
	return NULL;
}
