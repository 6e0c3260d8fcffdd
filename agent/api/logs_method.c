/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/logs_method.h"

#include "agent/logs/reader.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <string.h>

struct log_call {
	LIST_ENTRY(log_call) link;
	struct varlink_call *call;
	struct log_reader *reader;
};

static void log_call_free(struct log_call *c)
{
	LIST_REMOVE(c, link);
	log_reader_free(c->reader);
	free(c);
}

static void log_call_gone(void *arg)
{
	log_call_free(arg);
}

static void log_call_resume(void *arg)
{
	struct log_call *c = arg;

	log_reader_resume(c->reader);
}

static int log_call_lines(void *arg, json_t *lines, int64_t missed, bool more)
{
	struct log_call *c = arg;
	json_t *answer = json_object();

	json_put(answer, "lines", lines);
	if (missed)
		json_put(answer, "missed", json_integer(missed));
	if (!more) {
		varlink_reply(c->call, answer);
		log_call_free(c);
		return 0;
	}
	varlink_notify(c->call, answer);
	return varlink_call_congested(c->call, log_call_resume, c) ? -EAGAIN : 0;
}

static int log_call_refuse(
	struct varlink_call *call, json_t *parameters, int r, const struct error *err)
{
	json_t *attempt = json_object_get(parameters, "attempt");

	if (r == -ENOENT && json_is_integer(attempt))
		return varlink_error(
			call, "NotFound", manager_no_attempt(json_integer_value(attempt)));
	if (r == -ESRCH)
		return varlink_error(call, "NotFound", manager_no_worker(err->field));
	if (r == -EINVAL && !strcmp(err->field, "ranks"))
		return varlink_error(call, "InvalidArgument",
			manager_invalid(
				"ranks", json_get_string(parameters, "ranks", ""), err->text));
	return varlink_error(call, "Internal", manager_internal(err->text, r));
}

int log_call_start(struct log_calls *calls, struct loop *loop, struct varlink_call *call,
	json_t *parameters, const char *run_dir, int workers, bool ended)
{
	struct error err = { 0 };
	struct log_call *c;
	int r;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	if (!run_dir) {
		error_set(&err, -ENOENT, "the job keeps no log files (logs.dir is /dev/null)");
		return log_call_refuse(call, NULL, -ENOENT, &err);
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->call = call;
	LIST_INSERT_HEAD(calls, c, link);
	r = log_reader_new(loop, run_dir, parameters, workers, log_call_lines, c, &c->reader, &err);
	if (r < 0) {
		log_call_free(c);
		return log_call_refuse(call, parameters, r, &err);
	}
	varlink_call_on_gone(call, log_call_gone, c);
	if (ended)
		log_reader_run_ended(c->reader);
	return 0;
}

void log_calls_run_ended(struct log_calls *calls)
{
	struct log_call *c, *next;

	for (c = LIST_FIRST(calls); c; c = next) {
		next = LIST_NEXT(c, link);
		log_reader_run_ended(c->reader);
	}
}
