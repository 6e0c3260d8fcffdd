/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run as elasticd knows it: its record, the mirror of its state, the process and the connection
 * of its agent. Acts as daemon/jobs/job_life.h says, and tells watchers what changed. Does not know
 * its watchers, and decides nothing about the workers: the agent does.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/spec/spec.h"
#include "common/varlink/client.h"
#include "daemon/jobs/agent_process.h"
#include "daemon/jobs/agent_stream.h"
#include "daemon/jobs/child.h"
#include "daemon/jobs/job_life.h"
#include "daemon/jobs/mirror.h"
#include "daemon/jobs/record.h"
#include "daemon/jobs/scope.h"
#include "daemon/jobs/sweeper.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct job;

/* The daemon as its jobs see it. */
struct job_host {
	struct loop *loop;
	const struct record_store *store;
	const struct record_store *living;
	const char *runtime_dir;
	const char *agent_program;
	const char *cgroup_parent; /* NULL: none can be made */
	const char *agent_log_level;
	struct scopes *scopes; /* NULL: not wanted */
	struct budget *budget; /* counts the memory of agents' messages; NULL: not counted */
	struct budget *kept;   /* counts the memory of mirrors' texts; NULL: not counted */
	struct offload *sweepers;
	struct offload *syncs;	       /* NULL: nothing waits for the disk */
	struct child_orphans *orphans; /* children that no job owns any more */
	/* Called after each batch of events (borrowed array) and each change of life or state. */
	void (*events)(void *arg, struct job *j, json_t *events);
	void (*changed)(void *arg, struct job *j);
	void *arg;
};

enum job_news {
	JOB_STARTED,	  /* the agent's process was let go */
	JOB_START_FAILED, /* that failed; j->start_error says why */
	JOB_ATTACHED,	  /* an agent answers */
	JOB_UPDATED,	  /* the mirror changed */
	JOB_VERDICT,	  /* the verdict is known */
	JOB_ENDED,	  /* no process of it is left */
	JOB_GONE,	  /* it is being removed: the pointer is invalid after this */
};

typedef void (*job_watch_fn)(void *arg, struct job *j, enum job_news news);

/* Embedded in a watcher. fn may remove any watch. */
struct job_watch {
	TAILQ_ENTRY(job_watch) link;
	job_watch_fn fn;
	void *arg;
	unsigned seen; /* number of the last news that fn got */
};

enum { JOB_LOSSES_MAX = 3 };

struct job {
	TAILQ_ENTRY(job) in_order, in_active, in_runs, in_names; /* the registry's links */
	bool is_in_active;
	const struct job_host *host;
	unsigned news; /* number of the last news */
	TAILQ_HEAD(, job_watch) watches;

	/* The run as elasticd knows it. */
	struct job_record rec;
	bool unsaved; /* the record lacks the last change */
	struct mirror mirror;
	struct budget_holder kept; /* its text */
	bool odd;		   /* its agent's last state could not be used, which was logged */
	bool loaded;   /* the mirror's text is there for one answer: see job_load_text() */
	int64_t seq;   /* the last event that is known */
	bool accepted; /* an agent was let go once, so a caller may know of the run */
	bool unread;   /* its files were not read when it was taken up: no agent may follow before
			*/
	struct error start_error;

	/* Its life, and its agent. */
	enum life life;
	struct child child; /* until it was let go; pidfd -1 otherwise */
	struct agent_stream *link;
	struct child_watch *guard;
	bool guard_gone;  /* no process of the agent is left */
	bool guard_known; /* rec.agent_pid is of this boot: this elasticd started or found it */
	bool clean_end;	  /* the guard was our child and exited in order */
	unsigned guard_checks; /* that found a guard without an agent */
	struct scope_request *scope;
	struct offload_request *sweep;
	struct loop_timer *timer; /* lost, closing: check again; sweeping: sweep again */
	unsigned tries;
	uint64_t resume_at_ms;
	bool counted;			    /* this loss of the agent is in losses_ms already */
	uint64_t losses_ms[JOB_LOSSES_MAX]; /* the newest at [n_losses - 1] */
	int n_losses;

