/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Completion scripts for shells, made from the table of verbs. The scripts ask
 * `elasticctl __complete KIND` for the names that only elasticd knows. Pure but for the stream.
 */

#include <stdio.h>

/* shell: bash, zsh or fish. Returns 0, or -EINVAL for another one. */
int completion_write(const char *shell, FILE *f);
