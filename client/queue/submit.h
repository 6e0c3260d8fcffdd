/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Submits tasks, fetches and prints their results, and shows the progress: submit.c, collect.c and
 * progress_view.c, which one loop runs. Called by "task submit".
 */

#include "client/output/stdout_buffer.h"
#include "client/queue/client.h"
#include "client/queue/line_reader.h"
#include "client/queue/progress.h"

struct collect;
struct progress_view;

struct submit {
	/* Set by the caller. */
	struct ctl *ctl;
	struct queue_client q;
	const char *file; /* or NULL */
	char **arguments;
	int n_arguments;
	const char *format;
	json_t *resources; /* or NULL */
	int64_t limit_ms;  /* -1: none */
	bool check_json, alone, no_wait, fetch, ordered, progress;

	struct loop *loop;
	struct varlink_client *link;
	struct stdout_buffer *out;
	struct collect *collect;     /* --fetch, else NULL */
	struct progress_view *view;  /* the progress line, else NULL */
	struct loop_timer *patience; /* runs after an interrupt */
	/* The source of tasks: lines of the file, or arguments. */
	struct line_reader *lines;
	int at_argument;
	bool exhausted; /* the source has ended */

	json_t *next; /* tasks for the next call */
	size_t next_bytes;
	json_t *flight; /* tasks of the open call, or NULL */
	uint64_t sent_ms;
	uint64_t wait_ms;    /* that it may wait for room */
	uint64_t sent_freed; /* collect_freed() when it was sent */
	size_t batch;	     /* the most tasks for one call */
	bool must_release;   /* the queue is full of results: some go before more tasks come */

	int64_t accepted;
	int status;	  /* our exit status so far */
	bool refused;	  /* a line or argument was refused */
	int64_t reported; /* the last number of accepted tasks that was printed; -1: none */
	bool interrupted; /* only the open call is still awaited */
	bool finished;
};

/* Submits all, from the descriptor in of the file (-1: none), or the arguments. Returns an exit
 * status. */
_must_check_ int submit_run(struct submit *s, int in);

/* --- for the files of this room */

/* Does what can be done now, and ends the loop when all is done. */
void submit_pump(struct submit *s);

/* Ends: prints why, and how many tasks were accepted. */
void submit_fail(struct submit *s, int status, const char *text);
/* As submit_fail(), for a connection that broke. */
void submit_lost(struct submit *s);
/* Prints what the service refused, and how many tasks were accepted. ends: nothing goes on, so also
 * prints how to get what was not printed. Sets the exit status. */
void submit_refused(struct submit *s, const char *error, const json_t *parameters, bool ends);
/* Ends, for a reason that was printed before. */
void submit_end(struct submit *s, int status);

/* --- results of the tasks */

_must_check_ int collect_new(struct submit *s, bool ordered, struct collect **ret);
struct collect *collect_free(struct collect *c);
/* Adds tasks to be fetched. Returns 0 or -ENOMEM. */
_must_check_ int collect_add(struct collect *c, int64_t first, size_t n);
/* How many were not printed yet, and how many of the printed ones did not succeed. */
size_t collect_left(const struct collect *c);
size_t collect_failed(const struct collect *c);
/* How many were printed but not released yet. */
size_t collect_unreleased(const struct collect *c);
/* Whether so many are open that no more should be submitted. */
bool collect_full(const struct collect *c);
/* Whether more will be released, and how often that was done. */
bool collect_busy(const struct collect *c);
uint64_t collect_freed(const struct collect *c);
/* Fetches and releases what it can. */
void collect_pump(struct collect *c);

/* --- the progress line */

_must_check_ int progress_view_new(struct submit *s, struct progress_view **ret);
/* Whether it still waits for the counts before the first task: a task submitted now would count as
 * another program's, or as done. It calls submit_pump() when it has them, or after a second. */
bool progress_view_begins(const struct progress_view *w);
/* Removes the line for good. */
struct progress_view *progress_view_free(struct progress_view *w);
/* Removes the line until it is drawn again. */
void progress_view_clear(struct progress_view *w);
