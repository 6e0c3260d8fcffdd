/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/leftovers.h"
#include "agent/preempting.h"
#include "agent/workers.h"
#include "common/log.h"
#include "common/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/*
 * One task by itself, while the group runs: its stop (dump signal, stop signal, deadline, SIGKILL),
 * then the end of what its process left behind, then perhaps its next start, at once or after a
 * while. Each step has a time at which it is due; one timer of the agent has the next of them, and
 * is not armed when nothing is. The group's own stop overrides all of it.
 */

enum single_phase {
	SINGLE_IDLE,
	SINGLE_WAITING,	 /* to be started */
	SINGLE_DUMPING,	 /* got the dump signal */
	SINGLE_STOPPING, /* got the stop signal */
	SINGLE_KILLING,	 /* got SIGKILL */
	SINGLE_CLEANING, /* its process is gone; what that left behind got the stop signal */
	SINGLE_SWEEPING, /* ... and SIGKILL */
};

enum { SINGLE_LOOK_MS = 1 }; /* until what is amid an execve() can be told */

struct task_private {
	enum single_phase phase;
	uint64_t due_ms;      /* when there is something to do */
	uint64_t limit_ms;    /* when the time for what was left behind is over */
	uint64_t deadline_ms; /* of the whole stop */
	bool start;	      /* it is to be started, not before start_ms */
	uint64_t start_ms;
	char **command, **env; /* in place of the role's, or NULL */
};

static void single_argv_free(char **argv)
{
	for (size_t i = 0; argv && argv[i]; i++)
		free(argv[i]);
	free(argv);
}

void agent_single_free(struct task *t)
{
	if (!t->private)
		return;
	single_argv_free(t->private->command);
	single_argv_free(t->private->env);
	free(t->private);
	t->private = NULL;
}

static struct task_private *single_get(struct task *t)
{
	if (!t->private)
		t->private = calloc(1, sizeof(*t->private));
	return t->private;
}

static enum single_phase single_phase(const struct task *t)
{
	return t->private ? t->private->phase : SINGLE_IDLE;
}

bool agent_single_at_rest(const struct task *t)
{
	enum single_phase phase = single_phase(t);

	return !task_alive(t) && (phase == SINGLE_IDLE || phase == SINGLE_WAITING);
}

int agent_single_command(struct task *t, char **command, char **env)
{
	struct task_private *p = single_get(t);

	if (!p) {
		single_argv_free(command);
		single_argv_free(env);
		return -ENOMEM;
	}
	single_argv_free(p->command);
	single_argv_free(p->env);
	p->command = command;
	p->env = env;
	return 0;
}

char *const *agent_single_argv(const struct task *t)
{
	return t->private ? t->private->command : NULL;
}

char *const *agent_single_env(const struct task *t)
{
	return t->private ? t->private->env : NULL;
}

/* Every task of the incarnation had its first start. */
static bool single_all_launched(const struct agent *a)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].state == TASK_WAITING && !a->tasks[i].launched &&
			!a->tasks[i].extra)
			return false;
	return true;
}

static void single_rearm(struct agent *a)
{
	uint64_t next = UINT64_MAX, now = loop_now_ms();

	for (int i = 0; i < a->n_tasks; i++)
		if (single_phase(&a->tasks[i]) != SINGLE_IDLE && a->tasks[i].private->due_ms < next)
			next = a->tasks[i].private->due_ms;
	/* The last of those that were waited for was started, or called off, by a person. */
	if (a->group.state == GROUP_STARTING && single_all_launched(a))
		next = now;
	if (next == UINT64_MAX)
		loop_timer_disarm(a->task_timer);
	else
		loop_timer_arm(a->task_timer, next > now ? next - now : 0);
}

static void single_phase_set(
	struct agent *a, struct task *t, enum single_phase phase, uint64_t due_ms)
{
	t->private->phase = phase;
	t->private->due_ms = due_ms;
	single_rearm(a);
}

bool agent_single_starts(const struct task *t)
{
	return t->private && t->private->start;
}

/* --- starting --- */

static int single_launch(struct agent *a, struct task *t)
{
	bool again = t->launched;
	int r;

	single_phase_set(a, t, SINGLE_IDLE, 0);
	t->private->start = false;
	/* Before: its environment tells the task. */
	if (again)
		t->restarts++;
	r = agent_launch(a, t);
	if (!r)
		events_add(a->events, again ? "task-restarted" : "task-started", a->attempt,
			t->rank, task_json(t), "%s was started%s, pid %d", agent_task_name(t),
			again ? " again" : "", (int)t->pid);
	single_rearm(a);
	return r;
}

int agent_single_start_now(struct agent *a, struct task *t)
{
	agent_single_start_in(a, t, 0);
	return single_phase(t) == SINGLE_WAITING ? single_launch(a, t) : 0;
}

