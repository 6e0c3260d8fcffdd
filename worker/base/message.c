/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/message.h"
#include "worker/base/failure.h"
#include "worker/base/values.h"

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- parameters: JSON text, written in one pass, behind space for the head of the message */

enum { FRONT = 96 };

static const char begin[] = "{\"method\":\"", ours[] = "io.elasticd.Worker.";
static const char middle[] = "\",\"parameters\":{";

static void params_begin(struct params *a)
{
	static const char front[FRONT];

	if (!a->text.len)
		json_write(&a->text, front, FRONT);
}

void params_raw(struct params *a, const char *text, size_t len)
{
	params_begin(a);
	json_write(&a->text, text, len);
}

size_t params_length(const struct params *a)
{
	return a->text.len ? a->text.len - FRONT : 0;
}

const char *params_members(const struct params *a)
{
	return a->text.len ? a->text.data + FRONT : "";
}

/* The library's names need no escapes. */
void params_name(struct params *a, const char *name)
{
	struct json_writer *w = &a->text;

	params_begin(a);
	if (params_length(a) && w->data[w->len - 1] != '{')
		json_write(w, ",", 1);
	json_write(w, "\"", 1);
	json_write(w, name, strlen(name));
	json_write(w, "\":", 2);
}

void params_text(struct params *a, const char *name, const char *text)
{
	if (!text)
		return;
	params_name(a, name);
	json_write_text(&a->text, text);
}

void params_text_cut(struct params *a, const char *name, const char *text, size_t max)
{
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return;
	params_name(a, name);
	json_write_lossy(&a->text, text, len <= max ? len : printable_cut(text, max));
}

void params_int(struct params *a, const char *name, int64_t n)
{
	params_name(a, name);
	json_write_int(&a->text, n);
}

void params_true(struct params *a, const char *name, bool set)
{
	if (!set)
		return;
	params_name(a, name);
	params_raw(a, "true", 4);
}

void params_bytes(struct params *a, const char *name, const void *value, size_t len)
{
	bool text = value_is_text(value, len);

	params_name(a, text ? name : "base64");
	if (text)
		json_write_lossy(&a->text, value, len);
	else
		json_write_base64(&a->text, value, len);
}

void params_names(struct params *a, const char *name, const char *const *names, size_t n)
{
	params_name(a, name);
	params_raw(a, "[", 1);
	for (size_t i = 0; i < n; i++) {
		if (i)
			params_raw(a, ",", 1);
		json_write_text(&a->text, names[i]);
	}
	params_raw(a, "]", 1);
}

void params_put(struct params *a, const char *key, const void *value, size_t len, int flags)
{
	params_text(a, "key", key);
	params_bytes(a, "value", value, len);
	params_true(a, "overwrite", flags & ELASTICD_PUT_OVERWRITE);
	params_true(a, "persistent", flags & ELASTICD_PUT_PERSISTENT);
}

void params_get(struct params *a, const char *key, int timeout_ms)
{
	params_text(a, "key", key);
	params_true(a, "wait", timeout_ms != 0);
	if (timeout_ms > 0)
		params_int(a, "timeout_ms", timeout_ms);
}

int params_message(struct params *a, const char *method, bool more, struct varlink_buffer *ret)
{
	const char *interface = strchr(method, '.') ? "" : ours;
	size_t name = strlen(method), prefix = strlen(interface);
	size_t front = sizeof(begin) - 1 + prefix + name + sizeof(middle) - 1;
	static const char last[] = "}}", last_more[] = "},\"more\":true}";
	char *to;

	/* With the text's NUL, which ends the message. */
	params_raw(a, more ? last_more : last, more ? sizeof(last_more) : sizeof(last));
	if (a->text.failed || front > FRONT) {
		params_fini(a);
		return front > FRONT ? -EINVAL : -ENOMEM;
	}
	to = mempcpy(a->text.data + FRONT - front, begin, sizeof(begin) - 1);
	to = mempcpy(mempcpy(to, interface, prefix), method, name);
	memcpy(to, middle, sizeof(middle) - 1);
	*ret = (struct varlink_buffer){ .data = a->text.data,
		.begin = FRONT - front,
		.end = a->text.len,
		.room = a->text.room };
	a->text = (struct json_writer){ .data = NULL };
	return 0;
}

void params_fini(struct params *a)
{
	json_writer_fini(&a->text);
}

/* --- errors */

static char *names_join(const json_t *names)
{
	size_t i, len = 1;
	json_t *name;
	char *text, *to;

	json_array_foreach ((json_t *)names, i, name)
		len += json_string_length(name) + 1;
	text = to = malloc(len);
	if (!text)
		return NULL;
	*to = '\0';
	json_array_foreach ((json_t *)names, i, name)
		to += sprintf(to, "%s%s", i ? " " : "",
			json_is_string(name) ? json_string_value(name) : "");
	return text;
}

enum elasticd_status error_code(const char *name)
{
	int code = status_from_name(name);

	return code > 0 ? (enum elasticd_status)code : ELASTICD_STATUS_UNKNOWN;
}

static enum elasticd_status status_of(const struct varlink_in *in)
{
	if (strncmp(in->error, "org.varlink.service.", 20) != 0)
		return error_code(in->error);
	return strcmp(in->error + 20, "InvalidParameter") == 0 ? ELASTICD_STATUS_INVALID_ARGUMENT
							       : ELASTICD_STATUS_UNIMPLEMENTED;
}

/* The group's error, which every worker gets. */
static enum elasticd_status fail_group(const json_t *error)
{
	return fail_missing(error_code(json_get_string(error, "code", "Unknown")),
		text_take(error, "worker"), json_get_string(error, "message", ""));
}

static enum elasticd_status fail_of_queue(const json_t *parameters)
{
	const json_t *e = json_get_object(parameters, "error");
	const struct queue_error_parts said = {
		.code = error_code(json_get_string(e, "code", "Unknown")),
		.message = json_get_string(e, "message", ""),
		.details = json_get_string(e, "details", ""),
		.worker = json_get_string(e, "worker", ""),
		.task = json_get_int(e, "task", -1),
		.exit_code = (int)json_get_int(parameters, "exit_code", -1),
	};

	return fail_queue(&said);
}

enum elasticd_status fail_answer(const struct varlink_in *in)
{
	const char *message = json_get_string(in->parameters, "message", in->error);
	const char *parameter = json_get_string(in->parameters, "parameter", NULL);
	const json_t *missing = json_get_array(in->parameters, "missing");
	enum elasticd_status status = status_of(in);

	if (strcmp(in->error, "io.elasticd.Worker.GroupFailed") == 0)
		return fail_group(json_get_object(in->parameters, "error"));
	if (strcmp(in->error, "io.elasticd.Queue.QueueFailed") == 0)
		return fail_of_queue(in->parameters);
	if (missing)
		return fail_missing(status, names_join(missing), message);
	if (parameter)
		return fail(status, "%s: the agent does not accept this parameter", parameter);
	return fail(status, "%s", message);
}
