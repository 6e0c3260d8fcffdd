/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out the machine's orders about workers, and writes its events. */
#include "agent/queue/group_hooks_private.h"
#include "agent/watchdog/watchdog.h"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { EVENTS_WINDOW_MS = 10000, EVENTS_MAX = 100 };

/* True when this event may be written. Tasks can be put back and fail thousands of times in a
 * second, and events must not fill the disk. */
static bool effects_event_is_allowed(struct dispatch_group *g, const char *event)
{
	struct supervisor *sv = g->d->sv;
	uint64_t now = loop_now_ms();

	if (now - g->events_ms >= EVENTS_WINDOW_MS) {
		if (g->n_events > EVENTS_MAX)
			supervisor_event(sv, event, -1, NULL,
				"%u more events of the work queue were left out",
				g->n_events - EVENTS_MAX);
		g->events_ms = now;
		g->n_events = 0;
	}
	return ++g->n_events <= EVENTS_MAX;
}

static void effects_event_add(struct dispatch *d, const struct queue_order *order)
{
	struct supervisor *sv = d->sv;
	const struct worker *w =
		order->worker < 0 ? NULL : commons_worker(d->commons, order->worker);
	char event[64];

	snprintf(event, sizeof(event), "queue-%s", order->event);
	if (effects_event_is_allowed(d->group, event))
		supervisor_event(sv, event, w ? w->rank : -1, NULL, "%s", order->text);
}

/* Treats the failure as an error that the worker reported: the restart rules decide. */
static void effects_fail_own(struct supervisor *sv, struct worker *w, const char *message)
{
	supervisor_worker_error(sv, w, NULL, message);
	lifecycle_end(sv, w, (uint64_t)supervisor_spec(sv)->stop.timeout_ms, false);
	supervisor_changed(sv);
}

/* Starts the worker again alone, whatever the scope: it is not blamed, and no budget pays. */
static void effects_restart_own(struct supervisor *sv, struct worker *w, const char *why)
{
	struct error err = { 0 };
	int place = w->place, n;

	log_warning("%s: %s", worker_name(w), why);
	/* The call that is ending it has decided what follows. */
	if (w->state == WORKER_STOPPING || w->blame[0]) {
		lifecycle_end(sv, w, 0, false);
		return;
	}
	if (request_stop(sv, &place, 1, 0, true, NULL, NULL, &n, &err) < 0)
		log_warning("%s cannot be killed: %s", worker_name(w), err.text);
}

static void effects_dumped(void *arg, char *const *dirs, size_t n)
{
	struct supervisor *sv = arg;

	if (!watchdog_of(sv) || !dispatch_of(sv)) /* the agent is ending */
		return;
	dispatch_of(sv)->group->dumping = false;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			supervisor_event(sv, "dumped", -1, NULL, "dumped into %s%s", dirs[i],
				n > 1 ? ", and beside it" : "");
			break;
		}
}

static void effects_dump_now(void *arg)
{
	struct dispatch_group *g = arg;
	struct supervisor *sv = g->d->sv;
	int64_t limit = supervisor_spec(sv)->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	size_t n = g->n_dump;

	g->n_dump = 0;
	if (g->dumping || limit <= 0 || !watchdog_of(sv))
		return;
	if (n && watchdog_dump(sv, g->dump, n, g->dump_why, (uint64_t)limit, effects_dumped, sv,
			 &err) < 0)
		log_warning("cannot dump the workers: %s", err.text);
	else
		g->dumping = n > 0;
}

/* Dumps all such workers of this turn together. */
static void effects_dump_own(struct dispatch_group *g, const struct worker *w, const char *why)
{
	if (g->n_dump == DISPATCH_DUMPED)
		return;
	g->dump[g->n_dump++] = w->place;
	snprintf(g->dump_why, sizeof(g->dump_why), "%s", why);
	if (g->n_dump == 1 && loop_defer(supervisor_loop(g->d->sv), effects_dump_now, g) < 0)
		effects_dump_now(g);
}

void dispatch_forget_dumps(struct dispatch_group *g)
{
	loop_cancel(supervisor_loop(g->d->sv), effects_dump_now, g);
}

void dispatch_order(struct supervisor *sv, struct worker *w, const char *what, const char *why)
{
	struct dispatch_group *g = dispatch_group_of(sv);

	if (!g)
		return;
	if (!strcmp(what, COMMONS_CANCEL)) {
		sharing_board_cancel(sharing_of(sv), w->slot);
		return;
	}
	if (!worker_alive(w) || stop_group_active(sv) || supervisor_ended(sv))
		return;
	if (!strcmp(what, COMMONS_RESTART))
		effects_restart_own(sv, w, why);
	else if (!strcmp(what, COMMONS_FAIL))
		effects_fail_own(sv, w, why);
	else if (!strcmp(what, COMMONS_DUMP))
		effects_dump_own(g, w, why);
}

/* Has the order carried out on the host of that worker. */
static void effects_order_worker(struct dispatch *d, int worker, const char *what, const char *why)
{
	struct worker *w = commons_worker(d->commons, worker);

	if (w && d->commons->owner.order)
		d->commons->owner.order(d->commons->owner.arg, w, what, why);
	else if (w)
		dispatch_order(d->sv, w, what, why);
}

static void effects_dump_stalled(struct dispatch *d, const struct queue_order *order)
{
	size_t n = 0;

	log_warning("%s", order->text);
	effects_event_add(d, order);
	for (int i = 0; i < commons_count(d->commons) && n < DISPATCH_DUMPED; i++) {
		const struct worker *w = commons_at(d->commons, i);

		if (!worker_alive(w) || !queue_worker_has_lease(d->q, w->slot))
			continue;
		effects_order_worker(d, w->slot, COMMONS_DUMP, order->text);
		n++;
	}
}

void dispatch_group_do(struct dispatch *d, const struct queue_order *order)
{
	char message[sizeof(order->text) + 32];

	switch (order->what) {
	case QUEUE_ORDER_CANCEL:
		dispatch_stream_cancelled(d, order);
		effects_order_worker(d, order->worker, COMMONS_CANCEL, "");
		break;
	case QUEUE_ORDER_KILL:
		effects_event_add(d, order);
		effects_order_worker(d, order->worker, COMMONS_RESTART, order->text);
		break;
	case QUEUE_ORDER_EVENT:
		effects_event_add(d, order);
		if (strcmp(order->event, "init-failed") != 0)
			break;
		snprintf(message, sizeof(message), "roles[].init: %s", order->text);
		effects_order_worker(d, order->worker, COMMONS_FAIL, message);
		break;
	case QUEUE_ORDER_STALL:
		effects_dump_stalled(d, order);
		break;
	default:
		break;
	}
}
