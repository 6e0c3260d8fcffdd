/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/sharing/group.h"
#include "agent/sharing/private.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

void commons_result_clear(struct commons *c, int slot)
{
	struct commons_slot *s = &c->slots[slot];

	c->results_bytes -= s->result_len;
	free(s->result);
	free(s->error_code);
	free(s->error_message);
	s->result = s->error_code = s->error_message = NULL;
	s->result_len = 0;
	s->has_result = false;
	s->changed_us = 0;
}

void commons_results_clear(struct commons *c)
{
	for (int i = 0; i < c->n_slots; i++)
		commons_result_clear(c, i);
}

/* STATUS_OK, or an error with err. */
static enum status set_result(
	struct commons *c, int slot, const void *value, size_t len, struct error *err)
{
	struct commons_slot *s = &c->slots[slot];
	void *copy;

	if (len > COMMONS_RESULT_BYTES) {
		error_set(err, -EINVAL, "value: expected at most %d bytes, got %zu",
			COMMONS_RESULT_BYTES, len);
		return STATUS_INVALID_ARGUMENT;
	}
	copy = c->results_bytes - s->result_len + len > COMMONS_RESULTS_BYTES ? NULL
									      : malloc(len + 1);
	if (!copy) {
		error_set(err, -ENOSPC,
			"the results of all workers together have more than %d bytes",
			COMMONS_RESULTS_BYTES);
		return STATUS_RESOURCE_EXHAUSTED;
	}
	memcpy(copy, value, len);
	free(s->result);
	c->results_bytes += len - s->result_len;
	s->result = copy;
	s->result_len = len;
	s->has_result = true;
	s->changed_us = (int64_t)loop_real_us();
	return STATUS_OK;
}

bool sharing_set_result(struct varlink_call *call, const struct flat *p)
{
	_cleanup_free_ void *owned = NULL;
	struct error err = { 0 };
	const void *value;
	enum status r;
	size_t len;

	if (sharing_bytes(call, p, &value, &len, &owned) != 0)
		return false;
	r = set_result(sharing_commons_of(call), sharing_slot_of(call), value, len, &err);
	if (r != STATUS_OK)
		sharing_fail(call, r, "%s", err.text);
	return r == STATUS_OK;
}

int sharing_result(struct varlink_call *call, const struct flat *p, void *arg)
{
	return sharing_set_result(call, p) ? varlink_reply(call, NULL) : 0;
}

void commons_results_error(struct commons *c, int slot, const char *code, const char *message)
{
	struct commons_slot *s = &c->slots[slot];

	free(s->error_code);
	free(s->error_message);
	s->error_code = strdup(code);
	s->error_message = strndup(message, MEMBERS_ERROR_MAX);
	s->changed_us = (int64_t)loop_real_us();
}

static void result_put_value(json_t *j, const struct commons_slot *s)
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

static json_t *result_json(const struct commons *c, const struct worker *w)
{
	const struct commons_slot *s = &c->slots[w->slot];
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

json_t *commons_results_json(const struct commons *c)
{
	json_t *list = json_array();

	for (int i = 0; c && i < commons_count(c); i++) {
		const struct worker *w = commons_at(c, i);

		if (commons_has_slot(c, w) && (w->exit.ended || c->slots[w->slot].changed_us))
			json_add(list, result_json(c, w));
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

/* Of all hosts, where this agent leads. */
static json_t *known_results(const struct supervisor *sv)
{
	const struct sharing *sh = sharing_of(sv);

	return sh && sh->group ? sharing_group_results_json(sh->group)
			       : commons_results_json(sharing_commons(sv));
}

int sharing_method_results(struct varlink_call *call, json_t *p, void *arg)
{
	json_t *answer = json_object();

	json_put(answer, "results", known_results(arg));
	return varlink_reply(call, answer);
}

void sharing_record(struct supervisor *sv)
{
	const char *run_dir = logs_run_dir(supervisor_logs(sv));
	const char *state_dir = supervisor_options(sv)->state_dir;
	_cleanup_json_ json_t *j = NULL;
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (!sharing_of(sv) || (!run_dir && !state_dir))
		return;
	j = json_object();
	json_put_string(j, "job", supervisor_spec(sv)->name);
	json_put_string(j, "run", supervisor_options(sv)->run);
	json_put_int(j, "attempt", supervisor_attempt(sv));
	json_put(j, "results", known_results(sv));
	text = json_dump_text(j, &len);
	if (!text)
		return;
	write_results(run_dir, text, len, true);
	write_results(state_dir, text, len, false);
}
