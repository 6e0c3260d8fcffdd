/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/answer_parts.h"
#include "worker/agent/worker_calls.h"
#include "worker/base/calls.h"
#include "worker/base/failure.h"
#include "worker/base/values.h"

#include "common/base/status.h"
#include "common/text/json.h"

#include <string.h>

/* Members and a time limit, each left out where there is none. */
static void params_wait(struct params *a, const char *const *members, size_t n, int timeout_ms)
{
	if (n)
		params_names(a, "members", members, n);
	if (timeout_ms >= 0)
		params_int(a, "timeout_ms", timeout_ms);
}

enum elasticd_status call_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms)
{
	struct params a = PARAMS_EMPTY;

	params_text(&a, "name", name);
	params_wait(&a, members, n, timeout_ms);
	return call_make(h, "Barrier", &a, WAIT_CALL(timeout_ms), NULL);
}

enum elasticd_status call_cancel_barrier(struct elasticd *h, const char *name, const char *message)
{
	struct params a = PARAMS_EMPTY;

	params_text(&a, "name", name);
	params_text(&a, "message", message);
	return call_make(h, "CancelBarrier", &a, WAIT_PROMPT, NULL);
}

static enum elasticd_status names_take(const json_t *list, char ***ret, size_t *ret_n)
{
	size_t n = json_array_size(list);
	char **names = calloc(n + 1, sizeof(*names));

	if (!names)
		return fail_memory();
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		names[i] = strdup(name ? name : "");
		if (!names[i]) {
			elasticd_names_free(names, n);
			return fail_memory();
		}
	}
	*ret = names;
	*ret_n = n;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_alive(struct elasticd *h, const char *const *members, size_t n,
	int timeout_ms, char ***ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_wait(&a, members, n, timeout_ms);
	status = call_make(h, "Alive", &a, WAIT_CALL(timeout_ms), &answer);
	return status ? status : names_take(json_get_array(answer, "alive"), ret, ret_n);
}

static enum elasticd_status worker_take(const json_t *j, struct elasticd_worker *w)
{
	const json_t *error = json_get_object(j, "error");

	w->rank = (int)json_get_int(j, "rank", 0);
	w->start = (int)json_get_int(j, "start", 0);
	w->healthy = json_get_bool(j, "healthy", false);
	w->left = json_get_bool(j, "left", false);
	w->worker = text_take(j, "worker");
	w->state = text_take(j, "state");
	if (!w->worker || !w->state)
		return fail_memory();
	return error ? error_take(error, &w->error) : ELASTICD_STATUS_OK;
}

static enum elasticd_status workers_take(
	const json_t *list, struct elasticd_worker **ret, size_t *ret_n)
{
	size_t n = json_array_size(list);
	struct elasticd_worker *workers = calloc(n + 1, sizeof(*workers));
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (!workers)
		return fail_memory();
	for (size_t i = 0; i < n && !status; i++)
		status = worker_take(json_array_get(list, i), &workers[i]);
	if (status) {
		elasticd_workers_free(workers, n);
		return status;
	}
	*ret = workers;
	*ret_n = n;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_worker **ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	if (n)
		params_names(&a, "roles", roles, n);
	status = call_make(h, "States", &a, WAIT_PROMPT, &answer);
	return status ? status : workers_take(json_get_array(answer, "members"), ret, ret_n);
}

enum elasticd_status call_result(struct elasticd *h, const void *value, size_t len)
{
	struct params a = PARAMS_EMPTY;

	params_bytes(&a, "value", value, len);
	return call_make(h, "Result", &a, WAIT_PROMPT, NULL);
}

enum elasticd_status call_report_error(
	struct elasticd *h, enum elasticd_status code, const char *message)
{
	struct params a = PARAMS_EMPTY;

	params_text(&a, "code", status_name((enum status)code));
	params_text(&a, "message", message);
	return call_make(h, "ReportError", &a, WAIT_PROMPT, NULL);
}

enum elasticd_status call_wait_error(
	struct elasticd *h, int timeout_ms, struct elasticd_error **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_wait(&a, NULL, 0, timeout_ms);
	status = call_make(h, "WaitError", &a, WAIT_CALL(timeout_ms), &answer);
	return status ? status : error_take(json_get_object(answer, "error"), ret);
}

enum elasticd_status call_ready(struct elasticd *h)
{
	struct params a = PARAMS_EMPTY;

	return call_make(h, "Ready", &a, WAIT_PROMPT, NULL);
}

enum elasticd_status call_leave(struct elasticd *h, int timeout_ms)
{
	struct params a = PARAMS_EMPTY;

	params_wait(&a, NULL, 0, timeout_ms);
	return call_make(h, "Leave", &a, WAIT_CALL(timeout_ms), NULL);
}
