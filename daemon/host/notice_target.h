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

enum { NOTICE_TARGET_SENT_MAX = 16, NOTICE_TARGET_KEY_MAX = 160 };

struct notice_target;
LIST_HEAD(notice_target_deliveries, notice_target_delivery);

/* Runs when the agent answers for the first time. */
typedef void (*notice_target_fn)(void *arg, struct notice_target *t);

struct notice_target {
	LIST_ENTRY(notice_target) link; /* the owner's list */
	struct job *job;
	struct job_watch watch;
	bool ready; /* the agent answered: the mirror is up to date */
	char sent[NOTICE_TARGET_SENT_MAX][NOTICE_TARGET_KEY_MAX];
	unsigned n_sent;
	struct notice_target_deliveries deliveries;
	notice_target_fn attached, ended;
	void *arg;
};

/* Runs ended when the job is over; ended may free l. Runs attached when ready is set, never from
 * within this call. */
_must_check_ int notice_target_new(struct job *j, notice_target_fn attached, notice_target_fn ended,
	void *arg, struct notice_target **ret);
struct notice_target *notice_target_free(struct notice_target *t);

/* Whether the job asked for events from source; platform: the cloud that the host is in, or NULL.
 */
bool notice_target_wants(const struct notice_target *t, const char *source, const char *platform);

/* Sends n to the agent unless it got it before. Returns true if it is on its way now. */
bool notice_target_notify(struct notice_target *t, const struct notice *n);
