/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an agent says before it ends without having judged its run: kept in the run's record, so
 * that elasticd and the next agent can tell why it was lost. Where no other agent could do better,
 * it is the run's verdict, and there is none. Called by main.c, by the guard and by who resumes.
 */

#include <stdbool.h>

/* Whether an agent that cannot begin because of code (a negative errno) would fail again: anything
 * but what another process or a later moment may change. Pure. */
bool last_error_stays(int code);

/* An agent cannot begin, and ends: text says why. state_dir: the run's record; NULL: nothing is
 * kept.
 */
void last_error_end(const char *state_dir, int code, const char *text);

/* Keeps text for who follows. */
void last_error_save(const char *state_dir, const char *text);

/* Gives what the agent before has left, and removes it. Owned; NULL: nothing. */
char *last_error_take(const char *state_dir);
