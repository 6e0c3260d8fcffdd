/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Outgoing bytes and the varlink messages in them, for the server and both clients. A buffer that
 * was sent whole holds no memory.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct varlink_buffer {
	char *data;
	size_t begin, end, room; /* [begin, end) is to be sent */
};

void varlink_buffer_fini(struct varlink_buffer *b);
size_t varlink_buffer_len(const struct varlink_buffer *b);
/* The size of its memory, in bytes, also for bytes that were sent already. */
size_t varlink_buffer_held(const struct varlink_buffer *b);
_must_check_ int varlink_buffer_append(struct varlink_buffer *b, const void *data, size_t len);

/* Moves all bytes of from behind those of b. On -ENOMEM from is unchanged. */
_must_check_ int varlink_buffer_move(struct varlink_buffer *b, struct varlink_buffer *from);

/* Sends what fd takes without waiting of the first so many bytes. Returns 0 when they were sent, 1
 * when some are left, or a negative errno. */
_must_check_ int varlink_buffer_send(struct varlink_buffer *b, int fd, size_t most);

struct varlink_out {
	const char *method,
		*error;	    /* one of the two, or neither for a reply; names are not escaped */
	json_t *parameters; /* borrowed; NULL means {} */
	const char *text;   /* instead of parameters: JSON text of text_len bytes */
	size_t text_len;
	bool more, oneway, continues;
};

/* Appends one message with its NUL. -EMSGSIZE if it is longer than max_bytes, -ENOMEM; then the
 * buffer is unchanged. */
_must_check_ int varlink_buffer_message(
	struct varlink_buffer *b, const struct varlink_out *out, size_t max_bytes);

/* Removes all but the first len bytes. */
void varlink_buffer_cut(struct varlink_buffer *b, size_t len);

struct varlink_in {
	json_t *message;    /* owned; the others are borrowed from it */
	json_t *parameters; /* always an object */
	const char *error;  /* or NULL */
	bool continues;
};

/* Parses an answer. Free ret with varlink_in_fini(). -EBADMSG if text is not an answer. */
_must_check_ int varlink_in_parse(
	const char *text, size_t len, struct varlink_in *ret, struct error *err);
void varlink_in_fini(struct varlink_in *in);

/* The longest answer that the two clients accept. */
enum { VARLINK_ANSWER_MAX = 64 << 20 };
