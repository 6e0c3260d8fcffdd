/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The numbered messages of one side of a link: which ones it has sent that the other side has not
 * acknowledged, and which of the other side's it has seen. However often connections break, each
 * message is handled once, in order. Pure. Called by link.c.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/varlink/message.h"

#include <jansson.h>
#include <stdint.h>

/* All zeros is a new one. */
struct link_window {
	struct varlink_buffer kept;  /* this side's messages acked + 1 to last */
	size_t taken_bytes;	     /* of kept: taken for this connection */
	int64_t acked, last;	     /* numbers of this side's messages */
	int64_t taken;		     /* the highest number that was ever taken */
	int64_t on_wire;	     /* the last number that was taken for this connection */
	int64_t seen;		     /* the last number of the other side's messages */
	size_t unacknowledged_bytes; /* of the other side, since link_window_acknowledged() */
};

void link_window_fini(struct link_window *w);

/* Gives a message the next number. Takes body. 0, -EMSGSIZE or -ENOMEM. */
_must_check_ int link_window_put(struct link_window *w, const char *method, json_t *body);
/* The same with the text of a JSON object (len bytes, borrowed). */
_must_check_ int link_window_write(
	struct link_window *w, const char *method, const char *body, size_t len);

/* Bytes that the other side has not acknowledged, sent or not. */
size_t link_window_bytes(const struct link_window *w);

/* Appends to out whole messages that this connection has not had, until out holds max bytes or
 * more. 0 or -ENOMEM. */
_must_check_ int link_window_take(struct link_window *w, struct varlink_buffer *out, size_t max);

/*
 * There is a new connection, and the other side has seen the messages up to resume: all others will
 * be taken again. -EPROTO with err, and no change, where it cannot have seen so many, or had
 * acknowledged more before.
 */
_must_check_ int link_window_resume(struct link_window *w, int64_t resume, struct error *err);

/* A message of len bytes came. n is its number, 0: none; ack what it acknowledges, -1: nothing.
 * Returns 1 if it is to be handled, 0 for one that was seen before, or -EPROTO with err: a gap, or
 * an acknowledgement of what was never sent. */
_must_check_ int link_window_receive(
	struct link_window *w, int64_t n, int64_t ack, size_t len, struct error *err);

/* This side sends an acknowledgement of all that it has seen. */
void link_window_acknowledged(struct link_window *w);
