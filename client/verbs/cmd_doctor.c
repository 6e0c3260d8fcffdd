/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: reads the command line; the room client/doctor does the checks. */
#include "client/base/ctl.h"
#include "client/doctor/doctor.h"
#include "client/verbs/command_line.h"
#include "client/verbs/verbs.h"
#include "common/base/clock.h"
#include "common/spec/spec.h"

#include <signal.h>

/* How long doctor waits for other hosts, and for an elasticd that does not answer. */
enum { OTHERS_MS = 30000, DAEMON_MS = 5000 };

int cmd_doctor(struct ctl *ctl, struct args *args)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct launch launch = { 0 };
	struct error err = { 0 };
	int64_t wait_ms;
	int r;

	signal(SIGPIPE, SIG_DFL);
	r = command_line_read(ctl, args, COMMAND_DOCTOR, &launch);
	if (r != 0)
		return r < 0 ? 0 : r;
	wait_ms = ctl->timeout_ms < 0 ? OTHERS_MS : ctl->timeout_ms;
	ctl->timeout_ms = DAEMON_MS;
	ctl->deadline_ms = (int64_t)monotonic_ms() + DAEMON_MS;
	r = spec_parse(launch.spec, &spec, &err) < 0 ? ctl_error(ctl, CTL_USAGE, "%s", err.text)
						     : doctor_run(ctl, spec, wait_ms);
	launch_fini(&launch);
	return r;
}
