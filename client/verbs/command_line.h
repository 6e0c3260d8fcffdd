/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line of the verbs that take torchrun's flags. */

#include "client/launch/launch.h"

struct ctl;

enum command_line_of { COMMAND_RUN, COMMAND_START, COMMAND_DOCTOR };

/* Parses the verb's command line into ret and sets ctl up. Returns 0, an exit status, or -1 if
 * nothing is left to do (help, a dry run). */
_must_check_ int command_line_read(
	struct ctl *ctl, struct args *args, enum command_line_of of, struct launch *ret);
