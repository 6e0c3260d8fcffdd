/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For each test a worker's handle, with the one connection that it keeps, and calls of workers. */

#include "tests/unit/fake_agent.h"

static struct elasticd *h;
static int fd;
static struct worker w;

static inline void setup(void)
{
	agent_start();
	h = handle_open(&fd);
}

static inline void teardown(void)
{
	elasticd_close(h);
	close_fd(fd);
	agent_stop();
}

static inline void gets(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", -1, &me->value, &me->n);
}

static inline void gets_for_a_minute(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", 60000, &me->value, &me->n);
}
