/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to the agent as parameters, and what comes from it as an error. */
#include "worker/base/connection.h"

#include "common/text/base64.h"
#include "common/text/json.h"
#include "common/text/json_scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- parameters: JSON text, written in one pass, behind room for the method's name */

enum { FRONT = 96 };

static const char begin[] = "{\"method\":\"", ours[] = "io.elasticd.Worker.";
static const char middle[] = "\",\"parameters\":{";

static void args_begin(struct args *a)
{
	static const char front[FRONT];

	if (!a->text.len)
		json_write(&a->text, front, FRONT);
}

void args_raw(struct args *a, const char *text, size_t len)
{
	args_begin(a);
	json_write(&a->text, text, len);
}

size_t args_length(const struct args *a)
{
	return a->text.len ? a->text.len - FRONT : 0;
}

const char *args_members(const struct args *a)
{
	return a->text.len ? a->text.data + FRONT : "";
}

/* A name of ours, and the comma before it. */
void args_name(struct args *a, const char *name)
{
	struct json_writer *w = &a->text;

	args_begin(a);
	if (args_length(a) && w->data[w->len - 1] != '{')
		json_write(w, ",", 1);
	json_write(w, "\"", 1);
	json_write(w, name, strlen(name));
	json_write(w, "\":", 2);
}

void args_text(struct args *a, const char *name, const char *text)
{
	if (!text)
		return;
	args_name(a, name);
	json_write_text(&a->text, text);
}

void args_int(struct args *a, const char *name, int64_t n)
{
	args_name(a, name);
	json_write_int(&a->text, n);
}

void args_true(struct args *a, const char *name, bool set)
{
	if (!set)
		return;
	args_name(a, name);
	args_raw(a, "true", 4);
}

void args_value(struct args *a, const void *value, size_t len)
{
	args_bytes(a, "value", value, len);
}

void args_bytes(struct args *a, const char *name, const void *value, size_t len)
{
	bool text = value_is_text(value, len);

	args_name(a, text ? name : "base64");
	if (text)
		json_write_lossy(&a->text, value, len);
	else
		json_write_base64(&a->text, value, len);
}

void args_names(struct args *a, const char *name, const char *const *names, size_t n)
{
	args_name(a, name);
	args_raw(a, "[", 1);
	for (size_t i = 0; i < n; i++) {
		if (i)
			args_raw(a, ",", 1);
		json_write_text(&a->text, names[i]);
	}
	args_raw(a, "]", 1);
}

void args_put(struct args *a, const char *key, const void *value, size_t len, int flags)
{
	args_text(a, "key", key);
	args_value(a, value, len);
	args_true(a, "overwrite", flags & ELASTICD_OVERWRITE);
	args_true(a, "persistent", flags & ELASTICD_PERSISTENT);
}

void args_get(struct args *a, const char *key, int timeout_ms)
{
	args_text(a, "key", key);
	args_true(a, "wait", timeout_ms != 0);
	if (timeout_ms > 0)
		args_int(a, "timeout_ms", timeout_ms);
}

int args_message(struct args *a, const char *method, bool more, struct varlink_buffer *ret)
{
	const char *interface = strchr(method, '.') ? "" : ours;
	size_t name = strlen(method), prefix = strlen(interface);
	size_t front = sizeof(begin) - 1 + prefix + name + sizeof(middle) - 1;
	static const char last[] = "}}", last_more[] = "},\"more\":true}";
	char *to;

	/* With the text's NUL, which ends the message. */
	args_raw(a, more ? last_more : last, more ? sizeof(last_more) : sizeof(last));
	if (a->text.failed || front > FRONT) {
		args_fini(a);
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

void args_fini(struct args *a)
{
	json_writer_fini(&a->text);
}

/* --- answers that need no tree */

/* The text behind what it has to begin with, or NULL. */
static char *behind(char *text, const char *expected, size_t len)
{
	return strncmp(text, expected, len) == 0 ? text + len : NULL;
}

int answer_nothing(char *text, size_t len, void *arg)
{
	static const char start[] = "{\"parameters\":";
	struct flat f;
	char *at = behind(text, start, sizeof(start) - 1);

	at = at ? flat_scan(at, &f) : NULL;
	return at && *at == '}' && at + 1 == text + len;
}

int answer_entry(char *text, size_t len, void *arg)
{
	static const char start[] = "{\"parameters\":{\"entry\":";
	const struct flat_field *value, *base64;
	struct taken_entry *e = arg;
	struct flat f;
	char *at = behind(text, start, sizeof(start) - 1);
	int r;

	at = at ? flat_scan(at, &f) : NULL;
	if (!at || strncmp(at, "}}", 2) != 0 || at + 2 != text + len)
		return 0;
	value = flat_get(&f, "value");
	base64 = flat_get(&f, "base64");
	if (!value == !base64 || (value ? value : base64)->kind != FLAT_STRING)
		return 0;
	r = value ? value_copy(value->string, value->len, &e->value, &e->len)
		  : base64_decode(base64->string, base64->len, &e->value, &e->len);
	return r == -EINVAL ? 0 : r < 0 ? r : 1;
}

/* --- errors */

static char *join_names(const json_t *names)
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

static int status_of(const struct varlink_in *in)
{
	int64_t e = json_get_int(in->parameters, "errno", 0);
	int s;

	if (strncmp(in->error, "org.varlink.service.", 20) == 0)
		return strcmp(in->error + 20, "InvalidParameter") == 0 ? ELASTICD_INVALID_ARGUMENT
								       : ELASTICD_UNIMPLEMENTED;
	s = status_from_name(in->error);
	if (s > 0)
		return s;
	return e == ENOMEM || e == ENOSPC ? ELASTICD_RESOURCE_EXHAUSTED : ELASTICD_UNKNOWN;
}

/* The group's error, on all tasks alike. */
static int fail_group(const json_t *error)
{
	int code = status_from_name(json_get_string(error, "code", "Unknown"));

	return fail_missing(code > 0 ? code : ELASTICD_UNKNOWN, text_take(error, "worker"),
		json_get_string(error, "message", ""));
}

int fail_taken(int r)
{
	return r == -ENOMEM ? fail_memory()
			    : fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
}

int fail_answer(const struct varlink_in *in)
{
	const char *message = json_get_string(in->parameters, "message", in->error);
	const char *parameter = json_get_string(in->parameters, "parameter", NULL);
	const json_t *missing = json_get_array(in->parameters, "missing");
	int status = status_of(in);

	if (strcmp(in->error, "io.elasticd.Worker.GroupFailed") == 0)
		return fail_group(json_get_object(in->parameters, "error"));
	if (strcmp(in->error, "io.elasticd.Queue.QueueFailed") == 0)
		return fail_queue_answer(in->parameters);
	if (missing)
		return fail_missing(status, join_names(missing), message);
	if (parameter)
		return fail(status, "%s: the agent does not accept it", parameter);
	return fail(status, "%s", message);
}
