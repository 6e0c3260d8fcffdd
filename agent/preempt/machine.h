/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the workers of a job answer a notice of preemption: they agree on a step, save there once
 * (with a grace period a second time, shortly before its end), and leave. Pure: no clock, no board,
 * no process; the caller reports what happened and does what preempt_next() says, until that is
 * NOTHING. Times are the caller's monotonic milliseconds. Called by service.c alone.
 *
 * A participant is a worker that reports its steps. The agreed step is one more than the last step
 * that any participant had begun once all of them could see the notice (READ says when to look), so
 * no participant has passed it. A participant that asks at that step or later saves; none
 * waits for another, and a worker that ends is left out. Workers that are no participants are
 * signalled or left alone, as `how` says. A worker that starts, or reports its first step, while a
 * notice is up is treated like the others.
 *
 * The first save is also the last without grace, when a participant fails, when another notice
 * leaves no time, or when too little time is left: less than two margins before the first order to
 * save, one margin while some have not saved, half a margin when the last one has saved. A margin
 * is six steps of the slowest participant, at its pace since the notice, plus twice the longest
 * save. After the first save it is longer, because participants need not go at one pace, and each
 * must still get to a step that the fastest has not begun: the time for that, at its own pace, is
 * its lag, which counts five quarters. The last step is agreed on when only the margin is left.
 * Without a second save, the machine orders participants that have saved to leave, and
 * preempt_no_second_text() says why.
 *
 * After a failure, participants that have not saved have at most stop.timeout: they may be waiting
 * for the one that failed.
 *
 * When no participant is left, workers that were left alone are stopped; workers that were
 * signalled have until the limit (the deadline with grace, else timeout_ms after the notice).
 */

#include "common/base/cleanup.h"
#include "common/spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREEMPT_STATES(X)                                                          \
	X(NONE, "none")		  /* no notice */                                  \
	X(AGREEING, "agreeing")	  /* no step is agreed yet */                      \
	X(SAVING, "saving")	  /* a step is agreed; not all have saved */       \
	X(COUNTDOWN, "countdown") /* all have saved once, and go on for a while */ \
	X(LEAVING, "leaving")	  /* all have saved for good; not all have left */ \
	X(OVER, "over")		  /* no worker is left, or they are being stopped */

enum preempt_state {
#define X(name, text) PREEMPT_##name,
	PREEMPT_STATES(X)
#undef X
		PREEMPT_N_STATES
};

/* How a worker's process ended, as far as it matters here. */
enum preempt_end {
	PREEMPT_END_DONE,   /* with code 0 */
	PREEMPT_END_LEFT,   /* with exit_code */
	PREEMPT_END_SIGNAL, /* by the signal that it got, or with 128 + signal */
	PREEMPT_END_OTHER,
};

/* The meaning of that end. */
enum preempt_meaning {
	PREEMPT_SUCCEEDED, /* its own work was done */
	PREEMPT_LEFT,	   /* it left because of the notice: no failure */
	PREEMPT_FAILED,
};

enum preempt_what {
	PREEMPT_NOTHING,
	PREEMPT_ANNOUNCE, /* put the notice up, with save_at INT64_MIN; READ may follow */
	PREEMPT_READ,	 /* make all workers see what is published, then call preempt_read(), now or
			    later; until then preempt_due_ms() is UINT64_MAX */
	PREEMPT_PUBLISH, /* set save_at to `step` (INT64_MAX: nothing to save until further notice;
			    INT64_MIN: all workers ask, for the next round) */
	PREEMPT_ANSWER,	 /* answer `worker`'s question with `order`, at `step` */
	PREEMPT_SIGNAL,	 /* send preemption.signal to `worker` */
	PREEMPT_REPORT,	 /* make an event of `text`; worker -1: of the group */
	PREEMPT_STOP, /* stop the workers that still run, as preempted; text says why (limit, or all
			 have left). Comes even when none runs: the caller then decides by how they
			 ended */
	PREEMPT_CLEAR, /* take the notice down: preempt_cancel() */
};

enum preempt_order { PREEMPT_CONTINUE, PREEMPT_SAVE, PREEMPT_SAVE_EXIT, PREEMPT_EXIT };

