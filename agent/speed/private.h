/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by speed.c (figures) and watch.c (looks by a timer). */

#include "agent/speed/goodput.h"
#include "agent/speed/speed.h"
#include "agent/speed/step_window.h"
#include "agent/speed/straggler.h"
#include "agent/watchdog/progress.h"

/* How far a process is. */
struct speed_steps {
	uint64_t count;	     /* steps that it has begun; 0: none is known */
	int64_t last, first; /* their numbers; -1: not known */
	int64_t first_us;    /* when the first began; 0: not known */
};

/* The present process in one slot, or the last one. */
struct speed_worker {
	uint64_t token;
	bool ended;
	struct progress *progress; /* of its logs; NULL: they are not followed */
	struct speed_steps logged; /* as found there */
	struct speed_steps at_end;
	struct step_window window;
	struct straggler straggler;
	bool together; /* at the last comparison: its role's workers wait for each other */
};

struct speed {
	struct supervisor *sv;
	struct goodput *goodput;
	struct speed_worker **workers; /* by slot; NULL: never looked at. Entries never move */
	size_t n;
	struct loop_timer *timer;
	regex_t pattern;
	bool has_pattern;
	unsigned looks;
	int *apart; /* by role: the last attempt in which its workers were seen to be further from
		       each other than one step; -1: none */
};

struct speed *speed_of(const struct supervisor *sv);
/* The entry for w's present process, made where there is none. NULL without memory or slot. */
struct speed_worker *speed_entry(struct speed *sp, const struct worker *w);
/* How far w is. Returns whether any step is known. */
bool speed_read(struct speed *sp, const struct worker *w, struct speed_steps *ret);
/* "makes 2.1 steps/s, 40% slower than the others"; "" for a worker that is not slow. */
void speed_slow_text(const struct speed *sp, const struct speed_worker *s, char *text, size_t size);

/* Whether the specification asks for looks by the timer. */
bool speed_watches(const struct supervisor *sv);
_must_check_ int speed_watch_new(struct speed *sp, struct error *err);
void speed_watch_free(struct speed *sp);
void speed_watch_started(struct speed *sp, struct worker *w);
/* Its process has ended: reads what it wrote last. */
void speed_watch_ended(struct speed *sp, const struct worker *w, struct speed_worker *s);
