/* SPDX-License-Identifier: Apache-2.0 */
/* Connections without a socket: bytes come and go by their owner's functions. */
#include "common/varlink/private.h"

#include <errno.h>
#include <string.h>

int varlink_carried_new(struct varlink_server *s, const struct varlink_peer *peer, void *user,
	const struct varlink_carrier *carrier, struct varlink_connection **ret)
{
	struct varlink_connection *c;
	int r;

	if (s->draining)
		return -ESHUTDOWN;
	c = varlink_connection_make(s, -1);
	if (!c)
		return -ENOMEM;
	c->peer = *peer;
	c->user = user;
	r = varlink_limits_join(c);
	if (r < 0) {
		c->user = NULL;
		varlink_connection_free(c);
		return r;
	}
	c->carrier = *carrier;
	*ret = c;
	return 0;
}

int varlink_carried_feed(struct varlink_connection *c, const char *text, size_t len)
{
	if (c->in.end - c->in.begin + len >
		c->server->limits.message_bytes + c->server->limits.queued_bytes) {
		varlink_connection_doom(c, "more calls have come than it may send ahead");
		return 0;
	}
	if (varlink_frame_feed(&c->in, text, len) < 0 || varlink_frame_feed(&c->in, "", 1) < 0) {
		varlink_connection_doom(c, "out of memory");
		return -ENOMEM;
	}
	varlink_connection_touch(c);
	return 0;
}

void varlink_carried_hold(struct varlink_connection *c)
{
	c->blocked = true;
}

void varlink_carried_ready(struct varlink_connection *c)
{
	c->blocked = false;
	varlink_connection_touch(c);
}

void varlink_carried_pause(struct varlink_connection *c, bool paused)
{
	c->paused = paused;
	varlink_connection_touch(c);
}

void varlink_carried_shut(struct varlink_connection *c)
{
	c->eof = true;
	varlink_connection_touch(c);
}

void varlink_carried_receive(struct varlink_connection *c)
{
	if (!c->busy && varlink_frame_ready(&c->in))
		varlink_connection_receive(c);
}

void varlink_carried_close(struct varlink_connection *c)
{
	memset(&c->carrier, 0, sizeof(c->carrier));
	varlink_connection_doom(c, "its peer is gone");
}

void varlink_carried_send(struct varlink_connection *c, size_t most)
{
	struct varlink_buffer *b = &c->out;
	size_t end = b->begin + most;

	while (!c->blocked && !c->paused && b->begin < end) {
		const char *text = b->data + b->begin;
		size_t len = strlen(text);

		c->server->sent_bytes += len + 1;
		c->blocked = !c->carrier.send(c->carrier.arg, text, len);
		b->begin += len + 1;
	}
	if (b->begin == b->end)
		varlink_buffer_fini(b);
}
