/* SPDX-License-Identifier: Apache-2.0 */
/* leave and drain: hosts of a group that leave it on purpose. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <string.h>

static int left(struct ctl *ctl, const char *name, int64_t began_us)
{
	_cleanup_json_ json_t *job = NULL;
	_cleanup_free_ char *verdict = NULL;
	char took[TIME_TEXT_MAX];
	int r = job_wait(ctl, name, NULL, NULL, &job);

	if (r != 0)
		return r;
	verdict = job_verdict_text(job);
	time_text_since(ctl_now_us(), began_us, took);
	if (ctl->json)
		ctl_print_json(job, false);
	else if (job_in(job, "stopped"))
		ctl_say(ctl, "%s has left its group after %s", name, took);
	else
		ctl_say(ctl, "%s ended after %s: %s", name, took, verdict ? verdict : "?");
	return 0;
}

int cmd_leave(struct ctl *ctl, struct args *args)
{
	const char *name = args->argv[0];
	int64_t began_us = ctl_now_us();
	int r = ctl_call(ctl, "Leave", ctl_job(name), NULL);

	if (r != 0)
		return r;
	if (!args_has(args, "no-wait"))
		return left(ctl, name, began_us);
	ctl_say(ctl, "%s is leaving its group", name);
	return 0;
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
