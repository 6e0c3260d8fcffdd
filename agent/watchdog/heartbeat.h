/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides from a worker's signs of life whether it lives and makes progress. Pure: watchdog.c takes
 * samples (board, log sizes, files) on its own timer and passes them in.
 *
 * Beats are checked where a period is set. After the first beat (or after start_timeout without
 * any), a check at which the beats have not moved for `timeout` is a miss; `failures` misses in a
 * row are a failure, and one beat resets the count. A check finds at most one miss, and silence
 * counted by one miss is not counted again by the next. A wrong token is a failure at once.
 * Progress is: steps, bytes in the logs, lines that match log_pattern, or a file that changes. Each
 * kind has its own time limit (before its first sign, progress_start_timeout), and the worker must
 * keep all limits that are set.
 *
 * A check that comes a period or more after heartbeat_next() means that the agent itself did not
 * run (it was stopped, or the host was): that delay does not count against the worker, whose
 * remaining time is as it was before.
 *
 * While the agent's debuggers stop workers, nothing is checked: see heartbeat_pause().
 */

#include "common/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

/* All counts are of the worker's present process: 0 when it starts. */
struct heartbeat_sample {
	uint64_t token, expected; /* token 0: no beat yet; expected 0: do not compare */
	uint64_t beats, steps;
	uint64_t log_bytes;    /* of both streams */
	uint64_t log_matches;  /* lines that matched heartbeat.log_pattern */
	uint64_t file_changes; /* of heartbeat.progress_file */
};

enum heartbeat_finding {
	HEARTBEAT_FINE,
	HEARTBEAT_MISSED, /* not a failure yet: a warning, once for each miss */
	HEARTBEAT_BACK,	  /* it beats again after a miss */
	HEARTBEAT_LOST,	  /* too many misses, or never began */
	HEARTBEAT_STALE,  /* its token is not that of this attempt */
	HEARTBEAT_STUCK,  /* it beats, but makes no progress */
};

struct heartbeat_verdict {
	enum heartbeat_finding finding;
	uint64_t silent_ms; /* time since the last sign of life */
	char text[200];	    /* "no beat for 30s (3 of 3)", "no step for 10m"; "" for FINE */
};

enum heartbeat_progress {
	HEARTBEAT_STEP,
	HEARTBEAT_LOG,
	HEARTBEAT_MATCH,
	HEARTBEAT_FILE,
	HEARTBEAT_N_PROGRESS,
};

/* Times are on the caller's clock, moved forward by the time that does not count against the
 * worker. */
struct heartbeat {
	const struct spec_heartbeat *spec;	 /* borrowed */
	uint64_t beats;				 /* at the last check */
	uint64_t started_ms, checked_ms, due_ms; /* due: when the next check must be */
	uint64_t beat_ms;			 /* when the beats last moved */
	uint64_t silent_ms; /* start of the silence not yet counted as a miss */
	uint64_t paused_ms; /* when the pause began */
	bool beaten, paused;
	int misses;
	struct heartbeat_sign {
		uint64_t count, at_ms; /* at the last check; time of the last sign, or the start */
		bool seen;
	} signs[HEARTBEAT_N_PROGRESS];
	bool over; /* LOST, STALE or STUCK was returned. With on_failure "report" the next sign of
		      life ends this (BACK) */
};

/* True when the specification asks for any check. */
bool heartbeat_wanted(const struct spec_heartbeat *spec);
/* A process of the worker starts now. */
void heartbeat_start(struct heartbeat *h, const struct spec_heartbeat *spec, uint64_t now_ms);
/* After LOST, STALE or STUCK every check is FINE. */
struct heartbeat_verdict heartbeat_check(
	struct heartbeat *h, const struct heartbeat_sample *sample, uint64_t now_ms);
/*
 * The agent's debuggers stop this worker, or one that it may wait for: until heartbeat_resume()
 * every check is FINE, and none is due. The time in between does not count against the limits for
 * start and progress. Misses stay counted, but the silence begins again, since the worker must
 * first get to its next beat. A second call of either function changes nothing.
 */
void heartbeat_pause(struct heartbeat *h, uint64_t now_ms);
void heartbeat_resume(struct heartbeat *h, uint64_t now_ms);
/* The latest time for the next check; UINT64_MAX: never. Where no period is set, it is an eighth of
 * the shortest limit, between 20 ms and 30 s. */
uint64_t heartbeat_next(const struct heartbeat *h, uint64_t now_ms);
