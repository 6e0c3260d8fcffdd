/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes messages of io.elasticd.Peer as bytes, and reads and checks them. Pure. Called by the
 * other files of this room.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/varlink/idl.h"
#include "common/varlink/message.h"

#include <jansson.h>
#include <stdint.h>

/* The version of io.elasticd.Peer that this program speaks. */
enum { LINK_MAJOR = 1, LINK_MINOR = 0 };

/* Bytes of the longest message, without its NUL, and of the first one of an unknown peer. */
enum { LINK_MESSAGE_BYTES = 8 << 20, LINK_HELLO_BYTES = 4096 };

/* The parsed interface. Returns 0 and an owned one, or -ENOMEM. */
_must_check_ int link_message_interface(struct varlink_idl **ret);

/* Appends one message. body is the text of a JSON object (len bytes, borrowed), which has
 * neither n nor ack; n 0: the message has no number, ack -1: it has no acknowledgement. -EMSGSIZE
 * for one over LINK_MESSAGE_BYTES, -ENOMEM; then b is unchanged. */
_must_check_ int link_message_write(struct varlink_buffer *b, const char *method, int64_t n,
	int64_t ack, const char *body, size_t len);

/* The same with a JSON object. Takes body (NULL means {}). */
_must_check_ int link_message_put(
	struct varlink_buffer *b, const char *method, int64_t n, int64_t ack, json_t *body);

/* Appends a Refuse that gives why's field and text. 0 or -ENOMEM. */
_must_check_ int link_message_refuse(struct varlink_buffer *b, const struct error *why);

struct link_message {
	json_t *message;    /* owned; the others are borrowed from it, and from the interface */
	const char *method; /* "Join" */
	json_t *parameters;
	int64_t n, ack; /* 0, -1: it has none */
};

/*
 * Reads one message (text of len bytes). Free ret with link_message_fini(). Returns 0, -ENOMEM, or
 * -EPROTO with err, whose field is "message", "method" or a path below "parameters".
 */
_must_check_ int link_message_read(const struct varlink_idl *idl, const char *text, size_t len,
	struct link_message *ret, struct error *err);
void link_message_fini(struct link_message *m);
