/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/env_list.h"
#include "agent/process/port.h"
#include "agent/process/spawn.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "agent/supervise/tfconfig.h"
#include "agent/supervise/worker_environment.h"
#include "common/base/log.h"
#include "common/base/memstream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* MASTER_PORT: another one than before, unless the specification names it. */
static int launch_choose_port(struct agent *a, struct error *err)
{
	int fixed = a->spec->rendezvous.master_port;
	struct port port = { 0 };
	int r;

	if (fixed && a->port.number == fixed)
		return 0;
	r = fixed ? port_claim_number(fixed, &port) : port_claim(&port);
	if (r < 0)
		return error_set(err, r, "no port for MASTER_PORT: %s", strerror(-r));
	port_release(&a->port);
	a->port = port;
	a->master_port = port.number;
	return 0;
}

void agent_rendezvous(struct agent *a)
{
	struct error err = { 0 };

	a->attempt++;
	a->leader_over = a->leader_failed = false;
	agent_set_reason(a, "%s", "");
	a->end.exit_status = 0;
	a->then[0] = '\0';
	a->culprit = -1;
	memset(&a->decision, 0, sizeof(a->decision));
	json_decref(a->end.root_cause);
	a->end.root_cause = NULL;
	if (launch_choose_port(a, &err) < 0 || agent_make_tasks(a, &err) < 0 ||
		tfconfig_begin(a, &err) < 0) {
		agent_set_reason(a, "%s", err.text);
		agent_post(a, GROUP_EV_FAIL);
		return;
	}
	agent_post(a, GROUP_EV_READY);
}

/* ${local_rank} becomes the number; every other text stays, "$$" and "$HOME" included. */
static char *launch_expand(const char *arg, int local_rank)
{
	static const char macro[] = "${local_rank}";
	const char *at;
	char *out = NULL;
	size_t size;
	FILE *f;

	if (!strstr(arg, macro))
		return strdup(arg);
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	while ((at = strstr(arg, macro))) {
		fprintf(f, "%.*s%d", (int)(at - arg), arg, local_rank);
		arg = at + strlen(macro);
	}
	fputs(arg, f);
	return memstream_end(f, &out);
}

void agent_launch_argv_free(char ***argv)
{
	for (size_t i = 0; *argv && (*argv)[i]; i++)
		free((*argv)[i]);
	free(*argv);
}

char **agent_launch_argv(const struct agent *a, const struct task *t)
{
	char *const *other = agent_single_argv(t);
	char *const *lists[2] = { other ? other : t->role->command, NULL };
	int local_rank = a->spec->virtual_local_rank ? 0 : t->local_rank;
	char **argv;
	size_t n = 0;

	if (!other && (size_t)t->index < t->role->n_args)
		lists[1] = t->role->args[t->index];
	for (int l = 0; l < 2; l++)
		for (size_t i = 0; lists[l] && lists[l][i]; i++)
			n++;
	argv = calloc(n + 1, sizeof(*argv));
	n = 0;
	for (int l = 0; argv && l < 2; l++)
		for (size_t i = 0; lists[l] && lists[l][i]; i++) {
			argv[n] = launch_expand(lists[l][i], local_rank);
			if (!argv[n++]) {
				agent_launch_argv_free(&argv);
				return NULL;
			}
		}
	return argv;
}

static void launch_failed(
	struct agent *a, struct task *t, int error, const char *stage, const char *what)
{
	t->started_us = t->ended_us = (int64_t)loop_real_us();
	task_set_exec_error(t, error, stage, what);
	task_set_state(t, TASK_FAILED, t->exit.text); /* whoever judges that says so */
}

