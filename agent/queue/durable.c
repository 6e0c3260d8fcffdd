/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a durable queue: which file it is, what it is called for people, and one commit in
 * each turn of the loop.
 */
#include "agent/queue/journal/journal.h"
#include "agent/queue/private.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const char *journal_name_of(void *arg, int worker)
{
	return dispatch_worker_name(arg, worker);
}

/* The agent makes its workers before it reads the journal. */
static int journal_number_of(void *arg, const char *name)
{
	const struct dispatch *d = arg;
	const char *colon = strrchr(name, ':');
	const struct worker *w = NULL;
	char role[128];
	long index;

	if (d->elected) /* the group's workers are not known yet */
		return -1;
	if (colon && (size_t)(colon - name) < sizeof(role)) {
		memcpy(role, name, (size_t)(colon - name));
		role[colon - name] = '\0';
		index = strtol(colon + 1, NULL, 10);
		if (index >= 0 && index < INT_MAX)
			w = worker_named(d->sv, role, (int)index);
	}
	return w ? w->slot : -1;
}

static void journal_on_event(void *arg, const char *event, const char *text)
{
	dispatch_event(arg, event, text);
}

const char *dispatch_journal_dir(const struct dispatch *d)
{
	return d->elected ? supervisor_dir(d->sv) : supervisor_options(d->sv)->state_dir;
}

int dispatch_journal_open(struct dispatch *d, struct error *err)
{
	const struct journal_options opt = {
		.loop = supervisor_loop(d->sv),
		.dir = dispatch_journal_dir(d),
		.q = d->q,
		.worker_name = journal_name_of,
		.worker_number = journal_number_of,
		.event = journal_on_event,
		.replaced = d->elected ? dispatch_copy_replaced : NULL,
		.arg = d,
	};

	return d->durable ? journal_new(&opt, &d->journal, err) : 0;
}

static void journal_commit_deferred(void *arg)
{
	struct dispatch *d = arg;

	if (d->uncommitted)
		journal_commit(d->journal);
	d->uncommitted = false;
	dispatch_copy_run(d);
}

/* Records are written at the end of the turn, also if no answer waits for them. */
void dispatch_journal_add(struct dispatch *d, const struct queue_record *r)
{
	if (!d->journal)
		return;
	journal_add(d->journal, r);
	if (d->copies) /* before another file may replace this one */
		copy_grown(&d->copy, journal_size(d->journal));
	if (!d->uncommitted && loop_defer(supervisor_loop(d->sv), journal_commit_deferred, d) < 0)
		journal_commit(d->journal);
	else
		d->uncommitted = true;
}

void dispatch_journal_lost(struct dispatch *d)
{
	if (d->journal)
		journal_lost(d->journal, ENOMEM);
}

void dispatch_journal_stale(struct dispatch *d)
{
	if (d->journal)
		journal_stale(d->journal);
}

void dispatch_leaving(struct supervisor *sv)
{
	if (dispatch_of(sv))
		journal_commit_deferred(dispatch_of(sv));
}

bool dispatch_is_durable(const struct supervisor *sv)
{
	const struct dispatch *d = dispatch_of(sv);

	return d && (d->journal || (d->elected && d->durable));
}

bool dispatch_journal_room(struct dispatch *d, struct varlink_call *call, size_t bytes)
{
	struct error err = { 0 };
	enum status s = d->journal ? journal_room(d->journal, bytes, &err) : STATUS_OK;

	if (s != STATUS_OK)
		sharing_fail(call, s, "%s", err.text);
	return s == STATUS_OK;
}

void dispatch_journal_close(struct dispatch *d)
{
	bool ended = supervisor_ended(d->sv) && !supervisor_no_verdict(d->sv);

	loop_cancel(supervisor_loop(d->sv), journal_commit_deferred, d);
	d->uncommitted = false;
	dispatch_copy_end(d);
	/* A run that has its verdict has no next agent. */
	if (d->journal && ended)
		journal_discard(d->journal);
	d->journal = journal_free(d->journal);
	if (d->elected && d->durable)
		dispatch_copy_in_end(d, !ended);
}
