/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides from what a task showed until now whether it lives and gets on: pure. The agent samples
 * (board, log sizes, files) on its own timer and asks.
 *
 * Beats are looked at where there is a period: after the first one (or start_timeout without any) a
 * look at which they did not move for `timeout` is a miss; `failures` misses in a row are the end,
 * one beat resets. A look finds one miss at most, and the silence that one miss has counted is not
 * counted by the next. A wrong token is the end at once. Progress: steps, or bytes in the logs, or
 * lines that match log_pattern, or a file that changes; each has its own time limit, that of the
 * start until its first sign, and every one that is given must be kept.
 *
 * A look that comes late, by a period or more after heartbeat_next(), means that the agent itself
 * did not run (it was stopped, or the host was): the time by which it was late is not held against
 * the task. A task that was stopped with it has its rest of the time from then on.
 *
 * While the agent itself holds a task, under a debugger, nothing is looked at: heartbeat_hold().
 */

#include "common/spec.h"

#include <stdbool.h>
#include <stdint.h>

/* All counts are of this process of the task: 0 when it starts. */
struct heartbeat_sample {
	uint64_t token, expected; /* token 0: nobody has beaten yet; expected 0: not looked at */
	uint64_t beats, steps;
	uint64_t log_bytes;    /* of both streams */
	uint64_t log_matches;  /* lines that matched heartbeat.log_pattern */
	uint64_t file_changes; /* of heartbeat.progress_file */
};

enum heartbeat_what {
	HEARTBEAT_FINE,
	HEARTBEAT_MISSED, /* not the end yet: a warning, once for each miss */
	HEARTBEAT_BACK,	  /* it had missed, and beats again */
	HEARTBEAT_LOST,	  /* too many misses, or never began */
	HEARTBEAT_STALE,  /* another token than that of this incarnation */
	HEARTBEAT_STUCK,  /* lives, but makes no progress */
};

struct heartbeat_verdict {
	enum heartbeat_what what;
	char text[200]; /* "no beat for 30s (3 of 3)", "no step for 10m"; "" for FINE */
};

enum heartbeat_progress {
	HEARTBEAT_STEP,
	HEARTBEAT_LOG,
	HEARTBEAT_MATCH,
	HEARTBEAT_FILE,
	HEARTBEAT_N_PROGRESS,
};

/* Times are on the caller's clock. They move with the time that is not held against the task. */
struct heartbeat {
	const struct spec_heartbeat *spec;    /* borrowed */
	uint64_t beats;			      /* of the last look */
	uint64_t started_ms, look_ms, due_ms; /* due: when the next look must be */
	uint64_t beat_ms;		      /* of the last new beat */
	uint64_t silent_ms;		      /* since when silence is not yet counted as a miss */
	uint64_t held_ms;		      /* since when it is held */
	bool beaten, held;
	int misses;
	struct heartbeat_sign {
		uint64_t count, at_ms; /* of the last look; of the last sign, or the start */
		bool seen;
	} signs[HEARTBEAT_N_PROGRESS];
	bool over; /* told: LOST, STALE or STUCK; with on_failure report until its next sign (BACK)
		    */
};

/* Whether anything of it is wanted at all. */
bool heartbeat_wanted(const struct spec_heartbeat *spec);
/* A process of the task begins now. */
void heartbeat_start(struct heartbeat *h, const struct spec_heartbeat *spec, uint64_t now_ms);
/* After LOST, STALE or STUCK all is FINE. */
struct heartbeat_verdict heartbeat_look(
	struct heartbeat *h, const struct heartbeat_sample *sample, uint64_t now_ms);
/*
 * The agent holds the task, or another one that it may wait for: until it lets go all looks are
 * FINE, and none is due. The time between the two is not held against the task: what is left of the
 * limits of its start and its progress is left of them afterwards. The misses that were counted
 * stay, and silence counts anew, since a task that goes on has to come to its next beat first.
 * Holding what is held, and letting go of what is not, do nothing.
 */
void heartbeat_hold(struct heartbeat *h, uint64_t now_ms);
void heartbeat_let_go(struct heartbeat *h, uint64_t now_ms);
/* When it must be looked at again at the latest; UINT64_MAX: never. Where no period is given, an
 * eighth of the shortest limit, within 20 ms and 30 s, is one. */
uint64_t heartbeat_next(const struct heartbeat *h, uint64_t now_ms);
