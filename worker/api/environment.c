/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/api/environment.h"
#include "worker/base/failure.h"

#include <errno.h>
#include <stdlib.h>

const char *env_text(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

enum elasticd_status env_int(const char *name, int max, int *ret)
{
	const char *v = env_text(name);
	char *end;
	long n;

	if (!v)
		return ELASTICD_STATUS_OK;
	errno = 0;
	n = strtol(v, &end, 10);
	if (*end || errno || n < 0 || n > max)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected 0 to %d, got \"%.64s\"",
			name, max, v);
	*ret = (int)n;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status env_token(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (*text < '1' || *text > '9' || *end || errno)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_TOKEN: expected a number above 0, got \"%.64s\"", text);
	return ELASTICD_STATUS_OK;
}
