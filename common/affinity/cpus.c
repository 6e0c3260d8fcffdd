/* SPDX-License-Identifier: Apache-2.0 */
#include "common/affinity/cpus.h"

#include "common/text/ranks.h"

#include <errno.h>
#include <string.h>

void cpus_add(struct cpus *c, int cpu)
{
	if (cpu >= 0 && cpu < CPUS_MAX)
		CPU_SET_S((size_t)cpu, sizeof(c->sets), c->sets);
}

bool cpus_has(const struct cpus *c, int cpu)
{
	return cpu >= 0 && cpu < CPUS_MAX && CPU_ISSET_S((size_t)cpu, sizeof(c->sets), c->sets);
}

int cpus_count(const struct cpus *c)
{
	return CPU_COUNT_S(sizeof(c->sets), c->sets);
}

int cpus_allowed(struct cpus *ret)
{
	struct cpus c = { 0 };

	if (sched_getaffinity(0, sizeof(c.sets), c.sets) < 0)
		return -errno;
	*ret = c;
	return 0;
}

char *cpus_to_string(const struct cpus *c)
{
	struct ranks list = { 0 };
	char *text = NULL;
	int r = 0;

	for (int i = 0; i < CPUS_MAX && r == 0; i++)
		if (cpus_has(c, i))
			r = ranks_add(&list, i, i);
	if (r == 0)
		text = list.n_ranges ? ranks_to_string(&list) : strdup("");
	ranks_fini(&list);
	return text;
}
