/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/signals.h"
#include "agent/process/guard.h"
#include "agent/process/spawn.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/log.h"

#include <signal.h>
#include <stdio.h>

bool signals_forwarded(const struct supervisor *sv, int signo)
{
	for (const int *f = sv->spec->stop.forward; f && *f; f++)
		if (*f == signo)
			return true;
	return false;
}

/* Whether signo ends the job; other forwarded signals only go to the workers. */
static bool signals_ends(int signo)
{
	return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

static void signals_on_end(struct supervisor *sv, int signo)
{
	char name[SIGNALS_TEXT_MAX], why[96];

	snprintf(why, sizeof(why), "got %s", signals_name(signo, name));
	end_run_stop_asked(sv, signo, SPEC_UNSET, why);
}

/* Without the guard nothing cleans up after the agent: ends all workers at once. */
static void signals_guard_died(struct supervisor *sv)
{
	if (sv->guard_died)
		return;
	log_error("the guard process died: ending all workers");
	supervisor_settle(sv);
	sv->guard_died = true;
	sv->no_verdict = !supervisor_decided(sv) && !sv->opt.foreground;
	end_run_stop_asked(sv, SIGKILL, 0, "the guard process died");
	stop_group_kill(sv);
}

static void signals_on_signal(int signo, void *arg)
{
	struct supervisor *sv = arg;
	char name[SIGNALS_TEXT_MAX];

	if (signo == SIGCHLD) {
		reap_children(sv);
	} else if (guard_gone()) {
		/* The guard's death can cause this signal: the kernel sends SIGHUP to a process
		 * group that is orphaned by it. */
		signals_guard_died(sv);
	} else if (sv->ended || signo == GUARD_DIED_SIGNAL) {
		/* After the end of the job a signal ends the wait for a slow reader of the output,
		 * and for programs such as hooks. */
		if (sv->ended && signals_ends(signo)) {
			logs_drain_end(sv->logs);
			FEATURES_CALL(sv, hurry, sv);
		}
	} else if (signo == SIGTSTP && sv->spec->rendezvous.nodes_max <= 1) {
		suspend_job(sv);
	} else if (FEATURES_ANY(sv, takes_signal, sv, signo)) {
		return;
	} else if (signals_ends(signo)) {
		signals_on_end(sv, signo);
	} else if (signals_forwarded(sv, signo)) {
		int n = signal_workers(sv, NULL, signo, sv->spec->stop.whom, NULL);

		supervisor_event(sv, "forwarded", -1, NULL, "%s handed on to %d worker%s",
			signals_name(signo, name), n, n == 1 ? "" : "s");
	} else {
		log_info("%s is ignored: stop.forward does not name it", signals_name(signo, name));
	}
}

static int signals_add(struct supervisor *sv, int signo)
{
	if (sv->signals[signo])
		return 0;
	return loop_signal_new(sv->loop, signo, signals_on_signal, sv, &sv->signals[signo]);
}

/* Leaves out SIGHUP, which signals_init() adds unless it is ignored. */
static int signals_add_list(struct supervisor *sv, const int *list)
{
	int r = 0;

	for (; list && *list && !r; list++)
		if (*list != SIGHUP)
			r = signals_add(sv, *list);
	return r;
}

int signals_init(struct supervisor *sv, struct error *err)
{
	const int always[] = { SIGCHLD, GUARD_DIED_SIGNAL, SIGTERM, SIGINT, SIGQUIT, SIGUSR1,
		SIGUSR2 };
	struct sigaction hup;
	int r = 0;

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]) && !r; i++)
		r = signals_add(sv, always[i]);
	/* Under nohup SIGHUP is ignored, and stays ignored. */
	if (!r && !sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		r = signals_add(sv, SIGHUP);
	/* The guard of a shell's job passes it on. */
	if (!r && sv->opt.foreground)
		r = signals_add(sv, SIGTSTP);
	if (!r)
		r = signals_add_list(sv, sv->spec->stop.forward);
	if (!r && (sv->spec->preemption.notices & SPEC_NOTICE_SIGNAL))
		r = signals_add_list(sv, sv->spec->preemption.signals);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	spawn_note_ignored();
	return r < 0 ? error_set(err, r, "cannot watch signals") : 0;
}
