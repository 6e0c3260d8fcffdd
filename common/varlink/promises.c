/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that wait until what they promise is kept elsewhere, too. The output of a connection
 * has parts: one that may be sent; behind it one with a mark, which waits; behind that the newest,
 * which gets its own mark when the one before it has gone.
 */
#include "common/varlink/private.h"

size_t varlink_promises_sendable(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	size_t len = varlink_buffer_len(&c->out);
	int r;

	if (!s->holds || (!c->free_bytes && !c->marked_bytes && !c->promises))
		return len;
	if (c->free_bytes)
		return c->free_bytes;
	if (!c->marked_bytes) {
		c->marked_bytes = len;
		c->mark = 0;
		c->promises = false;
	}
	r = s->holds(s->arg, &c->mark);
	if (r < 0) {
		varlink_connection_doom(c, "its answers rely on what is lost");
	} else if (r == 0) {
		c->free_bytes = c->marked_bytes;
		c->marked_bytes = 0;
	} else if (!c->withheld) {
		c->withheld = true;
		TAILQ_INSERT_TAIL(&s->withheld, c, withheld_entry);
	}
	return c->free_bytes;
}

void varlink_promises_sent(struct varlink_connection *c, size_t bytes)
{
	c->free_bytes -= bytes < c->free_bytes ? bytes : c->free_bytes;
}

void varlink_promises_leave(struct varlink_connection *c)
{
	if (c->withheld)
		TAILQ_REMOVE(&c->server->withheld, c, withheld_entry);
	c->withheld = false;
}

void varlink_server_kept(struct varlink_server *s)
{
	struct varlink_connection *c;

	/* A connection that has to wait yet comes back in its turn. */
	while ((c = TAILQ_FIRST(&s->withheld))) {
		varlink_promises_leave(c);
		varlink_connection_touch(c);
	}
}
