/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the tasks of a job answer a notice of preemption: agree on a step, save there once (with a
 * grace period once more, before its end), leave. Pure: no clock, no board, no process; the caller
 * tells what happened and does what preempt_next() says, until that is NOTHING. Times are the
 * caller's monotonic milliseconds. Called by preempting.c alone.
 *
 * A participant is a task that tells its steps. The step agreed is one more than the last that any
 * participant had begun once all of them could see the notice (READ says when to look), so nobody
 * has passed it. Whoever asks at that step or behind it saves; nobody waits for another task, and a
 * task that ends is taken out. Tasks that are no participants are signalled or left alone, as `how`
 * says; who starts or steps for the first time while a notice is up is treated as if it had before.
 *
 * The first save is the last one too without grace, where a participant fails, where another notice
 * leaves no time, or where the rest of the time is too short: less than two margins before the
 * first order, one margin where some have not saved by then, half a margin when the last one has. A
 * margin is six steps of the slowest participant, as long as they took since the notice, and twice
 * the longest save. Once all have saved it is more: participants need not go at one pace, and each
 * has to come to a step that the first of them has not begun. What that takes it by its own pace is
 * its lag, which counts with a quarter more. The last step is agreed on when the margin is all that
 * is left. Who has saved already is told to leave where there is no second save, and
 * preempt_once_text() says why.
 *
 * After a failure those that have not saved have stop.timeout at most: they may wait for the one
 * that failed.
 *
 * When no participant is left, those that were left alone are stopped; those that were signalled
 * have until the limit (the deadline with grace, else timeout_ms after the notice).
 */

#include "common/cleanup.h"
#include "common/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREEMPT_STATES(X)                                                          \
	X(NONE, "none")		  /* no notice */                                  \
	X(AGREEING, "agreeing")	  /* no step is agreed yet */                      \
	X(SAVING, "saving")	  /* it is; not all have saved */                  \
	X(COUNTDOWN, "countdown") /* all have saved once, and go on for a while */ \
	X(LEAVING, "leaving")	  /* all have saved for good; not all have left */ \
	X(OVER, "over")		  /* nothing is left of the tasks, or they are being stopped */

enum preempt_state {
#define X(name, text) PREEMPT_##name,
	PREEMPT_STATES(X)
#undef X
		PREEMPT_N_STATES
};

/* How a task's process came to its end, as far as it matters here. */
enum preempt_end {
	PREEMPT_END_DONE,   /* with code 0 */
	PREEMPT_END_LEFT,   /* with exit_code */
	PREEMPT_END_SIGNAL, /* by the signal that it was sent, or as if: 128 + signal */
	PREEMPT_END_OTHER,
};

/* What that end means. */
enum preempt_meaning {
	PREEMPT_SUCCEEDED, /* its own work was done */
	PREEMPT_LEFT,	   /* it left on the notice: not to be blamed */
	PREEMPT_FAILED,
};

enum preempt_what {
	PREEMPT_NOTHING,
	PREEMPT_ANNOUNCE, /* the notice goes up, save_at becomes INT64_MIN; READ may follow */
	PREEMPT_READ, /* make all workers see what has been published, then call preempt_read(), now
		       * or later; preempt_due_ms() is silent until then */
	PREEMPT_PUBLISH, /* save_at becomes `step` (INT64_MAX: nothing to save until further notice;
			  * INT64_MIN: all are to ask, for the next round) */
	PREEMPT_ANSWER,	 /* `task` asked: tell it `order`, at `step` */
	PREEMPT_SIGNAL,	 /* `task` gets preemption.signal */
	PREEMPT_TELL,	 /* `text` becomes an event; task -1: of the group */
	PREEMPT_STOP,  /* stop what is left, as preempted: text says why (limit, or all have left).
			* Also  where nothing is left: how the tasks ended is for the caller to judge
			*/
	PREEMPT_CLEAR, /* the notice comes down: preempt_cancel() */
};

enum preempt_order { PREEMPT_CONTINUE, PREEMPT_SAVE, PREEMPT_SAVE_EXIT, PREEMPT_EXIT };

