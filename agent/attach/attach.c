/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attach/attach.h"

#include "agent/process/env_list.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/base/signals.h"
#include "common/base/sweep.h"
#include "common/text/json.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the end of the process until AttachEnded must come. A caller knows at once, unless it was
 * stopped itself. */
enum { ATTACH_WORD_MS = 10000 };

/* Pauses between searches for processes left behind, while some cannot be identified yet; about a
 * second together. */
enum { ATTACH_LOOK_MS = 1, ATTACH_LOOK_MAX_MS = 64, ATTACH_LOOKS = 20 };

struct attach {
	struct attach *next;
	struct agent *a;
	struct varlink_call *call;  /* NULL: the caller is gone */
	struct varlink_call *ended; /* AttachEnded, to answer once all is gone; or NULL */
	char *role;
	int index;
	struct sweep *sweep; /* for ELASTICD_TOKEN, which all its processes have; or NULL */
	pid_t pid;	     /* 0: not started yet */
	int pidfd;
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool ignore_exit; /* its end is no failure, unless the group ends it */
	bool over; /* the process has ended as code and status say; its remains are being killed */
	int code, status, looks;
	const char *note;
};

static struct attach *attach_free_one(struct attach *at)
{
	struct attach **p = &at->a->attaches;

	while (*p && *p != at)
		p = &(*p)->next;
	if (*p)
		*p = at->next;
	loop_fd_free(at->watch);
	loop_timer_free(at->timer);
	close_fd(at->pidfd);
	free(at->role);
	sweep_free(at->sweep);
	free(at);
	return NULL;
}

static struct task *attach_task(const struct attach *at)
{
	struct task *t = agent_task_named(at->a, at->role, at->index);

	return t && t->attached ? t : NULL;
}

static struct attach *attach_of(struct agent *a, const struct task *t)
{
	for (struct attach *at = a->attaches; at; at = at->next)
		if (!strcmp(at->role, t->role->name) && at->index == t->index)
			return at;
	return NULL;
}

static struct attach *attach_named(struct agent *a, const char *name)
{
	char own[128];

	for (struct attach *at = a->attaches; at; at = at->next) {
		snprintf(own, sizeof(own), "%.100s:%d", at->role, at->index);
		if (!strcmp(own, name))
			return at;
	}
	return NULL;
}

static json_t *attach_order(const char *order, const char *text)
{
	json_t *j = json_object(), *answer = json_object();

	json_put(j, "order", json_string(order));
	if (text)
		json_put(j, "text", json_text(text));
	json_put(answer, "order", j);
	return answer;
}

/* Answers the caller for the last time. */
static void attach_good_bye(struct attach *at, const char *text)
{
	struct varlink_call *call = at->call;

	at->call = NULL;
	if (call)
		varlink_reply(call, attach_order("end", text));
}

/* Kills all processes with the worker's token. False: some process cannot be identified yet. */
static bool attach_sweep(struct attach *at)
{
	bool unsure = false;

	return !at->sweep || sweep_look(at->sweep, &unsure) < 0 || !unsure;
}

