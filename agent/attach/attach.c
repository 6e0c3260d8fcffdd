/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attach/attach.h"

#include "agent/process/env_list.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/base/signals.h"
#include "common/base/sweep.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the end of the process until its caller must call AttachEnded. A caller knows of the end at
 * once, unless it was stopped itself. */
enum { ATTACH_REPORT_MS = 10000 };

/* Pauses between searches for processes left behind, while some cannot be identified yet; together
 * about a second. */
enum { ATTACH_SWEEP_MS = 1, ATTACH_SWEEP_MAX_MS = 64, ATTACH_SWEEPS = 20 };

struct attach {
	struct attach *next;
	struct supervisor *sv;
	struct varlink_call *call;  /* NULL: the caller is gone */
	struct varlink_call *ended; /* AttachEnded, answered when all processes are gone; or NULL */
	char *role;
	int index;
	struct sweep *sweep; /* kills processes with its ELASTICD_TOKEN; or NULL */
	pid_t pid;	     /* 0: not started yet */
	int pidfd;
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool ignore_exit; /* its end is no failure, unless the group ends it */
	bool over; /* the process has ended, as code and status say; what it left is being killed */
	int code, status, sweeps;
	const char *note;
};

/* The list of all of them: the state of the feature. */
static struct attach *attaches(const struct supervisor *sv)
{
	return feature_state(sv, &attach_feature);
}

static void attach_remove(struct attach *at)
{
	struct attach *before = attaches(at->sv);

	if (before == at)
		feature_set_state(at->sv, &attach_feature, at->next);
	while (before && before->next != at)
		before = before->next;
	if (before)
		before->next = at->next;
}

static struct attach *attach_free(struct attach *at)
{
	attach_remove(at);
	loop_fd_free(at->watch);
	loop_timer_free(at->timer);
	close_fd(at->pidfd);
	free(at->role);
	sweep_free(at->sweep);
	free(at);
	return NULL;
}

static struct worker *attach_worker(const struct attach *at)
{
	struct worker *w = worker_named(at->sv, at->role, at->index);

	return w && w->attached ? w : NULL;
}

static struct attach *attach_of(struct supervisor *sv, const struct worker *w)
{
	for (struct attach *at = attaches(sv); at; at = at->next)
		if (!strcmp(at->role, w->role->name) && at->index == w->index)
			return at;
	return NULL;
}

static struct attach *attach_named(struct supervisor *sv, const char *name)
{
	char own[128];

