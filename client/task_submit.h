/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of "task submit" share: cmd_task_submit.c reads and submits, task_collect.c
 * fetches what comes of it, task_watch.c shows how it goes. One loop runs them all. */

#include "client/line_reader.h"
#include "client/outlet.h"
#include "client/progress.h"
#include "client/queue_client.h"

struct collect;
struct watch;

struct submit {
	struct ctl *ctl;
	struct queue_client q;
	struct loop *loop;
	struct varlink_client *link;
	struct outlet *out;
	struct collect *collect;     /* --fetch, else NULL */
	struct watch *watch;	     /* the progress, else NULL */
	struct loop_timer *patience; /* since we were interrupted */
	const char *format;
	json_t *resources; /* or NULL */
	int64_t limit_ms;  /* -1: none */
	bool check_json, alone, no_wait;

	/* Where tasks come from: lines of a file, or arguments. */
	const char *file;
	struct line_reader *lines;
	char **arguments;
	int n_arguments, at_argument;
	bool exhausted; /* nothing more comes from there */

	json_t *next; /* tasks that go with the next call */
	size_t next_bytes;
	json_t *flight; /* those of the call under way, or NULL */
	uint64_t sent_ms;
	uint64_t sent_freed; /* collect_freed() then */
	size_t batch;	     /* how many go at once, at most */
	bool held;	     /* there is no room before more results were released */

	int64_t accepted;
	int status;	  /* what is known of our exit status */
	bool refused;	  /* the input was, from some line on */
	int64_t told;	  /* how many were accepted when that was said last; -1: it was not */
	bool interrupted; /* nothing goes on but the call under way */
	bool finished;
};

/* Goes on with whatever can be done, and ends the loop when all is. */
void submit_pump(struct submit *s);
/* What has to be said: the progress does not stand in its way. Returns status. */
int submit_say(struct submit *s, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Says why nothing goes on any more, and how many tasks are in; ends. */
void submit_fail(struct submit *s, int status, const char *text);
/* The same for a connection that broke. */
void submit_lost(struct submit *s);
/* Says what the service refused, and how many tasks are in; ends: with how to come to what was not
 * printed, as nothing goes on. Sets the exit status. */
void submit_refused(struct submit *s, const char *error, const json_t *parameters, bool ends);
/* Nothing goes on any more, for a reason that was said. */
void submit_end(struct submit *s, int status);

/* --- what comes of the tasks */

_must_check_ int collect_new(struct submit *s, bool ordered, struct collect **ret);
struct collect *collect_free(struct collect *c);
/* These tasks are to be fetched. Returns 0 or -ENOMEM. */
_must_check_ int collect_add(struct collect *c, int64_t first, size_t n);
/* How many have yet to be printed, and how many of the others did not succeed. */
size_t collect_left(const struct collect *c);
size_t collect_failed(const struct collect *c);
/* How many were printed and are not released yet. */
size_t collect_unreleased(const struct collect *c);
/* Whether so many are under way that no more should be submitted. */
bool collect_full(const struct collect *c);
/* Whether more will be released, and how often that has been done. */
bool collect_busy(const struct collect *c);
uint64_t collect_freed(const struct collect *c);
/* Goes on. */
void collect_pump(struct collect *c);

/* --- how it goes */

_must_check_ int watch_new(struct submit *s, struct watch **ret);
/* Whether it still looks for what is there before the first task: what is submitted before it has
 * seen that would count as somebody else's, or as done. It pumps when it has, or after a second. */
bool watch_begins(const struct watch *w);
/* Takes the line away, for good. */
struct watch *watch_free(struct watch *w);
/* Takes the line away until it is drawn again. */
void watch_clear(struct watch *w);
