/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * elasticd as an object: everything but the command line, so that tests run the real thing in their
 * own loop. Only the files of this room and daemon/daemon.c may use the members.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/base/paths.h"
#include "common/loop/loop.h"
#include "common/varlink/server.h"
#include "daemon/api/access.h"
#include "daemon/api/event_feed.h"
#include "daemon/api/relay.h"
#include "daemon/config/config.h"
#include "daemon/host/service_manager.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/record.h"
#include "daemon/jobs/registry.h"
#include "daemon/jobs/scope.h"

#include <stdbool.h>
#include <stdint.h>

struct daemon_options {
	struct paths_overrides paths;
	bool config_required; /* the user named the file */
	int log_level;	      /* -1: the configuration's */
	bool first_process;   /* of a container: no job outlives elasticd */
};

struct daemon {
	struct loop *loop;
	struct daemon_options options;
	struct paths paths;
	struct config config;
	bool system;
	int64_t started_us;
	int locks[2];
	struct record_store store, living;
	char *agent_program;
	char *cgroup_parent;
	char *log_dir;
	struct job_host host;
	struct scopes *scopes;
	struct offload *sweepers, *syncs;
	struct child_orphans orphans; /* that jobs have given up */
	struct access *access;
	struct budget *budget; /* for memory of messages on control.sock and from agents */
	struct budget *kept;   /* for memory of the Job texts of agents */
	struct registry *registry;
	struct feed *feed;
	struct relays *relays;
	struct notify *notify;
	struct varlink_server *server;
	struct loop_timer *report_timer; /* until the socket opens without the last agents */
	struct loop_timer *drain_timer;	 /* until open calls are cut, after Shutdown */
	bool open;			 /* the control socket accepts calls */
	bool leaving;			 /* Shutdown was called: no job is started any more */
	bool terminating;		 /* elasticd got a signal that ends it */
	struct varlink_call *shutdown;	 /* waits for all jobs to end, or NULL */
	struct stop_all *stop_all;	 /* stops them */
	struct starts *starts;
	struct removals *removals;
	struct prune *prune;
	struct preempts *preempts;
	struct notices *notices;
	struct metrics *metrics;
	struct boot_jobs *boot_jobs;
};

/* Takes up all jobs, and serves the control socket as soon as their agents have reported (or after
 * a second, since an agent may stand still). Borrows the strings of options. */
_must_check_ int daemon_new(struct loop *loop, const struct daemon_options *options,
	struct daemon **ret, struct error *err);
/* Leaves the jobs running. */
struct daemon *daemon_free(struct daemon *d);
DEFINE_CLEANUP(struct daemon *, daemon_free)

/* Prints every error of the configuration that options name. Returns the exit status. */
int daemon_check(const struct daemon_options *options);

/* Reads the configuration again; keeps the old one where the new one has errors. */
void daemon_reload(struct daemon *d);

/* Ends the loop because of a signal: if the host goes down, first gives notice to the jobs that ask
 * for it and waits for them; in a container, stops all jobs. A second call ends the loop at once.
 */
void daemon_terminate(struct daemon *d);

/* Answers the call and ends the loop; with stop_jobs, once all jobs were stopped. Returns 0. */
int daemon_shutdown(struct daemon *d, struct varlink_call *call, bool stop_jobs);
