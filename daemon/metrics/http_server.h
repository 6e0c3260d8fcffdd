/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * As much of HTTP/1.1 as readers of short texts need: GET and HEAD without a body, one call at a
 * time on each of a few connections. A reader that is slow, or sends nothing, loses its connection
 * to the next one. Never blocks.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum {
	HTTP_CONNECTIONS_MAX = 32,
	HTTP_HEAD_MAX = 8 << 10,
	HTTP_HEAD_MS = 10000,	/* for the whole head of a call */
	HTTP_ANSWER_MS = 30000, /* to read the answer */
	HTTP_IDLE_MS = 150000,	/* between two calls */
};

struct http_server;
struct http_call;

/* Each call has to be answered once, from here or later. path: without what follows "?". */
typedef void (*http_fn)(void *arg, struct http_call *call, const char *path);

_must_check_ int http_server_new(
	struct loop *loop, http_fn fn, void *arg, struct http_server **ret);
/* Takes fd, a listening socket that does not block, also on failure. */
_must_check_ int http_server_listen(struct http_server *s, int fd);
/* Calls that are not answered yet stay valid; their answers go nowhere. */
struct http_server *http_server_free(struct http_server *s);
DEFINE_CLEANUP(struct http_server *, http_server_free)

/* Whether the reader came over a UNIX socket, and then its credentials. */
bool http_call_peer(const struct http_call *c, struct ucred *ret);

/* Ends c. type is a media type; takes text (NULL: no memory, which the reader learns). */
void http_call_answer(struct http_call *c, int status, const char *type, char *text, size_t len);
