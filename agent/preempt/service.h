/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's part around machine.h: takes notices from all sources, keeps the notice on the board,
 * signals and answers workers, and ends the job as preempted. private.h lists the files.
 */

#include "agent/preempt/machine.h"
#include "agent/supervise/feature.h"

struct preempting_notice {
	const char *source;  /* of NOTICE_SOURCES */
	const char *reason;  /* for people, or NULL */
	int64_t grace_ms;    /* SPEC_UNSET: not given */
	int64_t deadline_us; /* real time, from a platform; SPEC_UNSET: not given */
};

extern const struct feature preempt_feature;

/* 0, or -ESHUTDOWN with err when the job is ending anyway. */
_must_check_ int preempting_notice(
	struct supervisor *sv, const struct preempting_notice *n, struct error *err);
