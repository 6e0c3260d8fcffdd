/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/stop_machine.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/orphans.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/*
 * One task by itself, while the group runs: its stop, as agent/policy/stop_machine.h decides, which
 * also ends what its process left behind; then perhaps its next start, at once or after a while.
 * One timer of the agent has the next time at which something is due for any task, and is not armed
 * when nothing is. The group's own stop overrides all of it.
 */

enum { SINGLE_LOOK_MS = 1 }; /* until what is amid an execve() can be told */

struct task_private {
	struct stop_machine stop;
	uint64_t look_ms; /* when what was left behind is looked at again; 0: with the next end */
	bool start;	  /* it is to be started, not before start_ms, when no stop is under way */
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

static enum stop_state single_state(const struct task *t)
{
	return t->private ? t->private->stop.state : STOP_IDLE;
}

bool agent_single_starts(const struct task *t)
{
	return t->private && t->private->start;
}

bool agent_single_at_rest(const struct task *t)
{
	return !task_alive(t) && single_state(t) == STOP_IDLE;
}

static bool single_waits(const struct task *t)
{
	return agent_single_starts(t) && agent_single_at_rest(t);
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

/* When there is something to do for t, or UINT64_MAX. */
static uint64_t single_due(const struct task *t)
{
	const struct task_private *p = t->private;

	if (single_state(t) == STOP_IDLE)
		return single_waits(t) ? p->start_ms : UINT64_MAX;
	return p->look_ms && p->look_ms < p->stop.due_ms ? p->look_ms : p->stop.due_ms;
}

static void single_rearm(struct agent *a)
{
	uint64_t next = UINT64_MAX, now = loop_now_ms();

	for (int i = 0; i < a->n_tasks; i++)
		if (single_due(&a->tasks[i]) < next)
			next = single_due(&a->tasks[i]);
	/* The last of those that were waited for was started, or called off, by a person. */
	if (a->group.state == GROUP_STARTING && single_all_launched(a))
		next = now;
	if (next == UINT64_MAX)
		loop_timer_disarm(a->task_timer);
	else
		loop_timer_arm(a->task_timer, next > now ? next - now : 0);
}

/* --- ending --- */

static void single_post(struct agent *a, struct task *t, enum stop_event event);

static void single_kill(struct agent *a, struct task *t)
{
	(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_ALL);
	(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_GROUP);
}

static void single_kill_late(struct agent *a, struct task *t)
{
	log_warning("%s did not end in time: SIGKILL", agent_task_name(t));
	events_add(a->events, "killed", a->attempt, t->rank, NULL,
		"%s did not end in time and gets SIGKILL", agent_task_name(t));
	single_kill(a, t);
}

static void single_send(struct agent *a, struct task *t)
{
	enum spec_whom whom = a->spec->stop.whom;

	(void)agent_signal_task(a, t, a->spec->stop.signal, whom);
	/* A worker that somebody has stopped could not act on it. */
	(void)agent_signal_task(a, t, SIGCONT, whom);
}

/* Signals what is left behind; posts GONE where nothing is. */
static void single_look(struct agent *a, struct task *t, int signo)
{
	bool unsure;
	int n = leftovers_signal(a, t, signo, &unsure);

	t->private->look_ms = unsure ? loop_now_ms() + SINGLE_LOOK_MS : 0;
	if (n <= 0 && !unsure)
		single_post(a, t, STOP_EV_GONE);
}

static void single_clean(struct agent *a, struct task *t)
{
	single_look(a, t, a->spec->stop.signal);
	if (single_state(t) == STOP_CLEANING)
		events_add(a->events, "leftovers", a->attempt, t->rank, NULL,
			"processes that %s had started outlived it", agent_task_name(t));
}

/* Nothing of the process before is there any more. */
static void single_finish(struct agent *a, struct task *t)
{
	if (t->on_purpose && t->state == TASK_STOPPED)
		events_add(a->events, "task-stopped", a->attempt, t->rank, task_json(t),
			"%s was stopped", agent_task_name(t));
}

static void single_abandon(struct agent *a, struct task *t)
{
	log_error("what %s left behind does not die of SIGKILL", agent_task_name(t));
	events_add(a->events, "stuck", a->attempt, t->rank, NULL,
		"what %s left behind does not die of SIGKILL", agent_task_name(t));
	single_finish(a, t);
}

static void single_give_up(struct agent *a, struct task *t)
{
	bool blamed = !t->on_purpose;

	log_error("%s (pid %d) does not die of SIGKILL; it is given up", agent_task_name(t),
		(int)t->pid);
	events_add(a->events, "stuck", a->attempt, t->rank, NULL,
		"%s (pid %d) does not die of SIGKILL; it is given up", agent_task_name(t),
		(int)t->pid);
	/* It still holds its devices: nothing can take its place. */
	t->private->start = false;
	FEATURES_CALL(a, before_reap, a);
	agent_task_ended(a, t, CLD_KILLED, SIGKILL);
	if (blamed && !a->on_notice) {
		t->spent = true;
		agent_set_reason(a, "%s does not die of SIGKILL", agent_task_name(t));
		agent_post(a, GROUP_EV_FAIL);
		agent_settle(a); /* before its end is judged as any other */
	}
}

static void single_act(struct agent *a, struct task *t, unsigned actions)
{
	if (actions & STOP_DO_DUMP)
		(void)agent_signal_task(a, t, a->spec->stop.dump_signal, SPEC_WHOM_MAIN);
	if (actions & STOP_DO_SEND)
		single_send(a, t);
	if (actions & STOP_DO_KILL)
		single_kill_late(a, t);
	if (actions & STOP_DO_KILL_MORE)
		single_kill(a, t);
	if (actions & STOP_DO_CLEAN)
		single_clean(a, t);
	if (actions & STOP_DO_LOOK)
		single_look(a, t, 0);
	if (actions & STOP_DO_SWEEP)
		single_look(a, t, SIGKILL);
	if (actions & STOP_DO_FINISH)
		single_finish(a, t);
	if (actions & STOP_DO_GIVE_UP)
		single_give_up(a, t);
	if (actions & STOP_DO_ABANDON)
		single_abandon(a, t);
}

static void single_step(
	struct agent *a, struct task *t, enum stop_event event, const struct stop_input *in)
{
	struct task_private *p = t->private;
	enum stop_state before = p->stop.state;
	unsigned actions = 0;

	if (stop_step(&p->stop, event, in, &actions) < 0)
		log_error("%s: stop event %s cannot happen while %s", agent_task_name(t),
			stop_event_name(event), stop_state_name(before));
	if (p->stop.state == STOP_IDLE)
		p->look_ms = 0;
	single_act(a, t, actions);
	single_rearm(a);
}

static void single_post(struct agent *a, struct task *t, enum stop_event event)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.main_only = a->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	single_step(a, t, event, &in);
}

void agent_single_end(struct agent *a, struct task *t, uint64_t timeout_ms, bool dump)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.timeout_ms = timeout_ms,
		.alive = true,
		.dump = dump && a->spec->stop.dump_signal,
	};

	if (!single_get(t)) {
		(void)agent_signal_task(a, t, SIGKILL, SPEC_WHOM_GROUP);
		return;
	}
	if (!t->stop_signal)
		t->stop_signal = a->spec->stop.signal;
	if (single_state(t) == STOP_IDLE)
		task_set_state(t, TASK_STOPPING,
			t->blame[0] && !t->on_purpose ? t->blame : "stopped on request");
	single_step(a, t, STOP_EV_END, &in);
}

