/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values. */
#include "worker/agent/streams.h"
#include "worker/agent/worker_calls.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/write_behind.h"

#include "common/base/cleanup.h"

struct elasticd_watch {
	struct stream stream;
};

enum elasticd_status elasticd_put(
	struct elasticd *h, const char *key, const void *value, size_t len, int flags)
{
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status = check_key(key, false, &normal);

	if (!status)
		status = check_put(value, len, flags);
	return status ? status : call_put(h, normal, value ? value : "", len, flags);
}

enum elasticd_status elasticd_flush(struct elasticd *h, int timeout_ms)
{
	return write_behind_flush(h, timeout_ms);
}

enum elasticd_status elasticd_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret_value, size_t *ret_len)
{
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status = check_key(key, false, &normal);
	size_t len;

	if (!status)
		status = call_get(h, normal, timeout_ms, ret_value, &len);
	if (!status && ret_len)
		*ret_len = len;
	return status;
}

enum elasticd_status elasticd_delete(struct elasticd *h, const char *key, int64_t *ret_deleted)
{
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status = check_key(key, false, &normal);
	int64_t deleted;

	if (!status)
		status = call_delete(h, normal, &deleted);
	if (!status && ret_deleted)
		*ret_deleted = deleted;
	return status;
}

enum elasticd_status elasticd_list(
	struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status = check_key(key, true, &normal);

	return status ? status : call_list(h, normal, ret, ret_n);
}

void elasticd_entries_free(struct elasticd_entry *entries, size_t n)
{
	for (size_t i = 0; entries && i < n; i++) {
		free(entries[i].key);
		free(entries[i].value);
	}
	free(entries);
}

/* --- several calls together */

enum elasticd_status elasticd_pipeline(
	struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms)
{
	enum elasticd_status status;

	if (n && !ops)
		return fail(
			ELASTICD_STATUS_INVALID_ARGUMENT, "ops: expected %zu calls, got NULL", n);
	status = call_pipeline(h, ops, n, timeout_ms);
	if (status)
		return status;
	for (size_t i = 0; i < n; i++)
		if (ops[i].status)
			return fail(
				ops[i].status, "%s", ops[i].text ? ops[i].text : "out of memory");
	return ELASTICD_STATUS_OK;
}

void elasticd_ops_clear(struct elasticd_op *ops, size_t n)
{
	for (size_t i = 0; ops && i < n; i++) {
		free(ops[i].ret_value);
		free(ops[i].text);
		ops[i].ret_value = ops[i].text = NULL;
		ops[i].ret_len = 0;
		ops[i].done = false;
		ops[i].status = ELASTICD_STATUS_OK;
		ops[i].ret_deleted = 0;
	}
}

/* --- watches */

enum elasticd_status elasticd_watch_open(
	struct elasticd *h, const char *key, int64_t since, struct elasticd_watch **ret)
{
	_cleanup_free_ struct elasticd_watch *w = NULL;
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status = check_key(key, true, &normal);

	if (status)
		return status;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail_memory();
	status = stream_init(&w->stream, h, normal, since < 0 ? -1 : since);
	if (!status)
		*ret = TAKE_PTR(w);
	return status;
}

enum elasticd_status elasticd_watch_next(
	struct elasticd_watch *w, int timeout_ms, struct elasticd_entry **ret)
{
	return stream_next_change(&w->stream, timeout_ms, ret);
}

int elasticd_watch_fd(const struct elasticd_watch *w)
{
	return stream_fd(&w->stream);
}

void elasticd_watch_close(struct elasticd_watch *w)
{
	if (w)
		stream_fini(&w->stream);
	free(w);
}
