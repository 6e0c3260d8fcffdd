/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A set of CPUs, in the form in which sched_setaffinity() takes it. */

#include "common/base/cleanup.h"

#include <sched.h>
#include <stdbool.h>

enum { CPUS_MAX = 8192 };

struct cpus {
	cpu_set_t sets[CPUS_MAX / CPU_SETSIZE];
};

void cpus_add(struct cpus *c, int cpu); /* one of CPUS_MAX or more is left out */
bool cpus_has(const struct cpus *c, int cpu);
int cpus_count(const struct cpus *c);

/* The CPUs that this process may use. 0, or a negative errno. */
_must_check_ int cpus_allowed(struct cpus *ret);

/* "0-7,64-71", "" for none; owned, NULL without memory. */
char *cpus_to_string(const struct cpus *c);