static int launch_stdin(const struct agent *a)
{
	return a->opt.foreground ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Where the workers' cgroup was removed while none of them was in it, it is made again. */
static int launch_spawn(
	struct agent *a, struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage)
{
	int r = a->processes->spawn(req, ret_pid, ret_stage), again;
	bool early = *ret_stage == SPAWN_CLONE || *ret_stage == SPAWN_CGROUP;

	if (req->cgroup_fd < 0 || !early || (r != -ENOENT && r != -ENODEV))
		return r;
	again = cgroup_anew(a->cgroup);
	if (again < 0)
		log_warning("the cgroup of the workers has gone, and cannot be made again: %s",
			strerror(-again));
	else
		log_warning("the cgroup of the workers had gone; it was made again");
	if (again < 0 || cgroup_is_bare(a->cgroup))
		agent_limit(a);
	req->cgroup_fd = cgroup_fd(a->cgroup);
	return a->processes->spawn(req, ret_pid, ret_stage);
}

/* Finds the program and makes the process. Returns 0, or a negative errno after launch_failed(). */
static int launch_exec(struct agent *a, struct task *t, const struct logs_fds *fds,
	const struct env *env, char **argv)
{
	const char *cwd = t->role->cwd ? t->role->cwd : a->spec->cwd;
	_cleanup_free_ char *program = NULL;
	_cleanup_close_ int in = launch_stdin(a);
	struct spawn_request req = {
		.argv = argv,
		.envp = env->vars,
		.cwd = cwd,
		.umask = a->spec->umask,
		.limits = t->role->limits,
		.n_limits = t->role->n_limits,
		.in = in,
		.out = fds->out,
		.err = fds->err,
		.cgroup_fd = cgroup_fd(a->cgroup),
	};
	enum spawn_stage stage = SPAWN_EXEC;
	int r = spawn_find(argv[0], env_get(env, "PATH"), cwd, &program);

	req.program = program;
	if (!r)
		r = launch_spawn(a, &req, &t->pid, &stage);
	if (r < 0) {
		const char *what = stage == SPAWN_CWD && cwd ? cwd : argv[0];

		t->pid = 0;
		launch_failed(a, t, -r, spawn_stage_name(stage), what);
		return r;
	}
	return 0;
}

int agent_launch_environ(struct agent *a, struct task *t, struct env *env)
{
	struct error err = { 0 };
	int r = tfconfig_task_starting(a, t, &err);

	if (r < 0) {
		launch_failed(a, t, -r, "find an address for", agent_task_name(t));
		log_error("%s", err.text);
		return r;
	}
	r = environ_make(a, t, env);
	if (!r)
		r = env_add(env, agent_single_env(t));
	if (r < 0)
		launch_failed(a, t, -r, "make the environment of", t->role->command[0]);
	return r;
}

static int launch_process(struct agent *a, struct task *t, const struct logs_fds *fds)
{
	_cleanup_(env_fini) struct env env = { 0 };
	_cleanup_(agent_launch_argv_free) char **argv = agent_launch_argv(a, t);
	int r = agent_launch_environ(a, t, &env);

	if (!r && !argv) {
		r = -ENOMEM;
		launch_failed(a, t, -r, "make the command of", t->role->command[0]);
	}
	return r < 0 ? r : launch_exec(a, t, fds, &env, argv);
}

int agent_launch_begin(struct agent *a, struct task *t, struct logs_fds *fds)
{
	struct logs_task id = { t->role->name, t->index, t->rank, t->local_rank };
	struct error err = { 0 };
	int r;

	task_renew(t);
	t->incarnation += t->launched;
	t->launched = true;
	t->logs_due = false;
	/* Before its process exists, which may write its error file before the agent runs again. */
	t->started_us = (int64_t)loop_real_us();
	t->started_ms = loop_now_ms();
	task_set_state(t, TASK_STARTING, NULL);
	r = logs_open_task(a->logs, &id, fds, &err);
	if (r < 0) {
		launch_failed(a, t, -r, "open the logs of", agent_task_name(t));
		log_error("%s", err.text);
		return r;
	}
	free(t->error_file);
	t->error_file = fds->error_file && *fds->error_file ? strdup(fds->error_file) : NULL;
	FEATURES_CALL(a, worker_starting, a, t);
	return 0;
}

void agent_launch_done(struct agent *a, struct task *t, const char *reason)
{
	task_set_state(t, TASK_RUNNING, reason);
	FEATURES_CALL(a, worker_started, a, t);
}

void agent_launch_undo(struct agent *a, struct task *t)
{
	FEATURES_CALL(a, worker_not_started, a, t);
	logs_task_ended(a->logs, t->local_rank);
}

int agent_launch(struct agent *a, struct task *t)
{
	struct logs_fds fds = { .out = -1, .err = -1 };
	int r = agent_launch_begin(a, t, &fds);

	if (r < 0)
		return r;
	r = launch_process(a, t, &fds);
	logs_fds_fini(&fds);
	if (r < 0)
		agent_launch_undo(a, t);
	else
		agent_launch_done(a, t, NULL);
	return r;
}

/* What kept one worker from starting keeps the others: one report will do. */
static void launch_give_up(struct agent *a, int failed)
{
	agent_set_reason(a, "%s: %s", task_called(&a->tasks[failed]), a->tasks[failed].exit.text);
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].state == TASK_WAITING)
			task_set_state(&a->tasks[i], TASK_STOPPED, "never started");
	agent_judge(a);
}

