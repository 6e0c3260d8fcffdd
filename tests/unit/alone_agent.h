/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The environment of a program by hand, with the agent of its build tree. */

#include "tests/unit/fake_agent.h"

static inline void alone_environment(void)
{
	char path[4096], agent[4200];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *end;

	ck_assert_int_gt(n, 0);
	path[n] = '\0';
	end = strstr(path, "/tests/unit/");
	ck_assert_ptr_nonnull(end);
	*end = '\0';
	snprintf(agent, sizeof(agent), "%s/elastic-agent", path);
	setenv("ELASTIC_AGENT", agent, 1);
	unsetenv("ELASTICD_WORKER_SOCKET");
	unsetenv("TORCHELASTIC_ERROR_FILE");
	unsetenv("ELASTICD_LOG_FILE");
	signals_default();
}
