/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/notice.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/*
 * Azure's instance metadata service: asks this machine's name once, then in each poll the events
 * that are scheduled for it and for others of its set. The service sleeps until it is first asked,
 * and may take minutes to wake up.
 */

enum { AZURE_FIRST_MS = 150000, AZURE_ANSWER_MS = 30000, AZURE_EVENTS = 256 };

static void azure_request(struct notice_machine *m, int64_t now_us, struct notice_request *ret)
{
	snprintf(ret->headers[0], sizeof(ret->headers[0]), "Metadata: true");
	if (!m->azure.name[0]) {
		snprintf(ret->path, sizeof(ret->path),
			"/metadata/instance/compute/name?api-version=2020-09-01&format=text");
		return;
	}
	snprintf(ret->path, sizeof(ret->path), "/metadata/scheduledevents?api-version=2020-07-01");
	ret->timeout_ms = m->azure.awake ? AZURE_ANSWER_MS : AZURE_FIRST_MS;
}

static bool azure_is_ours(const struct notice_machine *m, const json_t *event)
{
	const json_t *resources = json_get_array(event, "Resources"), *r;
	size_t i;

	json_array_foreach (resources, i, r)
		if (json_is_string(r) && !strcasecmp(json_string_value(r), m->azure.name))
			return true;
	return false;
}

/* The effect of the event on this machine, for people; NULL if the machine survives it or the type
 * is unknown. */
static const char *azure_end(const char *type)
{
	static const struct {
		const char *type, *text;
	} ends[] = {
		{ "Preempt", "evicts" },
		{ "Terminate", "deletes" },
		{ "Reboot", "reboots" },
		{ "Redeploy", "moves" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(ends[i].type, type))
			return ends[i].text;
	return NULL;
}

static void azure_freeze(struct notice_machine *m, const char *id, struct notice_result *ret)
{
	struct notice n = { .deadline_us = SPEC_UNSET };
	struct notice_result ignored = { 0 };
	struct notice current = m->current;
	bool up = m->up;

	snprintf(n.id, sizeof(n.id), "%s", id);
	if (!notice_is_new(m, n.id))
		return;
	notice_set(m, &n, &ignored);
	m->current = current;
	m->up = up;
	ret->level = LOG_INFO;
	snprintf(ret->message, sizeof(ret->message),
		"Azure is about to freeze this machine for a while");
}

/* Whether an identifier is short and printable enough to be shown to people. */
static bool azure_is_id(const char *id)
{
	for (const char *p = id; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	return *id;
}

/* Reads one event: 1 with n if it ends this machine, 0 if not, -EPROTO with err. */
static int azure_event(struct notice_machine *m, const json_t *event, int64_t now_us,
	struct notice_result *ret, struct notice *n, struct error *err)
{
	const char *id = json_get_string(event, "EventId", ""), *not_before;
	const char *type = json_get_string(event, "EventType", ""), *end = azure_end(type);
	const char *status = json_get_string(event, "EventStatus", "");

	if (!azure_is_id(id) || !*type || strlen(id) >= sizeof(n->id) ||
		!json_get_array(event, "Resources"))
		return error_set(err, -EPROTO,
			"scheduledevents: expected EventId, EventType and Resources in each event");
	if (!azure_is_ours(m, event) || !strcmp(status, "Completed") || !strcmp(status, "Canceled"))
		return 0;
	if (!end) {
		if (!strcmp(type, "Freeze"))
			azure_freeze(m, id, ret);
		return 0;
	}
	not_before = json_get_string(event, "NotBefore", "");
	*n = (struct notice){ .deadline_us = now_us };
	/* An event that has begun has no time any more. */
	if (*not_before && notice_time_http(not_before, &n->deadline_us) < 0)
		return error_set(err, -EPROTO, "scheduledevents: '%.64s' in NotBefore is no date",
			not_before);
	snprintf(n->id, sizeof(n->id), "%s", id);
	snprintf(n->reason, sizeof(n->reason), "Azure %s this machine%s%.64s (%.60s)", end,
		*not_before ? ", not before " : " now", not_before, id);
	return 1;
}

/* Whether n should be reported rather than best: new ones first, then the earliest. */
static bool azure_better(
	const struct notice_machine *m, const struct notice *n, const struct notice *best)
{
	bool is_new = notice_is_new(m, n->id);

	if (!best->id[0] || is_new != notice_is_new(m, best->id))
		return !best->id[0] || is_new;
	return n->deadline_us < best->deadline_us;
}

static int azure_events(struct notice_machine *m, const json_t *events, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	struct notice best = { 0 }, first = { 0 }, n;
	const json_t *event;
	size_t i;

	if (json_array_size(events) > AZURE_EVENTS)
		return error_set(
			err, -EPROTO, "scheduledevents: more than %d events", AZURE_EVENTS);
	json_array_foreach (events, i, event) {
		int r = azure_event(m, event, now_us, ret, &n, err);

		if (r < 0)
			return r;
		if (r && azure_better(m, &n, &best))
			best = n;
		if (r && (!first.id[0] || n.deadline_us < first.deadline_us))
			first = n;
	}
	m->up = false;
	if (!best.id[0])
		return 0;
	notice_set(m, &best, ret);
	first.source = m->kind->source;
	m->current = first;
	return 0;
}

static int azure_name(struct notice_machine *m, const struct notice_answer *a,
	struct notice_result *ret, struct error *err)
{
	int r = notice_expect_ok(a, err);

	if (!r)
		r = notice_word(a, m->azure.name, sizeof(m->azure.name), err);
	if (r < 0)
		return error_prefix(err, "this machine's name");
	ret->halfway = true;
	ret->wait_ms = 0;
	return 0;
}

static int azure_answer(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	const json_t *events;
	int r;

	if (!m->azure.name[0])
		return azure_name(m, a, ret, err);
	r = notice_expect_ok(a, err);
	if (!r)
		r = json_parse_object(a->body, a->len, &doc, err);
	if (r < 0)
		return error_prefix(err, "scheduledevents");
	events = json_get_array(doc, "Events");
	if (!events)
		return error_set(err, -EPROTO, "scheduledevents: expected an object with Events");
	m->azure.awake = true;
	snprintf(m->text, sizeof(m->text), "no end of this machine (%.128s) is scheduled",
		m->azure.name);
	return azure_events(m, events, now_us, ret, err);
}

const struct notice_kind notice_azure = {
	.source = "azure",
	.request = azure_request,
	.answer = azure_answer,
};