static bool attach_process_ended(const struct attach *at)
{
	struct pollfd p = { .fd = at->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* All its processes are gone: reports the worker's end to the core. Frees at. */
static void attach_done(struct attach *at)
{
	struct agent *a = at->a;
	struct task *t = attach_task(at);

	if (at->note)
		log_warning(
			"%s (pid %d): %s", t ? task_called(t) : at->role, (int)at->pid, at->note);
	if (t) {
		t->attached = false;
		t->on_purpose |= at->ignore_exit && !t->stop_us;
		FEATURES_CALL(a, before_reap, a);
		agent_task_ended(a, t, at->code, at->status);
	}
	attach_good_bye(at, at->note ? at->note : t ? t->exit.text : NULL);
	if (at->ended)
		varlink_reply(at->ended, NULL);
	attach_free_one(at);
	agent_ends_seen(a);
}

static void attach_look(struct attach *at)
{
	uint64_t pause = ATTACH_LOOK_MS;

	for (int i = 0; i < at->looks && pause < ATTACH_LOOK_MAX_MS; i++)
		pause *= 2;
	if (attach_sweep(at) || at->looks++ == ATTACH_LOOKS)
		attach_done(at);
	else
		loop_timer_arm(at->timer, pause);
}

/* The process has ended; code and status as from waitid(). May free at. */
static void attach_over(struct attach *at, int code, int status, const char *note)
{
	at->over = true;
	at->code = code;
	at->status = status;
	at->note = note;
	(void)!loop_fd_set(at->watch, 0);
	/* Not earlier: while the leader lives, killing others could change how it ends. */
	attach_look(at);
}

/* The process was never started. The worker counts as stopped: by a person (on_purpose), or with
 * the group, which starts it again. */
static void attach_called_off(struct attach *at, const char *why, bool on_purpose)
{
	struct agent *a = at->a;
	struct task *t = attach_task(at);

	if (t) {
		t->attached = false;
		t->on_purpose = on_purpose;
		task_set_state(t, TASK_STOPPED, why);
		agent_launch_undo(a, t);
	}
	attach_good_bye(at, why);
	attach_free_one(at);
	agent_ends_seen(a);
}

static void attach_expired(void *arg)
{
	struct attach *at = arg;

	if (at->over)
		attach_look(at);
	else
		attach_over(at, CLD_KILLED, SIGKILL, "its caller did not report how it ended");
}

static void attach_ready(int fd, int events, void *arg)
{
	struct attach *at = arg;

	if (at->over)
		return;
	if (!at->call) {
		attach_over(at, CLD_KILLED, SIGKILL, "its terminal is gone");
		return;
	}
	/* Only its parent knows how it ended, and reports it soon. */
	(void)!loop_fd_set(at->watch, 0);
	loop_timer_arm(at->timer, ATTACH_WORD_MS);
}

static void attach_kill_one(struct attach *at)
{
	if (!at->pid || attach_process_ended(at))
		return;
	kill(-at->pid, SIGKILL);
	(void)attach_sweep(at); /* and again when it has ended */
	(void)proc_pidfd_kill(at->pidfd, SIGKILL);
}

/* Sends SIGKILL to the attached workers and their descendants, which are not below the agent. */
static void attach_kill(struct agent *a)
{
	for (struct attach *at = a->attaches; at; at = at->next)
		attach_kill_one(at);
}

static void attach_ended_gone(void *arg)
{
	struct attach *at = arg;

	at->ended = NULL;
}

/* The call ended without AttachEnded: the caller is dead, or can no longer report. */
static void attach_gone(void *arg)
{
	struct attach *at = arg;

	at->call = NULL;
	if (!at->a->server || at->over)
		return; /* the agent ends, or the process has ended */
	if (!at->pid) {
		attach_called_off(at, "the program that was to run it in a terminal is gone", true);
		return;
	}
	log_warning("%s:%d (pid %d) is killed: its terminal is gone", at->role, at->index,
		(int)at->pid);
	attach_kill_one(at);
	if (loop_fd_set(at->watch, LOOP_READ) < 0)
		loop_timer_arm(at->timer, 0);
}

static int attach_no_such(struct varlink_call *call, const char *name)
{
	return varlink_error(call, "NoSuchTask", json_pack("{s:s}", "task", name));
}

static int attach_refuse(struct agent *a, struct varlink_call *call, const struct task *t)
{
	return varlink_error(call, "TaskActive",
		json_pack("{s:s, s:s}", "task", agent_task_name(t), "state",
			task_state_name(t->state)));
}

/* Prepares the worker before its process exists: logs, token, environment, error file. */
static int attach_prepare(struct agent *a, struct task *t, struct env *env)
{
	struct logs_fds fds = { .out = -1, .err = -1 };
	int r = agent_launch_begin(a, t, &fds);

	if (r < 0)
		return r;
	logs_fds_fini(&fds);
	r = agent_launch_environ(a, t, env);
	if (r < 0)
		agent_launch_undo(a, t);
	return r;
}

static json_t *attach_strings(char *const *list)
{
	json_t *j = json_array();

	for (; list && *list; list++)
		json_add(j, json_text(*list));
	return j;
}

static json_t *attach_start_order(struct agent *a, const struct task *t, const struct env *env)
{
	const char *cwd = t->role->cwd ? t->role->cwd : a->spec->cwd;
	json_t *answer = attach_order("start", NULL), *j = json_object_get(answer, "order");
	_cleanup_(agent_launch_argv_free) char **argv = agent_launch_argv(a, t);
	char here[4096];

	json_put(j, "env", attach_strings(env->vars));
	json_put(j, "command", attach_strings(argv));
	if (cwd || getcwd(here, sizeof(here)))
		json_put(j, "cwd", json_text(cwd ? cwd : here));
	if (a->spec->umask != SPEC_UNSET)
		json_put(j, "umask", json_integer(a->spec->umask));
	if (t->role->n_limits)
		json_put(j, "limits", spec_limits_to_json(t->role));
	json_put(j, "rank", json_integer(t->rank));
	json_put(j, "attempt", json_integer(a->attempt));
	return answer;
}

static struct attach *attach_new(struct agent *a, struct varlink_call *call, const struct task *t,
	const struct env *env, bool ignore_exit)
{
	struct attach *at = calloc(1, sizeof(*at));
	const char *token = env_get(env, "ELASTICD_TOKEN");
	_cleanup_free_ char *mark = NULL;

	if (!at)
		return NULL;
	*at = (struct attach){
		.a = a, .call = call, .index = t->index, .pidfd = -1, .ignore_exit = ignore_exit
	};
	at->role = strdup(t->role->name);
	if (token && *token && asprintf(&mark, "ELASTICD_TOKEN=%s", token) < 0) {
		mark = NULL;
		return attach_free_one(at);
	}
	if (!at->role || (mark && sweep_new(mark, SWEEP_ANY, &at->sweep) < 0) ||
		loop_timer_new(a->loop, attach_expired, at, &at->timer) < 0)
		return attach_free_one(at);
	at->next = a->attaches;
	a->attaches = at;
	return at;
}

/* Answers the caller with an error; the group goes on without the worker. */
static int attach_failed(struct agent *a, struct varlink_call *call, struct task *t, int code)
{
	char text[300];

	snprintf(text, sizeof(text), "%s", t->exit.ended ? t->exit.text : strerror(-code));
	if (!t->exit.ended)
		agent_launch_undo(a, t);
	t->on_purpose = true;
	task_set_state(t, TASK_STOPPED, text);
	agent_changed(a);
	return varlink_error(call, "Failed",
		json_pack("{s:o, s:i}", "message", json_text(text), "errno", -code));
}

/* The worker, if it may be attached now; NULL: the call was answered, with *ret_r. */
static struct task *attach_look_up(
	struct agent *a, struct varlink_call *call, const char *role, int index, int *ret_r)
{
	struct task *t = NULL;
	char name[128];

	*ret_r = 0;
	if (agent_decided(a) || agent_in_stop(a) || a->leader_over ||
		a->group.state != GROUP_RUNNING) {
		*ret_r = varlink_error(call, "NotActive",
			json_pack("{s:s, s:s}", "job", a->spec->name, "state",
				group_state_name(a->group.state)));
	} else if (a->on_notice) {
		*ret_r = varlink_error(call, "Failed",
			json_pack("{s:s, s:i}", "message", AGENT_ON_NOTICE, "errno", EBUSY));
	} else {
		snprintf(name, sizeof(name), "%.100s:%d", role, index);
		t = agent_task_named(a, role, index);
		*ret_r = t ? 0 : attach_no_such(call, name);
	}
	return t;
}

static bool attach_is_free(const struct task *t)
{
	return !t->attached && t->state != TASK_WAITING && agent_single_at_rest(t);
}

/* t does not run: offers the caller to start its process. */
static int attach_offer(
	struct agent *a, struct varlink_call *call, struct task *t, bool ignore_exit)
{
	_cleanup_(env_fini) struct env env = { 0 };
	int r = attach_prepare(a, t, &env);
	struct attach *at = r < 0 ? NULL : attach_new(a, call, t, &env, ignore_exit);

	if (!at)
		return attach_failed(a, call, t, r < 0 ? r : -ENOMEM);
	t->attached = true;
	task_set_state(t, TASK_STARTING, "in a terminal");
	events_add(a->events, "attaching", a->attempt, t->rank, NULL, "%s is to run in a terminal",
		agent_task_name(t));
	varlink_call_on_gone(call, attach_gone, at);
	varlink_notify(call, attach_start_order(a, t, &env));
	agent_changed(a);
	return 0;
}

static int attach_begin(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	const char *role = json_get_string(p, "role", "");
	bool ignore_exit = json_get_bool(p, "ignore_exit", false);
	int index = (int)json_get_int(p, "index", 0), r;
	struct task *t;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	agent_settle(a);
	t = attach_look_up(a, call, role, index, &r);
	if (!t)
		return r;
	if (attach_is_free(t))
		return attach_offer(a, call, t, ignore_exit);
	if (!json_get_bool(p, "replace", false) || t->replaced)
		return attach_refuse(a, call, t);
	return attach_replace(a, call, t, ignore_exit);
}

int attach_replaced(
	struct agent *a, struct varlink_call *call, const char *role, int index, bool ignore_exit)
{
	int r;
	struct task *t = attach_look_up(a, call, role, index, &r);

	if (!t)
		return r;
	return attach_is_free(t) ? attach_offer(a, call, t, ignore_exit)
				 : attach_refuse(a, call, t);
}

/* Checks a process that the caller has started. 0, or a negative errno with a text. */
static int attach_check(struct agent *a, pid_t pid, struct error *err)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return error_set(err, -ESRCH, "there is no process %d", (int)pid);
	if (st.st_uid != getuid())
		return error_set(err, -EPERM, "process %d belongs to uid %u, expected %u", (int)pid,
			(unsigned)st.st_uid, (unsigned)getuid());
	if (pid == getpid() || agent_task_by_pid(a, pid))
		return error_set(err, -EEXIST, "process %d is the agent's own", (int)pid);
	if (getpgid(pid) != pid)
		return error_set(err, -EINVAL,
			"process %d does not lead a process group: signals would reach its caller",
			(int)pid);
	return 0;
}

static int attach_watch(struct attach *at, pid_t pid, struct error *err)
{
	int r;

	at->pidfd = proc_pidfd(pid);
	if (at->pidfd < 0)
		return error_set(err, at->pidfd, "process %d: %s", (int)pid, strerror(-at->pidfd));
	r = loop_fd_new(at->a->loop, at->pidfd, LOOP_READ, attach_ready, at, &at->watch);
	if (r < 0) {
		at->pidfd = close_fd(at->pidfd);
		return error_set(err, r, "out of memory");
	}
	at->pid = pid;
	return 0;
}

static int attach_started(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	const char *name = json_get_string(p, "task", "");
	pid_t pid = (pid_t)json_get_int(p, "pid", 0);
	struct attach *at = attach_named(a, name);
	struct task *t = at ? attach_task(at) : NULL;
	struct error err = { 0 };
	int r;

	if (!t)
		return attach_no_such(call, name);
	if (at->pid)
		return attach_refuse(a, call, t);
	r = attach_check(a, pid, &err);
	if (r == 0)
		r = attach_watch(at, pid, &err);
	if (r < 0)
		return varlink_error(call, "Failed",
			json_pack("{s:o, s:i}", "message", json_text(err.text), "errno", -r));
	t->pid = pid;
	agent_launch_done(a, t, "in a terminal");
	events_add(a->events, "attached", a->attempt, t->rank, NULL,
		"%s runs in a terminal (pid %d)", agent_task_name(t), (int)pid);
	agent_changed(a);
	return varlink_reply(call, NULL);
}

static int attach_ended(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	const char *name = json_get_string(p, "task", "");
	struct attach *at = attach_named(a, name);
	int64_t code = json_get_int(p, "code", -1), signo = json_get_int(p, "signal", 0);

	if (!at || at->over)
		return attach_no_such(call, name);
	if (signo < 0 || signo >= NSIG)
		return varlink_error_parameter(call, "signal");
	if (code < 0 && !signo)
		return varlink_error_parameter(call, "code");
	if (at->pid && !attach_process_ended(at))
		return varlink_error(call, "Failed",
			json_pack("{s:s, s:i}", "message", "its process has not ended", "errno",
				EBUSY));
	if (!at->pid) {
		attach_called_off(at, "its program was never started", true);
		return varlink_reply(call, NULL);
	}
	at->ended = call;
	varlink_call_on_gone(call, attach_ended_gone, at);
	attach_over(at, signo ? CLD_KILLED : CLD_EXITED, signo ? (int)signo : (int)code, NULL);
	return 0;
}

/* Attached workers are being stopped (t NULL: all): tells their terminals why. One whose process
 * was not started yet is over. */
static void attach_stopping(struct agent *a, const struct task *t, const char *why)
{
	struct attach *next;

	for (struct attach *at = a->attaches; at; at = next) {
		next = at->next;
		if (t && attach_of(a, t) != at)
			continue;
		if (!at->pid)
			attach_called_off(at, why, t);
		else if (at->call)
			varlink_notify(at->call, attach_order("signal", why));
	}
}

/* Has the caller send a signal where the agent may not: to a program that has changed its user. */
static void attach_hand_on(struct agent *a, const struct task *t, int signo)
{
	struct attach *at = attach_of(a, t);
	char name[SIGNALS_TEXT_MAX];
	json_t *answer;

	if (!at || !at->call)
		return;
	answer = attach_order("signal", NULL);
	json_put(
		json_object_get(answer, "order"), "signal", json_string(signals_name(signo, name)));
	varlink_notify(at->call, answer);
}

/* Ends all open calls. */
static void attach_free(struct agent *a)
{
	while (a->attaches) {
		attach_good_bye(a->attaches, "the agent ends");
		if (a->attaches->ended)
			varlink_reply(a->attaches->ended, NULL);
		attach_free_one(a->attaches);
	}
}

/* --- the feature --- */

static void attach_group_stopping(struct agent *a, const char *why)
{
	attach_stopping(a, NULL, why);
}

static void attach_worker_stopping(struct agent *a, struct task *t, const char *why)
{
	if (t->attached)
		attach_stopping(a, t, why);
}

static bool attach_signals_worker(struct agent *a, struct task *t, int signo)
{
	if (t->attached)
		attach_hand_on(a, t, signo);
	return t->attached;
}

static bool attach_last_answers(struct agent *a, loop_fn fn, void *arg)
{
	attach_free(a);
	return false;
}

static const struct varlink_method manager_methods[] = {
	{ "Attach", attach_begin },
	{ "AttachStarted", attach_started },
	{ "AttachEnded", attach_ended },
	{ NULL, NULL },
};

const struct feature attach_feature = {
	.name = "attach",
	.hang_up = attach_free,
	.manager_methods = manager_methods,
	.group_stopping = attach_group_stopping,
	.last_answers = attach_last_answers,
	.worker_stopping = attach_worker_stopping,
	.signals_worker = attach_signals_worker,
	.kill_workers = attach_kill,
};
