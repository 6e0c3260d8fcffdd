/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * elasticd as an object: everything but the command line, so that tests run the real thing in their
 * own loop. The parts are public to the files that handle methods (methods*.c, start.c, remove.c)
 * and to nobody else.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/paths.h"
#include "common/varlink_server.h"
#include "daemon/access.h"
#include "daemon/config.h"
#include "daemon/feed.h"
#include "daemon/job.h"
#include "daemon/notify.h"
#include "daemon/record.h"
#include "daemon/registry.h"
#include "daemon/relay.h"
#include "daemon/scope.h"

#include <stdbool.h>
#include <stdint.h>

struct daemon_options {
	struct paths_overrides paths;
	bool config_required; /* the file was named */
	int log_level;	      /* -1: the configuration's */
};

struct daemon {
	struct loop *loop;
	struct daemon_options options;
	struct paths paths;
	struct config config;
	bool system;
	int64_t started_us;
	int locks[2];
	struct record_store store;
	char *agent_program;
	char *cgroup_parent;
	char *log_dir;
	struct job_host host;
	struct scopes *scopes;
	struct sweepers *sweepers;
	struct access *access;
	struct budget *budget; /* of memory for what is said on control.sock and by agents */
	struct registry *registry;
	struct feed *feed;
	struct relays *relays;
	struct notify *notify;
	struct varlink_server *server;
	struct loop_timer *doors; /* how long the control socket waits for agents at the start */
	bool open;
	bool leaving;		       /* Shutdown was called: nothing new is started */
	bool terminating;	       /* a signal came that ends elasticd */
	struct varlink_call *shutdown; /* waits for all jobs to end, or NULL */
	struct leave *leave;	       /* stops them */
	struct starts *starts;
	struct removals *removals;
	struct prune *prune;
	struct preempts *preempts;
	struct notices *notices;
};

/* Takes up all jobs, and serves the control socket as soon as their agents have told how they are
 * (or after a second: an agent may stand still). Copies nothing of options' strings. */
_must_check_ int daemon_new(struct loop *loop, const struct daemon_options *options,
	struct daemon **ret, struct error *err);
/* Leaves the jobs to themselves. */
struct daemon *daemon_free(struct daemon *d);
DEFINE_CLEANUP(struct daemon *, daemon_free)

/* Reads the configuration again; what it was stays where the new one is not usable. */
void daemon_reload(struct daemon *d);

/* Ends the loop at once; the jobs go on. */
void daemon_leave(struct daemon *d);

/* The same for a signal: where the host goes down, jobs that ask for it get notice first and are
 * waited for. Called again: at once. */
void daemon_terminate(struct daemon *d);

/* Answers the call and ends the loop; with stop_jobs, once all jobs were stopped. Returns 0. */
int daemon_shutdown(struct daemon *d, struct varlink_call *call, bool stop_jobs);
