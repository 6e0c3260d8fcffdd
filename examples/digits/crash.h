/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A failure on request, which looks like a bug in a training program.
 */

#include <stdbool.h>

struct crash {
	int rank;   /* that fails; -1: none */
	int epoch;  /* when */
	int signal; /* how: 0 for exit status CRASH_STATUS, else dead by this signal */
};

#define CRASH_STATUS 17

/* Parses "exit", "abort" or "segv". */
bool crash_parse_how(const char *word, struct crash *c);

/* Fails where it is this rank's and this epoch's turn, in the first attempt only
 * (TORCHELASTIC_RESTART_COUNT is 0 or unset), after it has written the file that
 * TORCHELASTIC_ERROR_FILE names. Else returns. */
void crash_if_due(const struct crash *c, int rank, int epoch);
