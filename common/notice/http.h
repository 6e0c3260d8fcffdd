/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small HTTP requests in the event loop, for metadata servers: only to addresses, so that no name
 * has to be resolved; directly, whatever proxy the environment names; follows no redirection,
 * touches no signal. Every request has limits of time and size. Without a request it makes no
 * system call. Does not know the servers.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <stddef.h>
#include <stdint.h>

enum { HTTP_BODY_MAX = 64 << 10, HTTP_HEADERS = 8 };

struct http;
struct http_call;

struct http_request {
	const char *url;		   /* http://address[:port]/... */
	bool put;			   /* PUT without a body; else GET */
	const char *headers[HTTP_HEADERS]; /* "Name: value", NULL-ended or full */
	int64_t timeout_ms;		   /* for the whole request */
	int64_t connect_ms;		   /* for the connection only */
};

struct http_answer {
	int status; /* 0: no whole answer, and error says why */
	const char *body;
	size_t len; /* a NUL follows it */
	const char *error;
	void *easy; /* libcurl's handle, for http_header() */
};

/* Runs once, never within a call; answer is borrowed until fn returns. May free the http. */
typedef void (*http_fn)(void *arg, const struct http_answer *answer);

/* 0, -ENOMEM, or -EOPNOTSUPP with err without libcurl. */
_must_check_ int http_new(struct loop *loop, struct http **ret, struct error *err);
/* Cancels open calls. */
struct http *http_free(struct http *h);
DEFINE_CLEANUP(struct http *, http_free)

/* Copies all arguments. ret (may be NULL) is the call until fn runs. 0, -EINVAL or -ENOMEM. */
_must_check_ int http_start(struct http *h, const struct http_request *request, http_fn fn,
	void *arg, struct http_call **ret);
/* fn will not run. c may be NULL. Returns NULL. */
struct http_call *http_cancel(struct http_call *c);

/* The answer's header of that name, or NULL. Borrowed as the answer is. */
const char *http_header(const struct http_answer *answer, const char *name);
