/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the group as they happen. A reader that does not keep up loses events, and is told how
 * many; the group's error is not lost: it is told again when there is room.
 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

struct worker_stream {
	LIST_ENTRY(worker_stream) link;
	struct workers *w;
	struct varlink_call *call;
	int64_t lost;
	bool lost_error;
};

static void stream_free(struct worker_stream *s)
{
	LIST_REMOVE(s, link);
	free(s);
}

static void stream_gone(void *arg)
{
	stream_free(arg);
}

static json_t *event_json(const struct workers *w, const char *event, int slot,
	const struct members_error *error, const char *text)
{
	json_t *j = json_object();

	json_put_string(j, "event", event);
	if (slot >= 0)
		json_put_string(j, "task", worker_slot_name((void *)w, slot));
	if (error)
		json_put(j, "error", worker_error_json(w, error));
	json_put_string(j, "text", text);
	return j;
}

/* Takes event. */
static void stream_tell(struct worker_stream *s, json_t *event)
{
	json_t *p = json_object();

	json_put(p, "event", event);
	(void)varlink_notify(s->call, p);
}

/* There is room again. */
static void stream_resume(void *arg)
{
	struct worker_stream *s = arg;
	const struct members_error *error = members_group_error(s->w->members);
	json_t *lost = event_json(s->w, "lost", -1, NULL, "events were lost: the reader is slow");

	json_put_int(lost, "count", s->lost);
	stream_tell(s, lost);
	if (s->lost_error && error)
		stream_tell(s, event_json(s->w, "error", error->slot, error, error->message));
	s->lost = 0;
	s->lost_error = false;
}

void worker_event(struct workers *w, const char *event, int slot, const struct members_error *error,
	const char *text)
{
	struct worker_stream *s;

	LIST_FOREACH (s, &w->streams, link) {
		if (varlink_call_congested(s->call, stream_resume, s)) {
			s->lost++;
			s->lost_error |= error != NULL;
			continue;
		}
		stream_tell(s, event_json(w, event, slot, error, text));
	}
}

int worker_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	struct worker_stream *s;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	s = calloc(1, sizeof(*s));
	if (!s)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*s = (struct worker_stream){ .w = w, .call = call };
	LIST_INSERT_HEAD(&w->streams, s, link);
	varlink_call_on_gone(call, stream_gone, s);
	(void)varlink_notify(call, NULL);
	return 0;
}

void worker_streams_free(struct workers *w)
{
	while (!LIST_EMPTY(&w->streams))
		stream_free(LIST_FIRST(&w->streams));
}
