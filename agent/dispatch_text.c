/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dispatch_private.h"
#include "common/json.h"

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

struct worker_text *dispatch_text_begin(struct dispatch *d)
{
	if (d->text.room > DISPATCH_TEXT_KEPT)
		worker_text_fini(&d->text);
	d->text.len = 0;
	d->text.failed = false;
	return &d->text;
}

int dispatch_text_reply(struct dispatch *d, struct varlink_call *call)
{
	return worker_text_reply(call, &d->text);
}

const char *dispatch_worker_name(const struct dispatch *d, int worker)
{
	return d->a->workers ? worker_slot_name(d->a->workers, worker) : "?";
}

void dispatch_text_string(struct worker_text *t, const char *s)
{
	size_t len = strlen(s);
	_cleanup_json_ json_t *clean = NULL;

	if (worker_text_string(t, s, len) == 0)
		return;
	clean = json_string_lossy(s, len);
	if (!clean ||
		worker_text_string(t, json_string_value(clean), json_string_length(clean)) < 0)
		t->failed = true;
}

void dispatch_text_bytes(struct worker_text *t, const char *key, const struct queue_bytes *b)
{
	worker_text_bytes(t, key, b->data ? b->data : "", b->len);
	if (!b->format || !*b->format)
		return;
	dispatch_put(t, ",\"format\":");
	dispatch_text_string(t, b->format);
}

static void text_worker(const struct dispatch *d, struct worker_text *t, int worker)
{
	if (worker < 0)
		return;
	dispatch_put(t, ",\"worker\":");
	dispatch_text_string(t, dispatch_worker_name(d, worker));
}

void dispatch_text_error(
	const struct dispatch *d, struct worker_text *t, const struct queue_error *e)
{
	dispatch_put(t, "{\"code\":\"");
	worker_text_add(t, status_name(e->code), strlen(status_name(e->code)));
	dispatch_put(t, "\",\"message\":");
	dispatch_text_string(t, e->message ? e->message : "");
	if (e->details && *e->details) {
		dispatch_put(t, ",\"details\":");
		dispatch_text_string(t, e->details);
	}
	text_worker(d, t, e->worker);
	if (e->task >= 0) {
		dispatch_put(t, ",\"task\":");
		worker_text_int(t, e->task);
	}
	dispatch_put(t, "}");
}

/* "task":...,"state":... */
static void text_task(struct worker_text *t, const struct queue_outcome *o)
{
	const char *state = state_names[o->state];

	dispatch_put(t, "{\"task\":");
	worker_text_int(t, o->task);
	dispatch_put(t, ",\"state\":\"");
	worker_text_add(t, state, strlen(state));
	dispatch_put(t, "\"");
}

/* The end of both. */
static void text_tries(
	const struct dispatch *d, struct worker_text *t, const struct queue_outcome *o)
{
	if (o->state == QUEUE_FAILED || o->state == QUEUE_CANCELLED) {
		dispatch_put(t, ",\"error\":");
		dispatch_text_error(d, t, &o->error);
	}
	text_worker(d, t, o->worker);
	dispatch_put(t, ",\"tries\":");
	worker_text_int(t, o->tries);
	dispatch_put(t, "}");
}

void dispatch_text_outcome(
	const struct dispatch *d, struct worker_text *t, const struct queue_outcome *o)
{
	text_task(t, o);
	if (o->state == QUEUE_SUCCEEDED) {
		dispatch_put(t, ",");
		dispatch_text_bytes(t, "value", &o->value);
	}
	text_tries(d, t, o);
}

void dispatch_text_info(
	const struct dispatch *d, struct worker_text *t, const struct queue_outcome *o)
{
	uint64_t now = loop_now_ms(), since = o->since_ms < now ? now - o->since_ms : 0;

	text_task(t, o);
	dispatch_put(t, ",\"queue\":");
	dispatch_text_string(t, o->queue);
	dispatch_put(t, ",\"bytes\":");
	worker_text_int(t, (int64_t)o->bytes);
	if (o->state == QUEUE_RUNNING) {
		dispatch_put(t, ",\"since_us\":");
		worker_text_int(t, (int64_t)(loop_real_us() - since * 1000));
	}
	text_tries(d, t, o);
}

static void text_needs(struct worker_text *t, const struct queue_item_view *item)
{
	dispatch_put(t, ",\"resources\":[");
	for (size_t i = 0; i < item->n_needs; i++) {
		if (i)
			dispatch_put(t, ",");
		dispatch_text_string(t, item->needs[i]);
	}
	dispatch_put(t, "]");
}

void dispatch_text_item(
	const struct dispatch *d, struct worker_text *t, const struct queue_item_view *item)
{
	static const char *const kinds[] = {
		[QUEUE_ITEM_TASK] = "task",
		[QUEUE_ITEM_BUILD] = "build",
		[QUEUE_ITEM_CALL] = "call",
		[QUEUE_ITEM_INIT] = "init",
	};
	const struct task *task = worker_task(d->a->workers, item->worker);

	dispatch_put(t, "{\"kind\":\"");
	worker_text_add(t, kinds[item->kind], strlen(kinds[item->kind]));
	dispatch_put(t, "\",\"lease\":");
	worker_text_int(t, item->lease);
	if (item->task >= 0) {
		dispatch_put(t, ",\"task\":");
		worker_text_int(t, item->task);
	}
	if (item->name && *item->name) {
		dispatch_put(t, ",\"name\":");
		dispatch_text_string(t, item->name);
	}
	dispatch_put(t, ",");
	dispatch_text_bytes(t, "payload", &item->payload);
	if (item->n_needs)
		text_needs(t, item);
	if (item->limit_ms >= 0) {
		dispatch_put(t, ",\"limit_ms\":");
		worker_text_int(t, item->limit_ms);
	}
	dispatch_put(t, ",\"index\":");
	worker_text_int(t, task ? task->index : -1);
	dispatch_put(t, ",\"incarnation\":");
	worker_text_int(t, item->incarnation);
	dispatch_put(t, ",\"attempt\":");
	worker_text_int(t, item->attempt);
	dispatch_put(t, "}");
}

json_t *dispatch_error_json(const struct dispatch *d, const struct queue_error *e)
{
	json_t *p = json_object();

	json_put_string(p, "code", status_name(e->code));
	json_put_string(p, "message", e->message ? e->message : "");
	if (e->details && *e->details)
		json_put_string(p, "details", e->details);
	if (e->worker >= 0)
		json_put_string(p, "worker", dispatch_worker_name(d, e->worker));
	if (e->task >= 0)
		json_put_int(p, "task", e->task);
	return p;
}