/* A worker without a device of its own is found before any other one runs. */
static int launch_check_devices(struct agent *a)
{
	const struct spec_devices *devices = &a->spec->resources.devices;

	for (int i = 0; i < a->n_tasks && (a->spec->virtual_local_rank || devices->ids); i++) {
		_cleanup_(env_fini) struct env env = { 0 };

		if (environ_make(a, &a->tasks[i], &env) != -ERANGE)
			continue;
		launch_failed(a, &a->tasks[i], EINVAL,
			devices->ids ? "give one of resources.devices to"
				     : "give one of CUDA_VISIBLE_DEVICES (virtual_local_rank) to",
			a->tasks[i].role->command[0]);
		return i;
	}
	return -1;
}

/* How long the first start of t waits, so that not all do at once what their start costs. */
static uint64_t launch_delay(const struct task *t)
{
	int64_t delay = t->role->start_delay_ms > 0 ? t->role->start_delay_ms * t->index : 0;
	int64_t max = t->role->start_delay_max_ms;

	return (uint64_t)(max != SPEC_UNSET && delay > max ? max : delay);
}

/* Starts each task, or says when. Returns the rank of one that cannot be started, or -1. */
static int launch_all(struct agent *a, bool *ret_delayed)
{
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];
		uint64_t delay = launch_delay(t);

		if (t->on_purpose) {
			task_set_state(t, TASK_STOPPED, "stopped on request");
		} else if (delay) {
			agent_single_start_in(a, t, delay);
			*ret_delayed = true;
		} else if (agent_launch(a, t) < 0) {
			return i;
		}
	}
	return -1;
}

void agent_spawn(struct agent *a)
{
	bool delayed = false;
	struct error err = { 0 };
	int r = logs_begin_attempt(a->logs, a->attempt, &err), failed;

	a->spawned_ms = loop_now_ms();
	a->oom_kills = cgroup_oom_kills(a->cgroup, &a->oom_here);
	cgroup_begin(a->cgroup, a->attempt);
	if (cgroup_is_bare(a->cgroup))
		agent_limit(a);
	spawn_probe_cgroup(cgroup_fd(a->cgroup));
	if (r < 0) {
		agent_set_reason(a, "logs: %s", err.text);
		log_error("%s", a->reason);
		agent_post(a, GROUP_EV_FAIL);
		return;
	}
	failed = launch_check_devices(a);
	if (failed < 0) {
		FEATURES_CALL(a, attempt_begins, a);
		failed = launch_all(a, &delayed);
	}
	if (failed >= 0) {
		launch_give_up(a, failed);
		return;
	}
	events_add(a->events, "started", a->attempt, -1, NULL, "%d worker%s, MASTER_PORT %d",
		a->n_tasks, a->n_tasks == 1 ? "" : "s", a->master_port);
	if (!delayed)
		agent_post(a, GROUP_EV_STARTED);
}
