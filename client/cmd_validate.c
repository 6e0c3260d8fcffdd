/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl.h"
#include "client/launch.h"
#include "client/verbs.h"
#include "common/spec.h"

#include <string.h>

/* Checks one file; what it says with all defaults is appended to all. */
static int validate(struct ctl *ctl, const char *path, json_t *all)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_json_ json_t *doc = NULL;
	const char *shown = !strcmp(path, "-") ? "standard input" : path;
	struct error err = { 0 };

	/* The loader's errors name the file themselves. */
	if (launch_load(path, &doc, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	if (spec_parse(doc, &spec, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s: %s", shown, err.text);
	json_array_append_new(all, spec_to_json(spec));
	ctl_say(ctl, "%s is valid", shown);
	return 0;
}

int cmd_validate(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *all = json_array();
	int result = 0;

	for (int i = 0; i < args->argc; i++)
		result |= validate(ctl, args->argv[i], all);
	if (ctl->json && json_array_size(all) > 0)
		ctl_print_json(args->argc == 1 ? json_array_get(all, 0) : all, false);
	return result;
}
