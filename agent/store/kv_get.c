/* SPDX-License-Identifier: Apache-2.0 */
/* Gets: the read, the wait for a missing key, and its time limit. */
#include "agent/store/kv_private.h"

#include <stdio.h>

static void fail_deadline(struct kv_call *call)
{
	char text[KV_KEY_MAX + 96];

	snprintf(text, sizeof(text), "the key \"%s\" was not written within %lld ms", call->key,
		(long long)call->timeout_ms);
	kv_call_fail(call, STATUS_DEADLINE_EXCEEDED, text);
}

static void wait_for_key(struct kv_call *call)
{
	struct kv *kv = call->kv;

	call->node = kv_node_get(kv, call->key);
	if (!call->node) {
		kv_call_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	link_before(&call->node->waits, &call->waits);
	if (kv->on_wait)
		kv->on_wait(kv->on_wait_arg);
}

static void answer_missing(struct kv_call *call)
{
	struct kv *kv = call->kv;

	if (!call->wait) {
		char text[KV_KEY_MAX + 64];

		snprintf(text, sizeof(text), "there is no key \"%s\"", call->key);
		kv_call_fail(call, STATUS_NOT_FOUND, text);
	} else if (kv->stopped) {
		kv_call_fail(call, kv->stop_status, kv->stop_message);
	} else if (call->timeout_ms == 0) {
		fail_deadline(call);
	} else {
		wait_for_key(call);
	}
}

static void on_read(void *arg, const struct store_answer *answer)
{
	struct kv_call *call = arg;

	call->op = NULL;
	if (answer->status != STATUS_OK)
		kv_call_finish(call, answer);
	else if (answer->n == 0)
		answer_missing(call);
	else
		kv_call_finish_entry(call, answer, NULL);
}

static void arm_timer_by(struct kv *kv, uint64_t deadline_ms, uint64_t now)
{
	if (loop_timer_armed(kv->timer) && kv->timer_ms <= deadline_ms)
		return;
	kv->timer_ms = deadline_ms;
	loop_timer_arm(kv->timer, deadline_ms > now ? deadline_ms - now : 0);
}

static void set_deadline(struct kv_call *call)
{
	struct kv *kv = call->kv;
	uint64_t now = loop_now_ms();
	struct link *at = &kv->deadlines;

	call->deadline_ms = now + (uint64_t)call->timeout_ms;
	while (at->prev != &kv->deadlines &&
		link_entry(at->prev, struct kv_call, deadline)->deadline_ms > call->deadline_ms)
		at = at->prev;
	link_before(at, &call->deadline);
	arm_timer_by(kv, call->deadline_ms, now);
}

/* A get answered in time leaves the timer armed: it then only finds the next deadline. */
void kv_deadlines_pass(struct kv *kv)
{
	while (!link_alone(&kv->deadlines)) {
		struct kv_call *call = link_entry(kv->deadlines.next, struct kv_call, deadline);
		uint64_t now = loop_now_ms();

		if (call->deadline_ms > now) {
			arm_timer_by(kv, call->deadline_ms, now);
			return;
		}
		fail_deadline(call);
	}
}

int kv_get(struct kv *kv, const char *key, bool wait, int64_t timeout_ms, kv_answer_fn fn,
	void *arg, struct kv_call **ret, struct error *err)
{
	char own[KV_STORE_KEY], kept[KV_STORE_KEY];
	const struct store_span spans[2] = { { .begin = own }, { .begin = kept } };
	struct kv_call *call;
	int r = kv_call_new(kv, key, false, fn, arg, &call, err);

	if (r < 0)
		return r;
	call->wait = wait;
	call->timeout_ms = timeout_ms;
	kv_join(own, kv->prefix, call->key, "");
	kv_join(kept, KV_PERSISTENT, call->key, "");
	if (wait && timeout_ms > 0)
		set_deadline(call);
	r = store_range(kv->store, spans, 2, on_read, call, &call->op);
	return kv_call_started(call, r, ret, err);
}
