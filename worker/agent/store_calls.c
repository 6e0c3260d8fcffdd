/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/worker_calls.h"
#include "worker/base/pool.h"
#include "worker/base/queue_handle.h"

#include "common/text/json.h"

#include <errno.h>
#include <string.h>

static void remote_close(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool);

	/* What a parent has open is not its child's business. */
	if (!p || !pool_is_ours(p))
		return;
	pool_close(p);
	pool_unref(p);
}

static int remote_put(struct elasticd *h, const char *key, const void *value, size_t len, int flags)
{
	struct pool *p = flags & ELASTICD_NOWAIT && !h->control ? pool_of(h) : NULL;
	struct args a = ARGS_EMPTY;
	int r = p ? writer_put(h, p, key, value, len, flags) : -1;

	if (r >= 0)
		return r;
	args_put(&a, key, value, len, flags);
	return remote_call(h, "Put", &a, WAIT_PROMPT, NULL);
}

static int remote_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len)
{
	_cleanup_json_ json_t *answer = NULL;
	struct taken_entry entry = { .value = NULL };
	const struct taker taker = { answer_entry, &entry };
	struct args a = ARGS_EMPTY;
	struct pool *p = pool_of(h);
	bool found = false;
	int r = 0;

	if (p && pool_writes(p))
		r = writer_get(h, p, key, timeout_ms, ret, ret_len, &found);
	if (r || found)
		return r;
	args_get(&a, key, timeout_ms);
	r = remote_ask(h, "Get", &a, WAIT_CALL(timeout_ms), &taker, &answer);
	if (r)
		return r;
	if (answer) {
		r = value_take(json_object_get(answer, "entry"), ret, ret_len);
		return r < 0 ? fail_taken(r) : 0;
	}
	*ret = entry.value;
	*ret_len = entry.len;
	return 0;
}

static int remote_delete(struct elasticd *h, const char *key, int64_t *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	int r;

	args_text(&a, "key", key);
	r = remote_call(h, "Delete", &a, WAIT_PROMPT, &answer);
	if (r == 0)
		*ret = json_get_int(answer, "deleted", 0);
	return r;
}

/* 0, -ENOMEM, -EBADMSG; what was taken is then the caller's to free. */
static int take_entry(const json_t *j, struct elasticd_entry *e)
{
	e->key = text_take(j, "key");
	if (!e->key)
		return -ENOMEM;
	e->revision = json_get_int(j, "revision", 0);
	return json_get_bool(j, "deleted", false) ? 0 : value_take(j, &e->value, &e->len);
}

int entries_take(const json_t *list, size_t begin, size_t n, struct elasticd_entry **ret)
{
	struct elasticd_entry *entries = calloc(n ? n : 1, sizeof(*entries));

	if (!entries)
		return fail_memory();
	for (size_t i = 0; i < n; i++) {
		int r = take_entry(json_array_get(list, begin + i), &entries[i]);

		if (r < 0) {
			elasticd_entries_free(entries, n);
			return fail_taken(r);
		}
	}
	*ret = entries;
	return 0;
}

static int remote_list(
	struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	const json_t *list;
	int r;

	args_text(&a, "key", key);
	r = remote_call(h, "List", &a, WAIT_PROMPT, &answer);
	if (r)
		return r;
	list = json_get_array(answer, "entries");
	r = entries_take(list, 0, json_array_size(list), ret);
	if (r == 0)
		*ret_n = json_array_size(list);
	return r;
}

const struct side side_remote = {
	.cancel = pool_cancel,
	.forget = pool_forget,
	.close = remote_close,
	.put = remote_put,
	.flush = remote_flush,
	.get = remote_get,
	.delete = remote_delete,
	.list = remote_list,
	.pipeline = remote_pipeline,
	.watch_open = remote_watch_open,
	.watch_next = remote_watch_next,
	.events_open = remote_events_open,
	.events_next = remote_events_next,
	.stream_fd = remote_stream_fd,
	.watch_close = remote_stream_close,
	.events_close = remote_stream_close,
	.barrier = remote_barrier,
	.barrier_cancel = remote_barrier_cancel,
	.alive = remote_alive,
	.states = remote_states,
	.result = remote_result,
	.report = remote_report,
	.wait_error = remote_wait_error,
	.leave = remote_leave,
	.step = remote_step,
	.saved = remote_saved,
	.preemption = remote_preemption,
	.notify = remote_notify,
	.queue = &queue_remote,
};
