/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches a message to its handler. A message that is no call ends the connection; every other
 * mistake gets an answer. */
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/private.h"

#include <errno.h>
#include <string.h>

struct target {
	const struct varlink_interface *interface;
	const struct varlink_member *method;
	varlink_method_fn fn;
	varlink_flat_fn flat; /* used instead of fn, with parameters */
	const struct flat *parameters;
};

enum {
	/* If a call is too long, its method's name is searched in its first bytes. */
	GUESS_BYTES = 256,
	/* A call with more units than this (see json_units()) takes more memory than its text: so
	 * much for each unit, or somewhat more. */
	FEW_UNITS = 2048,
	UNIT_BYTES = 24,
};

static int answer_unknown(struct varlink_call *call, const char *error, const char *key,
	const char *value, size_t len)
{
	json_t *p = json_object();

	json_put(p, key, json_string_lossy(value, len));
	varlink_error(call, error, p);
	return -ENOENT;
}

static const struct varlink_interface *find_interface(
	const struct varlink_server *s, const char *name, size_t len)
{
	for (size_t i = 0; i < s->n_interfaces; i++) {
		const char *own = s->interfaces[i].idl->name;

		if (strlen(own) == len && !memcmp(own, name, len))
			return &s->interfaces[i];
	}
	return NULL;
}

const struct varlink_interface *varlink_dispatch_guess(
	const struct varlink_server *s, const char *text, size_t len)
{
	static const char key[] = "\"method\"";
	const struct varlink_interface *own = &s->interfaces[VARLINK_OWN], *i = NULL;
	const char *name, *end, *dot;

	if (len > GUESS_BYTES)
		len = GUESS_BYTES;
	name = memmem(text, len, key, sizeof(key) - 1);
	if (!name)
		return own;
	name += sizeof(key) - 1;
	while (name < text + len && strchr(" \t\r\n:", *name))
		name++;
	if (name == text + len || *name++ != '"')
		return own;
	end = memchr(name, '"', len - (size_t)(name - text));
	dot = end ? memrchr(name, '.', (size_t)(end - name)) : NULL;
	if (dot)
		i = find_interface(s, name, (size_t)(dot - name));
	return i && i != &s->interfaces[VARLINK_STANDARD] ? i : own;
}

/* Finds the method. Returns 0, or -ENOENT after having answered. */
static int find_target(const struct varlink_server *s, struct varlink_call *call, const char *name,
	struct target *t)
{
	const char *dot = strrchr(name, '.');
	size_t len = dot ? (size_t)(dot - name) : strlen(name);
	const struct varlink_flat_target *flat;
	const struct varlink_method *m;

	t->interface = find_interface(s, name, len);
	if (!dot || !t->interface)
		return answer_unknown(
			call, VARLINK_SERVICE "InterfaceNotFound", "interface", name, len);
	call->interface = t->interface;
	t->method = varlink_idl_member(t->interface->idl, VARLINK_METHOD, dot + 1);
	if (!t->method)
		return answer_unknown(
			call, VARLINK_SERVICE "MethodNotFound", "method", name, strlen(name));
	for (m = t->interface->methods; m->name; m++)
		if (!strcmp(m->name, dot + 1))
			break;
	flat = varlink_flat_find(&t->interface->flat, dot + 1, strlen(dot + 1));
	t->fn = m->name ? m->fn : NULL;
	t->flat = flat ? flat->fn : NULL;
	if (!t->fn && !t->flat)
		return answer_unknown(
			call, VARLINK_SERVICE "MethodNotImplemented", "method", name, strlen(name));
	return 0;
}

static bool parameters_fit(
	struct varlink_call *call, const struct target *t, const json_t *parameters)
{
	static const char root[] = "parameters";
	struct error err = { 0 };
	const char *field = err.field;

	if (varlink_validate(&t->method->type, parameters, root, &err) == 0 &&
		varlink_validate_ranges(t->interface->ranges, parameters, root, false, &err) == 0)
		return true;
	log_debug("varlink: pid %d called %s: %s", call->connection->peer.pid, t->method->name,
		err.text);
	if (!strncmp(field, root, strlen(root)) && field[strlen(root)] == '.')
		field += strlen(root) + 1;
	varlink_error_parameter(call, field);
	return false;
}

/* Counts a long call, of so many units, until it is answered. */
static bool call_fits(struct varlink_call *call, size_t len, size_t units)
{
	struct varlink_connection *c = call->connection;
	const char *what;
	int64_t limit;
	int r;

	if (!c->server->count_calls)
		return true;
	call->bytes = len + (units > FEW_UNITS ? units * UNIT_BYTES : 0);
	c->open_bytes += call->bytes;
	r = call->bytes >= VARLINK_LONG_BYTES ? varlink_limits_count(c) : 0;
	if (r == 0)
		return true;
	what = varlink_limits_what(c->server, r, &limit);
	varlink_error_limit(call, what, limit);
	return false;
}