	/* An agent that is silent, or late. */
	struct varlink_client *silence;	 /* waits for a sign of it */
	struct loop_timer *limit;	 /* until the agent is condemned; NULL: no limit yet */
	int64_t limit_ms, limit_rest_ms; /* the whole limit, and a second one after it */
	char *condemned;		 /* why elasticd killed its agent; NULL: it did not */
	char lost[128];			 /* why elasticd killed only its guard; "": it did not */
	bool killing;			 /* elasticd is killing the guard, and all that is left */

	/* Kept here for others. */
	bool listening; /* daemon/api/host_notices.c listens for it */
	/* For daemon/api/auto_resume.c: this elasticd took the run up and no attempt was seen yet;
	 * its agent had died before. */
	bool unheard, returns;
	struct reading *reading; /* of daemon/metrics; NULL: its numbers were not read */
	bool goes_on;		 /* daemon/metrics has not counted its end */
};

/* A job from an existing record (taken), in state ended and without a mirror. */
_must_check_ int job_new(const struct job_host *host, struct job_record *rec, struct job **ret);
/* Tells watchers JOB_GONE. Leaves processes and files alone. */
struct job *job_free(struct job *j);

/*
 * Starts the first agent. Succeeds as soon as its process waits; JOB_STARTED or JOB_START_FAILED
 * follows, never from within this call. After a failure of either kind the job has ended and only
 * its record is left.
 */
_must_check_ int job_start(
	struct job *j, const json_t *spec, const struct spec *parsed, struct error *err);

/*
 * Takes up a run of an earlier elasticd: adopts its agent, waits for its end, or resumes it. last
 * is what its record knows (borrowed). Of a run that is over, nothing is read but that; read_files:
 * whether the files of one that is not may be read now, which takes as long as its user likes.
 * Returns a negative errno with err if the record cannot be used.
 */
_must_check_ int job_recover(
	struct job *j, const struct job_last *last, bool read_files, struct error *err);

/*
 * Ends a run whose agent does not answer: kills the agent, its guard and all that is left of the
 * run. The verdict agent_lost follows, whose text is "its agent " and why. If the verdict is known
 * already, only kills what is left. Never frees j.
 */
void job_condemn(struct job *j, const char *why);

/*
 * Call it when j's agent is asked to end the run within timeout_ms; SPEC_UNSET: within the time of
 * its specification, or of an earlier call. If the agent is a minute late, it is condemned. For a
 * run that is over, condemns an agent that is still there after half a minute. Never frees j.
 */
void job_end_within(struct job *j, int64_t timeout_ms);
/* For daemon/jobs/job.c: limits the time that the guard has to leave after the verdict. */
void job_limit_guard(struct job *j);

/* Handles what the agent has sent by now, so that a caller that was answered by the agent itself
 * finds the effect here. May end the run, never frees j. */
void job_catch_up(struct job *j);
/* Whether that ended for want of time: the next turn goes on with it. */
bool job_lags(const struct job *j);

/* Restores the text {"job": ...} of the mirror if it was dropped after the end, for one answer. */
_must_check_ int job_load_text(struct job *j, struct error *err);
/* Call it after that answer: the texts of all runs that are over must not stay in memory. */
void job_drop_text(struct job *j);

/* For a connection to j's agent: counts the memory of its messages for j's user, and requires that
 * each message is complete within half a minute. Returns 0 or -ENOMEM. */
_must_check_ int job_count_client(const struct job *j, struct varlink_client *c);

void job_watch(struct job *j, struct job_watch *w, job_watch_fn fn, void *arg);
void job_unwatch(struct job *j, struct job_watch *w);

/* For daemon/jobs/job_process.c: reports an event of the agent to the machine. */
void job_event(struct job *j, enum life_event event);
/* Publishes an event of elasticd's own, numbered after the agent's last one, for a run that is
 * over. */
void job_own_event(struct job *j, const char *name, const char *text);
/* For daemon/jobs/job_process.c: writes the record. ended (borrowed): the verdict, or NULL. */
void job_save(struct job *j, json_t *ended);
/* For daemon/jobs/job_process.c: calls all watches. */
void job_notify(struct job *j, enum job_news news);

/* Whether the verdict is known: the agent takes no calls any more. */
bool job_is_over(const struct job *j);
/* Whether there is an agent, or one that may come back. */
bool job_can_be_asked(const struct job *j);
