/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files preempt*.c share. Nobody else looks here. */

#include "agent/preempt.h"

#include <sys/queue.h>

enum preempt_reading {
	PREEMPT_READ_NO,
	PREEMPT_READ_WANTED,
	PREEMPT_READ_OUT, /* READ was said, and preempt_read() has not come yet */
};

/* What is to be told of the notice, a bit each; said in this order. */
enum preempt_tell {
	PREEMPT_TELL_NOTICE = 1 << 0,
	PREEMPT_TELL_STEP = 1 << 1,	 /* a step is agreed */
	PREEMPT_TELL_COUNTDOWN = 1 << 2, /* all have saved once */
	PREEMPT_TELL_SHORT = 1 << 3,	 /* the first save turned out to be the last */
	PREEMPT_TELL_SAVED = 1 << 4,	 /* all have saved for good */
};

/* Who may give notice may do so without end, and each that is told is written down: as many are of
 * one, of which the last are for sources that have not been heard yet. */
enum { PREEMPT_TOLD_MAX = 16, PREEMPT_TOLD_AGAIN = 8, PREEMPT_SHORTER_MS = 1000 };

struct preempt_task {
	TAILQ_ENTRY(preempt_task) asking_link, due_link;
	int slot;
	char *name;
	bool running;
	bool asking;
	int64_t ask_step;
	uint64_t ask_ms;

	/* of this notice */
	bool stepped; /* a participant */
	bool placed;  /* it was looked at once: it is asked, signalled or left alone */
	bool signalled;
	bool due;		      /* in the list of those of whom something is to be said: */
	bool signal_due;	      /* that it gets the signal */
	bool tell_due;		      /* that it ended without having saved */
	enum preempt_meaning meaning; /* of its end */
	int64_t step;		      /* the last that it began */
	uint64_t base_steps, base_ms; /* how many there were when it was first looked at */
	int64_t base_step;	      /* ... and the last that it had begun */
	bool based;
	uint64_t took_ms; /* what its steps have taken since */
	uint64_t six_ms;  /* six of its steps; 0: not known */
	uint64_t advance; /* by how much it has come further in took_ms; 0: not known */
	bool has_saved;
	int64_t saved_step; /* -1: none */
	int64_t saving_ms;  /* spent on saving, since base_ms */
	bool told_exit;

	/* of this round */
	bool ordered; /* to save */
	bool saved;
	int64_t order_step;
	uint64_t order_ms;
};

TAILQ_HEAD(preempt_tasks, preempt_task);

struct preempt {
	const struct spec_preemption *spec;
	struct preempt_task **tasks; /* by slot; NULL: never seen */
	int n_tasks;
	struct preempt_tasks asking; /* in the order in which they asked */
	struct preempt_tasks due;

	enum preempt_state state;
	char source[32], reason[256];
	int notices;
	int n_told; /* of these, and of whom: */
	char told[PREEMPT_TOLD_MAX][32];
	uint64_t told_limit_ms; /* limit_ms when the last one was told */
	int64_t deadline_ms;	/* SPEC_UNSET */
	uint64_t limit_ms;	/* patience ends */
	uint64_t stop_ms;	/* ... so long after a failure */
	uint64_t since_ms;	/* when the first notice came */
	char once[192];		/* why there is no second save, though there was time; "" */
	bool announced;		/* ... or about to be */
	bool again;		/* the second round */
	bool final;
	bool agreed;
	int64_t step;	     /* agreed, of this round or, while it is not, of the last; -1 */
	bool ordered;	     /* somebody was told to save in this notice */
	bool hold;	     /* nobody is told to save before preempt_read() */
	int64_t save_at;     /* as the board has it, or is about to */
	uint64_t longest_ms; /* of the saves of this notice */
	uint64_t look_ms;    /* when the margin is looked at again */

	/* to be said by preempt_next() */
	enum preempt_reading reading;
	bool read_again; /* what was published since READ was said needs another */
	bool announce, publish, stop, clear;
	unsigned tell;
	char why[256]; /* of stop */
};

/* A notice is up, and not over. */
bool preempt_is_up(const struct preempt *p);

/* preempt_agree.c: looks whether anything follows from how things are. fresh: the board has just
 * been looked at, after READ. */
void preempt_settle(struct preempt *p, uint64_t now_ms, bool fresh);
void preempt_want_read(struct preempt *p);
/* Something is to be said of t, or t gets the signal. */
void preempt_due(struct preempt *p, struct preempt_task *t);
void preempt_give_signal(struct preempt *p, struct preempt_task *t);
void preempt_publish(struct preempt *p, int64_t save_at);
/* t has saved what it was told to. */
void preempt_mark_saved(struct preempt *p, struct preempt_task *t, uint64_t now_ms);
void preempt_over(struct preempt *p, const char *why);
/* A task that takes part failed, or a notice leaves no time: what is saved next is the last. why:
 * for people, where there is no second save then. */
void preempt_hurry(struct preempt *p, uint64_t now_ms, const char *why);

/* preempt_pace.c */
/* What the board says of t's steps. */
void preempt_measure(struct preempt *p, struct preempt_task *t, uint64_t steps, uint64_t now_ms);
/* What is left until the limit. */
uint64_t preempt_rest(const struct preempt *p, uint64_t now_ms);
/* What the last save needs, from each task's own pace and lag: margin_ms with a reserve, least_ms
 * without. last: the slot of the task that needs most, lag: by how many steps it is behind. */
struct preempt_need {
	uint64_t margin_ms, least_ms, lag;
	int last;
};
struct preempt_need preempt_need(const struct preempt *p);
/* When the need is to be measured again. */
void preempt_look_later(struct preempt *p, uint64_t now_ms);
/* That the time is short, with what takes it. */
void preempt_short_text(const struct preempt *p, uint64_t now_ms, char *text, size_t size);

/* preempt_text.c: text is cut to size. */
void preempt_tell_text(const struct preempt *p, enum preempt_tell what, char *text, size_t size);
void preempt_end_text(
	const struct preempt *p, const struct preempt_task *t, char *text, size_t size);
