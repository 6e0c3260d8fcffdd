/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Errors whose parameters have a list of workers. */
static bool names_workers(enum status s)
{
	return s == STATUS_CANCELLED || s == STATUS_INVALID_ARGUMENT ||
	       s == STATUS_DEADLINE_EXCEEDED || s == STATUS_FAILED_PRECONDITION ||
	       s == STATUS_ABORTED || s == STATUS_INTERNAL || s == STATUS_UNAVAILABLE;
}

/* Statuses that the interface has no error for are answered as Internal. */
static const char *error_name(enum status s)
{
	switch (s) {
	case STATUS_CANCELLED:
	case STATUS_INVALID_ARGUMENT:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_NOT_FOUND:
	case STATUS_ALREADY_EXISTS:
	case STATUS_PERMISSION_DENIED:
	case STATUS_RESOURCE_EXHAUSTED:
	case STATUS_FAILED_PRECONDITION:
	case STATUS_ABORTED:
	case STATUS_OUT_OF_RANGE:
	case STATUS_INTERNAL:
	case STATUS_UNAVAILABLE:
		return status_name(s);
	default:
		return "Internal";
	}
}

json_t *sharing_names_json(const struct commons *c, const int *slots, size_t n)
{
	json_t *names = json_array();

	for (size_t i = 0; i < n; i++)
		json_add(names, json_string(commons_slot_name((void *)c, slots[i])));
	return names;
}

int sharing_fail_missing(const struct commons *c, struct varlink_call *call, enum status status,
	const char *message, const int *slots, size_t n)
{
	json_t *p = json_object();

	json_put_string(p, "message", message ? message : status_name(status));
	if (n && names_workers(status))
		json_put(p, "missing", sharing_names_json(c, slots, n));
	return varlink_error(call, error_name(status), p);
}

int sharing_fail(struct varlink_call *call, enum status status, const char *fmt, ...)
{
	char text[1280];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return sharing_fail_missing(NULL, call, status, text, NULL, 0);
}

int sharing_bytes(struct varlink_call *call, const struct flat *p, const void **ret,
	size_t *ret_len, void **ret_owned)
{
	const struct flat_field *value = flat_get(p, "value"), *base64 = flat_get(p, "base64");
	int r;

	*ret_owned = NULL;
	if (!value == !base64) {
		sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"value, base64: expected one of them, got %s", value ? "both" : "none");
		return 1;
	}
	if (value) {
		*ret = value->string;
		*ret_len = value->len;
		return 0;
	}
	r = base64_decode(base64->string, base64->len, ret_owned, ret_len);
	if (r == -EINVAL)
		sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"base64: expected base64 with padding and nothing else");
	else if (r < 0)
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*ret = *ret_owned;
	return r;
}

int sharing_hello_reply(struct varlink_call *call)
{
	const struct commons *c = sharing_commons_of(call);
	int slot = sharing_slot_of(call);
	const struct worker *w = commons_worker(c, slot);
	json_t *members = json_array(), *p = json_object();

	for (int i = 0; i < commons_count(c); i++)
		if (commons_is_default(commons_at(c, i)) && commons_has_slot(c, commons_at(c, i)))
			json_add(members, json_string(c->slots[commons_at(c, i)->slot].name));
	json_put_string(p, "job", c->spec->name);
	json_put_string(p, "run", c->run);
	json_put_string(p, "worker", c->slots[slot].name);
	json_put_int(p, "rank", w ? w->rank : -1);
	json_put_int(p, "attempt", c->owner.attempt(c->owner.arg));
	json_put_int(p, "start", w ? w->start : 0);
	json_put(p, "members", members);
	return varlink_reply(call, p);
}

json_t *sharing_error_json(const struct commons *c, const struct members_error *e)
{
	json_t *j = json_object();

	json_put_string(j, "code", status_name(e->code));
	json_put_string(j, "message", e->message);
	json_put_string(j, "worker", commons_slot_name((void *)c, e->slot));
	json_put(j, "reported", json_boolean(e->reported));
	json_put_int(j, "time_us", e->time_us);
	return j;
}

static json_t *worker_states_json(const struct commons *c, const struct worker *w)
{
	const struct members_error *e = members_own_error(c->members, w->slot);
	json_t *j = json_object();

	json_put_string(j, "worker", c->slots[w->slot].name);
	json_put_int(j, "rank", w->rank);
	json_put_int(j, "start", w->start);
	json_put_string(j, "state", worker_state_name(w->state));
	json_put(j, "recoverable", json_boolean(w->role->recoverable));
	json_put(j, "healthy", json_boolean(members_healthy(c->members, w->slot)));
	json_put(j, "left", json_boolean(members_left(c->members, w->slot)));
	if (e)
		json_put(j, "error", sharing_error_json(c, e));
	return j;
}

