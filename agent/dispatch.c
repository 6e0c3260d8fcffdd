/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a step of the machine, in this order: what it wants done (among it the records for
 * the journal), then the answers, each of which may be a step itself. All answers of one turn of
 * the loop leave together; none of them waits for another turn.
 */
#include "agent/dispatch_private.h"

#include <errno.h>
#include <string.h>

static void drain(struct dispatch *d)
{
	while (queue_next(d->q, &d->todo) != QUEUE_DO_NOTHING) {
		if (d->todo.what == QUEUE_DO_RECORD) {
			dispatch_journal_add(d, &d->todo.record);
			continue;
		}
		if (d->todo.what == QUEUE_DO_DUMP) {
			dispatch_journal_lost(d);
			continue;
		}
		if (d->todo.what == QUEUE_DO_ANEW) {
			dispatch_journal_stale(d);
			continue;
		}
		if (d->todo.what == QUEUE_DO_CANCEL)
			dispatch_stream_cancelled(d, &d->todo);
		dispatch_group_do(d, &d->todo);
	}
}

static struct dispatch_wait *next_over(struct dispatch *d)
{
	struct dispatch_wait *x = TAILQ_FIRST(&d->ready);
	struct queue_wait *w = x ? NULL : queue_over(d->q);

	return w ? w->arg : x;
}

/* A timer that fires early costs less than one that is set anew with each step. */
static void set_timer(struct dispatch *d)
{
	uint64_t due = queue_due_ms(d->q), now;

	if (due >= d->timer_ms)
		return;
	now = loop_now_ms();
	d->timer_ms = due;
	loop_timer_arm(d->timer, due > now ? due - now : 0);
}

void dispatch_run(struct dispatch *d)
{
	struct dispatch_wait *x;

	if (d->running) {
		d->again = true;
		return;
	}
	d->running = true;
	dispatch_now(d);
	do {
		d->again = false;
		drain(d);
		while ((x = next_over(d))) {
			dispatch_wait_over(x);
			drain(d);
		}
	} while (d->again);
	d->running = false;
	set_timer(d);
}

static void on_turn(void *arg)
{
	dispatch_run(arg);
}

void dispatch_run_soon(struct dispatch *d)
{
	if (!d->running && loop_defer(d->a->loop, on_turn, d) == 0)
		return;
	dispatch_run(d);
}

static void on_timer(void *arg)
{
	struct dispatch *d = arg;

	d->timer_ms = UINT64_MAX;
	queue_expire(d->q, dispatch_now(d));
	dispatch_run(d);
}

int dispatch_new(struct agent *a, struct error *err)
{
	struct dispatch *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory");
	a->dispatch = d;
	d->a = a;
	d->timer_ms = UINT64_MAX;
	TAILQ_INIT(&d->ready);
	TAILQ_INIT(&d->listings);
	for (int i = 0; i < 2; i++)
		d->doors[i] = (struct dispatch_door){ .d = d, .workers = i };
	dispatch_group_options(a, &d->options);
	d->options.journal = a->spec->queue.durable && a->opt.state_dir;
	r = queues_new(&d->options, &d->q);
	if (r == 0)
		r = loop_timer_new(a->loop, on_timer, d, &d->timer);
	if (r < 0)
		return error_set(err, r, "cannot make the work queue: %s", strerror(-r));
	r = dispatch_journal_open(d, err);
	return r < 0 ? r : dispatch_group_new(d, err);
}

void dispatch_free(struct agent *a)
{
	struct dispatch *d = a->dispatch;

	if (!d)
		return;
	if (d->q)
		dispatch_group_free(d);
	a->dispatch = NULL;
	loop_cancel(a->loop, on_turn, d);
	dispatch_keepers_free(d);
	dispatch_once_free(d);
	dispatch_journal_close(d);
	queues_free(d->q);
	loop_timer_free(d->timer);
	worker_text_fini(&d->text);
	dispatch_waits_free(d);
	free(d);
}

struct dispatch_door *dispatch_door(struct agent *a, bool workers)
{
	return a->dispatch ? &a->dispatch->doors[workers] : NULL;
}

void dispatch_closed(struct agent *a, void *holder)
{
	struct dispatch *d = a->dispatch;

	if (!d)
		return;
	queue_holder_gone(d->q, holder, loop_now_ms());
	dispatch_run_soon(d);
}

void dispatch_opened(struct agent *a, int slot)
{
	if (a->dispatch)
		queue_worker_lives(a->dispatch->q, slot);
}
