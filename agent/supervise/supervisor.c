/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/supervisor.h"
#include "agent/files/file_system.h"
#include "agent/supervise/feature.h"

#include "agent/supervise/tfconfig.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/text/json.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void agent_drain(void *arg);

static const struct agent_processes agent_system_processes = {
	.spawn = spawn_process,
	.kill = kill,
	.waitid = waitid,
};

void agent_set_reason(struct agent *a, const char *fmt, ...)
{
	char text[sizeof(a->reason)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (strcmp(text, a->reason) != 0)
		a->said = false;
	snprintf(a->reason, sizeof(a->reason), "%s", text);
}

void agent_changed(struct agent *a)
{
	record_changed(a);
	FEATURES_CALL(a, changed, a);
}

void agent_post(struct agent *a, enum group_event event)
{
	if (a->opt.alone) /* its group runs until it ends itself */
		return;
	if (a->n_queue == AGENT_QUEUE) {
		log_error("group event %s is lost: too many in one turn", group_event_name(event));
		return;
	}
	a->queue[a->n_queue++] = event;
	if (!a->draining && loop_defer(a->loop, agent_drain, a) < 0)
		agent_drain(a);
}

static void agent_arm_backoff(struct agent *a)
{
	uint64_t delay = a->decision.delay_ms;

	a->next_try_us = (int64_t)(loop_real_us() + delay * 1000);
	loop_timer_arm(a->backoff_timer, delay);
	events_add(a->events, "backoff", a->attempt, -1, NULL, "next attempt in %.3f s",
		(double)delay / 1000);
}

/* The data of a "state" event: enough for a next agent to go on from there. */
static json_t *agent_step_json(struct agent *a, enum group_state from, enum group_event event)
{
	json_t *j = json_object();

	json_put(j, "from", json_string(group_state_name(from)));
	json_put(j, "to", json_string(group_state_name(a->group.state)));
	json_put(j, "by",
		json_string(a->unjudged && event == GROUP_EV_STOP ? "guard-died"
								  : group_event_name(event)));
	if (a->reason[0])
		json_put(j, "reason", json_text(a->reason));
	if (event == GROUP_EV_STOP && a->stopped_by)
		json_put(j, "signal", json_integer(a->stopped_by));
	if (event == GROUP_EV_FAIL) {
		json_put(j, "exit_status", json_integer(a->end.exit_status));
		json_put(j, "then", json_text(a->then));
	}
	if (a->group.state == GROUP_BACKOFF || a->group.goal == GOAL_RETRY)
		json_put(j, "delay_ms", json_integer((json_int_t)a->decision.delay_ms));
	if (a->group.state == GROUP_BACKOFF)
		json_put(j, "next_try_us",
			json_integer((json_int_t)(loop_real_us() + a->decision.delay_ms * 1000)));
	return j;
}

static void agent_act(struct agent *a, unsigned actions)
{
	if (actions & GROUP_DO_DISARM_BACKOFF) {
		loop_timer_disarm(a->backoff_timer);
		a->next_try_us = 0;
	}
	if (actions & GROUP_DO_STOP_TASKS)
		agent_stop_tasks(a);
	if (actions & GROUP_DO_RENDEZVOUS)
		agent_rendezvous(a);
	if (actions & GROUP_DO_SPAWN)
		agent_spawn(a);
	if (actions & GROUP_DO_ARM_BACKOFF)
		agent_arm_backoff(a);
	if (actions & GROUP_DO_END)
		agent_finish(a);
}

static void agent_step(struct agent *a, enum group_event event)
{
	struct group before = a->group;
	bool delayed = event == GROUP_EV_GONE && a->decision.restart && a->decision.delay_ms > 0;
	unsigned actions = 0;

	if (event == GROUP_EV_GONE)
		agent_incarnation_over(a);
	switch (group_step(&a->group, event, delayed, &actions)) {
	case GROUP_REFUSED:
		log_error("group event %s cannot happen while %s", group_event_name(event),
			group_state_name(before.state));
		return;
	case GROUP_IGNORED:
		return;
	case GROUP_STEPPED:
		break;
	}
	if (group_state_is_final(a->group.state))
		outcome_end(a);
	if (a->group.state != before.state || a->group.goal != before.goal) {
		log_info("group: %s -> %s (%s)%s%s", group_state_name(before.state),
			group_state_name(a->group.state), group_event_name(event),
			a->reason[0] ? ": " : "", a->reason);
		events_add(a->events, "state", a->attempt, -1,
			agent_step_json(a, before.state, event), "%s%s%s",
			group_state_name(a->group.state), a->reason[0] ? ": " : "", a->reason);
	}
	FEATURES_CALL(a, group_changed, a);
	agent_act(a, actions);
	agent_changed(a);
	if (a->group.state == GROUP_RUNNING)
		FEATURES_CALL(a, group_running, a);
	/* Nobody waits for the agent now, and an elasticd that starts asks for this file first. */
	if (a->group.state == GROUP_RUNNING || a->group.state == GROUP_BACKOFF)
		record_settled(a);
}

/* Works off the queue; events that an action posts come after those that wait already. */
static void agent_drain(void *arg)
{
	struct agent *a = arg;

	a->draining = true;
	while (a->n_queue) {
		enum group_event event = a->queue[0];

		memmove(a->queue, a->queue + 1, --a->n_queue * sizeof(a->queue[0]));
		agent_step(a, event);
	}
	a->draining = false;
}

void agent_settle(struct agent *a)
{
	if (!a->draining)
		agent_drain(a);
}

bool agent_decided(const struct agent *a)
{
	return a->ended || (agent_in_stop(a) && a->group.goal != GOAL_RETRY);
}

int agent_preempted_status(const struct agent *a)
{
	int code = a->spec->preemption.exit_code;

	return code == SPEC_UNSET ? AGENT_PREEMPTED_STATUS : code;
}

struct task *agent_task_by_pid(struct agent *a, pid_t pid)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].pid == pid)
			return &a->tasks[i];
	return NULL;
}

