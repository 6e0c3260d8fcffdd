/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
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

enum { SUPERVISOR_TEXT = 2048 };

static void supervisor_drain(void *arg);

static const struct supervisor_processes supervisor_system_processes = {
	.spawn = spawn_process,
	.kill = kill,
	.waitid = waitid,
};

void supervisor_set_reason(struct supervisor *sv, const char *fmt, ...)
{
	char text[sizeof(sv->reason)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (strcmp(text, sv->reason) != 0)
		sv->reason_logged = false;
	snprintf(sv->reason, sizeof(sv->reason), "%s", text);
}

void supervisor_event(
	struct supervisor *sv, const char *event, int rank, json_t *data, const char *fmt, ...)
{
	char text[SUPERVISOR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (sv->events)
		events_add(sv->events, event, sv->attempt, rank, data, "%s", text);
	else
		json_decref(data);
}

void supervisor_report(struct supervisor *sv, int level, const char *event, int rank, json_t *data,
	const char *fmt, ...)
{
	char text[SUPERVISOR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_msg(level, "%s", text);
	supervisor_event(sv, event, rank, data, "%s", text);
}

void supervisor_changed(struct supervisor *sv)
{
	record_changed(sv);
	FEATURES_CALL(sv, changed, sv);
}

void supervisor_post(struct supervisor *sv, enum group_event event)
{
	if (sv->opt.alone) /* the group of a private agent never changes its state */
		return;
	if (sv->posted.n == SUPERVISOR_EVENTS) {
		log_error("group event %s is lost: too many in one turn", group_event_name(event));
		return;
	}
	sv->posted.events[sv->posted.n++] = event;
	if (!sv->posted.draining && loop_defer(sv->loop, supervisor_drain, sv) < 0)
		supervisor_drain(sv);
}

static void supervisor_arm_backoff(struct supervisor *sv)
{
	uint64_t delay = sv->decision.delay_ms;

	sv->next_try_us = (int64_t)(loop_real_us() + delay * 1000);
	loop_timer_arm(sv->backoff_timer, delay);
	supervisor_event(sv, "backoff", -1, NULL, "next attempt in %.3f s", (double)delay / 1000);
}

/* The data of a "state" event, from which the next agent can continue if this one is lost. */
static json_t *supervisor_step_json(
	struct supervisor *sv, enum group_state from, enum group_event event)
{
	json_t *j = json_object();

	json_put(j, "from", json_string(group_state_name(from)));
	json_put(j, "to", json_string(group_state_name(sv->group.state)));
	json_put(j, "by",
		json_string(sv->no_verdict && event == GROUP_EV_STOP ? "guard-died"
								     : group_event_name(event)));
	if (sv->reason[0])
		json_put_string(j, "reason", sv->reason);
	if (event == GROUP_EV_STOP && sv->stopped_by)
		json_put_int(j, "signal", sv->stopped_by);
	if (event == GROUP_EV_FAIL) {
		json_put_int(j, "exit_status", sv->end.exit_status);
		json_put_string(j, "then", sv->consequence);
	}
	if (sv->group.state == GROUP_BACKOFF || sv->group.goal == GOAL_RETRY)
		json_put_int(j, "delay_ms", (int64_t)sv->decision.delay_ms);
	if (sv->group.state == GROUP_BACKOFF)
		json_put_int(
			j, "next_try_us", (int64_t)(loop_real_us() + sv->decision.delay_ms * 1000));
	return j;
}

static void supervisor_act(struct supervisor *sv, unsigned actions)
{
	if (actions & GROUP_DO_DISARM_BACKOFF) {
		loop_timer_disarm(sv->backoff_timer);
		sv->next_try_us = 0;
	}
	if (actions & GROUP_DO_STOP_WORKERS)
		stop_group_begin(sv);
	if (actions & GROUP_DO_RENDEZVOUS)
		launch_rendezvous(sv);
	if (actions & GROUP_DO_SPAWN)
		launch_group(sv);
	if (actions & GROUP_DO_ARM_BACKOFF)
		supervisor_arm_backoff(sv);
	if (actions & GROUP_DO_END)
		end_run_finish(sv);
}

static void supervisor_step(struct supervisor *sv, enum group_event event)
{
	struct group before = sv->group;
	bool delayed = event == GROUP_EV_GONE && sv->decision.restart && sv->decision.delay_ms > 0;
	unsigned actions = 0;

	if (event == GROUP_EV_GONE)
		run_failures_attempt_over(sv);
	switch (group_step(&sv->group, event, delayed, &actions)) {
	case GROUP_REFUSED:
		log_error("group event %s cannot happen while %s", group_event_name(event),
			group_state_name(before.state));
		return;
	case GROUP_IGNORED:
		return;
	case GROUP_STEPPED:
		break;
	}
	if (group_state_is_final(sv->group.state))
		end_run_verdict(sv);
	if (sv->group.state != before.state || sv->group.goal != before.goal) {
		log_info("group: %s -> %s (%s)%s%s", group_state_name(before.state),
			group_state_name(sv->group.state), group_event_name(event),
			sv->reason[0] ? ": " : "", sv->reason);
		supervisor_event(sv, "state", -1, supervisor_step_json(sv, before.state, event),
			"%s%s%s", group_state_name(sv->group.state), sv->reason[0] ? ": " : "",
			sv->reason);
	}
	FEATURES_CALL(sv, group_changed, sv);
	supervisor_act(sv, actions);
	supervisor_changed(sv);
	if (sv->group.state == GROUP_RUNNING)
		FEATURES_CALL(sv, group_running, sv);
	/* No caller waits for the agent now, and an elasticd that starts reads this file first. */
	if (sv->group.state == GROUP_RUNNING || sv->group.state == GROUP_BACKOFF)
		record_settled(sv);
}

/* Handles the queued events. Events that an action posts come after those in the queue. */
static void supervisor_drain(void *arg)
{
	struct supervisor *sv = arg;

	sv->posted.draining = true;
	while (sv->posted.n) {
		enum group_event event = sv->posted.events[0];

		memmove(sv->posted.events, sv->posted.events + 1,
			--sv->posted.n * sizeof(sv->posted.events[0]));
		supervisor_step(sv, event);
	}
	sv->posted.draining = false;
}

void supervisor_settle(struct supervisor *sv)
{
	if (!sv->posted.draining)
		supervisor_drain(sv);
}

void supervisor_show_wait(struct supervisor *sv, const char *reason, int64_t next_try_us)
{
	supervisor_set_reason(sv, "%s", reason);
	sv->next_try_us = next_try_us;
	supervisor_changed(sv);
}

bool supervisor_decided(const struct supervisor *sv)
{
	return sv->ended || (stop_group_active(sv) && sv->group.goal != GOAL_RETRY);
}

int supervisor_preempted_status(const struct supervisor *sv)
{
	int code = sv->spec->preemption.exit_code;

	return code == SPEC_UNSET ? SUPERVISOR_PREEMPTED_STATUS : code;
}

static void supervisor_on_backoff(void *arg)
{
	struct supervisor *sv = arg;

	/* In the same turn an operator may have asked for the end, or for a restart at once. */
	supervisor_settle(sv);
	if (sv->group.state != GROUP_BACKOFF)
		return;
	sv->next_try_us = 0;
	supervisor_post(sv, GROUP_EV_BACKOFF_OVER);
}

static void supervisor_on_run_time(void *arg)
{
	struct supervisor *sv = arg;

	end_run_timeout_asked(sv, sv->spec->max_run_time_ms, "max_run_time");
}

static void supervisor_on_log_event(void *arg, const char *event, int rank, const char *text)
{
	struct supervisor *sv = arg;

	supervisor_report(sv, LOG_WARNING, event, rank, NULL, "%s", text);
}

static void supervisor_on_event(void *arg, const json_t *event)
{
	struct supervisor *sv = arg;

	FEATURES_CALL(sv, new_event, sv, event);
	FEATURES_CALL(sv, changed, sv);
}

/* Makes a directory of its own in $TMPDIR, as torchelastic does. Owned path, or NULL. */
static char *supervisor_temporary_log_root(void)
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

/* Where logs go by default: the user's state directory; or a temporary one where that cannot be
 * written, as often in a container. */
static int supervisor_default_log_root(char **ret, struct error *err)
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
		char *dir = supervisor_temporary_log_root();

		if (!dir)
			return error_set(err, r, "%s: %s", *ret, safe_open_text(r));
		log_notice("logs are in %s, since %s cannot be written: %s", dir, *ret,
			safe_open_text(r));
		free(*ret);
		*ret = dir;
	}
	return 0;
}

static int supervisor_open_logs(struct supervisor *sv, struct error *err)
{
	_cleanup_free_ char *fallback = NULL;
	struct logs_options opt = {
		.spec = &sv->spec->logs,
		.root = sv->spec->logs.dir ? sv->spec->logs.dir : sv->opt.log_root,
		.job = sv->spec->name,
		.run = sv->opt.run,
		.foreground = sv->opt.foreground,
		.use_console = sv->opt.foreground,
		.host = sv->host,
		.event = supervisor_on_log_event,
		.arg = sv,
	};
	int r;

	if (!opt.root) {
		r = supervisor_default_log_root(&fallback, err);
		if (r < 0)
			return r;
		opt.root = fallback;
	}
	r = logs_new(sv->loop, &opt, &sv->logs, err);
	return r < 0 ? error_prefix(err, "logs.dir") : 0;
}

static int supervisor_open_events(struct supervisor *sv, int64_t seq, struct error *err)
{
	const char *dirs[2] = { logs_run_dir(sv->logs), sv->opt.state_dir };
	int r = events_new(
		sv->spec->name, sv->opt.run, dirs, seq, supervisor_on_event, sv, &sv->events);

	return r < 0 ? error_set(err, r, "events: %s", strerror(-r)) : 0;
}

static int supervisor_identity(struct supervisor *sv)
{
	struct passwd *pw = getpwuid(getuid());
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	sv->host = strdup(host);
	if (pw)
		sv->user = strdup(pw->pw_name);
	else if (asprintf(&sv->user, "%u", getuid()) < 0)
		sv->user = NULL;
	sv->failures = json_object();
	sv->replicas = calloc(sv->spec->n_roles, sizeof(*sv->replicas));
	if (!sv->host || !sv->user || !sv->failures || !sv->replicas)
		return -ENOMEM;
	for (size_t i = 0; i < sv->spec->n_roles; i++)
		sv->replicas[i] = sv->spec->roles[i].replicas;
	return 0;
}

static int supervisor_open(struct supervisor *sv, struct error *err)
{
	int64_t seq = 0;
	int r;

	if (sv->opt.resume) {
		r = record_load(sv, &seq, err);
		if (r < 0)
			return r;
	}
	if ((r = worker_list_make(sv, err)) < 0 || (r = supervisor_open_logs(sv, err)) < 0 ||
		(r = supervisor_open_events(sv, seq, err)) < 0 || (r = record_new(sv, err)) < 0)
		return r;
	r = features_init(sv, err);
	return r < 0 || sv->opt.alone ? r : signals_init(sv, err);
}

int supervisor_new(struct loop *loop, const struct spec *spec, const struct supervisor_options *opt,
	struct cgroup *cgroup, struct supervisor **ret, struct error *err)
{
	_cleanup_(supervisor_freep) struct supervisor *sv = calloc(1, sizeof(*sv));
	int r;

	if (!sv)
		return error_set(err, -ENOMEM, "out of memory");
	sv->loop = loop;
	sv->spec = spec;
	sv->opt = *opt;
	sv->processes = opt->processes ? opt->processes : &supervisor_system_processes;
	sv->cgroup = cgroup;
	sv->oom = oom_new(cgroup_dir(cgroup));
	sv->attempt = sv->root_cause_rank = -1;
	sv->stop_timeout_ms = SPEC_UNSET;
	sv->created_us = (int64_t)loop_real_us();
	if (!sv->oom || features_new(sv) < 0 || supervisor_identity(sv) < 0 ||
		loop_timer_new(loop, supervisor_on_backoff, sv, &sv->backoff_timer) < 0 ||
		loop_timer_new(loop, supervisor_on_run_time, sv, &sv->run_timer) < 0 ||
		loop_timer_new(loop, stop_group_expired, sv, &sv->stop_timer) < 0 ||
		loop_timer_new(loop, lifecycle_expired, sv, &sv->worker_timer) < 0 ||
		loop_timer_new(loop, apply_leader_expired, sv, &sv->leader.timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = supervisor_open(sv, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(sv);
	return 0;
}

struct supervisor *supervisor_free(struct supervisor *sv)
{
	if (!sv)
		return NULL;
	for (int i = 0; i < _NSIG; i++)
		loop_signal_free(sv->signals[i]);
	loop_cancel(sv->loop, supervisor_drain, sv);
	features_hang_up(sv);
	record_free(sv);
	sv->events = events_free(sv->events);
	features_fini(sv);
	logs_free(sv->logs);
	request_free(sv);
	worker_list_free(sv);
	worker_list_free_roster(sv);
	json_decref(sv->past.budgets);
	json_decref(sv->past.stopped);
	loop_timer_free(sv->worker_timer);
	loop_timer_free(sv->leader.timer);
	tfconfig_free(sv);
	seat_free(sv);
	port_release(&sv->master.claim);
	loop_timer_free(sv->stop_timer);
	loop_timer_free(sv->backoff_timer);
	loop_timer_free(sv->run_timer);
	json_decref(sv->past.state);
	json_decref(sv->past.verdict);
	json_decref(sv->verdict_given);
	json_decref(sv->failures);
	json_decref(sv->history);
	json_decref(sv->end.root_cause);
	oom_free(sv->oom);
	free(sv->replicas);
	free(sv->host);
	free(sv->user);
	free(sv);
	return NULL;
}

void supervisor_limit(struct supervisor *sv)
{
	struct error err = { 0 };

	if (cgroup_limit(sv->cgroup, &sv->spec->resources, sv->opt.listen_fd >= 0, &err) < 0)
		supervisor_report(sv, LOG_WARNING, "limit-not-enforced", -1, NULL, "%s", err.text);
}

void supervisor_start(struct supervisor *sv)
{
	if (!sv->started_us)
		sv->started_us = (int64_t)loop_real_us();
	supervisor_limit(sv);
	if (sv->spec->max_run_time_ms != SPEC_UNSET) {
		int64_t ran_ms = ((int64_t)loop_real_us() - sv->started_us) / 1000;
		int64_t left = sv->spec->max_run_time_ms - (ran_ms > 0 ? ran_ms : 0);

		loop_timer_arm(sv->run_timer, left > 0 ? (uint64_t)left : 0);
	}
	if (sv->opt.resume)
		recover_begin(sv);
	else
		supervisor_post(sv, GROUP_EV_START);
}

void supervisor_start_alone(struct supervisor *sv, pid_t pid)
{
	struct worker *w = &sv->workers[0];

	sv->attempt = 0;
	sv->group.state = GROUP_RUNNING;
	FEATURES_CALL(sv, attempt_begins, sv);
	worker_renew(w);
	w->launched = true;
	w->started_us = (int64_t)loop_real_us();
	w->started_ms = loop_now_ms();
	worker_set_state(w, WORKER_STARTING, NULL);
	FEATURES_CALL(sv, worker_starting, sv, w);
	w->pid = pid;
	launch_done(sv, w, NULL);
	FEATURES_CALL(sv, group_running, sv);
}
