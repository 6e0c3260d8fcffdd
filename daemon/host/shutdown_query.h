/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks systemd once whether the whole host goes down, so that elasticd knows why it is being
 * stopped. Asks systemd directly as root, else over the system bus. No answer within seconds counts
 * as "no".
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>

struct shutdown_query;

/* Runs once, from the loop. May free the query. */
typedef void (*shutdown_query_fn)(void *arg, bool down);

_must_check_ int shutdown_query_ask(
	struct loop *loop, shutdown_query_fn fn, void *arg, struct shutdown_query **ret);
/* Drops the query. */
struct shutdown_query *shutdown_query_free(struct shutdown_query *g);