struct preempt_do {
	enum preempt_what what;
	int task;
	enum preempt_order order;
	int64_t step;
	const char *event; /* of TELL: its name, "notice", "agreed", "countdown", "no-second-save",
			    * "all-saved" or (of a task) "not-saved" */
	char text[256];
};

/* Of one task, by its slot. */
struct preempt_sample {
	int slot;
	bool stepped;	/* its present process has told steps */
	bool connected; /* ... or spoke to the agent at least */
	int64_t step;	/* the last begun */
	uint64_t steps; /* how many */
};

struct preempt_notice {
	uint64_t now_ms;
	int64_t deadline_ms; /* caller's clock; SPEC_UNSET: none is known */
	const char *source, *reason;
};

struct preempt;

/* spec is borrowed: how, timeout_ms. stop_ms: of stop.timeout. NULL without memory. */
struct preempt *preempt_new(const struct spec_preemption *spec, uint64_t stop_ms);
struct preempt *preempt_free(struct preempt *p);
DEFINE_CLEANUP(struct preempt *, preempt_free)

/* A task's process began; any time. 0 or -ENOMEM. name is copied. */
_must_check_ int preempt_started(struct preempt *p, int slot, const char *name);
/* What the board says of one task; to be told just before its end, so that its last step is known.
 */
void preempt_last(struct preempt *p, const struct preempt_sample *s, uint64_t now_ms);
/* ... ended. Says what that means while a notice is up (else SUCCEEDED for DONE, FAILED for the
 * rest: the caller knows better then). */
enum preempt_meaning preempt_ended(
	struct preempt *p, int slot, enum preempt_end how, uint64_t now_ms);

/* A notice; another one while one is up may shorten the time. It is told (TELL) where it is the
 * first, leaves less time, or is of a source that was not heard before; not more than 16 are, and
 * the others are counted. grace: whether the tasks go on until the deadline (two saves), or leave
 * at once; they do the latter where no deadline is known or it has passed. */
void preempt_notice(struct preempt *p, const struct preempt_notice *n, bool grace);
/* What the board says, all tasks that run: for READ, and when preempt_due_ms() has come. */
void preempt_read(struct preempt *p, const struct preempt_sample *s, size_t n, uint64_t now_ms);
/* A task begins step (after what it was told by the last answer, which it has then done). An ANSWER
 * follows, at once where it need not wait: only while a step is being agreed on, or READ has not
 * come back. It asks once at a time: a newer question takes the place of one that waits. Of a slot
 * that does not run nothing is heard. */
void preempt_ask(struct preempt *p, int slot, int64_t step, uint64_t now_ms);
/* Its question is withdrawn. */
void preempt_forget(struct preempt *p, int slot);
/* It has saved at the step where it asked: 0, or 1 where that was known. -ERANGE where it was not
 * told to. */
_must_check_ int preempt_saved(struct preempt *p, int slot, int64_t step, uint64_t now_ms);
/* When preempt_read() is wanted without READ; UINT64_MAX: not by itself. */
uint64_t preempt_due_ms(const struct preempt *p);
/* The job is stopped for another reason. Who waits is told to go on, and nothing is left of the
 * notice. */
void preempt_cancel(struct preempt *p);

/* The next thing to do, in order; NOTHING at last. ret is the caller's. */
enum preempt_what preempt_next(struct preempt *p, struct preempt_do *ret);

/* For people. */
struct preempt_view {
	enum preempt_state state;
	bool final;
	int64_t step;	     /* agreed; -1: not yet */
	int64_t deadline_ms; /* SPEC_UNSET */
	int participants;    /* so far, with those that have ended */
	int saved;	     /* of these, in this round */
	int notices;
};
struct preempt_view preempt_view(const struct preempt *p);
const char *preempt_state_name(enum preempt_state s);
/* The last step where slot saved in this notice, -1: none. */
int64_t preempt_saved_step(const struct preempt *p, int slot);
/* Why there is no second save, where there was to be one: borrowed; "". */
const char *preempt_once_text(const struct preempt *p);
/* Who has not saved as agreed or not left on the signal, and why, "worker:3 did not reach step 41
 * (its last was 37)", joined by "; ", cut to size; "" where all have. Who succeeded without an
 * order is not named. */
void preempt_missing(const struct preempt *p, char *text, size_t size);
