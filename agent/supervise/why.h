/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why: what was decided about restarts, worker by worker and with its time, and the arithmetic
 * behind it, in words. Keeps the newest decisions; the events have all of them. Decides nothing
 * itself. Called by end_run.c and apply_decision.c, by who answers Why (agent/api/methods.c,
 * agent/api/archived_run.c) and by record.c.
 */

#include "agent/supervise/supervisor.h"

/* Enters a decision, with the present time and attempt. text: who, how, and what follows. */
void why_note(struct supervisor *sv, const char *text);
/* The newest decision turned out to be about another failure. */
void why_correct(struct supervisor *sv, const char *text);
/* Enters the decision that an event of a lost agent tells of. */
void why_replay(struct supervisor *sv, const json_t *event);
/* For the record; both borrow. */
json_t *why_save(const struct supervisor *sv); /* owned */
void why_load(struct supervisor *sv, const json_t *saved);

/* The whole text of Why. Owned, NULL without memory. */
char *why_text(const struct supervisor *sv);
/* Of workers that are started again by themselves, or "". Owned. */
char *why_workers_text(const struct supervisor *sv);
/* The same of a run that has ended, from its state.json and Verdict (both borrowed, may be NULL).
 * Owned, NULL without memory. */
char *why_saved_text(const json_t *state, const json_t *verdict);
