/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/signals.h"
#include "agent/process/guard.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"

#include <signal.h>
#include <stdio.h>

bool agent_forwards(const struct agent *a, int signo)
{
	for (const int *f = a->spec->stop.forward; f && *f; f++)
		if (*f == signo)
			return true;
	return false;
}

/* These end a job; any other one that is forwarded is the workers' own business. */
static bool signals_ends(int signo)
{
	return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

static void signals_on_end(struct agent *a, int signo)
{
	char name[SIGNALS_TEXT_MAX], why[96];

	snprintf(why, sizeof(why), "got %s", signals_name(signo, name));
	agent_stop_asked(a, signo, SPEC_UNSET, why);
}

/* Nobody is left to clean up after this process: leave at once, with everything. */
static void signals_guard_died(struct agent *a)
{
	if (a->guard_died)
		return;
	log_error("the guard process died: ending all workers");
	agent_settle(a);
	a->guard_died = true;
	a->unjudged = !agent_decided(a) && !a->opt.foreground;
	agent_stop_asked(a, SIGKILL, 0, "the guard process died");
	agent_stop_kill(a);
}

static void signals_on_signal(int signo, void *arg)
{
	struct agent *a = arg;
	char name[SIGNALS_TEXT_MAX];

	if (signo == SIGCHLD) {
		agent_reap(a);
	} else if (guard_gone()) {
		/* Its death can bring others with it: SIGHUP for a process group that nobody
		 * controls any more. */
		signals_guard_died(a);
	} else if (a->ended || signo == GUARD_DIED_SIGNAL) {
		/* Who wants its end does not wait for who reads its output. */
		if (a->ended && signals_ends(signo))
			logs_drain_end(a->logs);
	} else if (signo == SIGTSTP) {
		agent_stand_still(a);
	} else if (features_take_signal(a, signo)) {
		return;
	} else if (signals_ends(signo)) {
		signals_on_end(a, signo);
	} else if (agent_forwards(a, signo)) {
		int n = agent_signal_tasks(a, NULL, signo, a->spec->stop.whom, NULL);

		events_add(a->events, "forwarded", a->attempt, -1, NULL,
			"%s handed on to %d worker%s", signals_name(signo, name), n,
			n == 1 ? "" : "s");
	} else {
		log_info("%s is ignored: stop.forward does not name it", signals_name(signo, name));
	}
}

static int signals_add(struct agent *a, int signo)
{
	uint64_t bit = UINT64_C(1) << (signo - 1);
	int r = 0;

	if (a->watched & bit || a->n_signals == AGENT_SIGNALS)
		return 0;
	r = loop_signal_new(a->loop, signo, signals_on_signal, a, &a->signals[a->n_signals]);
	if (!r) {
		a->watched |= bit;
		a->n_signals++;
	}
	return r;
}

/* An ignored SIGHUP (nohup) stays so. */
static int signals_add_list(struct agent *a, const int *list)
{
	int r = 0;

	for (; list && *list && !r; list++)
		if (*list != SIGHUP)
			r = signals_add(a, *list);
	return r;
}

int agent_signals_init(struct agent *a, struct error *err)
{
	const int always[] = { SIGCHLD, GUARD_DIED_SIGNAL, SIGTERM, SIGINT, SIGQUIT, SIGUSR1,
		SIGUSR2 };
	struct sigaction hup;
	int r = 0;

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]) && !r; i++)
		r = signals_add(a, always[i]);
	/* Under nohup the hang-up is ignored, and stays so. */
	if (!r && !sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		r = signals_add(a, SIGHUP);
	/* Handed on by the guard of a shell's job. */
	if (!r && a->opt.foreground)
		r = signals_add(a, SIGTSTP);
	if (!r)
		r = signals_add_list(a, a->spec->stop.forward);
	if (!r && (a->spec->preemption.notices & SPEC_NOTICE_SIGNAL))
		r = signals_add_list(a, a->spec->preemption.signals);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return r < 0 ? error_set(err, r, "cannot watch signals") : 0;
}
