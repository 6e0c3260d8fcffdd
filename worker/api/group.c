/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers, states, results, errors and events of the group. */
#include "worker/agent/streams.h"
#include "worker/agent/worker_calls.h"
#include "worker/api/error_file.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"

#include "common/base/cleanup.h"

struct elasticd_events {
	struct stream stream;
};

enum elasticd_status elasticd_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms)
{
	enum elasticd_status status = check_text("name", name, WORKER_NAME_MAX);

	if (!status && !*name)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"name: expected at least 1 byte, got \"\"");
	if (!status)
		status = check_names("members", members, n);
	return status ? status : call_barrier(h, name, members, n, timeout_ms);
}

enum elasticd_status elasticd_barrier_cancel(
	struct elasticd *h, const char *name, const char *message)
{
	enum elasticd_status status = check_text("name", name, WORKER_NAME_MAX);

	return status ? status : call_cancel_barrier(h, name, message);
}

enum elasticd_status elasticd_alive(struct elasticd *h, const char *const *members, size_t n,
	int timeout_ms, char ***ret, size_t *ret_n)
{
	enum elasticd_status status = check_names("members", members, n);

	return status ? status : call_alive(h, members, n, timeout_ms, ret, ret_n);
}

void elasticd_names_free(char **names, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}

enum elasticd_status elasticd_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_worker **ret, size_t *ret_n)
{
	enum elasticd_status status = check_names("roles", roles, n);

	return status ? status : call_states(h, roles, n, ret, ret_n);
}

void elasticd_workers_free(struct elasticd_worker *workers, size_t n)
{
	for (size_t i = 0; workers && i < n; i++) {
		free(workers[i].worker);
		free(workers[i].state);
		elasticd_error_free(workers[i].error);
	}
	free(workers);
}

enum elasticd_status elasticd_result(struct elasticd *h, const void *value, size_t len)
{
	enum elasticd_status status = check_value(value, len);

	return status ? status : call_result(h, value ? value : "", len);
}

enum elasticd_status elasticd_report_error(
	struct elasticd *h, enum elasticd_status code, const char *message)
{
	enum elasticd_status status = check_code(code);

	if (status)
		return status;
	/* The other workers must hear of it, even where the file cannot be written. */
	(void)error_file_write(h, message ? message : "", NULL);
	return call_report_error(h, code, message ? message : "");
}

enum elasticd_status elasticd_wait_error(
	struct elasticd *h, int timeout_ms, struct elasticd_error **ret)
{
	return call_wait_error(h, timeout_ms, ret);
}

enum elasticd_status elasticd_ready(struct elasticd *h)
{
	return elasticd_supervised(h) ? call_ready(h) : ELASTICD_STATUS_OK;
}

enum elasticd_status elasticd_leave(struct elasticd *h, int timeout_ms)
{
	return call_leave(h, timeout_ms);
}

/* --- events */

enum elasticd_status elasticd_events_open(struct elasticd *h, struct elasticd_events **ret)
{
	_cleanup_free_ struct elasticd_events *e = calloc(1, sizeof(*e));
	enum elasticd_status status;

	if (!e)
		return fail_memory();
	status = stream_init(&e->stream, h, NULL, -1);
	if (!status)
		*ret = TAKE_PTR(e);
	return status;
}

enum elasticd_status elasticd_events_next(
	struct elasticd_events *e, int timeout_ms, struct elasticd_event **ret)
{
	return stream_next_event(&e->stream, timeout_ms, ret);
}

int elasticd_events_fd(const struct elasticd_events *e)
{
	return stream_fd(&e->stream);
}

void elasticd_event_free(struct elasticd_event *event)
{
	if (!event)
		return;
	free(event->event);
	free(event->worker);
	free(event->text);
	elasticd_error_free(event->error);
	free(event);
}

void elasticd_events_close(struct elasticd_events *e)
{
	if (e)
		stream_fini(&e->stream);
	free(e);
}
