/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Signals by name and number, and their state in a new process. */

#include "common/base/error.h"

enum { SIGNALS_TEXT_MAX = 24 };

/*
 * Reads "TERM", "SIGTERM" (any case), "15", "RTMIN+3" or "RTMAX-1". Returns the number, or -EINVAL.
 */
int signals_from_string(const char *text);

/* The same with an error that names field (NULL: nothing does). Returns 0 or -EINVAL. */
int signals_parse(const char *text, const char *field, int *ret_signo, struct error *err)
	__attribute__((warn_unused_result));

/* "TERM", "RTMIN+3", or the number where it has no name. Returns buf. */
const char *signals_short(int signo, char buf[SIGNALS_TEXT_MAX]);

/* "SIGTERM", "SIGRTMIN+3", or "signal 33". Returns buf. */
const char *signals_name(int signo, char buf[SIGNALS_TEXT_MAX]);

/* Call it in a child after fork(): no signal is handled, ignored or blocked any more. */
void signals_reset(void);
