/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints help, made from the table of verbs. */

#include "client/verbs/verbs.h"

#include <stdio.h>

/* Both print, and return the exit status 0. */
int help_all(FILE *f);
int help_verb(FILE *f, const struct verb *v);
