/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/command_line.h"

#include "client/base/ctl.h"
#include "client/base/verb.h"
#include "client/verbs/help.h"
#include "client/verbs/verbs.h"

#include <errno.h>
#include <string.h>

static int on_option(
	void *arg, const struct arg_option *option, const char *value, struct error *err)
{
	struct args *args = arg;

	args_set(args, option, value);
	return !strcmp(option->name, "help");
}

int command_line_read(
	struct ctl *ctl, struct args *args, enum command_line_of of, struct launch *ret)
{
	struct launch_from from = { .foreground = of != COMMAND_START,
		.hosts_only = of == COMMAND_DOCTOR,
		.tables = { ctl->verb->options, global_options },
		.option = on_option,
		.arg = args };
	struct error err = { 0 };
	int r;

	/* Options before the verb keep their values. */
	args->options[0] = ctl->verb->options;
	args->options[1] = global_options;
	r = launch_parse(args->argc, args->argv, &from, ret, &err);
	if (r == 1) {
		help_verb(stdout, ctl->verb);
		return -1;
	}
	if (r == -EBADMSG) {
		r = ctl_job_file(ctl, ret->problems);
		launch_fini(ret);
		return r;
	}
	if (r == -EINVAL)
		return ctl_usage(ctl, "%s", err.text);
	if (r < 0)
		return ctl_error(ctl, of == COMMAND_RUN ? CTL_FAILED : CTL_REFUSED, "%s", err.text);
	r = ctl_init(ctl, args);
	for (char **w = ret->warnings; r == 0 && w && *w; w++)
		ctl_error(ctl, 0, "warning: %s", *w);
	if (r == 0 && ret->dry_run) {
		ctl_print_json(ret->spec, false);
		r = -1;
	}
	if (r != 0)
		launch_fini(ret);
	return r;
}
