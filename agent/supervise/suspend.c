/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/guard.h"
#include "agent/process/process_tree.h"
#include "agent/supervise/private.h"

#include <errno.h>
#include <signal.h>

/* Waits until the guard goes on or is dead. In the second case raises the signal of its death
 * again, for the loop. */
static void suspend_wait_for_guard(const sigset_t *wanted)
{
	int signo = 0;

	if (guard_gone())
		return;
	guard_suspended();
	while (signo <= 0)
		signo = sigwaitinfo(wanted, NULL);
	if (signo == GUARD_DIED_SIGNAL)
		raise(signo);
}

void suspend_job(struct supervisor *sv)
{
	uint64_t before = loop_now_ms(), stood;
	sigset_t wanted;

	supervisor_settle(sv);
	supervisor_event(sv, "suspended", -1, NULL, "the job stands still");
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCONT);
	sigaddset(&wanted, GUARD_DIED_SIGNAL);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	tree_stop();
	suspend_wait_for_guard(&wanted);
	sigprocmask(SIG_UNBLOCK, &wanted, NULL);
	stood = loop_now_ms() - before;
	loop_stood_still(stood);
	(void)tree_signal(NULL, SIGCONT);
	supervisor_event(
		sv, "resumed", -1, NULL, "the job goes on after %.3f s", (double)stood / 1000);
	supervisor_changed(sv);
}
