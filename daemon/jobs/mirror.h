/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last known Job object of a run, as ready text: a Status call costs one copy, and a hundred
 * jobs little memory. The agent's Job objects are not trusted: puts in the identity from the
 * record, and refuses an object that is not a Job. Pure.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/spec/spec.h"
#include "common/text/ranks.h"
#include "daemon/jobs/record.h"

#include <jansson.h>
#include <stdbool.h>

/* As in the interface file; the coarse class is what lists and waits ask for. */
#define MIRROR_STATES(X)                   \
	X(PENDING, "pending", false)       \
	X(RENDEZVOUS, "rendezvous", false) \
	X(STARTING, "starting", false)     \
	X(RUNNING, "running", false)       \
	X(STOPPING, "stopping", false)     \
	X(BACKOFF, "backoff", false)       \
	X(SUCCEEDED, "succeeded", true)    \
	X(FAILED, "failed", true)          \
	X(STOPPED, "stopped", true)        \
	X(PREEMPTED, "preempted", true)

#define MIRROR_ENUM(id, text, ended) MIRROR_##id,
enum mirror_state { MIRROR_STATES(MIRROR_ENUM) MIRROR_N };

struct mirror {
	enum mirror_state state;
	bool ready; /* it runs, and its agent says that it is ready, or does not know of that */
	bool has_verdict;
	bool several;	   /* its group has several hosts, of which the agent knows more */
	int64_t silent_us; /* when the oldest unanswered call to the agent was made; 0: none */
	char *silent_why;  /* what was found to be the obstacle; NULL: nothing */
	int64_t ended_us, log_bytes; /* the Job's, 0 where it has none */
	char *text;		     /* {"job": Job} */
	size_t text_len;
	char *brief; /* Job without workers, traceback and stderr, for lists; NULL after
		      * mirror_drop()
		      */
};

void mirror_fini(struct mirror *m);

/* The job before its agent has reported. spec may be NULL: not known. */
_must_check_ int mirror_initial(
	struct mirror *m, const struct job_record *r, const struct spec *spec, struct error *err);

/* Takes over what was brief once (borrowed): there is no text. -EBADMSG with err if it is none. */
_must_check_ int mirror_restore(
	struct mirror *m, const struct job_record *r, json_t *brief, struct error *err);

/* Takes over a Job object (borrowed, changed). On failure m is as before: -EBADMSG with err. */
_must_check_ int mirror_set(
	struct mirror *m, const struct job_record *r, json_t *job, struct error *err);

/* Puts in a reason that elasticd itself found, until the next mirror_set(). */
_must_check_ int mirror_reason(
	struct mirror *m, const struct job_record *r, const char *reason, struct error *err);

/* Puts in since when the agent is silent (0: it answers), and the obstacle (or NULL); mirror_set()
 * keeps both. */
_must_check_ int mirror_silent(struct mirror *m, const struct job_record *r, int64_t since_us,
	const char *why, struct error *err);
/* Ends the silence, from the next mirror_set() on. */
void mirror_heard(struct mirror *m);

/* Checks a Job object that does not come from a mirror (borrowed, changed), and puts in the
 * identity from r. -EBADMSG with err. */
_must_check_ int mirror_check(const struct job_record *r, json_t *job, struct error *err);

/* The most events that one answer of an agent has. */
enum { MIRROR_EVENTS_MAX = 1000 };

/* As mirror_check(), for an array of Events (borrowed, changed): drops what is not an Event, and
 * those beyond MIRROR_EVENTS_MAX. */
void mirror_check_events(const struct job_record *r, json_t *events);

/* Puts in the verdict (borrowed) and what follows from it: the state, and the end of workers
 * without one. Changes nothing if the agent reported the same verdict, with more details of the
 * end. */
_must_check_ int mirror_finish(struct mirror *m, const struct job_record *r, const json_t *verdict,
	int64_t now_us, struct error *err);

/* Makes brief a few kilobytes at most: that of a run that is over stays in memory, and in its
 * record.
 */
void mirror_shorten(struct mirror *m);

/* Frees text; brief and state stay. */
void mirror_drop(struct mirror *m);

/* The same for a living run: text is brief's until the next mirror_set(). */
_must_check_ int mirror_cut(struct mirror *m);

/* The Job object of text, parsed. Returns owned or NULL (no memory, or dropped). */
json_t *mirror_job(const struct mirror *m);
/* The same with only these workers. */
json_t *mirror_job_of(const struct mirror *m, const struct ranks *only);

const char *mirror_state_name(enum mirror_state state);
bool mirror_state_ended(enum mirror_state state);
