/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by machine.c, machine_text.c, agree.c, orders.c and pace.c, and by no others. */

#include "agent/preempt/machine.h"

#include <sys/queue.h>

enum preempt_reading {
	PREEMPT_READ_NO,
	PREEMPT_READ_WANTED,
	PREEMPT_READ_OUT, /* READ was returned; preempt_read() has not been called */
};

/* News of the notice, as bits; the machine reports them in this order. */
enum preempt_news {
	PREEMPT_NEWS_NOTICE = 1 << 0,
	PREEMPT_NEWS_STEP = 1 << 1,	 /* a step is agreed */
	PREEMPT_NEWS_COUNTDOWN = 1 << 2, /* all have saved once */
	PREEMPT_NEWS_SHORT = 1 << 3,	 /* the first save turned out to be the last */
	PREEMPT_NEWS_SAVED = 1 << 4,	 /* all have saved for good */
};

/* A source may send notices without end, and each reported notice becomes an event: at most
 * PREEMPT_REPORTED_AGAIN are of known sources, the rest is for new sources. */
enum { PREEMPT_REPORTED_MAX = 16, PREEMPT_REPORTED_AGAIN = 8, PREEMPT_SHORTER_MS = 1000 };

struct preempt_worker {
	TAILQ_ENTRY(preempt_worker) question_link, due_link;
	int slot;
	unsigned counted; /* what preempt_count() has counted of it */
	char *name;
	bool running;
	bool has_question;
	int64_t question_step;
	uint64_t question_ms;

	/* of this notice */
	bool stepped;	 /* a participant */
	bool classified; /* was checked once: it is a participant, signalled or left alone */
	bool signalled;
	bool due;		      /* in p->due, with something to report: */
	bool signal_due;	      /* it must get the signal */
	bool report_due;	      /* it ended without having saved */
	enum preempt_meaning meaning; /* of its end */
	int64_t step;		      /* the last it began */
	uint64_t base_steps, base_ms; /* number of steps, and time, when it was first measured */
	int64_t base_step;	      /* ... and the last step that it had begun */
	bool based;
	uint64_t took_ms; /* time spent in its steps since then */
	uint64_t six_ms;  /* six of its steps; 0: not known */
	uint64_t advance; /* steps by which it has advanced in took_ms; 0: unknown */
	bool has_saved;
	int64_t saved_step; /* -1: none */
	int64_t saving_ms;  /* spent on saving, since base_ms */
	bool ordered_exit;  /* an answer asked it to exit */

	/* of this round */
	bool ordered; /* to save */
	bool saved;
	int64_t order_step;
	uint64_t order_ms;
};

TAILQ_HEAD(preempt_workers, preempt_worker);

struct preempt_counts {
	int running;
	int took_part; /* participants, including those that have ended */
	int saved;     /* ... of them */
	int living;    /* participants that run */
	int unsaved;   /* ... and have not saved */
	int signalled; /* run, are no participants, and got the signal */
	int silent;    /* run, and have reported no step so far */
};

struct preempt {
	const struct spec_preemption *spec;
	struct preempt_worker **workers; /* by slot; NULL: never seen */
	int n_workers;
	struct preempt_counts counts;	  /* of workers */
	struct preempt_workers questions; /* in the order of their questions */
	struct preempt_workers due;

	enum preempt_state state;
	char source[32], reason[256];
	int notices;
	int n_reported; /* reported notices, and their sources: */
	char reported[PREEMPT_REPORTED_MAX][32];
	uint64_t reported_limit_ms; /* limit_ms at the last reported notice */
	int64_t deadline_ms;	    /* SPEC_UNSET */
	uint64_t limit_ms;	    /* when the workers are stopped */
	uint64_t stop_ms;	    /* ... or so long after a failure */
	uint64_t since_ms;	    /* when the first notice came */
	char no_second[192]; /* why there is no second save, although time was planned for it; "" */
	bool announced;	     /* the notice is up, or about to be */
	bool again;	     /* the second round */
	bool final;	     /* the save of this round is the last */
	bool agreed;	     /* on the step of this round */
	int64_t step;	     /* agreed in this round or, until then, in the last; -1 */
	bool ordered;	     /* an answer asked a worker to save during this notice */
	bool await_read;     /* the machine orders no save before preempt_read() */
	int64_t save_at;     /* value on the board, now or soon */
	uint64_t longest_ms; /* the longest save of this notice */
	uint64_t check_ms;   /* when the margin is checked again */

	/* to be returned by preempt_next() */
	enum preempt_reading reading;
	bool read_again; /* something was published after READ was returned, so it must be repeated
			  */
	bool announce, publish, stop, clear;
	unsigned news;
	char why[256]; /* of stop */
};

/* NULL: slot was never seen. */
struct preempt_worker *preempt_find(const struct preempt *p, int slot);
/* True when a notice is up, and not over. */
bool preempt_is_up(const struct preempt *p);
/* Counts w as it is now. Call it after a change of running, stepped, saved or signalled: there may
 * be thousands of workers, and each asks. */
void preempt_count(struct preempt *p, struct preempt_worker *w);

/* agree.c: acts on the present state of the workers. fresh: after READ, with the board just read.
 */
void preempt_settle(struct preempt *p, uint64_t now_ms, bool fresh);
void preempt_want_read(struct preempt *p);
/* Puts w in the list of workers with something to report. The second also makes w get the signal.
 */
void preempt_due(struct preempt *p, struct preempt_worker *w);
void preempt_give_signal(struct preempt *p, struct preempt_worker *w);
void preempt_publish(struct preempt *p, int64_t save_at);
/* w has saved as an answer asked. */
void preempt_mark_saved(struct preempt *p, struct preempt_worker *w, uint64_t now_ms);
void preempt_over(struct preempt *p, const char *why);
/* A participant failed, or a notice leaves no time: the next save is the last. why: for people, the
 * reason why there is no second save. */
void preempt_hurry(struct preempt *p, uint64_t now_ms, const char *why);

/* pace.c */
/* Updates w's pace from the number of steps on the board. */
void preempt_measure(struct preempt *p, struct preempt_worker *w, uint64_t steps, uint64_t now_ms);
/* The last step that any participant has begun; INT64_MIN: there is none. */
int64_t preempt_front(const struct preempt *p);
/* The time left until the limit. */
uint64_t preempt_rest(const struct preempt *p, uint64_t now_ms);
/* The time that the last save needs, from each worker's own pace and lag: margin_ms with a reserve,
 * least_ms without. last: the slot of the worker that needs most; lag: the steps by which it is
 * behind. */
struct preempt_need {
	uint64_t margin_ms, least_ms, lag;
	int last;
};
struct preempt_need preempt_need(const struct preempt *p);
/* Sets when the need is measured again. */
void preempt_check_later(struct preempt *p, uint64_t now_ms);
/* A text that the time is short, and what takes so long. */
void preempt_short_text(const struct preempt *p, uint64_t now_ms, char *text, size_t size);

/* machine_text.c: text is cut to size. */
void preempt_news_text(const struct preempt *p, enum preempt_news what, char *text, size_t size);
void preempt_end_text(
	const struct preempt *p, const struct preempt_worker *w, char *text, size_t size);
