/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that leads a group with a durable queue: its deputy keeps a copy of the journal, and
 * answers wait until the copy has what they rely on (journal/copy.h). The journal's file is also
 * the buffer of what goes there, so no more than a window of it is in memory.
 *
 * An edition has a name, which stands in etcd, and in a file beside each journal and copy that
 * belongs to it, there with the name of the edition before: a host may go on from either.
 */
#include "agent/queue/journal/journal.h"
#include "agent/queue/private.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	MARK_BITS = 48,	 /* of a position, below the number of this host's lead */
	RETRY_MS = 1000, /* between two tries to save an edition */
};

/* --- answers --- */

int dispatch_holds(const struct supervisor *sv, uint64_t *mark)
{
	const struct dispatch *d = dispatch_of(sv);
	const uint64_t lead = d ? d->leads << MARK_BITS : 0;

	if (!d || !d->elected || d->over)
		return 0;
	if (!*mark && !d->copies)
		return 0;
	if (!*mark)
		*mark = lead | d->copy.end;
	if (!d->copies || *mark >> MARK_BITS != d->leads)
		return -1;
	return copy_holds(&d->copy, *mark ^ lead);
}

/* --- editions --- */

static void edition_new(struct dispatch *d)
{
	snprintf(d->edition_before, sizeof(d->edition_before), "%s",
		d->copy.note == COPY_NOTE_ASKED ? d->asked : d->noted);
	d->edition[0] = '\0'; /* never the one before */
	if (random_hex(d->edition, 32) < 0)
		log_error("no random numbers");
}

/* Says when it cannot be saved, and when it can again. */
static void edition_tell(struct dispatch *d, int error)
{
	char text[256] = "queue.edition can be written again";

	if (error == d->unsaved)
		return;
	d->unsaved = error;
	if (error)
		snprintf(text, sizeof(text),
			"queue.edition: %s: answers of the work queue wait until it can be written",
			strerror(error));
	log_msg(error ? LOG_WARNING : LOG_NOTICE, "%s", text);
	dispatch_event(d, error ? "journal-failed" : "journal-written", text);
}

/* Whether all records and the edition's name are in this host's files. */
static bool edition_saved(struct dispatch *d)
{
	int r;

	journal_commit(d->journal);
	if (!journal_written(d->journal))
		return false;
	r = dispatch_edition_save(d->sv, d->edition, d->edition_before);
	edition_tell(d, -r);
	return r == 0;
}

/* The hosts of the edition have all. First its records and its name are on this host's disk, then
 * it is in etcd. */
static void edition_note(struct dispatch *d)
{
	json_t *edition;

	if (!edition_saved(d)) {
		loop_timer_arm(d->retry_timer, RETRY_MS);
		return;
	}
	edition = json_pack("{s:s, s:s, s:s*}", "name", d->edition, "host", supervisor_host(d->sv),
		"deputy", d->deputy[0] ? d->deputy : NULL);
	snprintf(d->asked, sizeof(d->asked), "%s", d->edition);
	copy_note_asked(&d->copy);
	d->lead.note(d->lead.arg, edition);
}

/* --- records --- */

static int part_send(struct dispatch *d, const struct copy_part *part)
{
	size_t len = base64_length(part->len);
	_cleanup_free_ char *data = malloc(part->len), *text = malloc(len + 1);
	json_t *body;
	int r;

	if (!data || !text)
		return -ENOMEM;
	r = journal_bytes(d->journal, part->offset, data, part->len);
	if (r < 0)
		return r;
	base64_encode(data, part->len, text);
	body = json_pack("{s:I, s:I, s:b, s:s%}", "number", (json_int_t)part->number, "offset",
		(json_int_t)part->offset, "whole", part->whole, "base64", text, len);
	if (!body)
		return -ENOMEM;
	if (!part->offset) {
		json_put_string(body, "edition", d->edition);
		json_put_string(body, "before", d->edition_before);
	}
	d->lead.send(d->lead.arg, "Records", body);
	return 0;
}

static void copy_changed(struct dispatch *d, const char *host)
{
	copy_to(&d->copy, host);
	edition_new(d);
	snprintf(d->deputy, sizeof(d->deputy), "%s", host ? host : "");
}

static void copy_failed(struct dispatch *d, const char *why)
{
	char text[512];

	snprintf(text, sizeof(text),
		"host %.64s has no copy of the work queue, which is lost with this host: %.300s",
		d->deputy, why);
	log_warning("%s", text);
	dispatch_event(d, "journal-not-copied", text);
	snprintf(d->unable, sizeof(d->unable), "%s", d->deputy);
	copy_changed(d, NULL);
}

void dispatch_copy_run(struct dispatch *d)
{
	struct copy_part part;
	int r = 0;

	if (!d->copies)
		return;
	copy_grown(&d->copy, journal_size(d->journal));
	while (r == 0 && copy_next(&d->copy, &part))
		r = part_send(d, &part);
	if (r < 0)
		copy_failed(d, strerror(-r));
	if (copy_wants_note(&d->copy))
		edition_note(d);
}

/* Something was heard: answers may leave, and there is more room on the way. */
static void copy_heard(struct dispatch *d)
{
	dispatch_copy_run(d);
	FEATURES_CALL(d->sv, answers_kept, d->sv);
}

void dispatch_copy_timer(void *arg)
{
	dispatch_copy_run(arg);
}

void dispatch_copy_replaced(void *arg)
{
	struct dispatch *d = arg;

	if (d->copies)
		copy_replaced(&d->copy, journal_size(d->journal));
}

void dispatch_copy_begin(struct dispatch *d, const char *noted)
{
	d->copies = true;
	d->deputy[0] = '\0';
	snprintf(d->noted, sizeof(d->noted), "%s", noted);
	copy_begin(&d->copy, journal_size(d->journal));
	edition_new(d);
	dispatch_copy_run(d);
}

void dispatch_copy_end(struct dispatch *d)
{
	d->copies = false;
	d->unsaved = 0;
	if (d->retry_timer)
		loop_timer_disarm(d->retry_timer);
}

void dispatch_deputy(struct supervisor *sv, const char *host)
{
	struct dispatch *d = dispatch_of(sv);

	if (!d || !d->copies)
		return;
	d->unable[0] = '\0';
	if (!host && !d->deputy[0])
		return;
	copy_changed(d, host);
	copy_heard(d);
}

void dispatch_copy_retry(struct dispatch *d)
{
	char host[sizeof(d->unable)];

	if (!d->copies || !d->unable[0])
		return;
	snprintf(host, sizeof(host), "%s", d->unable);
	dispatch_deputy(d->sv, host);
}

void dispatch_noted(struct supervisor *sv)
{
	struct dispatch *d = dispatch_of(sv);

	if (!d || !d->copies)
		return;
	snprintf(d->noted, sizeof(d->noted), "%s", d->asked);
	copy_noted(&d->copy);
	copy_heard(d);
}

int dispatch_recorded(struct supervisor *sv, const json_t *p, struct error *err)
{
	struct dispatch *d = dispatch_of(sv);
	const char *why = json_get_string(p, "why", NULL);
	int64_t number = json_get_int(p, "number", 0);

	if (!d || !d->copies)
		return 0;
	if (!why && copy_acked(&d->copy, number, (uint64_t)json_get_int(p, "bytes", 0)) < 0)
		return error_field(err, -EPROTO, "bytes", "expected as many as were sent at most");
	if (why && number == d->copy.number)
		copy_failed(d, why);
	copy_heard(d);
	return 0;
}
