/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/daemon.h"

#include <stdio.h>
#include <stdlib.h>

static void on_error(void *arg, const char *text)
{
	fprintf(stderr, "%s\n", text);
	++*(int *)arg;
}

int daemon_check(const struct daemon_options *options)
{
	_cleanup_(paths_fini) struct paths paths = { 0 };
	_cleanup_(config_fini) struct config c = { 0 };
	struct error err = { 0 };
	int n = 0;
	int r = paths_init(&paths, paths_is_system(), &options->paths, &err);

	if (!r)
		r = config_load(
			&c, paths.config_file, options->config_required, on_error, &n, &err);
	if (r < 0 && !n) /* no error of a file */
		fprintf(stderr, "elasticd: %s\n", err.text);
	if (r < 0)
		return EXIT_FAILURE;
	printf("%s: no errors\n", paths.config_file);
	return EXIT_SUCCESS;
}
