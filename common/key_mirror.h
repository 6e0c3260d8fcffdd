/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The mirror: shared memory in which an agent shows the small entries of the key-value store to its
 * workers, who read them without asking. It is a cache with places for a fixed number of keys: what
 * is not found there has to be asked for, so that it may leave out and drop whatever it likes. What
 * is found there is what the store had at some moment after the reader's last answer from the
 * agent.
 *
 * The agent alone writes, workers map it for reading. Each place has a counter that is odd while it
 * is being written; a reader copies the place and looks whether the counter has stayed the same.
 *
 * One writer, any number of readers, also in other processes. All its memory is there from the
 * beginning and cannot be cut short, and the seals keep readers from writing to it and from
 * punching holes: so no access is a signal. Readers may be given memory that its writer has spoilt:
 * they check every length.
 */

#include "common/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KEY_MIRROR_VERSION = 1,
	KEY_MIRROR_PLACES = 8192,
	KEY_MIRROR_WAYS = 4, /* places in which a key can be */
	KEY_MIRROR_PLACE_BYTES = 512,
	KEY_MIRROR_ENTRY_MAX = 480, /* bytes of key and value together */
};

struct key_mirror;	  /* the writer's */
struct key_mirror_reader; /* a reader's */

/* --- the writer */

/* Sealed memory of the whole size, 4 MiB. 0 or a negative errno. */
_must_check_ int key_mirror_new(struct key_mirror **ret);
struct key_mirror *key_mirror_free(struct key_mirror *m);
DEFINE_CLEANUP(struct key_mirror *, key_mirror_free)
/* A new descriptor, owned, through which it can be mapped for reading only. Or a negative errno. */
_must_check_ int key_mirror_fd(const struct key_mirror *m);

/* The key has this value at revision, which may be later than its last write. Nothing is done where
 * something as young is shown, or the key was dropped at a later one. Too long a value is dropped.
 */
void key_mirror_show(
	struct key_mirror *m, const char *key, const void *value, size_t len, int64_t revision);
/* The key is not shown until it is at revision or later. */
void key_mirror_forget(struct key_mirror *m, const char *key, int64_t revision);
/* The same for all keys: nothing is shown any more, and then only what is at revision or later. */
void key_mirror_forget_all(struct key_mirror *m, int64_t revision);
/* Nothing is shown any more, and who reads finds out that all it had was of another time. */
void key_mirror_clear(struct key_mirror *m);

/* --- a reader */

/* Maps it. 0; -EPROTO where it is not such memory; another negative errno. fd stays the caller's.
 * A child of fork() has no such memory: there nothing is to be called for a reader of its parent's.
 */
_must_check_ int key_mirror_open(int fd, struct key_mirror_reader **ret);
struct key_mirror_reader *key_mirror_close(struct key_mirror_reader *r);
DEFINE_CLEANUP(struct key_mirror_reader *, key_mirror_close)
/* Whether the mirror was cleared since it was opened: this reader finds nothing any more. */
bool key_mirror_over(const struct key_mirror_reader *r);
/* 1 and the value, copied to value (room for KEY_MIRROR_ENTRY_MAX bytes) with its length; 0: has to
 * be asked for. key is normalised. */
_must_check_ int key_mirror_get(const struct key_mirror_reader *r, const char *key, size_t key_len,
	void *value, size_t *ret_len);