/* Nothing of the process before is there any more. */
static void single_settle(struct agent *a, struct task *t)
{
	struct task_private *p = t->private;

	if (p->start)
		single_phase_set(a, t, SINGLE_WAITING, p->start_ms);
	else
		single_phase_set(a, t, SINGLE_IDLE, 0);
	if (t->on_purpose && t->state == TASK_STOPPED)
		events_add(a->events, "task-stopped", a->attempt, t->rank, task_json(t),
			"%s was stopped", agent_task_name(t));
}

/* Signals what is left; settles where nothing is. */
static void single_look(struct agent *a, struct task *t, int signo)
{
	struct task_private *p = t->private;
	bool unsure;
	int n = leftovers_signal(a, t, signo, &unsure);

	if (n <= 0 && !unsure)
		single_settle(a, t);
	else
		single_phase_set(
			a, t, p->phase, unsure ? loop_now_ms() + SINGLE_LOOK_MS : p->limit_ms);
}

static void single_sweep(struct agent *a, struct task *t)
{
	t->private->phase = SINGLE_SWEEPING;
	t->private->limit_ms = loop_now_ms() + AGENT_GIVE_UP_MS;
	single_look(a, t, SIGKILL);
}

/* Its process has ended: what is left of it is next. */
static void single_clean(struct agent *a, struct task *t)
{
	struct task_private *p = t->private;
	uint64_t now = loop_now_ms();

	if (p->phase == SINGLE_KILLING || a->spec->stop.whom == SPEC_WHOM_MAIN) {
		single_sweep(a, t);
		return;
	}
	p->phase = SINGLE_CLEANING;
	p->limit_ms = now + AGENT_LEFTOVER_MS;
	if (a->spec->stop.timeout_ms < AGENT_LEFTOVER_MS)
		p->limit_ms = now + (uint64_t)a->spec->stop.timeout_ms;
	if (p->deadline_ms > now && p->deadline_ms < p->limit_ms)
		p->limit_ms = p->deadline_ms;
	single_look(a, t, a->spec->stop.signal);
	if (p->phase == SINGLE_CLEANING)
		events_add(a->events, "leftovers", a->attempt, t->rank, NULL,
			"processes that %s had started outlived it", agent_task_name(t));
}

void agent_single_start_in(struct agent *a, struct task *t, uint64_t delay_ms)
{
	struct task_private *p = single_get(t);

	if (!p) {
		log_error("out of memory: %s is not started again", agent_task_name(t));
		task_set_state(t, TASK_FAILED, "out of memory");
		t->spent = true;
		return;
	}
	p->start = true;
	p->start_ms = loop_now_ms() + delay_ms;
	t->next_start_us = (int64_t)(loop_real_us() + delay_ms * 1000);
	if (task_alive(t)) /* its end comes first */
		return;
	task_set_state(t, TASK_WAITING, t->exit.ended ? t->exit.text : "its start is delayed");
	if (p->phase == SINGLE_CLEANING || p->phase == SINGLE_SWEEPING)
		return;
	if (t->exit.ended && p->phase != SINGLE_WAITING)
		single_clean(a, t);
	else
		single_phase_set(a, t, SINGLE_WAITING, p->start_ms);
}

void agent_single_call_off(struct agent *a, struct task *t, const char *why)
{
	struct task_private *p = t->private;

	if (p)
		p->start = false;
	t->next_start_us = 0;
	if (t->state == TASK_WAITING)
		task_set_state(t, TASK_STOPPED, why);
	if (p && p->phase == SINGLE_WAITING)
		single_phase_set(a, t, SINGLE_IDLE, 0);
}

/* --- ending --- */

static void single_kill(struct agent *a, struct task *t)
{
	log_warning("%s did not end in time: SIGKILL", agent_task_name(t));
	events_add(a->events, "killed", a->attempt, t->rank, NULL,
		"%s did not end in time and gets SIGKILL", agent_task_name(t));
	(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_ALL);
	(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_GROUP);
	single_phase_set(a, t, SINGLE_KILLING, loop_now_ms() + AGENT_GIVE_UP_MS);
}

/* The stop signal, and the rest of the time for it. */
static void single_send(struct agent *a, struct task *t)
{
	enum spec_whom whom = a->spec->stop.whom;
	uint64_t deadline = t->private->deadline_ms;

	(void)agent_signal_task(a, t, a->spec->stop.signal, whom);
	(void)agent_signal_task(a, t, SIGCONT, whom);
	if (deadline <= loop_now_ms())
		single_kill(a, t);
	else
		single_phase_set(a, t, SINGLE_STOPPING, deadline);
}

