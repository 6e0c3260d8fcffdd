/* SPDX-License-Identifier: Apache-2.0 */
/* All stores have the same limits of requests, so they are checked here. */
#include "agent/store/store.h"

#include "agent/store/private.h"

#include <errno.h>
#include <string.h>

static bool key_fits(const char *key)
{
	size_t n = strnlen(key, STORE_KEY_MAX + 1);

	return n > 0 && n <= STORE_KEY_MAX;
}

static bool span_fits(const struct store_span *span)
{
	if (!span->end)
		return key_fits(span->begin);
	return (!*span->begin || key_fits(span->begin)) && (!*span->end || key_fits(span->end));
}

static int store_start(struct store *s, const struct store_request *request, struct store_op **ret)
{
	struct store_op *op;
	int r;

	for (size_t i = 0; i < request->n; i++)
		if (!span_fits(&request->spans[i]))
			return -EINVAL;
	r = s->ops->start(s, request, &op);
	if (r >= 0 && ret)
		*ret = op;
	return r;
}

int store_put(struct store *s, const struct store_put *put, store_answer_fn fn, void *arg,
	struct store_op **ret)
{
	struct store_request request = { .kind = STORE_PUT, .put = put, .fn = fn, .arg = arg };

	if (!key_fits(put->key) || put->len > STORE_VALUE_MAX || put->lease < 0)
		return -EINVAL;
	if (put->other && (!key_fits(put->other) || strcmp(put->key, put->other) == 0))
		return -EINVAL;
	return store_start(s, &request, ret);
}

int store_get(
	struct store *s, const char *key, store_answer_fn fn, void *arg, struct store_op **ret)
{
	struct store_span span = { .begin = key };
	struct store_request request = {
		.kind = STORE_GET, .spans = &span, .n = 1, .fn = fn, .arg = arg
	};

	return store_start(s, &request, ret);
}

int store_range(struct store *s, const struct store_span *spans, size_t n, size_t limit,
	store_answer_fn fn, void *arg, struct store_op **ret)
{
	struct store_request request = {
		.kind = STORE_RANGE, .spans = spans, .n = n, .limit = limit, .fn = fn, .arg = arg
	};

	return n > STORE_SPANS_MAX ? -EINVAL : store_start(s, &request, ret);
}

int store_delete(struct store *s, const struct store_span *spans, size_t n, store_answer_fn fn,
	void *arg, struct store_op **ret)
{
	struct store_request request = {
		.kind = STORE_DELETE, .spans = spans, .n = n, .fn = fn, .arg = arg
	};

	return n > STORE_SPANS_MAX ? -EINVAL : store_start(s, &request, ret);
}

int store_grant(
	struct store *s, uint64_t ttl_ms, store_answer_fn fn, void *arg, struct store_op **ret)
{
	struct store_request request = {
		.kind = STORE_GRANT, .ttl_ms = ttl_ms, .fn = fn, .arg = arg
	};

	return ttl_ms < 1 || ttl_ms > INT64_MAX / 2 ? -EINVAL : store_start(s, &request, ret);
}

int store_keep_alive(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret)
{
	struct store_request request = {
		.kind = STORE_KEEP_ALIVE, .lease = lease, .fn = fn, .arg = arg
	};

	return lease < 1 ? -EINVAL : store_start(s, &request, ret);
}

int store_revoke(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret)
{
	struct store_request request = {
		.kind = STORE_REVOKE, .lease = lease, .fn = fn, .arg = arg
	};

	return lease < 1 ? -EINVAL : store_start(s, &request, ret);
}

struct store_op *store_cancel(struct store_op *op)
{
	if (op)
		op->ops->cancel(op);
	return NULL;
}

int store_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret)
{
	if (!span_fits(span))
		return -EINVAL;
	return s->ops->watch_new(s, span, since, fn, arg, ret);
}

struct store_watch *store_watch_free(struct store_watch *w)
{
	if (w)
		w->ops->watch_free(w);
	return NULL;
}

struct store *store_free(struct store *s)
{
	if (s)
		s->ops->free(s);
	return NULL;
}
