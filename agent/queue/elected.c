/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work queue of a group whose head etcd elects. Each time this host begins to lead it has a new
 * machine: empty, or filled from the journal that this host has kept (copy_in.c) where that has all
 * records of the head before. Task numbers of one head are no other's.
 */
#include "agent/queue/group_hooks_private.h"
#include "agent/queue/journal/journal.h"
#include "agent/queue/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TASKS_OF_A_HEAD INT64_C(1000000000)

/* A machine without tasks. Without memory the one before stays. */
static void elected_renew(struct dispatch *d)
{
	struct queues *fresh;

	if (queues_new(&d->options, &fresh) < 0) {
		log_error("out of memory: the work queue keeps the tasks of the time before");
		return;
	}
	queues_free(d->q);
	d->q = fresh;
	d->group->n_workers = 0;
	d->group->lost = d->group->await_coordinators = false;
	loop_timer_disarm(d->group->grace);
	dispatch_waits_go(d);
	d->timer_ms = UINT64_MAX;
	loop_timer_disarm(d->timer);
}

/* The tasks of the head before are gone: notes which host had them. */
static void elected_lost(struct dispatch *d, const struct hosts_lead *lead)
{
	const char *host = json_get_string(lead->edition, "host", lead->before);
	const char *deputy = json_get_string(lead->edition, "deputy", NULL);
	char text[512];

	d->lost[0] = '\0';
	if (!host)
		return;
	snprintf(d->lost, sizeof(d->lost), "host %.64s, which led the group%s%.64s, was lost", host,
		deputy ? ", with host " : "", deputy ? deputy : "");
	if (!d->durable)
		return;
	snprintf(text, sizeof(text),
		"the work queue begins without the tasks of the head before: %s", d->lost);
	log_warning("%s", text);
	dispatch_event(d, "queue-lost", text);
}

static void elected_take_over(struct dispatch *d, const struct hosts_lead *lead)
{
	bool has = d->durable && lead->edition && dispatch_has_records(d->sv, lead->edition);
	struct error err = { 0 };

	d->lead = *lead;
	d->lead.edition = NULL;
	d->lead.before = NULL;
	d->leads++;
	d->options.first_task =
		lead->term % (QUEUE_TASK_MAX / TASKS_OF_A_HEAD) * TASKS_OF_A_HEAD + 1;
	elected_renew(d);
	if (!has)
		elected_lost(d, lead);
	else
		d->lost[0] = '\0';
	if (!d->durable)
		return;
	dispatch_copy_in_end(d, has);
	if (dispatch_journal_open(d, &err) < 0) {
		log_error("the work queue is not durable: %s", err.text);
		dispatch_event(d, "journal-failed", err.text);
		return;
	}
	dispatch_copy_begin(d, has ? json_get_string(lead->edition, "name", "") : "");
}

/* Callers on this host are still there; those of others go with their links. */
void dispatch_step_down(struct dispatch *d)
{
	char text[160];

	snprintf(text, sizeof(text), "host %.64s leads the group no more", supervisor_host(d->sv));
	FEATURES_CALL(d->sv, flush, d->sv); /* what relies on records is marked so */
	dispatch_copy_end(d);
	queue_stop(d->q, STATUS_UNAVAILABLE, text, true);
	dispatch_run(d);
	dispatch_keepers_end(d, text);
	dispatch_journal_close(d);
	dispatch_repeated_free(d);
	d->repeated = NULL;
	elected_renew(d);
	d->commons = NULL;
	FEATURES_CALL(d->sv, answers_kept, d->sv); /* those that wait will not hold */
}

void dispatch_lead(struct supervisor *sv, const struct hosts_lead *lead)
{
	struct dispatch *d = dispatch_of(sv);

	if (!d)
		return;
	if (d->elected && !lead && d->commons)
		dispatch_step_down(d);
	d->commons = lead ? lead->commons : NULL;
	if (d->elected && lead)
		elected_take_over(d, lead);
}

bool dispatch_refuses_lost(struct dispatch *d, struct varlink_call *call, int64_t task)
{
	struct queue_outcome o;

	if (!d->lost[0] || task >= d->options.first_task || queue_outcome(d->q, task, &o))
		return false;
	sharing_fail(call, STATUS_UNAVAILABLE, "task %" PRId64 ": %s", task, d->lost);
	return true;
}
