/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splits a stream of bytes into varlink messages, each ended by a NUL byte. Pure. An empty splitter
 * holds no memory.
 */

#include <stdbool.h>
#include <stddef.h>

struct varlink_frame {
	char *data;
	size_t begin, end, room; /* [begin, end) was fed but not returned */
	size_t scanned;		 /* no NUL in [begin, scanned) */
	size_t max_bytes;
};

/* max_bytes limits one message, its NUL not counted. */
void varlink_frame_init(struct varlink_frame *f, size_t max_bytes);
void varlink_frame_fini(struct varlink_frame *f);

/* Adds a copy of what was received. Returns 0 or -ENOMEM. */
int varlink_frame_feed(struct varlink_frame *f, const char *data, size_t len)
	__attribute__((warn_unused_result));

/*
 * Returns 1 and the next message, borrowed until the next call on f, with a NUL at its end that
 * ret_len does not count; 0 if none is complete; -EMSGSIZE, from then on always, if one is too long
 * (even if its end has not come).
 */
int varlink_frame_next(struct varlink_frame *f, char **ret, size_t *ret_len)
	__attribute__((warn_unused_result));

/* Frees memory that is much larger than its content; returns what is left. Invalidates the last
 * message of varlink_frame_next(). */
size_t varlink_frame_settle(struct varlink_frame *f);

/* True when varlink_frame_next() would not return 0. */
bool varlink_frame_ready(struct varlink_frame *f);
