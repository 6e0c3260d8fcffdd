/* SPDX-License-Identifier: Apache-2.0 */
/* Cancels: a stream by which a worker learns which of its leases are cancelled. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct dispatch_stream {
	LIST_ENTRY(dispatch_stream) link;
	struct varlink_call *call;
	int worker;
};

static void stream_free(struct dispatch_stream *s)
{
	LIST_REMOVE(s, link);
	free(s);
}

static void stream_gone(void *arg)
{
	stream_free(arg);
}

static void stream_wakes(void *arg)
{
}

/* Ends the stream of a reader that does not read: the reader calls again, and uses Look. */
static void stream_tell(struct dispatch_stream *s, const struct queue_order *order)
{
	struct varlink_call *call = s->call;
	json_t *p;

	if (varlink_call_congested(call, stream_wakes, s)) {
		stream_free(s);
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the reader of Cancels is too slow: the stream ends");
		return;
	}
	p = json_object();
	json_put_int(p, "lease", order->lease);
	json_put_string(p, "reason", order->text);
	(void)varlink_notify(call, p);
}

/* True when the stream belongs to the worker's present process. */
static bool is_for(const struct dispatch_stream *s, int worker)
{
	return s->worker == worker && sharing_is_present(s->call);
}

void dispatch_stream_cancelled(struct dispatch *d, const struct queue_order *order)
{
	struct dispatch_stream *next;

	for (struct dispatch_stream *s = LIST_FIRST(&d->streams); s; s = next) {
		next = LIST_NEXT(s, link);
		if (is_for(s, order->worker))
			stream_tell(s, order);
	}
}

int dispatch_cancels(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch_stream *s;

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	s = calloc(1, sizeof(*s));
	if (!s)
		return dispatch_no_memory(call);
	*s = (struct dispatch_stream){ .call = call, .worker = sharing_slot_of(call) };
	LIST_INSERT_HEAD(&endpoint->d->streams, s, link);
	varlink_call_on_gone(call, stream_gone, s);
	(void)varlink_notify_text(call, "{}", 2);
	return 0;
}
