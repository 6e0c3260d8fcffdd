/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/slurm.h"
#include "common/base/cleanup.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Slurm's lists. A list that can be read has a size that fits and a first host, and counts one more
 * where a host is added; any other list leaves the results alone. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hosts(const char *list)
{
	_cleanup_free_ char *longer = NULL;
	char first[256] = "untouched", again[256];
	int n = -7, more;

	if (slurm_hosts(list, &n, first) < 0) {
		if (n != -7 || strcmp(first, "untouched") != 0)
			abort();
		return;
	}
	if (n < 1 || n > SPEC_NODES_MAX || !*first || strlen(first) >= sizeof(first) ||
		strpbrk(first, "[],() \n"))
		abort();
	if (asprintf(&longer, "%s,x[1]", list) < 0)
		abort();
	if (slurm_hosts(longer, &more, again) < 0) {
		if (n != SPEC_NODES_MAX)
			abort();
		return;
	}
	if (more != n + 1 || strcmp(first, again) != 0)
		abort();
}

static void check_tasks(const char *text)
{
	_cleanup_free_ char *longer = NULL;
	int most = -7, more;

	if (slurm_tasks(text, &most) < 0) {
		if (most != -7)
			abort();
		return;
	}
	if (most < 1 || asprintf(&longer, "%s,1(x2)", text) < 0)
		abort();
	if (slurm_tasks(longer, &more) < 0 || more != most)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	check_hosts(text);
	check_tasks(text);
	return 0;
}
