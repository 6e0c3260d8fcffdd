/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records of the work queue as bytes, for the journal. Pure.
 *
 * A record has four bytes of length, four bytes of checksum (CRC-32 of the length's bytes and of
 * the content), both little-endian, and so many bytes of content: its kind, a byte that says which
 * parts it has, and these parts. Integers in it have 7 bits a byte, the lowest first, signed ones
 * are folded (0, -1, 1, -2 ...); the length of a string stands before it.
 */

#include "agent/queue/machine/queue.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JOURNAL_MAGIC_BYTES = 8,
	JOURNAL_FRAME_BYTES = 8, /* before each record's content */
	/* of one content: a payload and its needs, or a value; and the other parts */
	JOURNAL_CONTENT_MAX = QUEUE_VALUE_MAX + (1 << 18),
};

/* "edqueue" and the version. */
extern const char journal_magic[JOURNAL_MAGIC_BYTES];

struct journal_buffer {
	char *data;
	size_t len, room;
};
void journal_buffer_fini(struct journal_buffer *b);

/* The length of the content that a frame of JOURNAL_FRAME_BYTES names, whether or not that is
 * right. */
size_t journal_content_length(const char *frame);

/* Appends a whole record. worker: the name of r->error.worker, or NULL. Returns 0,
 * or -ENOMEM or -E2BIG with b unchanged. */
_must_check_ int journal_encode(
	struct journal_buffer *b, const struct queue_record *r, const char *worker);

struct journal_decoded {
	struct queue_record record; /* its strings are in the buffer and in text */
	const char *worker;	    /* "": none; record.error.worker is -1 */
	const char *needs[QUEUE_NEEDS_MAX];
	char *text; /* owned: the strings with their NULs */
	size_t room;
};
void journal_decoded_fini(struct journal_decoded *d);

/*
 * Decodes the record at data. Returns how many bytes it has, 0 at the end of the data (len 0),
 * -EBADMSG if it is cut off or broken, -EPROTO if it is whole but of an unknown kind (the caller
 * can skip ret_bytes), or -ENOMEM. d may be used for many calls; each call replaces its content.
 */
_must_check_ int64_t journal_decode(
	const char *data, size_t len, struct journal_decoded *d, size_t *ret_bytes);