static bool wants_role(const json_t *roles, const char *name)
{
	const json_t *role;
	size_t i;

	json_array_foreach (roles, i, role)
		if (!strcmp(json_string_value(role), name))
			return true;
	return !roles;
}

/* The first of roles that the job does not have, or NULL. */
static const char *unknown_role(const struct commons *c, const json_t *roles)
{
	const struct spec *spec = c->spec;
	const json_t *role;
	size_t i;

	json_array_foreach (roles, i, role) {
		size_t k = 0;

		while (k < spec->n_roles && strcmp(spec->roles[k].name, json_string_value(role)))
			k++;
		if (k == spec->n_roles)
			return json_string_value(role);
	}
	return NULL;
}

static int by_index(const void *a, const void *b)
{
	int x = (*(const struct worker *const *)a)->index,
	    y = (*(const struct worker *const *)b)->index;

	return (x > y) - (x < y);
}

/* The workers of one role by their index. room is for all workers. */
static void add_states(const struct commons *c, const struct spec_role *role,
	const struct worker **room, json_t *list)
{
	size_t n = 0;

	for (int i = 0; i < commons_count(c); i++)
		if (commons_at(c, i)->role == role && commons_has_slot(c, commons_at(c, i)))
			room[n++] = commons_at(c, i);
	qsort(room, n, sizeof(struct worker *), by_index);
	for (size_t i = 0; i < n; i++)
		json_add(list, worker_states_json(c, room[i]));
}

static int sharing_states(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	const json_t *roles = json_get_array(p, "roles");
	const struct spec *spec = c->spec;
	_cleanup_free_ const struct worker **room = NULL;
	const char *unknown;
	json_t *list, *answer;

	if (roles && (!json_array_size(roles) || json_array_size(roles) > spec->n_roles))
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"roles: expected 1 to the %zu that this job has, got %zu",
			(size_t)spec->n_roles, json_array_size(roles));
	unknown = unknown_role(c, roles);
	if (unknown)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"roles: this job has no role \"%.100s\"", unknown);
	room = calloc((size_t)commons_count(c) + 1, sizeof(*room));
	if (!room)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	list = json_array();
	answer = json_object();
	for (size_t i = 0; i < spec->n_roles; i++)
		if (wants_role(roles, spec->roles[i].name))
			add_states(c, &spec->roles[i], room, list);
	json_put(answer, "members", list);
	return varlink_reply(call, answer);
}

void commons_report_error(struct commons *c, int slot, enum status code, const char *message)
{
	struct worker *w = commons_worker(c, slot);

	commons_results_error(c, slot, status_name(code), message);
	if (members_report(c->members, slot, code, message, (int64_t)loop_real_us()) == -ENOMEM)
		log_error("%s: out of memory: the other workers do not get its error",
			c->slots[slot].name);
	commons_error_changed(c);
	barriers_worker_ended(
		c->barriers, slot, true, w && w->role->recoverable, "it has reported an error");
	if (w)
		c->owner.worker_error(c->owner.arg, w, status_name(code), message);
}

static int sharing_report_error(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	const char *name = json_get_string(p, "code", "");
	int code = status_from_name(name), slot = sharing_slot_of(call), r;

	if (code <= STATUS_OK)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"code: expected the name of a status that is an error, such as Internal, got \"%.60s\"",
			name);
	/* Before the answer: the events that this causes follow it. */
	r = varlink_reply(call, NULL);
	commons_report_error(c, slot, (enum status)code, json_get_string(p, "message", ""));
	return r;
}

const struct varlink_method sharing_methods[] = {
	{ "Hello", sharing_hello },
	{ "List", sharing_list },
	{ "Delete", sharing_delete },
	{ "Watch", sharing_watch },
	{ "CancelBarrier", sharing_cancel_barrier },
	{ "Alive", sharing_alive },
	{ "States", sharing_states },
	{ "ReportError", sharing_report_error },
	{ "WaitError", sharing_wait_error },
	{ "Events", sharing_events },
	{ "Leave", sharing_leave },
	{ NULL, NULL },
};

const struct varlink_flat_method sharing_flat_methods[] = {
	{ "Put", sharing_put },
	{ "Get", sharing_get },
	{ "Barrier", sharing_barrier },
	{ "Result", sharing_result },
	{ NULL, NULL },
};