void agent_single_end(struct agent *a, struct task *t, uint64_t timeout_ms, bool dump)
{
	struct task_private *p = single_get(t);
	uint64_t now = loop_now_ms();
	uint64_t dump_ms = timeout_ms / 2 < AGENT_DUMP_MS ? timeout_ms / 2 : AGENT_DUMP_MS;
	bool again;

	if (!p) {
		(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_GROUP);
		return;
	}
	if (!t->stop_signal)
		t->stop_signal = a->spec->stop.signal;
	again = p->phase == SINGLE_DUMPING || p->phase == SINGLE_STOPPING;
	if (p->phase == SINGLE_KILLING)
		return;
	/* Who asks a second time can only hasten it. */
	if (!again || now + timeout_ms < p->deadline_ms)
		p->deadline_ms = now + timeout_ms;
	if (again) {
		if (p->phase == SINGLE_STOPPING || p->due_ms > p->deadline_ms)
			single_phase_set(a, t, p->phase, p->deadline_ms);
		return;
	}
	task_set_state(
		t, TASK_STOPPING, t->blame[0] && !t->on_purpose ? t->blame : "stopped on request");
	if (!dump || !a->spec->stop.dump_signal) {
		single_send(a, t);
		return;
	}
	(void)agent_signal_task(a, t, a->spec->stop.dump_signal, SPEC_WHOM_MAIN);
	single_phase_set(a, t, SINGLE_DUMPING, now + dump_ms);
}

static void single_stuck(struct agent *a, struct task *t)
{
	bool blamed = !t->on_purpose;

	log_error("%s (pid %d) does not die of SIGKILL; it is given up", agent_task_name(t),
		(int)t->pid);
	events_add(a->events, "stuck", a->attempt, t->rank, NULL,
		"%s (pid %d) does not die of SIGKILL; it is given up", agent_task_name(t),
		(int)t->pid);
	/* It still holds its devices: nothing can take its place. */
	t->private->start = false;
	workers_task_ending(a);
	agent_task_ended(a, t, CLD_KILLED, SIGKILL);
	single_phase_set(a, t, SINGLE_IDLE, 0);
	if (blamed && !preempting_is_up(a)) {
		t->spent = true;
		agent_set_reason(a, "%s does not die of SIGKILL", agent_task_name(t));
		agent_post(a, GROUP_EV_FAIL);
		agent_settle(a); /* before its end is judged as any other */
	}
}

/* --- time --- */

static void single_due(struct agent *a, struct task *t)
{
	switch (t->private->phase) {
	case SINGLE_IDLE:
		break;
	case SINGLE_WAITING:
		(void)single_launch(a, t);
		break;
	case SINGLE_DUMPING:
		single_send(a, t);
		break;
	case SINGLE_STOPPING:
		single_kill(a, t);
		break;
	case SINGLE_KILLING:
		single_stuck(a, t);
		break;
	case SINGLE_CLEANING:
		if (loop_now_ms() < t->private->limit_ms)
			single_look(a, t, 0);
		else
			single_sweep(a, t);
		break;
	case SINGLE_SWEEPING:
		if (loop_now_ms() < t->private->limit_ms) {
			single_look(a, t, SIGKILL);
			break;
		}
		log_error("what %s left behind does not die of SIGKILL", agent_task_name(t));
		events_add(a->events, "stuck", a->attempt, t->rank, NULL,
			"what %s left behind does not die of SIGKILL", agent_task_name(t));
		single_settle(a, t);
		break;
	}
}

static bool single_active(const struct agent *a)
{
	return a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING;
}

void agent_single_expired(void *arg)
{
	struct agent *a = arg;

	agent_settle(a);
	leftovers_begin(a);
	for (int i = 0; i < a->n_tasks && single_active(a); i++) {
		struct task *t = &a->tasks[i];

		if (single_phase(t) != SINGLE_IDLE && t->private->due_ms <= loop_now_ms())
			single_due(a, t);
	}
	leftovers_end(a);
	agent_ends_seen(a);
	agent_settle(a);
	if (a->group.state == GROUP_STARTING && single_all_launched(a)) {
		agent_post(a, GROUP_EV_STARTED);
		agent_settle(a);
	}
	if (single_active(a))
		single_rearm(a);
	agent_changed(a);
}

static void single_progress(struct agent *a, struct task *t)
{
	switch (t->private->phase) {
	case SINGLE_DUMPING:
	case SINGLE_STOPPING:
	case SINGLE_KILLING:
		if (!task_alive(t))
			single_clean(a, t);
		break;
	case SINGLE_CLEANING:
	case SINGLE_SWEEPING:
		/* What was forked meanwhile is killed too. */
		single_look(a, t, t->private->phase == SINGLE_SWEEPING ? SIGKILL : 0);
		break;
	case SINGLE_IDLE:
	case SINGLE_WAITING:
		break;
	}
}

void agent_single_progress(struct agent *a)
{
	for (int i = 0; i < a->n_tasks && single_active(a); i++)
		if (a->tasks[i].private)
			single_progress(a, &a->tasks[i]);
	agent_ask_settle(a, false);
}

void agent_single_leave(struct agent *a, const char *why)
{
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		/* Who was to be started again is started with the group. */
		if (agent_single_starts(t))
			t->on_purpose = false;
		agent_single_call_off(a, t, why);
		if (t->private)
			t->private->phase = SINGLE_IDLE;
	}
	loop_timer_disarm(a->task_timer);
	loop_timer_disarm(a->leader_timer);
}
