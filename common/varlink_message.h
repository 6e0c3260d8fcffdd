/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Outgoing bytes and the varlink messages in them, for the server and both clients. A buffer that
 * was sent whole holds no memory.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct varlink_buffer {
	char *data;
	size_t begin, end, room; /* [begin, end) is to be sent */
};

void varlink_buffer_fini(struct varlink_buffer *b);
size_t varlink_buffer_len(const struct varlink_buffer *b);
/* The memory that it takes, in bytes: also of what was sent already. */
size_t varlink_buffer_held(const struct varlink_buffer *b);
_must_check_ int varlink_buffer_append(struct varlink_buffer *b, const void *data, size_t len);

/* Moves all bytes of from behind those of b. On -ENOMEM from is unchanged. */
_must_check_ int varlink_buffer_move(struct varlink_buffer *b, struct varlink_buffer *from);

/* Sends what fd takes without waiting. Returns 0 when all was sent, 1 when some is left, or a
 * negative errno. */
_must_check_ int varlink_buffer_send(struct varlink_buffer *b, int fd);

struct varlink_out {
	const char *method,
		*error;	    /* either, or neither for a plain reply; names are not escaped */
	json_t *parameters; /* borrowed; NULL means {} */
	const char *text;   /* instead of parameters: JSON text of text_len bytes */
	size_t text_len;
	bool more, oneway, continues;
};

/* Appends one message with its NUL. -EMSGSIZE when it is longer than max_bytes, -ENOMEM; the buffer
 * is then as before. */
_must_check_ int varlink_buffer_message(
	struct varlink_buffer *b, const struct varlink_out *out, size_t max_bytes);

/* Takes back all but the first len bytes. */
void varlink_buffer_cut(struct varlink_buffer *b, size_t len);

struct varlink_in {
	json_t *message;    /* owned; the others are borrowed from it */
	json_t *parameters; /* always an object */
	const char *error;  /* or NULL */
	bool continues;
};

/* Reads an answer. ret is to be released by varlink_in_fini(). -EBADMSG when it is none. */
_must_check_ int varlink_in_parse(
	const char *text, size_t len, struct varlink_in *ret, struct error *err);
void varlink_in_fini(struct varlink_in *in);

/* What the two clients accept as one answer. */
enum { VARLINK_ANSWER_MAX = 64 << 20 };
