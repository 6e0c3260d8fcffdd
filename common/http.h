/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small HTTP requests in the event loop, for metadata servers: to an address and never to a name,
 * so that nothing has to be resolved; straight, whatever proxy the environment names; no
 * redirection is followed, no signal touched. Every request has its limits, of time and of size.
 * An http without a request makes no system call. Knows nothing about who is asked what.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <stddef.h>
#include <stdint.h>

enum { HTTP_BODY_MAX = 64 << 10, HTTP_HEADERS = 8 };

struct http;
struct http_call;

struct http_request {
	const char *url;		   /* http://address[:port]/... */
	bool put;			   /* PUT without a body; else GET */
	const char *headers[HTTP_HEADERS]; /* "Name: value", NULL-ended or full */
	int64_t timeout_ms;		   /* of all of it */
	int64_t connect_ms;		   /* of the connection alone */
};

struct http_answer {
	int status; /* 0: there was none in full, and error says why */
	const char *body;
	size_t len; /* a NUL follows it */
	const char *error;
	void *easy;
};

/* Runs once, never within a call; answer is borrowed and gone at return. May free the http. */
typedef void (*http_fn)(void *arg, const struct http_answer *answer);

/* 0, -ENOMEM, or -EOPNOTSUPP with err where there is no libcurl. */
_must_check_ int http_new(struct loop *loop, struct http **ret, struct error *err);
/* Calls that are under way are cancelled. */
struct http *http_free(struct http *h);
DEFINE_CLEANUP(struct http *, http_free)

/* Takes nothing. ret is the call until fn runs; it may be NULL. 0, -EINVAL or -ENOMEM. */
_must_check_ int http_start(struct http *h, const struct http_request *request, http_fn fn,
	void *arg, struct http_call **ret);
/* fn does not run; NULL is no call. Returns NULL. */
struct http_call *http_cancel(struct http_call *c);

/* The answer's header of that name, or NULL. Borrowed as the answer is. */
const char *http_header(const struct http_answer *answer, const char *name);
