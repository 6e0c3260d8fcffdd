/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/client.h"

#include "client/queue/payload.h"
#include "common/base/printable.h"
#include "common/base/scan.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char *get_variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* Uses the agent of the worker that runs us. */
static int use_own_agent(struct ctl *ctl, const char *what)
{
	const char *path = get_variable("ELASTICD_WORKER_SOCKET"),
		   *token = get_variable("ELASTICD_TOKEN");

	if (!path || !token)
		return ctl_usage(ctl,
			"%s in a worker of a job only, where ELASTICD_WORKER_SOCKET and "
			"ELASTICD_TOKEN are set",
			what);
	remote_fini(&ctl->remote);
	free(ctl->socket);
	ctl->found = false;
	ctl->socket = strdup(path);
	ctl->token = token;
	return ctl->socket ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

int queue_begin(struct ctl *ctl, struct args *args, bool has_queue, const char *expected,
	struct queue_client *ret)
{
	bool given = args->argc > 0 && strcmp(args->argv[0], "-") != 0;

	*ret = (struct queue_client){ .ctl = ctl,
		.job = given ? args->argv[0] : NULL,
		.queue = has_queue ? args_get(args, "queue") : NULL };
	if (args->argc == 0 && expected)
		return ctl_usage(ctl, "%s", expected);
	if (args->argc > 0) {
		args->argc--;
		args->argv++;
	}
	return given ? 0 : use_own_agent(ctl, "JOB can be left out");
}

int queue_begin_worker(struct ctl *ctl, struct queue_client *ret)
{
	*ret = (struct queue_client){ .ctl = ctl };
	return use_own_agent(ctl, "task work runs");
}

int queue_format(const struct ctl *ctl, const char *format)
{
	size_t len = format ? strlen(format) : 0;

	if (len > QUEUE_FORMAT_LEN_MAX)
		return ctl_usage(ctl, "--format: expected at most %d bytes, got %zu",
			QUEUE_FORMAT_LEN_MAX, len);
	for (size_t i = 0, n; i < len; i += n) {
		unsigned c;

		n = (size_t)printable_utf8(format + i, len - i, &c);
		if (n == 0)
			return ctl_usage(ctl, "--format: expected text in UTF-8");
	}
	return 0;
}

void queue_print_outcome(const struct ctl *ctl, const json_t *outcome)
{
	const json_t *error = json_object_get(outcome, "error");
	_cleanup_free_ char *text = json_is_object(error) ? payload_error(error) : NULL;
	struct error err = { 0 };

	error_set(&err, -EREMOTEIO, "task %" PRId64 " %s: %s", get_int(outcome, "task"),
		json_get_string(outcome, "state", "?"), text ? text : "?");
	/* An Outcome has its error in the same member as QueueFailed. */
	ctl_refused(ctl, 0, outcome, &err);
}

json_t *queue_parameters(const struct queue_client *q)
{
	json_t *p = json_object();

	return q->job ? ctl_with(p, "job", queue_text(q->job)) : p;
}

json_t *queue_named(const struct queue_client *q)
{
	json_t *p = queue_parameters(q);

	return q->queue ? ctl_with(p, "queue", queue_text(q->queue)) : p;
}

json_t *queue_deadline(const struct queue_client *q, json_t *p, const char *key)
{
	int64_t left = ctl_left_ms(q->ctl);

	return left < 0 ? p : ctl_with(p, key, json_integer(left));
}

int queue_try(struct queue_client *q, const char *method, json_t *parameters, json_t **ret,
	char **ret_error, struct error *err)
{
	struct ctl *ctl = q->ctl;
	int64_t deadline_ms = ctl->deadline_ms;
	int r;

	if (deadline_ms >= 0)
		ctl->deadline_ms += QUEUE_PATIENCE_MS;
	r = ctl_try(ctl, method, parameters, ret, ret_error, err);
	ctl->deadline_ms = deadline_ms;
	return r;
}

int queue_call(struct queue_client *q, const char *method, json_t *parameters, json_t **ret)
{
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	int r = queue_try(q, method, parameters, ret, &name, &err);

	return name ? ctl_refused(q->ctl, r, q->ctl->refusal, &err) : r;
}

/* A refused token makes all later calls fail: they report it. */
static void on_greeted(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct queue_client *q = arg;
	struct error err = { 0 };

	if (!error || !strcmp(error, "disconnected"))
		return;
	ctl_explain(q->ctl, error, parameters, &err);
	ctl_error(q->ctl, CTL_FAILED, "%s", err.text);
}

int queue_connect(struct queue_client *q, struct loop *loop, varlink_closed_fn closed, void *arg,
	struct varlink_client **ret)
{
	_cleanup_(varlink_client_freep) struct varlink_client *c = NULL;
	struct error err = { 0 };
	int fd, r = ctl_open_fd(q->ctl, &fd, &err);

	if (r < 0)
		return ctl_cannot_connect(q->ctl, r, &err);
	r = varlink_client_new_fd(loop, fd, closed, arg, &c);
	if (r < 0)
		return ctl_error(q->ctl, CTL_FAILED, "%s: %s", q->ctl->socket, strerror(-r));
	if (q->ctl->token && varlink_client_call(c, "io.elasticd.Worker.Hello",
				     ctl_with(json_object(), "token", json_string(q->ctl->token)),
				     false, on_greeted, q) < 0)
		return ctl_error(q->ctl, CTL_FAILED, "out of memory");
	*ret = TAKE_PTR(c);
	return 0;
}

bool queue_number(const char *text, int64_t *ret)
{
	uint64_t v;

	if (scan_whole(text, UINT64_C(1) << 53, &v) < 0)
		return false;
	*ret = (int64_t)v;
	return true;
}

int queue_numbers(struct queue_client *q, const struct args *args, json_t **ret)
{
	_cleanup_json_ json_t *list = json_array();
	int64_t n;

	for (int i = 0; i < args->argc; i++) {
		if (!queue_number(args->argv[i], &n))
			return ctl_usage(
				q->ctl, "expected the number of a task, got \"%s\"", args->argv[i]);
		if (json_array_append_new(list, json_integer(n)) < 0)
			return ctl_error(q->ctl, CTL_FAILED, "out of memory");
	}
	*ret = TAKE_PTR(list);
	return *ret ? 0 : ctl_error(q->ctl, CTL_FAILED, "out of memory");
}

json_t *queue_text(const char *text)
{
	return json_string_lossy(text, strlen(text));
}

json_t *queue_words(const char *text)
{
	json_t *list = json_array();

	while (list && *text) {
		size_t n = strcspn(text, ",");

		if (json_array_append_new(list, json_string_lossy(text, n)) < 0) {
			json_decref(list);
			return NULL;
		}
		text += n + (text[n] == ',');
	}
	return list;
}
