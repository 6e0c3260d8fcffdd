/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run as elasticd knows it: its record, the mirror of its state, the process and the connection
 * of its agent. Does what daemon/life.h says, and tells watchers what changed. Does not know who
 * asks about it, and never decides about the workers: that is the agent's.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/spec.h"
#include "common/varlink_client.h"
#include "daemon/agentproc.h"
#include "daemon/child.h"
#include "daemon/joblink.h"
#include "daemon/life.h"
#include "daemon/mirror.h"
#include "daemon/record.h"
#include "daemon/scope.h"
#include "daemon/sweeper.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct job;

/* What jobs need of the daemon; shared by all of them. */
struct job_host {
	struct loop *loop;
	const struct record_store *store;
	const char *runtime_dir;
	const char *agent_program;
	const char *cgroup_parent; /* NULL: none can be made */
	const char *agent_log_level;
	struct scopes *scopes; /* NULL: not wanted */
	struct budget *budget; /* that what agents say counts in; NULL: it does not count */
	struct sweepers *sweepers;
	/* Called after each batch of events (borrowed array) and each change of life or state. */
	void (*events)(void *arg, struct job *j, json_t *events);
	void (*changed)(void *arg, struct job *j);
	void *arg;
};

enum job_news {
	JOB_STARTED,	  /* the agent's process was let go */
	JOB_START_FAILED, /* it could not be; j->start_error says why */
	JOB_ATTACHED,	  /* an agent answers */
	JOB_UPDATED,	  /* the mirror changed */
	JOB_VERDICT,	  /* the verdict is known */
	JOB_ENDED,	  /* nothing of it is left */
	JOB_GONE,	  /* it is being forgotten: the pointer is dead after this */
};

typedef void (*job_watch_fn)(void *arg, struct job *j, enum job_news news);

/* Embedded in whoever wants to know. May be removed, also others', from within fn. */
struct job_watch {
	TAILQ_ENTRY(job_watch) link;
	job_watch_fn fn;
	void *arg;
	unsigned seen; /* the last news it was told */
};

enum { JOB_LOSSES_MAX = 3 };

struct job {
	TAILQ_ENTRY(job) in_order, in_runs, in_names; /* the registry's */
	const struct job_host *host;
	struct job_record rec;
	struct mirror mirror;
	enum life life;
	int64_t seq;	  /* the last event that is known */
	bool accepted;	  /* an agent was let go once: somebody was told that the run exists */
	bool guard_gone;  /* no process of the agent is left */
	bool guard_known; /* rec.agent_pid is of this boot: it was started or found by us */
	struct sweep_request *sweep;
	bool counted; /* the loss of the agent is among losses_ms, and it has not answered since */
	unsigned notices; /* of enum spec_notice: what its specification asks for */
	int64_t stop_ms;  /* how long it may take to stop, as its specification says */
	int64_t poll_ms;  /* how often what cannot be waited for is asked */
	bool listening;	  /* notices.c hears of it */
	bool returns;	  /* resume.c: its agent had died before this elasticd, and it has not begun
			     anew */
	bool unheard;	/* resume.c: taken up by this elasticd, which has not heard its agent yet */
	bool clean_end; /* the guard was our child and said that it left in order */
	struct error start_error;
	struct joblink *link;
	struct varlink_client *silence; /* asks an agent that did not answer for a sign */
	char *condemned;		/* why its agent was killed; NULL: it was not */
	struct child child;		/* until it was let go; pidfd -1 otherwise */
	struct child_watch *guard;
	struct scope_request *scope;
	struct loop_timer *timer; /* lost: look again; sweeping: sweep again */
	unsigned tries;
	uint64_t resume_at_ms;
	uint64_t losses_ms[JOB_LOSSES_MAX]; /* the newest at [n_losses - 1] */
	int n_losses;
	unsigned news; /* counts tellings */
	TAILQ_HEAD(, job_watch) watches;
};

/* A job of an existing record, in state ended and with no mirror; takes over *rec. */
_must_check_ int job_new(const struct job_host *host, struct job_record *rec, struct job **ret);
/* Tells JOB_GONE. Leaves its processes and files alone. */
struct job *job_free(struct job *j);

/*
 * Starts the first agent. Succeeds as soon as its process waits; JOB_STARTED or JOB_START_FAILED
 * follows, never from within this call. After a failure of either kind the job has ended and only
 * its record is left.
 */
_must_check_ int job_start(
	struct job *j, const json_t *spec, const struct spec *parsed, struct error *err);

/*
 * Finds out what became of a run of an earlier elasticd, and takes it up where it is: adopts its
 * agent, waits for its end, or resumes it. ended is the verdict in the record (borrowed) or NULL.
 * Returns a negative errno with err where the record does not let it.
 */
_must_check_ int job_recover(struct job *j, const json_t *ended, struct error *err);

/*
 * Ends a run whose agent does not answer: kills the agent, its guard and all that is left of the
 * run. The verdict agent_lost follows, with "its agent " and why. For one whose verdict is known
 * already, only what is left is killed. Never frees j.
 */
void job_condemn(struct job *j, const char *why);

/* Takes in what the agent has said by now: who was answered by the agent, or heard of a change from
 * it, finds that here. May end the run, never frees j. */
void job_catch_up(struct job *j);

/* Puts the ready text {"job": ...} into the mirror again where it was dropped after the end. */
_must_check_ int job_load_text(struct job *j, struct error *err);

struct varlink_client;
/* What j's agent says on that connection counts for j's user. Returns 0 or -ENOMEM. */
_must_check_ int job_count_client(const struct job *j, struct varlink_client *c);

void job_watch(struct job *j, struct job_watch *w, job_watch_fn fn, void *arg);
void job_unwatch(struct job *j, struct job_watch *w);

/* For daemon/job_agent.c: something happened to the agent. */
void job_event(struct job *j, enum life_event event);
/* An Event of elasticd's own, behind the agent's last one; for a run that is over. */
void job_own_event(struct job *j, const char *name, const char *text);
/* For daemon/job_agent.c: tells all watches. */
void job_tell(struct job *j, enum job_news news);

/* The verdict is known: nothing can be asked of the agent any more. */
bool job_is_over(const struct job *j);
/* There is an agent, or one that may come back. */
bool job_can_be_asked(const struct job *j);