static void call_handler(struct varlink_call *call, const struct target *t, json_t *parameters)
{
	struct varlink_server *s = call->connection->server;
	bool dead = false;
	int r = 0;

	call->interface = t->interface;
	call->method = t->method;
	call->dead = &dead;
	if (s->authorize && t->interface != &s->interfaces[VARLINK_STANDARD])
		r = s->authorize(call, t->method->name, parameters, s->arg);
	/* A non-zero result refuses the call, even if authorize() forgot to answer it. */
	if (r != 0 && !dead)
		varlink_error(call, VARLINK_SERVICE "PermissionDenied", NULL);
	if (dead)
		return;
	s->handling++;
	if (s->relay && t->interface != &s->interfaces[VARLINK_STANDARD] &&
		s->relay(call, t->method->name, parameters, s->arg))
		r = 0;
	else
		r = t->flat ? t->flat(call, t->parameters, t->interface->arg)
			    : t->fn(call, parameters, t->interface->arg);
	s->handling--;
	if (dead)
		return;
	call->dead = NULL;
	if (r < 0)
		varlink_error_failed(call, -r, strerror(-r));
}

static bool is_flag(const json_t *m, const char *key)
{
	const json_t *v = json_object_get(m, key);

	return !v || json_is_boolean(v) || json_is_null(v);
}

static const char *check_message(const json_t *m)
{
	if (!json_is_string(json_object_get(m, "method")))
		return "its method is not a string";
	if (!is_flag(m, "more") || !is_flag(m, "oneway") || !is_flag(m, "upgrade"))
		return "more, oneway or upgrade is not a boolean";
	if (json_get_bool(m, "more", false) && json_get_bool(m, "oneway", false))
		return "it has both more and oneway";
	return NULL;
}

/* The call's parameters, or a new empty object if it has none. */
static json_t *take_parameters(json_t *m)
{
	json_t *p = json_object_get(m, "parameters");

	return !p || json_is_null(p) ? json_object() : json_incref(p);
}

static bool dispatch_flat(struct varlink_connection *c, char *text, size_t len)
{
	const struct varlink_interface *i = &c->server->interfaces[VARLINK_OWN];
	const struct varlink_interface *end = c->server->interfaces + c->server->n_interfaces;
	const struct varlink_flat_target *m = NULL;
	struct flat parameters;
	struct varlink_call *call;

	/* A call that is handed on needs its parameters as a whole. */
	for (; i < end && !c->server->relay; i++) {
		m = varlink_flat_match(&i->flat, text, len, &parameters);
		if (m)
			break;
	}
	if (!m)
		return false;
	call = varlink_call_new(c);
	if (!call) {
		varlink_connection_doom(c, "out of memory");
		return true;
	}
	call->interface = i;
	if (call_fits(call, len, 0))
		call_handler(call,
			&(struct target){
				.interface = i,
				.method = m->member,
				.flat = m->fn,
				.parameters = &parameters,
			},
			NULL);
	return true;
}

static void dispatch_any(struct varlink_connection *c, const char *text, size_t len)
{
	_cleanup_json_ json_t *m = NULL;
	_cleanup_json_ json_t *parameters = NULL;
	struct varlink_call *call;
	struct target t = { .flat = NULL };
	struct flat view;
	size_t most = c->server->limits.message_units;
	size_t units = most || c->server->count_calls ? json_units(text, len) : 0;
	struct error err = { 0 };
	const char *wrong;

	if (most && units > most) {
		varlink_connection_refuse(c, "values in one call", (int64_t)most);
		return;
	}
	if (json_parse_object(text, len, &m, &err) < 0) {
		varlink_connection_doom(c, "what it sent is not JSON: %s", err.text);
		return;
	}
	wrong = check_message(m);
	if (wrong) {
		varlink_connection_doom(c, "what it sent is no call: %s", wrong);
		return;
	}
	parameters = take_parameters(m);
	call = parameters ? varlink_call_new(c) : NULL;
	if (!call) {
		varlink_connection_doom(c, "out of memory");
		return;
	}
	call->more = json_get_bool(m, "more", false);
	call->oneway = json_get_bool(m, "oneway", false);
	if (find_target(c->server, call, json_string_value(json_object_get(m, "method")), &t) < 0)
		return;
	flat_of(parameters, &view);
	t.parameters = &view;
	if (json_get_bool(m, "upgrade", false))
		varlink_error_parameter(call, "upgrade");
	else if (parameters_fit(call, &t, parameters) && call_fits(call, len, units))
		call_handler(call, &t, parameters);
}

void varlink_dispatch(struct varlink_connection *c, char *text, size_t len)
{
	if (!dispatch_flat(c, text, len))
		dispatch_any(c, text, len);
}
