/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A run as it is drawn: which worker ran when, in which state the group was, and what happened.
 * Made from the run's events in their order, of one agent or (in a group of several hosts) of
 * several. Pure: events are io.elasticd.Manager.Event objects, times are microseconds since the
 * epoch.
 */

#include "client/plot/kind.h"
#include "common/base/cleanup.h"
#include "common/text/ranks.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum plot_end { PLOT_RUNS, PLOT_SUCCEEDED, PLOT_FAILED, PLOT_STOPPED, PLOT_LOST };

/* One start of a worker: starting [from, running), running [running, stopping), stopping until to.
 */
struct plot_start {
	int attempt;
	enum plot_end end;
	int64_t from, running, stopping, to;
	char *text; /* how it ended; NULL while it runs */
};

/* A time that a worker waited at a barrier. */
struct plot_wait {
	int64_t from, to;
	size_t barrier;
};

/* A barrier at which workers waited for long. */
struct plot_barrier {
	int64_t to;
	char *text;
	struct plot_waiters {
		int64_t from;
		struct ranks ranks;
	} * waiters;
	size_t n;
};

struct plot_mark {
	enum plot_kind kind;
	int attempt; /* or -1 */
	int64_t at;
	char *text;
};

struct plot_marks {
	struct plot_mark *items; /* in the order of their times once the plot is finished */
	size_t n, room;
};

struct plot_worker {
	int source, rank;
	char *name; /* "role:index", or NULL when no event names it */
	struct plot_start *starts;
	size_t n, room;
	struct plot_wait *waits; /* in the order of their beginnings once the plot is finished */
	size_t n_waits, room_waits;
	struct plot_marks marks;
	int64_t stopping; /* when this worker alone was asked to end; 0: it was not */
};

/* A state of the group, such as "running" or "backoff". */
struct plot_phase {
	int attempt; /* -1: before the first one */
	const char *state;
	int64_t from, to;
	char *text;
};

/* A time that a host was in the group. */
struct plot_stay {
	int64_t from, to; /* to is 0 until the host leaves */
};

struct plot_host {
	char *name;
	struct plot_stay *stays;
	size_t n, room;
	struct plot_marks marks;
};

/* An agent whose events are in the plot. */
struct plot_source {
	char *host;	   /* or NULL */
	int64_t offset_us; /* what is added to its times for those of the host that leads */
	bool aligned;	   /* its clock is looked at */
	/* Of the attempt at hand; 0: not yet. */
	int64_t starting, running, stopping;
	/* Where each rank is among the workers, plus 1; 0: nowhere yet. */
	size_t *by_rank, n_by_rank;
};

/* All zeros: an empty plot. */
struct plot {
	char *job, *run;
	int64_t from, to;
	struct plot_source *sources;
	struct plot_worker *workers;
	struct plot_phase *phases;
	struct plot_host *hosts;
	struct plot_barrier *barriers;
	bool several; /* hosts, which are drawn by the clock of the one that leads */
	size_t n_sources, n_workers, n_phases, n_hosts, n_barriers;
	size_t room_sources, room_workers, room_phases, room_hosts, room_barriers;
	struct plot_marks marks; /* about no single worker or host */
	int attempts, restarts;
	size_t events;
	char *result; /* of the verdict; NULL: the run has not ended, as far as the events say */
	char *message;
	int exit_status;
	/* The root cause that the verdict names; its worker is NULL where there is none. */
	struct {
		int attempt, rank;
		int64_t at;
		char *worker, *text;
	} root;
	int error; /* -ENOMEM once memory was out */
};

void plot_fini(struct plot *p);

/* Events that follow are those of another agent, on host (borrowed; NULL: not known). */
void plot_source(struct plot *p, const char *host);

/* The next event of the source; what is no event is ignored. */
void plot_add(struct plot *p, const json_t *event);

/* The times of the present source become those of the host that leads, if several hosts are drawn.
 * event: its first event "clock", given before all others; NULL: there is none. */
void plot_clock(struct plot *p, const json_t *event);

/* Names a worker of the present source, for events that only have its rank. */
void plot_name(struct plot *p, int rank, const char *role, int index);

/* After the last event: ends what goes on at now_us (0: at the last event), and sorts. Returns 0 or
 * -ENOMEM, if memory was out at any time. */
_must_check_ int plot_finish(struct plot *p, int64_t now_us);
