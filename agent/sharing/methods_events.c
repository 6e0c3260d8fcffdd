/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the group as they happen. A slow reader loses events, and its next answer counts them;
 * the group's error is never lost: it is sent again when there is room.
 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

struct sharing_stream {
	LIST_ENTRY(sharing_stream) link;
	struct commons *c;
	struct varlink_call *call;
	int64_t lost;
	bool lost_error;
};

static void stream_free(struct sharing_stream *s)
{
	LIST_REMOVE(s, link);
	free(s);
}

static void stream_gone(void *arg)
{
	stream_free(arg);
}

static json_t *event_json(const struct commons *c, const char *event, int slot,
	const struct members_error *error, const char *text)
{
	json_t *j = json_object();

	json_put_string(j, "event", event);
	if (slot >= 0)
		json_put_string(j, "worker", commons_slot_name((void *)c, slot));
	if (error)
		json_put(j, "error", sharing_error_json(c, error));
	json_put_string(j, "text", text);
	return j;
}

/* Sends event, which it takes. */
static void stream_send(struct sharing_stream *s, json_t *event)
{
	json_t *p = json_object();

	json_put(p, "event", event);
	(void)varlink_notify(s->call, p);
}

/* The reader has room again. */
static void stream_resume(void *arg)
{
	struct sharing_stream *s = arg;
	const struct members_error *error = members_group_error(s->c->members);
	json_t *lost = event_json(s->c, "lost", -1, NULL, "events were lost: the reader is slow");

	json_put_int(lost, "count", s->lost);
	stream_send(s, lost);
	if (s->lost_error && error)
		stream_send(s, event_json(s->c, "error", error->slot, error, error->message));
	s->lost = 0;
	s->lost_error = false;
}

void commons_event(struct commons *c, const char *event, int slot,
	const struct members_error *error, const char *text)
{
	struct sharing_stream *s;

	LIST_FOREACH (s, &c->streams, link) {
		if (varlink_call_congested(s->call, stream_resume, s)) {
			s->lost++;
			s->lost_error |= error != NULL;
			continue;
		}
		stream_send(s, event_json(c, event, slot, error, text));
	}
}

int sharing_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	struct sharing_stream *s;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	s = calloc(1, sizeof(*s));
	if (!s)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*s = (struct sharing_stream){ .c = c, .call = call };
	LIST_INSERT_HEAD(&c->streams, s, link);
	varlink_call_on_gone(call, stream_gone, s);
	(void)varlink_notify(call, NULL);
	return 0;
}

void commons_streams_free(struct commons *c)
{
	while (!LIST_EMPTY(&c->streams))
		stream_free(LIST_FIRST(&c->streams));
}
