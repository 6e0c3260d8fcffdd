/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/private.h"

#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	FILL_BYTES = 256 << 10,		  /* of messages in one write */
	UNACKNOWLEDGED_BYTES = 256 << 10, /* that came: acknowledged at once */
	CONGESTED_BYTES = 1 << 20,	  /* link_congested() */
	UNREAD_BYTES = 4 << 20,		  /* may wait for the other side for a lease */
	UNREAD_LIMIT_BYTES = 64 << 20,	  /* ... and never more */
	IDLE_MESSAGES = 64,		  /* between two beats */
};

bool link_leave_callback(struct link *l)
{
	l->callbacks--;
	if (!l->freed)
		return false;
	if (!l->callbacks)
		free(l);
	return true;
}

static int copy_text(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

int link_identity_copy(struct link_identity *to, const struct link_identity *from)
{
	if (copy_text(&to->group, from->group) < 0 || copy_text(&to->run, from->run) < 0 ||
		copy_text(&to->agent, from->agent) < 0 || copy_text(&to->boot, from->boot) < 0 ||
		copy_text(&to->host, from->host) < 0 ||
		copy_text(&to->settings, from->settings) < 0)
		return -ENOMEM;
	return 0;
}

void link_identity_fini(struct link_identity *i)
{
	free((char *)i->group);
	free((char *)i->run);
	free((char *)i->agent);
	free((char *)i->boot);
	free((char *)i->host);
	free((char *)i->settings);
}

int link_identity_put(const struct link_identity *i, json_t *body)
{
	const struct {
		const char *key, *text;
	} texts[] = { { "group", i->group }, { "run", i->run }, { "agent", i->agent },
		{ "boot", i->boot }, { "host", i->host }, { "version", VERSION } };
	int r = json_put_int(body, "major", LINK_MAJOR);

	if (r == 0)
		r = json_put_int(body, "minor", LINK_MINOR);
	for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]) && r == 0; k++)
		r = json_put_string(body, texts[k].key, texts[k].text);
	return r;
}

const struct link_peer *link_peer(const struct link *l)
{
	return &l->peer;
}

int link_local_at(const struct link *l, struct sockaddr_storage *ret)
{
	socklen_t len = sizeof(*ret);

	return l && l->channel &&
			       getsockname(link_channel_fd(l->channel), (struct sockaddr *)ret,
				       &len) == 0
		       ? 0
		       : -ENOTCONN;
}

static int peer_text(const json_t *parameters, const char *key, char **ret)
{
	const char *s = json_get_string(parameters, key, NULL);
	char *copy = s ? strdup(s) : NULL;

	if (!s)
		return 0;
	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}

int link_peer_set(struct link *l, const json_t *parameters)
{
	struct link_peer *p = &l->peer;
	const struct {
		const char *key;
		char **to;
	} texts[] = { { "run", &p->run }, { "agent", &p->agent }, { "boot", &p->boot },
		{ "host", &p->host }, { "version", &p->version }, { "head", &p->head },
		{ "word", &p->word }, { "settings", &p->settings } };
	int r = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && r == 0; i++)
		r = peer_text(parameters, texts[i].key, texts[i].to);
	p->lease_ms = (uint64_t)json_get_int(parameters, "lease_ms", (int64_t)l->lease_ms);
	return r;
}

static void peer_fini(struct link_peer *p)
{
	free(p->run);
	free(p->agent);
	free(p->boot);
	free(p->host);
	free(p->version);
	free(p->head);
	free(p->word);
	free(p->settings);
}

static void stop_timers(struct link *l)
{
	loop_timer_disarm(l->beat_timer);
	loop_timer_disarm(l->unread_timer);
	loop_timer_disarm(l->finish_timer);
}

static void drop_channel(struct link *l)
{
	l->channel = link_channel_free(l->channel);
	l->ready = false;
	varlink_buffer_fini(&l->control);
	loop_timer_disarm(l->beat_timer);
	l->beat_boot_us = l->answered_boot_us = 0;
}

