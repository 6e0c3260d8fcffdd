/* SPDX-License-Identifier: Apache-2.0 */
/* leave and drain: hosts of a group that leave it on purpose. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <string.h>

int cmd_leave(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *job = NULL;
	const char *name = args->argv[0];
	int64_t began_us = ctl_now_us();
	int r = ctl_call(ctl, "Leave", ctl_job(name), NULL);

	if (r != 0)
		return r;
	if (args_has(args, "no-wait")) {
		ctl_say(ctl, "%s is leaving its group", name);
		return 0;
	}
	r = job_wait_end(ctl, name, name, "has left its group", began_us, &job);
	if (r == 0 && ctl->json)
		ctl_print_json(job, false);
	return r;
}

int cmd_drain(struct ctl *ctl, struct args *args)
{
	const char *name = args->argv[0], *host = args->argv[1];
	bool undo = args_has(args, "undo");
	json_t *p;
	int r;

	p = ctl_with(ctl_job(name), "host", json_string(host));
	r = ctl_call(ctl, "Drain", undo ? ctl_with(p, "undo", json_true()) : p, NULL);
	if (r == 0 && undo)
		ctl_say(ctl, "%s is let back into the group of %s", host, name);
	else if (r == 0)
		ctl_say(ctl, "%s is leaving the group of %s", host, name);
	return r;
}
