/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/private.h"

#include "agent/files/file_system.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

void worker_result_clear(struct workers *w, int slot)
{
	struct worker_slot *s = &w->slots[slot];

	w->results_bytes -= s->result_len;
	free(s->result);
	free(s->error_code);
	free(s->error_message);
	s->result = s->error_code = s->error_message = NULL;
	s->result_len = 0;
	s->has_result = false;
	s->said_us = 0;
}

void worker_results_clear(struct workers *w)
{
	for (int i = 0; i < w->n_slots; i++)
		worker_result_clear(w, i);
}

int worker_result(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct workers *w = arg;
	_cleanup_free_ void *owned = NULL;
	const struct worker_bytes b = worker_bytes_of(p);
	struct worker_slot *s;
	const void *value;
	void *copy;
	size_t len;

	if (worker_bytes(call, &b, &value, &len, &owned) != 0)
		return 0;
	if (len > WORKERS_RESULT_BYTES)
		return worker_fail(call, STATUS_INVALID_ARGUMENT,
			"value: expected at most %d bytes, got %zu", WORKERS_RESULT_BYTES, len);
	s = &w->slots[worker_of(call)];
	if (w->results_bytes - s->result_len + len > WORKERS_RESULTS_BYTES)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the results of all tasks together have more than %d bytes",
			WORKERS_RESULTS_BYTES);
	copy = malloc(len + 1);
	if (!copy)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	memcpy(copy, value, len);
	free(s->result);
	w->results_bytes += len - s->result_len;
	s->result = copy;
	s->result_len = len;
	s->has_result = true;
	s->said_us = (int64_t)loop_real_us();
	return varlink_reply(call, NULL);
}

void worker_results_error(struct workers *w, int slot, const char *code, const char *message)
{
	struct worker_slot *s = &w->slots[slot];

	free(s->error_code);
	free(s->error_message);
	s->error_code = strdup(code);
	s->error_message = strndup(message, MEMBERS_ERROR_MAX);
	s->said_us = (int64_t)loop_real_us();
}

static void put_result(json_t *j, const struct worker_slot *s)
{
	json_t *value = memchr(s->result, '\0', s->result_len)
				? NULL
				: json_stringn(s->result, s->result_len);
	char *text;

	if (value) {
		json_put(j, "value", value);
		return;
	}
	text = malloc(base64_length(s->result_len) + 1);
	if (!text)
		return;
	base64_encode(s->result, s->result_len, text);
	json_put(j, "base64", json_stringn_nocheck(text, base64_length(s->result_len)));
	free(text);
}

static json_t *result_json(const struct workers *w, const struct task *t)
{
	const struct worker_slot *s = &w->slots[t->slot];
	json_t *j = json_object(), *exit = task_exit_json(&t->exit), *error;

	json_put_string(j, "role", t->role->name);
	json_put_int(j, "index", t->index);
	json_put_int(j, "rank", t->rank);
	json_put_int(j, "incarnation", t->incarnation);
	if (s->has_result)
		put_result(j, s);
	if (s->error_code) {
		error = json_object();
		json_put_string(error, "code", s->error_code);
		json_put_string(error, "message", s->error_message);
		json_put(j, "error", error);
	}
	if (exit)
		json_put(j, "exit", exit);
	if (s->said_us)
		json_put_int(j, "time_us", s->said_us);
	return j;
}

static json_t *workers_results_json(const struct agent *a)
{
	const struct workers *w = a->workers;
	json_t *list = json_array();

	for (int i = 0; w && i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (worker_has_slot(w, t) && (t->exit.ended || w->slots[t->slot].said_us))
			json_add(list, result_json(w, t));
	}
	return list;
}

static void write_results(const char *dir, const char *text, size_t len, bool logs)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!dir)
		return;
	if (asprintf(&path, "%s/results.json", dir) < 0) {
		path = NULL;
		r = -ENOMEM;
	} else if (logs) {
		r = log_fs_replace(path, text, len, 0644);
	} else {
		r = file_write_atomic(path, text, len, 0644, false);
	}
	if (r < 0)
		log_warning("%s/results.json: %s", dir, safe_open_text(r));
}

int workers_method_results(struct varlink_call *call, json_t *p, void *arg)
{
	json_t *answer = json_object();

	json_put(answer, "results", workers_results_json(arg));
	return varlink_reply(call, answer);
}

void workers_record(struct agent *a)
{
	_cleanup_json_ json_t *j = NULL;
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (!a->workers)
		return;
	j = json_object();
	json_put_string(j, "job", a->spec->name);
	json_put_string(j, "run", a->opt.run);
	json_put_int(j, "attempt", a->attempt);
	json_put(j, "results", workers_results_json(a));
	text = json_dump_text(j, &len);
	if (!text)
		return;
	write_results(logs_run_dir(a->logs), text, len, true);
	write_results(a->opt.state_dir, text, len, false);
}