/* Returns true if the link was freed. */
static bool set_state(struct link *l, enum link_state state, const struct error *why)
{
	l->state = state;
	l->callbacks++;
	l->events->state(l->arg, state, why);
	return link_leave_callback(l);
}

static bool report_room(struct link *l)
{
	loop_fn fn = l->room_fn;

	if (!fn || (l->state != LINK_ENDED && link_window_bytes(&l->window) > CONGESTED_BYTES / 2))
		return false;
	l->room_fn = NULL;
	l->callbacks++;
	fn(l->room_arg);
	return link_leave_callback(l);
}

bool link_congested(struct link *l, loop_fn fn, void *arg)
{
	if (l->state == LINK_ENDED || link_window_bytes(&l->window) <= CONGESTED_BYTES)
		return false;
	l->room_fn = fn;
	l->room_arg = arg;
	return true;
}

/* Sends what waits and, with refuse, why the link ends; then closes the connection. */
static void close_channel(struct link *l, const struct error *why, bool refuse)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };

	link_channel_flush(l->channel);
	if (refuse && why && link_message_refuse(&b, why) < 0)
		log_debug("link: out of memory for a Refuse");
	link_listen_close(
		l, TAKE_PTR(l->channel), b.data ? b.data + b.begin : "", varlink_buffer_len(&b));
}

bool link_end(struct link *l, const struct error *why, bool refuse)
{
	if (l->state == LINK_ENDED)
		return false;
	if (l->channel)
		close_channel(l, why, refuse);
	drop_channel(l);
	stop_timers(l);
	l->dial = link_dial_free(l->dial);
	if (l->listen)
		link_listen_forget(l);
	link_window_fini(&l->window);
	l->callbacks++;
	if (!set_state(l, LINK_ENDED, why))
		report_room(l);
	return link_leave_callback(l);
}

static void on_end_later(void *arg)
{
	struct link *l = arg;
	_cleanup_free_ struct error *why = TAKE_PTR(l->end_why);

	if (why)
		link_end(l, why, true);
}

/* As link_end(), in the next turn: for functions that the owner calls. */
static void link_end_later(struct link *l, int code, const char *text)
{
	if (l->end_why || l->state == LINK_ENDED)
		return;
	l->end_why = calloc(1, sizeof(*l->end_why));
	if (!l->end_why || loop_defer(l->loop, on_end_later, l) < 0) {
		log_debug("link: out of memory; a link will end later: %s", text);
		free(l->end_why);
		l->end_why = NULL;
		return;
	}
	error_set(l->end_why, code, "%s", text);
}

static void on_unread_late(void *arg)
{
	struct link *l = arg;
	struct error err = { 0 };

	if (l->end_why)
		return; /* the link ends in this turn, for the reason that came first */
	error_set(&err, -ETIMEDOUT,
		"%zu bytes have waited for the other side to read them (limit %d bytes for "
		"%" PRIu64 " ms)",
		link_window_bytes(&l->window), UNREAD_BYTES, l->lease_ms);
	link_end(l, &err, true);
}

/* To be called after each change of how many bytes wait for the other side. */
static void watch_unread(struct link *l)
{
	if (link_window_bytes(&l->window) <= UNREAD_BYTES)
		loop_timer_disarm(l->unread_timer);
	else if (!loop_timer_armed(l->unread_timer))
		loop_timer_arm(l->unread_timer, l->lease_ms);
	if (link_window_bytes(&l->window) > UNREAD_LIMIT_BYTES)
		link_end_later(
			l, -ENOBUFS, "more than 64 MiB wait for the other side to read them");
}

static int after_send(struct link *l, int r)
{
	if (r < 0)
		return r;
	link_window_acknowledged(&l->window);
	watch_unread(l);
	if (l->ready)
		link_channel_kick(l->channel);
	return 0;
}

