/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One job whose specification asks for notices about the end of its host. Tells its agent each
 * event once, unless the agent knows it from an earlier elasticd. Used by
 * daemon/api/host_notices.c.
 */

#include "common/base/cleanup.h"
#include "common/notice/noticer.h"
#include "daemon/jobs/job.h"

#include <stdbool.h>
#include <sys/queue.h>

enum { LISTENER_SENT_MAX = 16, LISTENER_KEY_MAX = 160 };

struct listener;
LIST_HEAD(listener_deliveries, listener_delivery);

/* Runs when the agent answers for the first time. */
typedef void (*listener_fn)(void *arg, struct listener *l);

struct listener {
	LIST_ENTRY(listener) link; /* the owner's list */
	struct job *job;
	struct job_watch watch;
	bool ready; /* the agent answered: the mirror is up to date */
	char sent[LISTENER_SENT_MAX][LISTENER_KEY_MAX];
	unsigned n_sent;
	struct listener_deliveries deliveries;
	listener_fn attached, ended;
	void *arg;
};

/* Runs ended when the job is over; ended may free l. Runs attached when ready is set, never from
 * within this call. */
_must_check_ int listener_new(
	struct job *j, listener_fn attached, listener_fn ended, void *arg, struct listener **ret);
struct listener *listener_free(struct listener *l);

/* Whether the job asked for events from source; platform: the cloud that the host is in, or NULL.
 */
bool listener_wants(const struct listener *l, const char *source, const char *platform);

/* Sends n to the agent unless it got it before. Returns true if it is on its way now. */
bool listener_notify(struct listener *l, const struct notice *n);
