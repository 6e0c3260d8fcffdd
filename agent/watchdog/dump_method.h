/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The Dump call of io.elasticd.Manager: dumps the given workers and answers with the directories.
 */

#include "common/varlink/server.h"

/* arg: the struct supervisor. */
int dump_method(struct varlink_call *call, json_t *p, void *arg);
