/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One job that wants to hear what its host is told about its end. Tells its agent each event once,
 * as far as the agent itself does not know of it from an earlier elasticd. Belongs to notices.c.
 */

#include "common/cleanup.h"
#include "common/noticer.h"
#include "daemon/job.h"

#include <stdbool.h>
#include <sys/queue.h>

enum { LISTENER_TOLD_MAX = 16, LISTENER_KEY_MAX = 160 };

struct listener;
LIST_HEAD(listener_errands, listener_errand);

/* The agent answers for the first time. */
typedef void (*listener_fn)(void *arg, struct listener *l);

struct listener {
	LIST_ENTRY(listener) link; /* the owner's */
	struct job *job;
	struct job_watch watch;
	bool ready; /* the agent answered: the mirror is up to date */
	char told[LISTENER_TOLD_MAX][LISTENER_KEY_MAX];
	unsigned n_told;
	struct listener_errands errands;
	listener_fn attached, ended;
	void *arg;
};

/* ended runs when the job has come to its end, and may free l; attached runs when ready is set,
 * never from within this call. */
_must_check_ int listener_new(
	struct job *j, listener_fn attached, listener_fn ended, void *arg, struct listener **ret);
struct listener *listener_free(struct listener *l);

/* Whether the job asked for what comes from source; platform: the cloud that the host is in, or
 * NULL. */
bool listener_wants(const struct listener *l, const char *source, const char *platform);

/* Tells n unless it was told. True where it is on its way now. */
bool listener_tell(struct listener *l, const struct notice *n);

/* The bit of a source's name in enum spec_notice; 0: none that elasticd watches. */
unsigned listener_source(const char *source);
