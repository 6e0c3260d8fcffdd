/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out the machine's orders about workers, and writes its events. */
#include "agent/queue/group_hooks_private.h"
#include "agent/watchdog/watchdog.h"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { TELL_WINDOW_MS = 10000, TELL_MAX = 100 };

/* True when this event may be written. Tasks can be put back and fail thousands of times in a
 * second, and events must not fill the disk. */
static bool event_is_allowed(struct dispatch_group *g, const char *event)
{
	struct supervisor *sv = g->d->sv;
	uint64_t now = loop_now_ms();

	if (now - g->tell_ms >= TELL_WINDOW_MS) {
		if (g->told > TELL_MAX)
			events_add(supervisor_events(sv), event, supervisor_attempt(sv), -1, NULL,
				"%u more events of the work queue were left out",
				g->told - TELL_MAX);
		g->tell_ms = now;
		g->told = 0;
	}
	return ++g->told <= TELL_MAX;
}

static void event_add(struct dispatch *d, const struct queue_do *todo)
{
	struct supervisor *sv = d->sv;
	const struct worker *w = todo->worker < 0 ? NULL : commons_worker(d->commons, todo->worker);
	char event[64];

	snprintf(event, sizeof(event), "queue-%s", todo->event);
	if (supervisor_events(sv) && event_is_allowed(d->group, event))
		events_add(supervisor_events(sv), event, supervisor_attempt(sv), w ? w->rank : -1,
			NULL, "%s", todo->text);
}

/* Treats the failure as an error that the worker reported: the restart rules decide. */
static void fail_init(struct dispatch *d, const struct queue_do *todo)
{
	struct supervisor *sv = d->sv;
	struct worker *w = commons_worker(d->commons, todo->worker);
	char message[sizeof(todo->text) + 32];

	if (!w || !worker_alive(w) || stop_group_active(sv) || supervisor_ended(sv))
		return;
	snprintf(message, sizeof(message), "roles[].init: %s", todo->text);
	supervisor_worker_error(sv, w, NULL, message);
	lifecycle_end(sv, w, (uint64_t)supervisor_spec(sv)->stop.timeout_ms, false);
	supervisor_changed(sv);
}

/* Starts the worker again alone, whatever the scope: it is not blamed, and no budget pays. */
static void kill_worker(struct dispatch *d, const struct queue_do *todo)
{
	struct supervisor *sv = d->sv;
	struct worker *w = commons_worker(d->commons, todo->worker);
	struct error err = { 0 };
	int place, n;

	if (!w || !worker_alive(w) || stop_group_active(sv) || supervisor_ended(sv))
		return;
	place = w->place;
	log_warning("%s: %s", worker_name(w), todo->text);
	/* The call that is ending it has decided what follows. */
	if (w->state == WORKER_STOPPING || w->blame[0]) {
		lifecycle_end(sv, w, 0, false);
		return;
	}
	if (request_stop(sv, &place, 1, 0, true, NULL, NULL, &n, &err) < 0)
		log_warning("%s cannot be killed: %s", worker_name(w), err.text);
}

static void on_saved(void *arg, char *const *dirs, size_t n)
{
	struct supervisor *sv = arg;

	if (!watchdog_of(sv) || !dispatch_of(sv)) /* the agent is ending */
		return;
	dispatch_of(sv)->group->saving = false;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			events_add(supervisor_events(sv), "dumped", supervisor_attempt(sv), -1,
				NULL, "saved in %s%s", dirs[i], n > 1 ? ", and beside it" : "");
			break;
		}
}

/* The places in the list of the workers that have a task; max: room for them. */
static size_t busy_places(struct dispatch *d, int *places, size_t max)
{
	const struct supervisor *sv = d->sv;
	size_t n = 0;

	for (int i = 0; i < supervisor_n_workers(sv) && n < max; i++)
		if (worker_alive(supervisor_worker(sv, i)) &&
			queue_worker_has_lease(d->q, supervisor_worker(sv, i)->slot))
			places[n++] = i;
	return n;
}

static void save_stalled(struct dispatch *d, const struct queue_do *todo)
{
	enum { PLACES_MAX = 64 };
	struct supervisor *sv = d->sv;
	int64_t limit = supervisor_spec(sv)->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	int places[PLACES_MAX];
	size_t n;

	log_warning("%s", todo->text);
	event_add(d, todo);
	if (d->group->saving || limit <= 0 || !watchdog_of(sv))
		return;
	n = busy_places(d, places, PLACES_MAX);
	if (n && watchdog_dump(sv, places, n, todo->text, (uint64_t)limit, on_saved, sv, &err) < 0)
		log_warning("the state of the workers is not saved: %s", err.text);
	else
		d->group->saving = n > 0;
}

void dispatch_group_do(struct dispatch *d, const struct queue_do *todo)
{
	switch (todo->what) {
	case QUEUE_DO_CANCEL:
		sharing_board_cancel(sharing_of(d->sv), todo->worker);
		break;
	case QUEUE_DO_KILL:
		event_add(d, todo);
		kill_worker(d, todo);
		break;
	case QUEUE_DO_TELL:
		event_add(d, todo);
		if (!strcmp(todo->event, "init-failed"))
			fail_init(d, todo);
		break;
	case QUEUE_DO_STALL:
		save_stalled(d, todo);
		break;
	case QUEUE_DO_NOTHING:
	case QUEUE_DO_RECORD:
	case QUEUE_DO_RECORD_LOST:
	case QUEUE_DO_STALE:
		break;
	}
}
