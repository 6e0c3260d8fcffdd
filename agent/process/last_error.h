/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last message of an agent that ends without a verdict of its run. It is kept in the run's
 * record, so that elasticd and the next agent can tell why the agent was lost. Called by
 * agent/main.c, by the guard and by elasticd when it resumes a run.
 */

/* Notes that an agent cannot begin because of code (a negative errno) and ends; text says why. It
 * becomes the verdict unless another process or a later try may cure code. state_dir: the run's
 * record; NULL: keeps nothing. */
void last_error_cannot_begin(const char *state_dir, int code, const char *text);

/* Keeps text for the next agent. */
void last_error_save(const char *state_dir, const char *text);

/* Returns the text that the agent before has left, and removes it. Owned; NULL: none. */
char *last_error_take(const char *state_dir);
