/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The noticer's state, for noticer.c (what is watched) and noticer_platform.c (where we are). */

#include "common/base/platform.h"
#include "common/notice/http.h"
#include "common/notice/noticer.h"

#include <sys/queue.h>

enum noticer_cloud { NOTICER_GCE, NOTICER_AWS, NOTICER_AZURE, NOTICER_CLOUDS };

extern const struct noticer_cloud_info {
	const char *name;
	unsigned bit; /* of enum spec_notice */
	enum platform platform;
} noticer_clouds[NOTICER_CLOUDS];

enum { NOTICER_STREAMS = NOTICER_CLOUDS + 1, NOTICER_LIMIT_MS = 2000 };

/* One source, which is polled. */
struct noticer_stream {
	struct noticer *owner;
	enum noticer_cloud cloud;
	struct notice_machine machine;
	struct loop_timer *timer; /* NULL: not wanted */
	struct http_call *call;
	int64_t last_us; /* of the last answer; 0: none */
};

struct noticer_waiter {
	TAILQ_ENTRY(noticer_waiter) entry;
	noticer_platform_fn done;
	void *arg;
};

struct noticer_probe {
	struct noticer *owner;
	enum noticer_cloud cloud;
	struct http_call *call;
	bool yes;
};

struct noticer {
	struct loop *loop;
	noticer_fn fn;
	noticer_message_fn message;
	void *arg;
	int64_t poll_ms;
	int64_t limit_ms; /* for a connection, and for the detection */
	char endpoints[NOTICER_CLOUDS][160];
	struct error bad[NOTICER_CLOUDS]; /* errors in the endpoints */
	char *dmi_dir;
	unsigned wanted;
	struct http *http; /* NULL: no request was made */
	struct noticer_stream streams[NOTICER_STREAMS];
	unsigned repeat; /* bits of streams whose notice fn has to get again */

	enum platform platform;
	char details[512];
	bool detecting;
	bool unsure;	     /* platform is OTHER because no server answered: detect it again */
	bool warned;	     /* and a warning said so */
	unsigned detections; /* without an answer, in a row */
	struct loop_timer *detect_timer;
	struct noticer_probe probes[NOTICER_CLOUDS];
	TAILQ_HEAD(, noticer_waiter) waiters;
};

/* Makes n->http if it is missing. */
_must_check_ int noticer_open(struct noticer *n, struct error *err);
/* Starts and stops streams after a change of what is wanted or known. */
void noticer_sync(struct noticer *n);
/* Makes the URL for cloud; returns why it cannot be asked, or 0. */
_must_check_ int noticer_url(const struct noticer *n, enum noticer_cloud cloud, const char *path,
	char **ret, struct error *err);

_must_check_ int noticer_detect_init(struct noticer *n);
/* Begins the detection, unless its result is known, or it runs or is about to run again. */
void noticer_detect(struct noticer *n);
/* CLOUD is not wanted any more: no further detection. */
void noticer_detect_stop(struct noticer *n);
/* Ends a detection. */
void noticer_detect_cancel(struct noticer *n);
