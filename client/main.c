/* SPDX-License-Identifier: Apache-2.0 */
/* elasticctl: options that all verbs share, then the verb. */
#include "client/base/ctl.h"
#include "client/output/pager.h"
#include "client/output/screen.h"
#include "client/verbs/dispatch.h"
#include "client/verbs/help.h"
#include "client/verbs/verbs.h"
#include "common/base/stdfds.h"

int main(int argc, char **argv)
{
	struct ctl ctl = { .legend = true };
	struct args args = { 0 };
	struct error err = { 0 };
	int status;

	if (stdfds_open(true) < 0)
		return CTL_FAILED;
	screen_begin();
	if (args_parse(&args, NULL, global_options, argc, argv, true, &err) < 0)
		status = ctl_usage(&ctl, "%s", err.text);
	else if (args_has(&args, "version"))
		status = printf("elasticctl %s\n", VERSION) < 0;
	else if (args_has(&args, "help"))
		status = help_all(stdout);
	else if (args.argc == 0)
		status = (help_all(stderr), CTL_USAGE);
	else
		status = dispatch(&ctl, &args, verbs);
	status = ctl_flush(&ctl, status);
	pager_end();
	ctl_fini(&ctl);
	return status;
}
