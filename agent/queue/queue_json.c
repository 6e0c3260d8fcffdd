/* SPDX-License-Identifier: Apache-2.0 */
/* The types of io.elasticd.Queue as JSON. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <string.h>

static const char *const state_names[] = {
#define X(name, text) [QUEUE_##name] = text,
	QUEUE_STATES(X)
#undef X
};

const char *dispatch_state_name(enum queue_state s)
{
	return state_names[s];
}

struct json_writer *dispatch_text_begin(struct dispatch *d)
{
	if (d->text.room > DISPATCH_TEXT_KEPT)
		json_writer_fini(&d->text);
	d->text.len = 0;
	d->text.failed = false;
	return &d->text;
}

int dispatch_text_reply(struct dispatch *d, struct varlink_call *call)
{
	return sharing_text_reply(call, &d->text);
}

const char *dispatch_worker_name(const struct dispatch *d, int worker)
{
	return d->commons ? commons_slot_name(d->commons, worker) : "?";
}

void dispatch_text_bytes(struct json_writer *t, const char *key, const struct queue_bytes *b)
{
	sharing_text_bytes(t, key, b->data ? b->data : "", b->len);
	if (!b->format || !*b->format)
		return;
	dispatch_put(t, ",\"format\":");
	json_write_text(t, b->format);
}

static void text_worker(const struct dispatch *d, struct json_writer *t, int worker)
{
	if (worker < 0)
		return;
	dispatch_put(t, ",\"worker\":");
	json_write_text(t, dispatch_worker_name(d, worker));
}

void dispatch_text_error(
	const struct dispatch *d, struct json_writer *t, const struct queue_error *e)
{
	dispatch_put(t, "{\"code\":\"");
	json_write(t, status_name(e->code), strlen(status_name(e->code)));
	dispatch_put(t, "\",\"message\":");
	json_write_text(t, e->message ? e->message : "");
	if (e->details && *e->details) {
		dispatch_put(t, ",\"details\":");
		json_write_text(t, e->details);
	}
	text_worker(d, t, e->worker);
	if (e->task >= 0) {
		dispatch_put(t, ",\"task\":");
		json_write_int(t, e->task);
	}
	dispatch_put(t, "}");
}

/* "task":...,"state":... */
static void text_task(struct json_writer *t, const struct queue_outcome *o)
{
	const char *state = state_names[o->state];

	dispatch_put(t, "{\"task\":");
	json_write_int(t, o->task);
	dispatch_put(t, ",\"state\":\"");
	json_write(t, state, strlen(state));
	dispatch_put(t, "\"");
}

/* The end of an Outcome and of an Info. */
static void text_tries(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o)
{
	if (o->state == QUEUE_FAILED || o->state == QUEUE_CANCELLED) {
		dispatch_put(t, ",\"error\":");
		dispatch_text_error(d, t, &o->error);
	}
	text_worker(d, t, o->worker);
	dispatch_put(t, ",\"tries\":");
	json_write_int(t, o->tries);
	dispatch_put(t, "}");
}

void dispatch_text_outcome(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o)
{
	text_task(t, o);
	if (o->state == QUEUE_SUCCEEDED) {
		dispatch_put(t, ",");
		dispatch_text_bytes(t, "value", &o->value);
	}
	text_tries(d, t, o);
}

void dispatch_text_info(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o)
{
	uint64_t now = loop_now_ms(), since = o->since_ms < now ? now - o->since_ms : 0;

	text_task(t, o);
	dispatch_put(t, ",\"queue\":");
	json_write_text(t, o->queue);
	dispatch_put(t, ",\"bytes\":");
	json_write_int(t, (int64_t)o->bytes);
	if (o->state == QUEUE_RUNNING) {
		dispatch_put(t, ",\"since_us\":");
		json_write_int(t, (int64_t)(loop_real_us() - since * 1000));
	}
	text_tries(d, t, o);
}

static void text_needs(struct json_writer *t, const struct queue_item_view *item)
{
	dispatch_put(t, ",\"resources\":[");
	for (size_t i = 0; i < item->n_needs; i++) {
		if (i)
			dispatch_put(t, ",");
		json_write_text(t, item->needs[i]);
	}
	dispatch_put(t, "]");
}

void dispatch_text_item(
	const struct dispatch *d, struct json_writer *t, const struct queue_item_view *item)
{
	static const char *const kinds[] = {
		[QUEUE_ITEM_TASK] = "task",
		[QUEUE_ITEM_BUILD] = "build",
		[QUEUE_ITEM_CALL] = "call",
		[QUEUE_ITEM_INIT] = "init",
	};
	const struct worker *task = commons_worker(d->commons, item->worker);

	dispatch_put(t, "{\"kind\":\"");
	json_write(t, kinds[item->kind], strlen(kinds[item->kind]));
	dispatch_put(t, "\",\"lease\":");
	json_write_int(t, item->lease);
	if (item->task >= 0) {
		dispatch_put(t, ",\"task\":");
		json_write_int(t, item->task);
	}
	if (item->name && *item->name) {
		dispatch_put(t, ",\"name\":");
		json_write_text(t, item->name);
	}
	dispatch_put(t, ",");
	dispatch_text_bytes(t, "payload", &item->payload);
	if (item->n_needs)
		text_needs(t, item);
	if (item->limit_ms >= 0) {
		dispatch_put(t, ",\"limit_ms\":");
		json_write_int(t, item->limit_ms);
	}
	dispatch_put(t, ",\"index\":");
	json_write_int(t, task ? task->index : -1);
	dispatch_put(t, ",\"start\":");
	json_write_int(t, item->start);
	dispatch_put(t, ",\"tries\":");
	json_write_int(t, item->tries);
	dispatch_put(t, "}");
}

json_t *dispatch_error_json(const struct dispatch *d, const struct queue_error *e)
{
	struct json_writer t = { .data = NULL };
	json_t *p = NULL;

	dispatch_text_error(d, &t, e);
	if (!t.failed)
		p = json_loadb(t.data, t.len, 0, NULL);
	json_writer_fini(&t);
	return p;
}
