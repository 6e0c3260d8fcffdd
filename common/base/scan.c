/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/scan.h"

#include <errno.h>
#include <stdbool.h>

int scan_u64(const char **p, uint64_t *ret_value)
{
	const char *s = *p;
	uint64_t value = 0;
	bool overflow = false;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		overflow |= __builtin_mul_overflow(value, 10, &value) ||
			    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value);
	*p = s;
	if (overflow)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

int scan_whole(const char *text, uint64_t max, uint64_t *ret_value)
{
	uint64_t value;
	int r = scan_u64(&text, &value);

	if (*text)
		return -EINVAL;
	if (r < 0)
		return r;
	if (value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}
