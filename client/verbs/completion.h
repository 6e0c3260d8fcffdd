/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes completion scripts for shells from the table of verbs. The scripts call `elasticctl
 * __complete KIND` for names that only elasticd knows. Pure but for the stream.
 */

#include <stdio.h>

/* shell: bash, zsh or fish. Returns 0, or -EINVAL for another one. */
int completion_write(const char *shell, FILE *f);
