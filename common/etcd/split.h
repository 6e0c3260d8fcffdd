/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the JSON objects in a stream, in which etcd's gateway sends messages: one after the other,
 * with or without white space between them. Reads each byte once, however the stream is cut. Does
 * not check the contents of an object. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* All zeros is a new one; etcd_split() zeroes it after each object. */
struct etcd_split {
	size_t at; /* bytes looked at */
	size_t depth;
	bool quoted, escaped;
};

/* text: len bytes from the end of the last object on, with all bytes of the last call. Returns how
 * many of them the first object takes, with white space before it; 0: it has not ended yet;
 * -EBADMSG: no object begins there. */
ssize_t etcd_split(struct etcd_split *s, const char *text, size_t len);
