/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that last: Cancels tells, Keep is there. */
#include "agent/dispatch_private.h"
#include "common/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- Cancels ------------------------------------------------------------------------------------
 */

struct dispatch_stream {
	LIST_ENTRY(dispatch_stream) link;
	struct dispatch *d;
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

/* Of one that reads nothing the stream ends: its reader asks again, and looks. */
static void stream_tell(struct dispatch_stream *s, const struct queue_do *todo)
{
	struct varlink_call *call = s->call;
	json_t *p;

	if (varlink_call_congested(call, stream_wakes, s)) {
		stream_free(s);
		worker_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"cancellations were not read, and are no longer told");
		return;
	}
	p = json_object();
	json_put_int(p, "lease", todo->lease);
	json_put_string(p, "reason", todo->text);
	(void)varlink_notify(call, p);
}

/* Whether it is of the worker's present process: one that was left over has nothing to hear. */
static bool is_for(const struct dispatch_stream *s, int worker)
{
	const struct worker_peer *peer = varlink_call_user(s->call);

	return s->worker == worker && peer->token == peer->w->slots[worker].token;
}

void dispatch_stream_cancelled(struct dispatch *d, const struct queue_do *todo)
{
	struct dispatch_stream *next;

	for (struct dispatch_stream *s = LIST_FIRST(&d->streams); s; s = next) {
		next = LIST_NEXT(s, link);
		if (is_for(s, todo->worker))
			stream_tell(s, todo);
	}
}

int dispatch_cancels(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_door *door = arg;
	struct dispatch_stream *s;

	if (!dispatch_is_worker(door, call))
		return 0;
	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	s = calloc(1, sizeof(*s));
	if (!s)
		return dispatch_no_memory(call);
	*s = (struct dispatch_stream){ .d = door->d, .call = call, .worker = worker_of(call) };
	LIST_INSERT_HEAD(&door->d->streams, s, link);
	varlink_call_on_gone(call, stream_gone, s);
	(void)varlink_notify_text(call, "{}", 2);
	return 0;
}

/* --- Keep ---------------------------------------------------------------------------------------
 */

struct keeper {
	struct dispatch *d;
	char queue[];
};

static void keeper_gone(void *arg)
{
	struct keeper *k = arg;

	queue_unkeep(k->d->q, k->queue, loop_now_ms());
	dispatch_run_soon(k->d);
	free(k);
}

static int refuse_keep(struct varlink_call *call, enum status status, const char *queue)
{
	if (status == STATUS_RESOURCE_EXHAUSTED)
		return worker_fail(call, status, "queue: there are %d of them, or no memory",
			QUEUE_QUEUES_MAX);
	return worker_fail(call, status,
		"queue: expected at most %d of A-Z, a-z, 0-9, _, . and -, got \"%.100s\"",
		QUEUE_NAME_MAX, queue);
}

int dispatch_keep(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_door *door = arg;
	struct dispatch *d = door->d;
	const char *queue = json_get_string(p, "queue", "");
	enum status status;
	struct keeper *k;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	k = malloc(sizeof(*k) + strlen(queue) + 1);
	if (!k)
		return dispatch_no_memory(call);
	k->d = d;
	strcpy(k->queue, queue);
	status = queue_keep(d->q, queue);
	if (status != STATUS_OK) {
		free(k);
		return refuse_keep(call, status, queue);
	}
	varlink_call_on_gone(call, keeper_gone, k);
	(void)varlink_notify_text(call, "{}", 2);
	return 0;
}
