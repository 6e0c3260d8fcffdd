/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/worker_calls.h"

#include "common/text/json.h"

#include <string.h>

/* Members and a time limit, each left out where there is none. */
static void args_wait(struct args *a, const char *const *members, size_t n, int timeout_ms)
{
	if (n)
		args_names(a, "members", members, n);
	if (timeout_ms >= 0)
		args_int(a, "timeout_ms", timeout_ms);
}

int remote_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms)
{
	struct args a = ARGS_EMPTY;

	args_text(&a, "name", name);
	args_wait(&a, members, n, timeout_ms);
	return remote_call(h, "Barrier", &a, WAIT_CALL(timeout_ms), NULL);
}

int remote_barrier_cancel(struct elasticd *h, const char *name, const char *message)
{
	struct args a = ARGS_EMPTY;

	args_text(&a, "name", name);
	args_text(&a, "message", message);
	return remote_call(h, "CancelBarrier", &a, WAIT_PROMPT, NULL);
}

static int names_take(const json_t *list, char ***ret, size_t *ret_n)
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
	return 0;
}

int remote_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	int r;

	args_wait(&a, members, n, timeout_ms);
	r = remote_call(h, "Alive", &a, WAIT_CALL(timeout_ms), &answer);
	return r ? r : names_take(json_get_array(answer, "alive"), ret, ret_n);
}

int error_take(const json_t *j, struct elasticd_error **ret)
{
	int code = status_from_name(json_get_string(j, "code", "Unknown"));
	struct elasticd_error *e =
		error_new(code < 0 ? ELASTICD_UNKNOWN : code, json_get_string(j, "message", ""),
			json_get_string(j, "worker", ""), json_get_bool(j, "reported", false));

	if (!e)
		return fail_memory();
	*ret = e;
	return 0;
}

static int member_take(const json_t *j, struct elasticd_member *m)
{
	const json_t *error = json_get_object(j, "error");

	m->rank = (int)json_get_int(j, "rank", 0);
	m->incarnation = (int)json_get_int(j, "start", 0);
	m->healthy = json_get_bool(j, "healthy", false);
	m->left = json_get_bool(j, "left", false);
	m->task = text_take(j, "worker");
	m->state = text_take(j, "state");
	if (!m->task || !m->state)
		return fail_memory();
	return error ? error_take(error, &m->error) : 0;
}

int remote_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	struct elasticd_member *members;
	const json_t *list;
	int r;

	if (n)
		args_names(&a, "roles", roles, n);
	r = remote_call(h, "States", &a, WAIT_PROMPT, &answer);
	if (r)
		return r;
	list = json_get_array(answer, "members");
	n = json_array_size(list);
	members = calloc(n + 1, sizeof(*members));
	if (!members)
		return fail_memory();
	for (size_t i = 0; i < n && r == 0; i++)
		r = member_take(json_array_get(list, i), &members[i]);
	if (r) {
		elasticd_members_free(members, n);
		return r;
	}
	*ret = members;
	*ret_n = n;
	return 0;
}

int remote_result(struct elasticd *h, const void *value, size_t len)
{
	struct args a = ARGS_EMPTY;

	args_value(&a, value, len);
	return remote_call(h, "Result", &a, WAIT_PROMPT, NULL);
}

int remote_report(struct elasticd *h, int code, const char *message)
{
	struct args a = ARGS_EMPTY;

	args_text(&a, "code", status_name((enum status)code));
	args_text(&a, "message", message);
	return remote_call(h, "ReportError", &a, WAIT_PROMPT, NULL);
}

int remote_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	int r;

	args_wait(&a, NULL, 0, timeout_ms);
	r = remote_call(h, "WaitError", &a, WAIT_CALL(timeout_ms), &answer);
	return r ? r : error_take(json_get_object(answer, "error"), ret);
}

int remote_leave(struct elasticd *h, int timeout_ms)
{
	struct args a = ARGS_EMPTY;

	args_wait(&a, NULL, 0, timeout_ms);
	return remote_call(h, "Leave", &a, WAIT_CALL(timeout_ms), NULL);
}