struct preempt_do {
	enum preempt_what what;
	int worker;
	enum preempt_order order;
	int64_t step;
	const char *event; /* of REPORT: its name, "notice", "agreed", "countdown",
			    * "no-second-save", "all-saved" or (of a worker) "not-saved" */
	char text[256];
};

/* One worker, by its slot. */
struct preempt_sample {
	int slot;
	bool stepped;	/* its present process has reported steps */
	bool connected; /* ... or at least connected to the agent */
	int64_t step;	/* the last it began */
	uint64_t steps; /* number of steps */
};

struct preempt_notice {
	uint64_t now_ms;
	int64_t deadline_ms; /* caller's clock; SPEC_UNSET: unknown */
	const char *source, *reason;
};

struct preempt;

/* spec is borrowed: how, timeout_ms. stop_ms: stop.timeout. NULL without memory. */
struct preempt *preempt_new(const struct spec_preemption *spec, uint64_t stop_ms);
struct preempt *preempt_free(struct preempt *p);

/* A worker's process began; may come at any time. 0 or -ENOMEM. name is copied. */
_must_check_ int preempt_started(struct preempt *p, int slot, const char *name);
/* The board's data of one worker. Call it just before preempt_ended(), so that the last step is
 * known. */
void preempt_add_sample(struct preempt *p, const struct preempt_sample *s, uint64_t now_ms);
/* A worker's process ended. Returns what that means while a notice is up. Without a notice it is
 * SUCCEEDED for DONE and FAILED for the rest, and the caller decides by other rules. */
enum preempt_meaning preempt_ended(
	struct preempt *p, int slot, enum preempt_end how, uint64_t now_ms);

/* A notice. A second one may shorten the time. A notice is reported (REPORT) when it is the first,
 * leaves less time, or comes from a new source; at most 16 are reported, the others only counted.
 * grace: the workers go on until the deadline (two saves) instead of leaving at once. Without a
 * known deadline in the future there is no grace. */
void preempt_notice(struct preempt *p, const struct preempt_notice *n, bool grace);
/* The board's data of all running workers: for READ, and when preempt_due_ms() has come. */
void preempt_read(struct preempt *p, const struct preempt_sample *s, size_t n, uint64_t now_ms);
/* A worker begins step, and so has done what the last answer asked for. An ANSWER follows, at once
 * unless a step is being agreed on or READ has not come back. A newer question of the same worker
 * replaces one that waits. Questions of a slot that does not run are ignored. */
void preempt_add_question(struct preempt *p, int slot, int64_t step, uint64_t now_ms);
/* Drops the worker's question. */
void preempt_drop_question(struct preempt *p, int slot);
/* The worker has saved at the step where it asked: 0, or 1 if that was known. -ERANGE if no
 * answer asked it to save there. */
_must_check_ int preempt_saved(struct preempt *p, int slot, int64_t step, uint64_t now_ms);
/* When preempt_read() must be called without READ; UINT64_MAX: not at all. */
uint64_t preempt_due_ms(const struct preempt *p);
/* The job is stopped for another reason: workers that wait go on, and the notice is over. */
void preempt_cancel(struct preempt *p);

/* The next thing to do, in order; NOTHING when all is done. ret is the caller's. */
enum preempt_what preempt_next(struct preempt *p, struct preempt_do *ret);

/* For people. */
struct preempt_view {
	enum preempt_state state;
	bool final;
	int64_t step;	     /* agreed; -1: not yet */
	int64_t deadline_ms; /* SPEC_UNSET */
	int participants;    /* so far, including those that have ended */
	int saved;	     /* participants that have saved in this round */
	int notices;
};
struct preempt_view preempt_view(const struct preempt *p);
const char *preempt_state_name(enum preempt_state s);
/* The last step that slot saved during this notice, -1: none. */
int64_t preempt_saved_step(const struct preempt *p, int slot);
/* Why there is no second save although one was planned: borrowed; "" otherwise. */
const char *preempt_no_second_text(const struct preempt *p);
/* The workers that have not saved as agreed or not left on the signal, and why: "worker:3 did not
 * reach step 41 (its last was 37)", joined by "; ", cut to size; "" when there are none. Workers
 * that succeeded without an order are not named. */
void preempt_missing(const struct preempt *p, char *text, size_t size);
