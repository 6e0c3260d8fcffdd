/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/answer_parts.h"
#include "worker/agent/worker_calls.h"
#include "worker/base/calls.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"

#include "common/text/json.h"

enum elasticd_status call_put(
	struct elasticd *h, const char *key, const void *value, size_t len, int flags)
{
	struct pool *p = flags & ELASTICD_PUT_NOWAIT && !h->outside ? pool_of(h) : NULL;
	enum elasticd_status status = ELASTICD_STATUS_OK;
	struct params a = PARAMS_EMPTY;
	bool ordinary = true;

	if (p)
		status = write_behind_put(h, p, key, value, len, flags, &ordinary);
	if (status || !ordinary)
		return status;
	params_put(&a, key, value, len, flags);
	return call_make(h, "Put", &a, WAIT_PROMPT, NULL);
}

enum elasticd_status call_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len)
{
	struct got_value got = { .value = NULL };
	const struct answer_reader reader = got_value_reader(&got);
	enum elasticd_status status = ELASTICD_STATUS_OK;
	struct params a = PARAMS_EMPTY;
	struct pool *p = pool_of(h);
	bool found = false;

	if (p && pool_has_writes(p))
		status = write_behind_get(h, p, key, timeout_ms, ret, ret_len, &found);
	if (status || found)
		return status;
	params_get(&a, key, timeout_ms);
	status = call_read(h, "Get", &a, WAIT_CALL(timeout_ms), &reader);
	if (status)
		return status;
	*ret = got.value;
	*ret_len = got.len;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_delete(struct elasticd *h, const char *key, int64_t *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_text(&a, "key", key);
	status = call_make(h, "Delete", &a, WAIT_PROMPT, &answer);
	if (!status)
		*ret = json_get_int(answer, "deleted", 0);
	return status;
}

enum elasticd_status call_list(
	struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	const json_t *list;

	params_text(&a, "key", key);
	status = call_make(h, "List", &a, WAIT_PROMPT, &answer);
	if (status)
		return status;
	list = json_get_array(answer, "entries");
	status = entries_take(list, 0, json_array_size(list), ret);
	if (!status)
		*ret_n = json_array_size(list);
	return status;
}
