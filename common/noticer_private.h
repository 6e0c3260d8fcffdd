/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The noticer's state, for noticer.c (what is watched) and noticer_platform.c (where we are). */

#include "common/http.h"
#include "common/noticer.h"
#include "common/platform.h"

#include <sys/queue.h>

enum noticer_cloud { NOTICER_GCE, NOTICER_AWS, NOTICER_AZURE, NOTICER_CLOUDS };

enum { NOTICER_STREAMS = NOTICER_CLOUDS + 1, NOTICER_LIMIT_MS = 2000 };

/* One thing that is asked again and again. */
struct noticer_stream {
	struct noticer *owner;
	enum noticer_cloud cloud;
	struct notice_machine machine;
	struct loop_timer *timer; /* NULL: it is not wanted */
	struct http_call *call;
	int64_t last_us; /* of the last answer, 0: none */
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
	noticer_said_fn said;
	void *arg;
	int64_t poll_ms;
	int64_t limit_ms; /* of a connection, and of the question who is there */
	char endpoints[NOTICER_CLOUDS][160];
	struct error bad[NOTICER_CLOUDS]; /* what is wrong with them */
	char *dmi_dir;
	unsigned wanted;
	struct http *http; /* NULL: nothing is under way */
	struct noticer_stream streams[NOTICER_STREAMS];
	unsigned again; /* bits of streams whose notice is to be told again */

	enum platform platform;
	char details[512];
	bool looking;
	bool unsure;	/* platform is OTHER because nobody answered: it is looked for again */
	bool warned;	/* of that */
	unsigned looks; /* in a row, that found nobody */
	struct loop_timer *look;
	struct noticer_probe probes[NOTICER_CLOUDS];
	TAILQ_HEAD(, noticer_waiter) waiters;
};

/* Makes n->http where it is not there. */
_must_check_ int noticer_open(struct noticer *n, struct error *err);
/* What is wanted, and what is known, has changed. */
void noticer_sync(struct noticer *n);
/* Why cloud cannot be asked, or 0. */
_must_check_ int noticer_url(const struct noticer *n, enum noticer_cloud cloud, const char *path,
	char **ret, struct error *err);

_must_check_ int noticer_look_init(struct noticer *n);
/* Begins to look, unless it is known or looked for already, or is about to be again. */
void noticer_look(struct noticer *n);
/* CLOUD is not wanted any more: not again. */
void noticer_look_rest(struct noticer *n);
/* Ends all of it. */
void noticer_look_cancel(struct noticer *n);
