/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl's transfers in the event loop: libcurl says which descriptors to watch and when its next
 * timer is due, and is called only for these. Owns no transfer. Called by common/notice/http.c and
 * common/etcd/wire.c.
 */

#include "common/base/curl.h"
#include "common/loop/loop.h"

#if HAVE_CURL

#include <stdbool.h>
#include <sys/queue.h>

struct curl_loop;

/* Embedded by its owner, who sets easy, fn and arg. */
struct curl_transfer {
	CURL *easy;
	/* Runs once, on a turn of the loop; the transfer is removed by then. May free anything. */
	void (*fn)(void *arg, CURLcode result);
	void *arg;
	/* Ours. */
	TAILQ_ENTRY(curl_transfer) entry;
	struct curl_loop *owner; /* NULL: not added */
	CURLcode result;
	bool done;
};

/* 0, -ENOMEM, or -EOPNOTSUPP with err without libcurl. */
_must_check_ int curl_loop_new(struct loop *loop, struct curl_loop **ret, struct error *err);
/* Closes all connections; all transfers are removed before. */
struct curl_loop *curl_loop_free(struct curl_loop *c);
DEFINE_CLEANUP(struct curl_loop *, curl_loop_free)

const struct curl_library *curl_loop_library(const struct curl_loop *c);

/* Starts the transfer. Also makes its sockets close-on-exec. 0 or -ENOMEM. */
_must_check_ int curl_loop_add(struct curl_loop *c, struct curl_transfer *t);
/* fn will not run. Does nothing with a transfer that is not added. */
void curl_loop_remove(struct curl_transfer *t);

#endif