	for (struct attach *at = attaches(sv); at; at = at->next) {
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
static void attach_end_call(struct attach *at, const char *text)
{
	struct varlink_call *call = at->call;

	at->call = NULL;
	if (call)
		varlink_reply(call, attach_order("end", text));
}

/* Kills all processes with the worker's token. Returns false while a process cannot be identified.
 */
static bool attach_sweep(struct attach *at)
{
	bool unsure = false;

	return !at->sweep || sweep_kill(at->sweep, &unsure) < 0 || !unsure;
}

static bool attach_process_ended(const struct attach *at)
{
	struct pollfd p = { .fd = at->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* All its processes are gone: reports the worker's end to the supervisor. Frees at. */
static void attach_done(struct attach *at)
{
	struct supervisor *sv = at->sv;
	struct worker *w = attach_worker(at);

	if (at->note)
		log_warning(
			"%s (pid %d): %s", w ? worker_name(w) : at->role, (int)at->pid, at->note);
	if (w) {
		w->attached = false;
		w->on_purpose |= at->ignore_exit && !w->stop_us;
		FEATURES_CALL(sv, before_reap, sv);
		reap_worker_ended(sv, w, at->code, at->status);
	}
	attach_end_call(at, at->note ? at->note : w ? w->exit.text : NULL);
	if (at->ended)
		varlink_reply(at->ended, NULL);
	attach_free(at);
	reap_ends_seen(sv);
}

static void attach_sweep_again(struct attach *at)
{
	uint64_t pause = ATTACH_SWEEP_MS;

	for (int i = 0; i < at->sweeps && pause < ATTACH_SWEEP_MAX_MS; i++)
		pause *= 2;
	if (attach_sweep(at) || at->sweeps++ == ATTACH_SWEEPS)
		attach_done(at);
	else
		loop_timer_arm(at->timer, pause);
}

/* The process has ended; code and status as from waitid(). May free at. */
static void attach_process_over(struct attach *at, int code, int status, const char *note)
{
	at->over = true;
	at->code = code;
	at->status = status;
	at->note = note;
	(void)!loop_fd_set(at->watch, 0);
	/* Not earlier: to kill others while the leader lives could change how it ends. */
	attach_sweep_again(at);
}

/* The caller never started the process. The worker is stopped: by an operator (on_purpose), or with
 * the group, which starts it again. */
static void attach_cancel(struct attach *at, const char *why, bool on_purpose)
{
	struct supervisor *sv = at->sv;
	struct worker *w = attach_worker(at);

	if (w) {
		w->attached = false;
		w->on_purpose = on_purpose;
		worker_set_state(w, WORKER_STOPPED, why);
		launch_undo(sv, w);
	}
	attach_end_call(at, why);
	attach_free(at);
	reap_ends_seen(sv);
}

static void attach_on_timer(void *arg)
{
	struct attach *at = arg;

	if (at->over)
		attach_sweep_again(at);
	else
		attach_process_over(
			at, CLD_KILLED, SIGKILL, "its caller did not report how it ended");
}

static void attach_on_pidfd(int fd, int events, void *arg)
{
	struct attach *at = arg;

	if (at->over)
		return;
	if (!at->call) {
		attach_process_over(at, CLD_KILLED, SIGKILL, "its terminal is gone");
		return;
	}
	/* Only its parent, the caller, knows how it ended, and reports that soon. */
	(void)!loop_fd_set(at->watch, 0);
	loop_timer_arm(at->timer, ATTACH_REPORT_MS);
}

static void attach_kill_one(struct attach *at)
{
	if (!at->pid || attach_process_ended(at))
		return;
	kill(-at->pid, SIGKILL);
	(void)attach_sweep(at); /* attach_process_over() does so again */
	(void)proc_pidfd_kill(at->pidfd, SIGKILL);
}

/* Sends SIGKILL to the attached workers and their descendants, which are not below the agent. */
static void attach_kill(struct supervisor *sv)
{
	for (struct attach *at = attaches(sv); at; at = at->next)
		attach_kill_one(at);
}

static void attach_ended_caller_gone(void *arg)
{
	struct attach *at = arg;

	at->ended = NULL;
}

/* The caller is dead, or can no longer report. */
static void attach_caller_gone(void *arg)
{
	struct attach *at = arg;

	at->call = NULL;
	if (supervisor_finalising(at->sv) || at->over)
		return; /* the agent ends, or the process has ended */
	if (!at->pid) {
		attach_cancel(at, "the program that was to run it in a terminal is gone", true);
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
	return varlink_error(call, "NotFound", manager_no_worker(name));
}

static int attach_refuse(struct supervisor *sv, struct varlink_call *call, const struct worker *w)
{
	return varlink_error(call, "FailedPrecondition",
		manager_worker_active(worker_name(w), worker_state_name(w->state)));
}

/* Prepares the worker before its process exists: logs, token, environment, error file. */
static int attach_prepare(struct supervisor *sv, struct worker *w, struct env *env)
{
	struct logs_fds fds = { .out = -1, .err = -1 };
	int r = launch_begin(sv, w, &fds);

	if (r < 0)
		return r;
	logs_fds_fini(&fds);
	r = launch_environment(sv, w, env);
	if (r < 0)
		launch_undo(sv, w);
	return r;
}

static json_t *attach_strings(char *const *list)
{
	json_t *j = json_array();

	for (; list && *list; list++)
		json_add(j, json_text(*list));
	return j;
}

static json_t *attach_start_order(
	struct supervisor *sv, const struct worker *w, const struct env *env)
{
	const char *cwd = w->role->cwd ? w->role->cwd : supervisor_spec(sv)->cwd;
	json_t *answer = attach_order("start", NULL), *j = json_object_get(answer, "order");
	_cleanup_strings_ char **argv = launch_argv(sv, w);
	char here[4096];

	json_put(j, "env", attach_strings(env->vars));
	json_put(j, "command", attach_strings(argv));
	if (cwd || getcwd(here, sizeof(here)))
		json_put(j, "cwd", json_text(cwd ? cwd : here));
	if (supervisor_spec(sv)->umask != SPEC_UNSET)
		json_put(j, "umask", json_integer(supervisor_spec(sv)->umask));
	if (w->role->n_limits)
		json_put(j, "limits", spec_limits_to_json(w->role));
	json_put(j, "rank", json_integer(w->rank));
	json_put(j, "attempt", json_integer(supervisor_attempt(sv)));
	return answer;
}

static struct attach *attach_new(struct supervisor *sv, struct varlink_call *call,
	const struct worker *w, const struct env *env, bool ignore_exit)
{
	struct attach *at = calloc(1, sizeof(*at));
	const char *token = env_get(env, "ELASTICD_TOKEN");
	_cleanup_free_ char *mark = NULL;

	if (!at)
		return NULL;
	*at = (struct attach){
		.sv = sv, .call = call, .index = w->index, .pidfd = -1, .ignore_exit = ignore_exit
	};
	at->role = strdup(w->role->name);
	if (token && *token && asprintf(&mark, "ELASTICD_TOKEN=%s", token) < 0) {
		mark = NULL;
		return attach_free(at);
	}
	if (!at->role || (mark && sweep_new(mark, SWEEP_ANY, &at->sweep) < 0) ||
		loop_timer_new(supervisor_loop(sv), attach_on_timer, at, &at->timer) < 0)
		return attach_free(at);
	at->next = attaches(sv);
	feature_set_state(sv, &attach_feature, at);
	return at;
}

/* Answers the caller with an error; the group goes on without the worker. */
static int attach_failed(
	struct supervisor *sv, struct varlink_call *call, struct worker *w, int code)
{
	char text[300];

	snprintf(text, sizeof(text), "%s", w->exit.ended ? w->exit.text : strerror(-code));
	if (!w->exit.ended)
		launch_undo(sv, w);
	w->on_purpose = true;
	worker_set_state(w, WORKER_STOPPED, text);
	supervisor_changed(sv);
	return varlink_error(call, "Internal", manager_internal(text, code));
}

/* The worker, if the group is in a state to attach it; NULL: the call was answered, with *ret_r. */
static struct worker *attach_find_worker(
	struct supervisor *sv, struct varlink_call *call, const char *role, int index, int *ret_r)
{
	struct worker *w = NULL;
	char name[128];

	*ret_r = 0;
	if (supervisor_decided(sv) || stop_group_active(sv) || supervisor_leader_over(sv) ||
		supervisor_group(sv)->state != GROUP_RUNNING) {
		*ret_r = varlink_error(call, "FailedPrecondition",
			manager_not_active(supervisor_spec(sv)->name,
				group_state_name(supervisor_group(sv)->state)));
	} else if (supervisor_on_notice(sv)) {
		*ret_r = varlink_error(
			call, "Internal", manager_internal(SUPERVISOR_ON_NOTICE, -EBUSY));
	} else {
		snprintf(name, sizeof(name), "%.100s:%d", role, index);
		w = worker_named(sv, role, index);
		*ret_r = w ? 0 : attach_no_such(call, name);
	}
	return w;
}

static bool attach_is_free(const struct worker *w)
{
	return !w->attached && w->state != WORKER_WAITING && lifecycle_at_rest(w);
}

/* w does not run: asks the caller to start its process. */
static int attach_offer(
	struct supervisor *sv, struct varlink_call *call, struct worker *w, bool ignore_exit)
{
	_cleanup_(env_fini) struct env env = { 0 };
	int r = attach_prepare(sv, w, &env);
	struct attach *at = r < 0 ? NULL : attach_new(sv, call, w, &env, ignore_exit);

	if (!at)
		return attach_failed(sv, call, w, r < 0 ? r : -ENOMEM);
	w->attached = true;
	worker_set_state(w, WORKER_STARTING, "in a terminal");
	supervisor_event(
		sv, "attaching", w->rank, NULL, "%s is to run in a terminal", worker_name(w));
	varlink_call_on_gone(call, attach_caller_gone, at);
	varlink_notify(call, attach_start_order(sv, w, &env));
	supervisor_changed(sv);
	return 0;
}

static int attach_method(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *role = json_get_string(p, "role", "");
	bool ignore_exit = json_get_bool(p, "ignore_exit", false);
	int index = (int)json_get_int(p, "index", 0), r;
	struct worker *w;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	supervisor_settle(sv);
	w = attach_find_worker(sv, call, role, index, &r);
	if (!w)
		return r;
	if (attach_is_free(w))
		return attach_offer(sv, call, w, ignore_exit);
	if (!json_get_bool(p, "replace", false) || w->replaced)
		return attach_refuse(sv, call, w);
	return attach_replace(sv, call, w, ignore_exit);
}

int attach_replaced(struct supervisor *sv, struct varlink_call *call, const char *role, int index,
	bool ignore_exit)
{
	int r;
	struct worker *w = attach_find_worker(sv, call, role, index, &r);

	if (!w)
		return r;
	return attach_is_free(w) ? attach_offer(sv, call, w, ignore_exit)
				 : attach_refuse(sv, call, w);
}

/* Checks a process that the caller has started. Returns 0, or a negative errno with err. */
static int attach_check_process(struct supervisor *sv, pid_t pid, struct error *err)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return error_set(err, -ESRCH, "there is no process %d", (int)pid);
	if (st.st_uid != getuid())
		return error_set(err, -EPERM, "process %d belongs to uid %u, expected %u", (int)pid,
			(unsigned)st.st_uid, (unsigned)getuid());
	if (pid == getpid() || worker_list_by_pid(sv, pid))
		return error_set(err, -EEXIST, "process %d is the agent's own", (int)pid);
	if (getpgid(pid) != pid)
		return error_set(err, -EINVAL,
			"process %d does not lead a process group: signals would reach its caller",
			(int)pid);
	return 0;
}

static int attach_watch_process(struct attach *at, pid_t pid, struct error *err)
{
	int r;

	at->pidfd = proc_pidfd(pid);
	if (at->pidfd < 0)
		return error_set(err, at->pidfd, "process %d: %s", (int)pid, strerror(-at->pidfd));
	r = loop_fd_new(
		supervisor_loop(at->sv), at->pidfd, LOOP_READ, attach_on_pidfd, at, &at->watch);
	if (r < 0) {
		at->pidfd = close_fd(at->pidfd);
		return error_set(err, r, "out of memory");
	}
	at->pid = pid;
	return 0;
}

static int attach_started_method(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *name = json_get_string(p, "worker", "");
	pid_t pid = (pid_t)json_get_int(p, "pid", 0);
	struct attach *at = attach_named(sv, name);
	struct worker *w = at ? attach_worker(at) : NULL;
	struct error err = { 0 };
	int r;

	if (!w)
		return attach_no_such(call, name);
	if (at->pid)
		return attach_refuse(sv, call, w);
	r = attach_check_process(sv, pid, &err);
	if (r == 0)
		r = attach_watch_process(at, pid, &err);
	if (r < 0)
		return varlink_error(call, "Internal", manager_internal(err.text, r));
	w->pid = pid;
	launch_done(sv, w, "in a terminal");
	supervisor_event(sv, "attached", w->rank, NULL, "%s runs in a terminal (pid %d)",
		worker_name(w), (int)pid);
	supervisor_changed(sv);
	return varlink_reply(call, NULL);
}

static int attach_ended_method(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *name = json_get_string(p, "worker", "");
	struct attach *at = attach_named(sv, name);
	int64_t code = json_get_int(p, "code", -1), signo = json_get_int(p, "signal", 0);

	if (!at || at->over)
		return attach_no_such(call, name);
	if (signo < 0 || signo >= NSIG)
		return varlink_error_parameter(call, "signal");
	if (code < 0 && !signo)
		return varlink_error_parameter(call, "code");
	if (at->pid && !attach_process_ended(at))
		return varlink_error(
			call, "Internal", manager_internal("its process has not ended", -EBUSY));
	if (!at->pid) {
		attach_cancel(at, "its program was never started", true);
		return varlink_reply(call, NULL);
	}
	at->ended = call;
	varlink_call_on_gone(call, attach_ended_caller_gone, at);
	attach_process_over(
		at, signo ? CLD_KILLED : CLD_EXITED, signo ? (int)signo : (int)code, NULL);
	return 0;
}

/* The group (w NULL) or w is being stopped: tells the callers why, or cancels what they have not
 * started yet. */
static void attach_stopping(struct supervisor *sv, const struct worker *w, const char *why)
{
	struct attach *next;

	for (struct attach *at = attaches(sv); at; at = next) {
		next = at->next;
		if (w && attach_of(sv, w) != at)
			continue;
		if (!at->pid)
			attach_cancel(at, why, w);
		else if (at->call)
			varlink_notify(at->call, attach_order("signal", why));
	}
}

/* Makes the caller send a signal: the agent may not, where the program has changed its user. */
static void attach_forward_signal(struct supervisor *sv, const struct worker *w, int signo)
{
	struct attach *at = attach_of(sv, w);
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
static void attach_hang_up(struct supervisor *sv)
{
	struct attach *at;

	while ((at = attaches(sv))) {
		attach_end_call(at, "the agent ends");
		if (at->ended)
			varlink_reply(at->ended, NULL);
		attach_free(at);
	}
}

/* --- the feature --- */

static void attach_group_stopping(struct supervisor *sv, const char *why)
{
	attach_stopping(sv, NULL, why);
}

static void attach_worker_stopping(struct supervisor *sv, struct worker *w, const char *why)
{
	if (w->attached)
		attach_stopping(sv, w, why);
}

static bool attach_signals_worker(struct supervisor *sv, struct worker *w, int signo)
{
	if (w->attached)
		attach_forward_signal(sv, w, signo);
	return w->attached;
}

static bool attach_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	attach_hang_up(sv);
	return false;
}

static const struct varlink_method attach_methods[] = {
	{ "Attach", attach_method },
	{ "AttachStarted", attach_started_method },
	{ "AttachEnded", attach_ended_method },
	{ NULL, NULL },
};

const struct feature attach_feature = {
	.name = "attach",
	.hang_up = attach_hang_up,
	.manager_methods = attach_methods,
	.group_stopping = attach_group_stopping,
	.last_answers = attach_last_answers,
	.worker_stopping = attach_worker_stopping,
	.signals_worker = attach_signals_worker,
	.kill_workers = attach_kill,
};