/* Its process has ended: what is left of it is next. */
static void single_end_rest(struct agent *a, struct task *t)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.timeout_ms = (uint64_t)a->spec->stop.timeout_ms,
		.main_only = a->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	single_step(a, t, single_state(t) == STOP_IDLE ? STOP_EV_END : STOP_EV_ENDED, &in);
}

/* --- starting --- */

static int single_launch(struct agent *a, struct task *t)
{
	bool again = t->launched;
	int r;

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
	return single_waits(t) ? single_launch(a, t) : 0;
}

void agent_single_start_in(struct agent *a, struct task *t, uint64_t delay_ms)
{
	struct task_private *p = single_get(t);
	bool waited = single_waits(t);

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
	if (p->stop.state == STOP_CLEANING || p->stop.state == STOP_SWEEPING)
		return;
	if (t->exit.ended && !waited)
		single_end_rest(a, t);
	else
		single_rearm(a);
}

void agent_single_call_off(struct agent *a, struct task *t, const char *why)
{
	bool waited = single_waits(t);

	if (t->private)
		t->private->start = false;
	t->next_start_us = 0;
	if (t->state == TASK_WAITING)
		task_set_state(t, TASK_STOPPED, why);
	if (waited)
		single_rearm(a);
}

/* --- time --- */

static void single_expired(struct agent *a, struct task *t)
{
	if (single_waits(t))
		(void)single_launch(a, t);
	else
		single_post(a, t,
			t->private->stop.due_ms <= loop_now_ms() ? STOP_EV_DUE : STOP_EV_ENDED);
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

		if (single_due(t) <= loop_now_ms())
			single_expired(a, t);
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

void agent_single_progress(struct agent *a)
{
	for (int i = 0; i < a->n_tasks && single_active(a); i++)
		if (single_state(&a->tasks[i]) != STOP_IDLE && !task_alive(&a->tasks[i]))
			single_post(a, &a->tasks[i], STOP_EV_ENDED);
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
		if (single_state(t) != STOP_IDLE)
			single_post(a, t, STOP_EV_LEAVE);
	}
	loop_timer_disarm(a->task_timer);
	loop_timer_disarm(a->leader_timer);
}
