/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The text of Why: each decision about restarts with its time, and the counts behind it. Keeps the
 * newest decisions; the events have all of them. Decides nothing. Called by end_run.c and
 * apply_decision.c, which decide; by record.c; and by agent/api/methods.c and
 * agent/api/archived_run.c, which answer Why.
 */

#include "agent/supervise/supervisor.h"

/* Adds a decision, with the present time and attempt. text: which worker failed, how, and what
 * follows. */
void why_note(struct supervisor *sv, const char *text);
/* Replaces the text of the newest decision: another failure is the root cause. */
void why_correct(struct supervisor *sv, const char *text);
/* Adds the decision in an event of a lost agent. */
void why_replay(struct supervisor *sv, const json_t *event);
/* For the record; both borrow. */
json_t *why_save(const struct supervisor *sv); /* owned */
void why_load(struct supervisor *sv, const json_t *saved);

/* The whole text of Why. Owned, NULL without memory. */
char *why_text(const struct supervisor *sv);
/* The lines about workers that are started again alone, or "". Owned. */
char *why_workers_text(const struct supervisor *sv);
/* The text of Why for a run that has ended, from its state.json and Verdict (both borrowed, may be
 * NULL). Owned, NULL without memory. */
char *why_saved_text(const json_t *state, const json_t *verdict);
