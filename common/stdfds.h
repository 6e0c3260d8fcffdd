/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standard input, output and error of a program that was started without some of them: the next
 * descriptors that it opens would take their places, and be read, written and inherited as these.
 * Called by main(), before anything else opens a descriptor.
 */

#include "common/cleanup.h"

#include <stdbool.h>

/*
 * Opens /dev/null in the place of those of 0, 1 and 2 that are closed. With tell, nothing can be
 * written to 1 then (EBADF), so that whoever asked for output that nobody gets is told; a program
 * that is executed finds 1 closed, as we did. Returns 0 or a negative errno.
 */
_must_check_ int stdfds_open(bool tell);

/* In a child that is about to execute a program of the user's: what stdfds_open() left closed for
 * it is /dev/null, too. Async-signal-safe. */
void stdfds_inherit(void);
