/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides from what a task showed until now whether it lives and gets on: pure. The agent samples
 * (board, log sizes, files) on its own timer and asks.
 *
 * Beats: after the first beat (or start_timeout without any) a sample in which beats did not move
 * for `timeout` is a miss; `failures` misses in a row are the end, one beat resets. A wrong token is
 * the end at once. Progress: steps, or lines in the log, or a line that matches log_pattern, or a
 * file that changes; each has its own time limit, that of the start until its first sign.
 */

#include "common/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct heartbeat_sample {
	uint64_t token, expected; /* token 0: nobody has beaten yet */
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
	char text[200]; /* "no beat for 30.0 s (3 of 3)", "no step for 600 s" */
};

struct heartbeat {
	const struct spec_heartbeat *spec; /* borrowed */
	struct heartbeat_sample last;
	uint64_t started_ms, beat_ms; /* when it started; of the last new beat or counted miss */
	uint64_t step_ms, log_ms, match_ms, file_ms;
	bool beaten, stepped, logged, matched, filed;
	int misses;
	bool over; /* told once */
};

/* Whether anything of it is wanted at all. */
bool heartbeat_wanted(const struct spec_heartbeat *spec);
void heartbeat_start(struct heartbeat *h, const struct spec_heartbeat *spec, uint64_t now_ms);
struct heartbeat_verdict heartbeat_look(
	struct heartbeat *h, const struct heartbeat_sample *sample, uint64_t now_ms);
/* When it should be looked at again at the latest; UINT64_MAX: never. */
uint64_t heartbeat_next(const struct heartbeat *h, uint64_t now_ms);
