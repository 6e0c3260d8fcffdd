/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/api/environment.h"
#include "worker/base/failure.h"

#include "common/base/scan.h"

#include <stdlib.h>

const char *env_text(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

enum elasticd_status env_int(const char *name, int max, int *ret)
{
	const char *v = env_text(name);
	uint64_t n;

	if (!v)
		return ELASTICD_STATUS_OK;
	if (scan_whole(v, (uint64_t)max, &n) < 0)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected 0 to %d, got \"%.64s\"",
			name, max, v);
	*ret = (int)n;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status env_token(const char *text, uint64_t *ret)
{
	if (*text == '0' || scan_whole(text, UINT64_MAX, ret) < 0)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_TOKEN: expected a number above 0, got \"%.64s\"", text);
	return ELASTICD_STATUS_OK;
}
