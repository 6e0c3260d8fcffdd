/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/private.h"

#include "agent/files/file_system.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

void sharing_result_clear(struct sharing *sh, int slot)
{
	struct sharing_slot *s = &sh->slots[slot];

	sh->results_bytes -= s->result_len;
	free(s->result);
	free(s->error_code);
	free(s->error_message);
	s->result = s->error_code = s->error_message = NULL;
	s->result_len = 0;
	s->has_result = false;
	s->changed_us = 0;
}

void sharing_results_clear(struct sharing *sh)
{
	for (int i = 0; i < sh->n_slots; i++)
		sharing_result_clear(sh, i);
}

int sharing_result(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct sharing *sh = arg;
	_cleanup_free_ void *owned = NULL;
	const struct sharing_bytes b = sharing_bytes_of(p);
	struct sharing_slot *s;
	const void *value;
	void *copy;
	size_t len;

	if (sharing_bytes(call, &b, &value, &len, &owned) != 0)
		return 0;
	if (len > SHARING_RESULT_BYTES)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"value: expected at most %d bytes, got %zu", SHARING_RESULT_BYTES, len);
	s = &sh->slots[sharing_slot_of(call)];
	if (sh->results_bytes - s->result_len + len > SHARING_RESULTS_BYTES)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the results of all workers together have more than %d bytes",
			SHARING_RESULTS_BYTES);
	copy = malloc(len + 1);
	if (!copy)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	memcpy(copy, value, len);
	free(s->result);
	sh->results_bytes += len - s->result_len;
	s->result = copy;
	s->result_len = len;
	s->has_result = true;
	s->changed_us = (int64_t)loop_real_us();
	return varlink_reply(call, NULL);
}

void sharing_results_error(struct sharing *sh, int slot, const char *code, const char *message)
{
	struct sharing_slot *s = &sh->slots[slot];

	free(s->error_code);
	free(s->error_message);
	s->error_code = strdup(code);
	s->error_message = strndup(message, MEMBERS_ERROR_MAX);
	s->changed_us = (int64_t)loop_real_us();
}

static void result_put_value(json_t *j, const struct sharing_slot *s)
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

static json_t *result_json(const struct sharing *sh, const struct worker *w)
{
	const struct sharing_slot *s = &sh->slots[w->slot];
	json_t *j = json_object(), *exit = worker_exit_json(&w->exit), *error;

	json_put_string(j, "role", w->role->name);
	json_put_int(j, "index", w->index);
	json_put_int(j, "rank", w->rank);
	json_put_int(j, "start", w->start);
	if (s->has_result)
		result_put_value(j, s);
	if (s->error_code) {
		error = json_object();
		json_put_string(error, "code", s->error_code);
		json_put_string(error, "message", s->error_message);
		json_put(j, "error", error);
	}
	if (exit)
		json_put(j, "exit", exit);
	if (s->changed_us)
		json_put_int(j, "time_us", s->changed_us);
	return j;
}

static json_t *sharing_results_json(const struct supervisor *sv)
{
	const struct sharing *sh = sharing_of(sv);
	json_t *list = json_array();

	for (int i = 0; sh && i < supervisor_n_workers(sv); i++) {
		const struct worker *w = supervisor_worker(sv, i);

		if (sharing_has_slot(sh, w) && (w->exit.ended || sh->slots[w->slot].changed_us))
			json_add(list, result_json(sh, w));
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
		r = log_fs_replace(path, text, len, 0640);
	} else {
		r = file_write_atomic(path, text, len, 0640, false);
	}
	if (r < 0)
		log_warning("%s/results.json: %s", dir, safe_open_text(r));
}

int sharing_method_results(struct varlink_call *call, json_t *p, void *arg)
{
	json_t *answer = json_object();

	json_put(answer, "results", sharing_results_json(arg));
	return varlink_reply(call, answer);
}

void sharing_record(struct supervisor *sv)
{
	_cleanup_json_ json_t *j = NULL;
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (!sharing_of(sv))
		return;
	j = json_object();
	json_put_string(j, "job", supervisor_spec(sv)->name);
	json_put_string(j, "run", supervisor_options(sv)->run);
	json_put_int(j, "attempt", supervisor_attempt(sv));
	json_put(j, "results", sharing_results_json(sv));
	text = json_dump_text(j, &len);
	if (!text)
		return;
	write_results(logs_run_dir(supervisor_logs(sv)), text, len, true);
	write_results(supervisor_options(sv)->state_dir, text, len, false);
}
