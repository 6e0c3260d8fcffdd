/* SPDX-License-Identifier: Apache-2.0 */
/* The task verbs that need one call, and print a line or a table. */
#include "client/queue/client.h"
#include "client/queue/payload.h"
#include "client/verbs/verbs.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define EXPECTED "expected numbers of tasks, or --all"

/* The job's name in messages. */
static const char *job_name(const struct queue_client *q)
{
	return q->job ? q->job : "the job";
}

int cmd_task_join(struct ctl *ctl, struct args *args)
{
	struct queue_client q;
	int r = queue_begin(ctl, args, true, NULL, &q);

	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Join"),
			queue_deadline(&q, queue_named(&q), "timeout_ms"), NULL);
	return r;
}

int cmd_task_done(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	struct queue_client q;
	int r = queue_begin(ctl, args, true, NULL, &q);

	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Done"),
			queue_deadline(&q, queue_named(&q), "timeout_ms"), &answer);
	if (r != 0)
		return r;
	if (ctl->json)
		ctl_print_json(answer, false);
	else
		ctl_say(ctl, "%s", json_get_bool(answer, "done", false) ? "done" : "not done");
	return json_get_bool(answer, "done", false) ? 0 : 1;
}

int cmd_task_cancel(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const char *reason = args_get(args, "reason");
	bool all = args_has(args, "all");
	struct queue_client q;
	json_t *numbers, *p;
	int r = queue_begin(ctl, args, true, all ? NULL : EXPECTED, &q);

	if (r != 0)
		return r;
	if (all == (args->argc > 0))
		return ctl_usage(ctl, EXPECTED);
	if (!all && q.queue)
		return ctl_usage(ctl, "--queue is for --all: numbers are those of the job");
	p = queue_deadline(&q, queue_named(&q), "timeout_ms");
	if (!all) {
		r = queue_numbers(&q, args, &numbers);
		if (r != 0) {
			json_decref(p);
			return r;
		}
		p = ctl_with(p, "tasks", numbers);
	}
	if (reason)
		p = ctl_with(p, "reason", queue_text(reason));
	r = queue_call(&q, QUEUE_METHOD("Cancel"), p, &answer);
	if (r != 0)
		return r;
	if (ctl->json)
		ctl_print_json(answer, false);
	ctl_say(ctl, "cancelled %" PRId64, get_int(answer, "cancelled"));
	return 0;
}

int cmd_task_release(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	struct queue_client q;
	json_t *numbers;
	int r = queue_begin(ctl, args, false, "expected numbers of tasks", &q);

	if (r == 0)
		r = queue_numbers(&q, args, &numbers);
	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Release"),
			ctl_with(queue_parameters(&q), "tasks", numbers), &answer);
	if (r != 0)
		return r;
	if (ctl->json)
		ctl_print_json(answer, false);
	ctl_say(ctl, "released %" PRId64, get_int(answer, "released"));
	return 0;
}

int cmd_task_close(struct ctl *ctl, struct args *args)
{
	struct queue_client q;
	int r = queue_begin(ctl, args, false, NULL, &q);

	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Close"), queue_parameters(&q), NULL);
	if (r == 0)
		ctl_say(ctl, "%s takes no more tasks", job_name(&q));
	return r;
}

/* Checks FILE or PAYLOAD against the format, and adds it to p. */
static int add_payload(
	struct ctl *ctl, const struct args *args, const char *text, const char *key, json_t **p)
{
	const char *path = args_get(args, "file"), *format = args_get(args, "format");
	_cleanup_free_ char *owned = NULL;
	const char *data = text ? text : "";
	size_t len = strlen(data);
	struct error err = { 0 };

	if (path && text)
		return ctl_usage(ctl, "expected PAYLOAD or --file, not both");
	if (queue_format(ctl, format) != 0)
		return CTL_USAGE;
	if (path && payload_read(path, QUEUE_PAYLOAD_MAX, &owned, &len, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	if (path)
		data = owned;
	if (format && !strcmp(format, "json") && payload_check_json(&data, &len, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "the payload: %s", err.text);
	if (text || path)
		*p = payload_put(*p, key, data, len, format ? format : text ? "text" : NULL);
	return *p ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

int cmd_task_resource(struct ctl *ctl, struct args *args)
{
	const char *what = args->argv[0], *name;
	_cleanup_json_ json_t *p = NULL;
	bool create = !strcmp(what, "create");
	struct queue_client q;
	int r;

	if (!create && strcmp(what, "drop") != 0)
		return ctl_usage(ctl, "expected create or drop, got \"%s\"", what);
	args->argc--;
	args->argv++;
	r = queue_begin(ctl, args, false, "expected NAME", &q);
	if (r != 0)
		return r;
	name = args->argv[0];
	if (!create && (args->argc > 1 || args_has(args, "file")))
		return ctl_usage(ctl, "drop takes no payload");
	p = ctl_with(queue_parameters(&q), "name", queue_text(name));
	if (create)
		r = add_payload(ctl, args, args->argc > 1 ? args->argv[1] : NULL, "payload", &p);
	if (r == 0)
		r = queue_call(&q,
			create ? QUEUE_METHOD("CreateResource") : QUEUE_METHOD("DropResource"),
			TAKE_PTR(p), NULL);
	if (r == 0)
		ctl_say(ctl, "%s %s", create ? "created" : "dropped", name);
	return r;
}

/* Prints a line on standard error for a worker that did not answer. */
static void print_failure(struct ctl *ctl, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *code = json_get_string(error, "code", "?"),
		   *message = get_text(error, "message");

	ctl_error(ctl, 0, "%s: %s%s%s", json_get_string(answer, "worker", "?"), code,
		message && *message ? ": " : "", message ? message : "");
}

/* The parameters of Call. */
static int call_parameters(
	struct queue_client *q, const struct args *args, const char *text, json_t **ret)
{
	const char *workers = args_get(args, "workers");
	struct error err = { 0 };
	int64_t answer_ms = -1;
	int r;

	if (args_duration(args, "answer-timeout", &answer_ms, &err) < 0)
		return ctl_usage(q->ctl, "%s", err.text);
	*ret = queue_deadline(q, queue_parameters(q), "timeout_ms");
	if (answer_ms >= 0)
		*ret = ctl_with(*ret, "answer_timeout_ms", json_integer(answer_ms));
	if (workers)
		*ret = ctl_with(*ret, "workers", queue_words(workers));
	r = add_payload(q->ctl, args, text, "payload", ret);
	return r;
}

int cmd_call(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answers = NULL, *p = NULL;
	struct queue_client q;
	size_t i, failed = 0;
	json_t *answer;
	int r = queue_begin(ctl, args, false, NULL, &q);

	if (r == 0)
		r = call_parameters(&q, args, args->argc > 0 ? args->argv[0] : NULL, &p);
	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Call"), TAKE_PTR(p), &answers);
	if (r != 0)
		return r;
	json_array_foreach (json_object_get(answers, "answers"), i, answer) {
		_cleanup_free_ char *line = payload_result(answer, NULL);

		if (!line)
			return ctl_error(ctl, CTL_FAILED, "out of memory");
		puts(line);
		if (has_value(answer, "error")) {
			print_failure(ctl, answer);
			failed++;
		}
	}
	return failed ? CTL_REFUSED : 0;
}
