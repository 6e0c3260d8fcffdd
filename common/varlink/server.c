/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static int interface_init(struct varlink_interface *i, const struct varlink_interface_options *what,
	struct error *err)
{
	int r;

	*i = (struct varlink_interface){ .text = what->idl,
		.methods = what->methods,
		.ranges = what->ranges,
		.promises = what->promises,
		.arg = what->arg };
	r = varlink_idl_parse(what->idl, &i->idl, err);
	if (r < 0) {
		error_prefix(err, "interface text");
		return r;
	}
	for (const struct varlink_method *m = what->methods; m->name; m++)
		if (!varlink_idl_member(i->idl, VARLINK_METHOD, m->name))
			return error_set(
				err, -EINVAL, "%s has no method %s", i->idl->name, m->name);
	r = varlink_flat_init(&i->flat, i->idl, what->flat, what->ranges);
	if (r < 0)
		return error_set(err, r, "flat methods: %s", strerror(-r));
	return 0;
}

static int open_interfaces(
	struct varlink_server *s, const struct varlink_options *opt, struct error *err)
{
	const struct varlink_interface_options standard = {
		.idl = varlink_service_idl, .methods = varlink_service_methods, .arg = s
	};
	const struct varlink_interface_options own = { .idl = opt->idl,
		.methods = opt->methods,
		.flat = opt->flat,
		.ranges = opt->ranges,
		.arg = opt->arg };
	size_t n = 0;
	int r = 0;

	while (opt->more_interfaces && opt->more_interfaces[n].idl)
		n++;
	s->interfaces = calloc(VARLINK_MORE + n, sizeof(*s->interfaces));
	if (!s->interfaces)
		return error_set(err, -ENOMEM, "out of memory");
	/* Counted before it is filled, so that the server frees it if that fails. */
	for (size_t i = 0; r == 0 && i < VARLINK_MORE + n; i++) {
		s->n_interfaces++;
		r = interface_init(&s->interfaces[i],
			i == VARLINK_STANDARD ? &standard
			: i == VARLINK_OWN    ? &own
					      : &opt->more_interfaces[i - VARLINK_MORE],
			err);
	}
	return r;
}

/* Connections that have to wait again get their next turn in the loop's next one; first those for
 * which there was no time in this one. */
static void next_turn(void *arg)
{
	struct varlink_server *s = arg;
	struct varlink_connections now = TAILQ_HEAD_INITIALIZER(now),
				   later = TAILQ_HEAD_INITIALIZER(later);
	struct varlink_connection *c;

	TAILQ_CONCAT(&now, &s->waiting, waiting_entry);
	while ((c = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, c, waiting_entry);
		if (!varlink_connection_has_time(c)) {
			TAILQ_INSERT_TAIL(&later, c, waiting_entry);
			continue;
		}
		c->waiting = false;
		c->taken = 0;
		varlink_connection_run(c);
	}
	TAILQ_CONCAT(&later, &s->waiting, waiting_entry);
	TAILQ_CONCAT(&s->waiting, &later, waiting_entry);
	if (!TAILQ_EMPTY(&s->waiting))
		loop_again_arm(s->next_turn);
}

