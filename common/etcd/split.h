/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the JSON objects in a stream of them, which is how etcd's gateway sends messages: one after
 * the other, with or without white space between them. Looks at each byte once, however the stream
 * is cut. Does not check what is in an object. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed to begin with, and again after each object. */
struct etcd_split {
	size_t at; /* bytes looked at */
	size_t depth;
	bool quoted, escaped;
};

/* text: len bytes from where the last object ended, among them all that were there at the last
 * call. Returns how many of them the first object takes, with white space before it; 0: it has not
 * ended; -EBADMSG: no object begins there. */
ssize_t etcd_split(struct etcd_split *s, const char *text, size_t len);
