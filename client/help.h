/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts that explain elasticctl, made from the table of verbs. */

#include "client/verbs.h"

#include <stdio.h>

/* Both return the exit status for having explained: 0. */
int help_all(FILE *f);
int help_verb(FILE *f, const struct verb *v);