int agent_alive(const struct agent *a)
{
	int alive = 0;

	for (int i = 0; i < a->n_tasks; i++)
		alive += task_alive(&a->tasks[i]);
	return alive;
}

static void agent_on_backoff(void *arg)
{
	struct agent *a = arg;

	/* In the same turn somebody may have asked for the end, or for a restart at once. */
	agent_settle(a);
	if (a->group.state != GROUP_BACKOFF)
		return;
	a->next_try_us = 0;
	agent_post(a, GROUP_EV_BACKOFF_OVER);
}

static void agent_on_run_time(void *arg)
{
	struct agent *a = arg;

	agent_timeout_asked(a, a->spec->max_run_time_ms, "max_run_time");
}

static void agent_on_log_event(void *arg, const char *event, int rank, const char *text)
{
	struct agent *a = arg;

	log_warning("%s", text);
	events_add(a->events, event, a->attempt, rank, NULL, "%s", text);
}

static void agent_on_event(void *arg, const json_t *event)
{
	struct agent *a = arg;

	FEATURES_CALL(a, changed, a);
}

/* As torchelastic does: a directory of its own among the temporary ones. */
static char *agent_temporary_log_root(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir;

	if (asprintf(&dir, "%s/elasticd-logs-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0)
		return NULL;
	if (mkdtemp(dir))
		return dir;
	free(dir);
	return NULL;
}

/* Where logs go when nothing else is said: the user's own state directory. In a container the home
 * often cannot be written. */
static int agent_default_log_root(char **ret, struct error *err)
{
	struct paths p;
	int r = paths_init(&p, false, NULL, err);

	if (r < 0)
		return r;
	*ret = TAKE_PTR(p.log_dir);
	paths_fini(&p);
	if (!*ret)
		return error_set(err, -ENOMEM, "out of memory");
	r = log_fs_make_root(*ret, 0755);
	if (r < 0) {
		char *dir = agent_temporary_log_root();

		if (!dir)
			return error_set(err, r, "%s: %s", *ret, safe_open_text(r));
		log_notice("logs are in %s, since %s cannot be written: %s", dir, *ret,
			safe_open_text(r));
		free(*ret);
		*ret = dir;
	}
	return 0;
}

static int agent_open_logs(struct agent *a, struct error *err)
{
	_cleanup_free_ char *fallback = NULL;
	struct logs_options opt = {
		.spec = &a->spec->logs,
		.root = a->spec->logs.dir ? a->spec->logs.dir : a->opt.log_root,
		.job = a->spec->name,
		.run = a->opt.run,
		.foreground = a->opt.foreground,
		.use_console = a->opt.foreground,
		.host = a->host,
		.event = agent_on_log_event,
		.arg = a,
	};
	int r;

	if (!opt.root) {
		r = agent_default_log_root(&fallback, err);
		if (r < 0)
			return r;
		opt.root = fallback;
	}
	r = logs_new(a->loop, &opt, &a->logs, err);
	return r < 0 ? error_prefix(err, "logs.dir") : 0;
}

static int agent_open_events(struct agent *a, int64_t seq, struct error *err)
{
	const char *dirs[2] = { logs_run_dir(a->logs), a->opt.state_dir };
	int r = events_new(a->spec->name, a->opt.run, dirs, seq, agent_on_event, a, &a->events);

	return r < 0 ? error_set(err, r, "events: %s", strerror(-r)) : 0;
}

static int agent_identity(struct agent *a)
{
	struct passwd *pw = getpwuid(getuid());
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	a->host = strdup(host);
	a->user = strdup(pw ? pw->pw_name : "?");
	a->failures = json_object();
	a->replicas = calloc(a->spec->n_roles, sizeof(*a->replicas));
	if (!a->host || !a->user || !a->failures || !a->replicas)
		return -ENOMEM;
	for (size_t i = 0; i < a->spec->n_roles; i++)
		a->replicas[i] = a->spec->roles[i].replicas;
	return 0;
}

static int agent_open(struct agent *a, struct error *err)
{
	int64_t seq = 0;
	int r;

	if (a->opt.resume) {
		r = record_load(a, &seq, err);
		if (r < 0)
			return r;
	}
	if ((r = agent_make_tasks(a, err)) < 0 || (r = agent_open_logs(a, err)) < 0 ||
		(r = agent_open_events(a, seq, err)) < 0 || (r = record_new(a, err)) < 0)
		return r;
	r = features_init(a, err);
	return r < 0 || a->opt.alone ? r : agent_signals_init(a, err);
}

int agent_new(struct loop *loop, const struct spec *spec, const struct agent_options *opt,
	struct cgroup *cgroup, struct agent **ret, struct error *err)
{
	_cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return error_set(err, -ENOMEM, "out of memory");
	a->loop = loop;
	a->spec = spec;
	a->opt = *opt;
	a->features = opt->features;
	a->processes = opt->processes ? opt->processes : &agent_system_processes;
	a->cgroup = cgroup;
	a->attempt = a->culprit = -1;
	a->stop_timeout_ms = SPEC_UNSET;
	a->created_us = (int64_t)loop_real_us();
	if (agent_identity(a) < 0 ||
		loop_timer_new(loop, agent_on_backoff, a, &a->backoff_timer) < 0 ||
		loop_timer_new(loop, agent_on_run_time, a, &a->run_timer) < 0 ||
		loop_timer_new(loop, agent_stop_expired, a, &a->stop_timer) < 0 ||
		loop_timer_new(loop, agent_single_expired, a, &a->task_timer) < 0 ||
		loop_timer_new(loop, agent_leader_expired, a, &a->leader_timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = agent_open(a, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(a);
	return 0;
}

struct agent *agent_free(struct agent *a)
{
	if (!a)
		return NULL;
	for (int i = 0; i < a->n_signals; i++)
		loop_signal_free(a->signals[i]);
	loop_cancel(a->loop, agent_drain, a);
	features_hang_up(a);
	record_free(a);
	a->events = events_free(a->events);
	features_fini(a);
	logs_free(a->logs);
	agent_ask_free(a);
	agent_free_tasks(a);
	agent_roster_free(a);
	json_decref(a->past_budgets);
	json_decref(a->past_stopped);
	loop_timer_free(a->task_timer);
	loop_timer_free(a->leader_timer);
	tfconfig_free(a);
	port_release(&a->port);
	loop_timer_free(a->stop_timer);
	loop_timer_free(a->backoff_timer);
	loop_timer_free(a->run_timer);
	json_decref(a->past_state);
	json_decref(a->past_verdict);
	json_decref(a->past_notice);
	json_decref(a->past_saved);
	json_decref(a->failures);
	json_decref(a->history);
	json_decref(a->end.root_cause);
	free(a->replicas);
	free(a->host);
	free(a->user);
	free(a);
	return NULL;
}

void agent_limit(struct agent *a)
{
	struct error err = { 0 };

	if (cgroup_limit(a->cgroup, &a->spec->resources, a->opt.listen_fd >= 0, &err) < 0) {
		log_warning("%s", err.text);
		events_add(a->events, "limit-not-enforced", -1, -1, NULL, "%s", err.text);
	}
}

void agent_start(struct agent *a)
{
	if (!a->started_us)
		a->started_us = (int64_t)loop_real_us();
	agent_limit(a);
	if (a->spec->max_run_time_ms != SPEC_UNSET) {
		int64_t ran_ms = ((int64_t)loop_real_us() - a->started_us) / 1000;
		int64_t left = a->spec->max_run_time_ms - (ran_ms > 0 ? ran_ms : 0);

		loop_timer_arm(a->run_timer, left > 0 ? (uint64_t)left : 0);
	}
	if (a->opt.resume)
		agent_resumed(a);
	else
		agent_post(a, GROUP_EV_START);
}
