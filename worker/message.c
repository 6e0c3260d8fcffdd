/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to the agent as parameters, and what comes from it as an error. */
#include "worker/connection.h"

#include "common/json.h"

#include <errno.h>
#include <string.h>

/* --- parameters */

void args_text(struct args *a, const char *name, const char *text)
{
	if (a->r == 0)
		a->r = json_put_string(a->json, name, text);
}

void args_int(struct args *a, const char *name, int64_t n)
{
	if (a->r == 0)
		a->r = json_put_int(a->json, name, n);
}

void args_true(struct args *a, const char *name, bool set)
{
	if (a->r == 0 && set)
		a->r = json_put(a->json, name, json_true());
}

void args_value(struct args *a, const void *value, size_t len)
{
	if (a->r == 0)
		a->r = value_put(a->json, value, len);
}

void args_names(struct args *a, const char *name, const char *const *names, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n && a->r == 0; i++)
		a->r = json_add(list, json_string(names[i]));
	if (a->r == 0)
		a->r = json_put(a->json, name, list);
	else
		json_decref(list);
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

	return fail_missing(code > 0 ? code : ELASTICD_UNKNOWN, text_take(error, "task"),
		json_get_string(error, "message", ""));
}

int fail_answer(const struct varlink_in *in)
{
	const char *message = json_get_string(in->parameters, "message", in->error);
	const char *parameter = json_get_string(in->parameters, "parameter", NULL);
	const json_t *missing = json_get_array(in->parameters, "missing");
	int status = status_of(in);

	if (strcmp(in->error, "io.elasticd.Worker.GroupFailed") == 0)
		return fail_group(json_get_object(in->parameters, "error"));
	if (missing)
		return fail_missing(status, join_names(missing), message);
	if (parameter)
		return fail(status, "%s: the agent does not accept it", parameter);
	return fail(status, "%s", message);
}
