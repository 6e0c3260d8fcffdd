/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/descriptors.h"

#include <limits.h>
#include <sys/resource.h>

enum { RESERVE_MOST = 128 };

int descriptors_for_all(void)
{
	struct rlimit l;
	int most;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > INT_MAX)
		return INT_MAX;
	most = (int)l.rlim_cur;
	return most - (most / 4 < RESERVE_MOST ? most / 4 : RESERVE_MOST);
}

bool descriptor_is_reserved(int fd)
{
	return fd >= descriptors_for_all();
}
