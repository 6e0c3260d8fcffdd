/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches and events: each has a connection of its own. In a child of fork() that connection is its
 * parent's, so the stream starts again there: a watch after the last change that it knows, events
 * from then on.
 */

#include "worker/elasticd.h"

#include <jansson.h>

struct conn;
struct pool;

struct stream {
	struct elasticd *h;
	struct pool *pool;	   /* of the process that opened conn */
	struct conn *conn;	   /* NULL: none */
	char *key;		   /* of a watch; NULL: events */
	int64_t since;		   /* of a watch: the last revision that it knows; -1: none */
	enum elasticd_status over; /* what ended it */
	json_t *changes;	   /* the last answer to a watch; the first `at` were returned */
	size_t at;
};

/* Begins a watch of key, or events where key is NULL. After a failure it needs no stream_fini(). */
enum elasticd_status stream_init(
	struct stream *s, struct elasticd *h, const char *key, int64_t since);
void stream_fini(struct stream *s);
int stream_fd(const struct stream *s);
enum elasticd_status stream_next_change(
	struct stream *s, int timeout_ms, struct elasticd_entry **ret);
enum elasticd_status stream_next_event(
	struct stream *s, int timeout_ms, struct elasticd_event **ret);