int link_send(struct link *l, const char *method, json_t *body)
{
	if (l->state == LINK_ENDED || l->finishing) {
		json_decref(body);
		return -ECONNRESET;
	}
	return after_send(l, link_window_put(&l->window, method, body));
}

int link_send_text(struct link *l, const char *method, const char *body, size_t len)
{
	if (l->state == LINK_ENDED || l->finishing)
		return -ECONNRESET;
	return after_send(l, link_window_write(&l->window, method, body, len));
}

int link_control(struct link *l, const char *method, int64_t ack, json_t *body)
{
	int r = link_message_put(&l->control, method, 0, ack, body);

	if (r == 0)
		link_channel_kick(l->channel);
	return r;
}

static void acknowledge(struct link *l)
{
	if (!l->ready || link_control(l, "Ack", l->window.seen, NULL) < 0)
		return;
	link_window_acknowledged(&l->window);
}

static int on_fill(void *arg, struct varlink_buffer *out)
{
	struct link *l = arg;
	int r = varlink_buffer_move(out, &l->control);

	return r < 0 || !l->ready ? r : link_window_take(&l->window, out, FILL_BYTES);
}

void link_up(struct link *l)
{
	l->ready = true;
	l->idle_messages = 0;
	l->idle_ms = loop_now_ms();
	link_channel_kick(l->channel);
	if (l->dial)
		link_beat_due(l);
	watch_unread(l);
	set_state(l, LINK_UP, NULL);
}

bool link_down(struct link *l, const struct error *why)
{
	bool was_up = l->ready;

	drop_channel(l);
	if (l->dial)
		link_dial_lost(l, why);
	return was_up ? set_state(l, LINK_WAITING, why) : false;
}

/* Limits messages that bring nothing new: each costs the reader more than its sender. */
static int count_idle(struct link *l, struct error *err)
{
	uint64_t now = loop_now_ms(), period = l->lease_ms / LINK_BEATS_PER_LEASE;

	if (now - l->idle_ms >= period) {
		l->idle_messages = 0;
		l->idle_ms = now;
	}
	if (++l->idle_messages <= IDLE_MESSAGES)
		return 0;
	return error_field(err, -EPROTO, "message",
		"expected at most %d beats and repeated messages in %" PRIu64 " ms, got more",
		IDLE_MESSAGES, period);
}

/* Gives a message to the owner. Returns as handle_message(). */
static int deliver(struct link *l, const struct link_message *m, struct error *err)
{
	int r;

	l->callbacks++;
	r = l->events->message(l->arg, m->method, m->parameters, err);
	if (link_leave_callback(l))
		return 1;
	if (r < 0 && !err->code)
		error_set(err, r, "%s: %s", m->method, strerror(-r));
	if (r == 0 && !strcmp(m->method, "Bye"))
		acknowledge(l);
	return r < 0 ? r : 0;
}

/* Messages without a number. */
static int handle_control(struct link *l, const struct link_message *m, struct error *err)
{
	if (!strcmp(m->method, "Beat") && !l->dial)
		return link_beat_came(l, m->parameters) ? 1 : 0;
	if (!strcmp(m->method, "BeatAnswer") && l->dial)
		return link_beat_answered(l, m->parameters, err);
	if (!strcmp(m->method, "Ack"))
		return 0;
	return error_field(
		err, -EPROTO, "method", "expected no %s at this place of a link", m->method);
}

/* Returns 1 if the link was freed or has ended, 0, or a negative errno with err: the link must end.
 */
static int handle_message(
	struct link *l, const struct link_message *m, size_t len, struct error *err)
{
	int64_t acked = l->window.acked;
	int r = link_window_receive(&l->window, m->n, m->ack, len, err);

	if (r < 0)
		return r;
	if ((r == 0 || !m->n) && l->window.acked == acked && count_idle(l, err) < 0)
		return -EPROTO;
	if (r > 0)
		r = m->n ? deliver(l, m, err) : handle_control(l, m, err);
	if (r || l->state == LINK_ENDED)
		return r ? r : 1;
	watch_unread(l);
	if (l->window.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES)
		acknowledge(l);
	return report_room(l) ? 1 : 0;
}

