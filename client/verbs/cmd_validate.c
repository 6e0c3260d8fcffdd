/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/ctl.h"
#include "client/launch/job_file.h"
#include "client/verbs/verbs.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <string.h>

/* Checks one file and appends the specification with all defaults to all. */
static int validate(struct ctl *ctl, const char *path, json_t *all)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_(job_file_fini) struct job_file file = { 0 };
	const char *shown = !strcmp(path, "-") ? "standard input" : path;
	int r = job_file_load(path, JOB_FILE_WHOLE, &file);

	if (r == -EBADMSG)
		return ctl_job_file(ctl, file.problems);
	if (r < 0 || spec_parse(file.doc, &spec, NULL) < 0)
		return ctl_error(ctl, CTL_FAILED, "%s: out of memory", shown);
	json_array_append_new(all, spec_to_json(spec));
	ctl_say(ctl, "%s is valid", shown);
	return 0;
}

int cmd_validate(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *all = json_array();
	int result = 0;

	for (int i = 0; i < args->argc; i++) {
		int r = validate(ctl, args->argv[i], all);

		result = result ? result : r;
	}
	if (ctl->json && json_array_size(all) > 0)
		ctl_print_json(args->argc == 1 ? json_array_get(all, 0) : all, false);
	return result;
}