int varlink_server_new(struct loop *loop, const struct varlink_options *opt,
	struct varlink_server **ret, struct error *err)
{
	_cleanup_(varlink_server_freep) struct varlink_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->loop = loop;
	s->spare_fd = -1;
	s->authorize = opt->authorize;
	s->relay = opt->relay;
	s->idle = opt->idle;
	s->descriptors = opt->descriptors;
	s->refuses = opt->refuses;
	s->opened = opt->opened;
	s->shut = opt->shut;
	s->closed = opt->closed;
	s->leaving = opt->leaving;
	s->holds = opt->holds;
	TAILQ_INIT(&s->withheld);
	s->ahead = opt->ahead;
	s->account = opt->account;
	s->count_calls = opt->count_calls;
	s->arg = opt->arg;
	TAILQ_INIT(&s->connections);
	TAILQ_INIT(&s->touched);
	TAILQ_INIT(&s->waiting);
	TAILQ_INIT(&s->listeners);
	if (varlink_limits_init(s, opt) < 0 ||
		loop_again_new(loop, next_turn, s, &s->next_turn) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = open_interfaces(s, opt, err);
	if (r < 0)
		return r;
	s->info = varlink_service_info(opt, s);
	if (!s->info)
		return error_set(err, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(s);
	return 0;
}

struct varlink_server *varlink_server_free(struct varlink_server *s)
{
	struct varlink_connection *c;

	if (!s)
		return NULL;
	s->draining = false;
	s->ends = true;
	s->idle = NULL;
	varlink_listen_fini(s);
	while ((c = TAILQ_FIRST(&s->connections))) {
		varlink_connection_send(c);
		varlink_connection_free(c);
	}
	loop_again_free(s->next_turn);
	loop_cancel(s->loop, varlink_server_turn, s);
	if (s->drained)
		loop_cancel(s->loop, s->drained, s->drained_arg);
	for (size_t i = 0; i < s->n_interfaces; i++) {
		free(s->interfaces[i].described);
		varlink_flat_fini(&s->interfaces[i].flat);
		varlink_idl_free(s->interfaces[i].idl);
	}
	free(s->interfaces);
	json_decref(s->info);
	varlink_limits_fini(s);
	free(s);
	return NULL;
}

/* Connections that this touches again come after the others. */
void varlink_server_turn(void *arg)
{
	struct varlink_server *s = arg;
	struct varlink_connections now = TAILQ_HEAD_INITIALIZER(now);
	struct varlink_connection *c;

	TAILQ_CONCAT(&now, &s->touched, touched_entry);
	s->in_turn = true;
	while ((c = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, c, touched_entry);
		c->touched = false;
		varlink_connection_run(c);
	}
	s->in_turn = false;
}

int varlink_server_add_connection(struct varlink_server *s, int fd, struct error *err)
{
	if (s->draining) {
		close(fd);
		return error_set(err, -ESHUTDOWN, "the service is shutting down");
	}
	return varlink_connection_new(s, fd, err);
}

static void check_drained(struct varlink_server *s)
{
	if (!s->draining || s->n_connections)
		return;
	s->draining = false;
	if (loop_defer(s->loop, s->drained, s->drained_arg) < 0)
		s->drained(s->drained_arg);
}

void varlink_server_connection_gone(struct varlink_server *s)
{
	if (s->idle && !s->n_connections)
		s->idle(s->arg);
	check_drained(s);
}

void varlink_server_drain(struct varlink_server *s, loop_fn fn, void *arg)
{
	struct varlink_connection *c;

	varlink_listen_fini(s);
	s->draining = true;
	s->drained = fn;
	s->drained_arg = arg;
	TAILQ_FOREACH (c, &s->connections, entry) {
		c->closing = true;
		varlink_connection_touch(c);
	}
	check_drained(s);
}

void varlink_server_check_replies(struct varlink_server *s, bool check)
{
	s->check_replies = check;
}

uint64_t varlink_server_sent(const struct varlink_server *s)
{
	return s->sent_bytes;
}

void varlink_server_pause(struct varlink_server *s, bool paused)
{
	struct varlink_connection *c;

	if (s->paused == paused)
		return;
	s->paused = paused;
	TAILQ_FOREACH (c, &s->connections, entry)
		varlink_connection_touch(c);
}

void varlink_server_flush(struct varlink_server *s)
{
	struct varlink_connection *c;

	TAILQ_FOREACH (c, &s->touched, touched_entry)
		varlink_connection_send(c);
}

int varlink_server_connections(const struct varlink_server *s)
{
	return s->n_connections;
}

/* The connections whose sockets have input, by one poll(). */
static size_t find_readable(
	struct varlink_server *s, struct varlink_connection **list, struct pollfd *p)
{
	struct varlink_connection *c;
	size_t n = 0, found = 0;

	TAILQ_FOREACH (c, &s->connections, entry) {
		if (!(c->watched & LOOP_READ))
			continue;
		list[n] = c;
		p[n++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
	}
	if (poll(p, n, 0) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (p[i].revents || list[i]->waiting)
			list[found++] = list[i];
	return found;
}

void varlink_server_receive(struct varlink_server *s)
{
	_cleanup_free_ struct varlink_connection **list = NULL;
	_cleanup_free_ struct pollfd *p = NULL;
	bool paused = s->paused;
	size_t n;

	if (s->handling)
		return;
	s->paused = false;
	varlink_listen_accept(s);
	list = calloc((size_t)s->n_connections + 1, sizeof(*list));
	p = calloc((size_t)s->n_connections + 1, sizeof(*p));
	/* No connection ends while its list is used: that needs a turn. */
	n = list && p ? find_readable(s, list, p) : 0;
	for (size_t i = 0; i < n; i++)
		varlink_connection_receive(list[i]);
	s->paused = paused;
}
