/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Repairs standard input, output and error of a program that was started without them: the next
 * files that it opens would take these numbers, and be read, written and inherited by mistake.
 * main() calls it before it opens anything else.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>

/*
 * Opens /dev/null in place of those of 0, 1 and 2 that are closed. With reveal_stdout, writes to 1
 * then fail (EBADF), so that the user learns that output is lost, and programs that are executed
 * find 1 closed, as we did. Returns 0 or a negative errno.
 */
_must_check_ int stdfds_open(bool reveal_stdout);

/* Call it in a child before it executes a program of the user's: opens /dev/null for the program
 * also where stdfds_open() left 1 closed for it. Async-signal-safe. */
void stdfds_inherit(void);