static int handle_refuse(struct link *l, const struct link_message *m)
{
	struct error why = { 0 };

	error_field(&why, -ECONNREFUSED, json_get_string(m->parameters, "field", ""), "%s",
		json_get_string(m->parameters, "why", ""));
	if (l->dial)
		link_dial_refused(l, &why);
	link_end(l, l->finishing ? NULL : &why, false);
	return 1;
}

static void finish_if_done(struct link *l)
{
	if (l->finishing && !link_window_bytes(&l->window))
		link_end(l, NULL, false);
}

static void on_text(void *arg, const char *text, size_t len)
{
	struct link *l = arg;
	_cleanup_(link_message_fini) struct link_message m = { .message = NULL };
	struct error err = { 0 };
	int r = link_message_read(l->idl, text, len, &m, &err);

	l->callbacks++;
	if (r == 0 && !strcmp(m.method, "Refuse"))
		r = handle_refuse(l, &m);
	else if (r == 0 && !l->ready && l->dial)
		r = link_dial_welcome(l, &m, &err);
	else if (r == 0)
		r = handle_message(l, &m, len, &err);
	if (r == 0 && !l->freed)
		finish_if_done(l);
	if (r < 0 && !l->freed)
		link_end(l, &err, true);
	link_leave_callback(l);
}

static void on_channel_ended(void *arg, const struct error *err)
{
	struct link *l = arg;
	struct error why = *err;

	if (l->dial && !l->ready)
		link_dial_name(l, &why);
	if (err->code == -EPROTO)
		link_end(l, &why, true);
	else
		link_down(l, err);
}

const struct link_channel_events link_channel_events = {
	.message = on_text,
	.fill = on_fill,
	.ended = on_channel_ended,
};

static void on_finish_late(void *arg)
{
	struct link *l = arg;
	struct error err = { 0 };

	error_set(&err, -ETIMEDOUT,
		"the other side has not acknowledged the last %" PRId64 " messages",
		l->window.last - l->window.acked);
	link_end(l, &err, false);
}

static void on_finished(void *arg)
{
	finish_if_done(arg);
}

void link_finish(struct link *l, uint64_t limit_ms)
{
	if (l->state == LINK_ENDED || l->finishing)
		return;
	l->finishing = true;
	loop_timer_arm(l->finish_timer, limit_ms);
	if (loop_defer(l->loop, on_finished, l) < 0)
		log_debug("link: out of memory; the link ends with its next message");
}

int link_new(struct loop *loop, const struct varlink_idl *idl, struct link **ret)
{
	_cleanup_(link_freep) struct link *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	*l = (struct link){ .loop = loop, .idl = idl, .state = LINK_WAITING };
	r = loop_timer_new(loop, link_beat_due, l, &l->beat_timer);
	if (r == 0)
		r = loop_timer_new(loop, on_unread_late, l, &l->unread_timer);
	if (r == 0)
		r = loop_timer_new(loop, on_finish_late, l, &l->finish_timer);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(l);
	return 0;
}

struct link *link_free(struct link *l)
{
	if (!l || l->freed)
		return NULL;
	if (l->channel) {
		link_channel_flush(l->channel);
		drop_channel(l);
	}
	l->dial = link_dial_free(l->dial);
	if (l->listen)
		link_listen_forget(l);
	loop_cancel(l->loop, on_end_later, l);
	loop_cancel(l->loop, on_finished, l);
	loop_timer_free(l->beat_timer);
	loop_timer_free(l->unread_timer);
	loop_timer_free(l->finish_timer);
	link_window_fini(&l->window);
	varlink_buffer_fini(&l->control);
	peer_fini(&l->peer);
	free(l->session);
	free(l->end_why);
	l->freed = true;
	if (!l->callbacks)
		free(l);
	return NULL;
}
