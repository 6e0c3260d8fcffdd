/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/env_list.h"
#include "agent/process/port.h"
#include "agent/process/spawn.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "agent/supervise/tfconfig.h"
#include "agent/supervise/worker_environment.h"
#include "common/base/log.h"
#include "common/base/memstream.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Chooses MASTER_PORT: a new one for each attempt, unless the specification names it. */
static int launch_choose_port(struct supervisor *sv, bool master, struct error *err)
{
	const struct spec_ports *of = &sv->spec->rendezvous.master_ports;
	int fixed = sv->spec->rendezvous.master_port;
	struct port port = { 0 };
	int r;

	if (!master) {
		port_release(&sv->master.claim);
		return 0;
	}
	if (fixed && sv->master.claim.number == fixed)
		return 0;
	r = fixed	? port_claim_number(fixed, &port)
	    : of->first ? port_claim_of(of->first, of->last, &port)
			: port_claim(&port);
	if (r == -EADDRINUSE && of->first && sv->master.claim.number)
		return 0; /* of these ports only that of the last attempt is left */
	if (r < 0 && of->first)
		return error_field(err, r, "rendezvous.master_ports",
			"expected a free port of %d-%d: %s", of->first, of->last, strerror(-r));
	if (r < 0)
		return error_set(err, r, "no port for MASTER_PORT: %s", strerror(-r));
	port_release(&sv->master.claim);
	sv->master.claim = port;
	sv->master.port = port.number;
	return 0;
}

int launch_prepare(struct supervisor *sv, bool master, struct error *err)
{
	int r;

	sv->leader.over = sv->leader.failed = false;
	supervisor_set_reason(sv, "%s", "");
	sv->end.exit_status = 0;
	sv->consequence[0] = '\0';
	sv->root_cause_rank = -1;
	memset(&sv->decision, 0, sizeof(sv->decision));
	json_decref(sv->end.root_cause);
	sv->end.root_cause = NULL;
	if ((r = launch_choose_port(sv, master, err)) < 0 || (r = worker_list_make(sv, err)) < 0)
		return r;
	r = tfconfig_begin(sv, err);
	return r < 0 ? r : FEATURES_TRY(sv, attempt_prepared, sv, err);
}

static void launch_attempt(struct supervisor *sv)
{
	struct error err = { 0 };

	sv->attempt++;
	if (launch_prepare(sv, true, &err) < 0) {
		supervisor_set_reason(sv, "%s", err.text);
		supervisor_post(sv, GROUP_EV_FAIL);
		return;
	}
	supervisor_post(sv, GROUP_EV_READY);
}

static void launch_when_ready(void *arg, const struct error *why)
{
	if (!why)
		launch_attempt(arg);
}

void launch_rendezvous(struct supervisor *sv)
{
	if (!FEATURES_ANY(sv, rendezvous, sv) &&
		!FEATURES_ANY(sv, delays_attempt, sv, launch_when_ready, sv))
		launch_attempt(sv);
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

char **launch_argv(const struct supervisor *sv, const struct worker *w)
{
	char *const *other = lifecycle_argv(w);
	char *const *lists[2] = { other ? other : w->role->command, NULL };
	int local_rank = sv->spec->virtual_local_rank ? 0 : w->local_rank;
	char **argv;
	size_t n = 0;

	if (!other && (size_t)w->index < w->role->n_args)
		lists[1] = w->role->args[w->index];
	for (int l = 0; l < 2; l++)
		for (size_t i = 0; lists[l] && lists[l][i]; i++)
			n++;
	argv = calloc(n + 1, sizeof(*argv));
	n = 0;
	for (int l = 0; argv && l < 2; l++)
		for (size_t i = 0; lists[l] && lists[l][i]; i++) {
			argv[n] = launch_expand(lists[l][i], local_rank);
			if (!argv[n++]) {
				return strings_free(argv);
			}
		}
	return argv;
}

static void launch_failed(struct worker *w, int error, const char *stage, const char *what)
{
	w->started_us = w->ended_us = (int64_t)loop_real_us();
	worker_set_exec_error(w, error, stage, what);
	worker_set_state(w, WORKER_FAILED, w->exit.text); /* the decision about it logs that */
}

static int launch_stdin(const struct supervisor *sv)
{
	return sv->opt.foreground ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Starts a process. Makes the workers' cgroup again if another program has removed it while it was
 * empty. */
static int launch_spawn(struct supervisor *sv, struct spawn_request *req, pid_t *ret_pid,
	enum spawn_stage *ret_stage)
{
	int r = sv->processes->spawn(req, ret_pid, ret_stage), again;
	bool early = *ret_stage == SPAWN_CLONE || *ret_stage == SPAWN_CGROUP;

	if (req->cgroup_fd < 0 || !early || (r != -ENOENT && r != -ENODEV))
		return r;
	again = cgroup_make_again(sv->cgroup);
	if (again < 0)
		log_warning("the workers' cgroup was removed, and cannot be made again: %s",
			strerror(-again));
	else
		log_warning("the workers' cgroup was removed, and was made again");
	if (again < 0 || cgroup_limits_lost(sv->cgroup))
		supervisor_limit(sv);
	req->cgroup_fd = cgroup_fd(sv->cgroup);
	return sv->processes->spawn(req, ret_pid, ret_stage);
}

/* Finds the program and makes the process. Returns 0, or a negative errno after launch_failed(). */
static int launch_exec(struct supervisor *sv, struct worker *w, const struct logs_fds *fds,
	const struct env *env, char **argv)
{
	const char *cwd = w->role->cwd ? w->role->cwd : sv->spec->cwd;
	_cleanup_free_ char *program = NULL;
	_cleanup_close_ int in = launch_stdin(sv);
	struct spawn_request req = {
		.argv = argv,
		.envp = env->vars,
		.cwd = cwd,
		.umask = sv->spec->umask,
		.limits = w->role->limits,
		.n_limits = w->role->n_limits,
		.in = in,
		.out = fds->out,
		.err = fds->err,
		.cgroup_fd = cgroup_fd(sv->cgroup),
	};
	enum spawn_stage stage = SPAWN_EXEC;
	int r = spawn_find(argv[0], env_get(env, "PATH"), cwd, &program);

	req.program = program;
	FEATURES_CALL(sv, worker_spawning, sv, w, &req);
	if (!r)
		r = launch_spawn(sv, &req, &w->pid, &stage);
	if (r < 0) {
		const char *what = stage == SPAWN_CWD && cwd ? cwd : argv[0];

		w->pid = 0;
		launch_failed(w, -r, spawn_stage_name(stage), what);
		return r;
	}
	return 0;
}

int launch_environment(struct supervisor *sv, struct worker *w, struct env *env)
{
	struct error err = { 0 };
	int r = tfconfig_worker_starting(sv, w, &err);

	if (r < 0) {
		launch_failed(w, -r, "find an address for", worker_name(w));
		log_error("%s", err.text);
		return r;
	}
	r = environment_make(sv, w, env);
	if (!r)
		r = env_add(env, lifecycle_env(w));
	if (r < 0)
		launch_failed(w, -r, "make the environment of", w->role->command[0]);
	return r;
}

static int launch_process(struct supervisor *sv, struct worker *w, const struct logs_fds *fds)
{
	_cleanup_(env_fini) struct env env = { 0 };
	_cleanup_strings_ char **argv = launch_argv(sv, w);
	int r = launch_environment(sv, w, &env);

	if (!r && !argv) {
		r = -ENOMEM;
		launch_failed(w, -r, "make the command of", w->role->command[0]);
	}
	return r < 0 ? r : launch_exec(sv, w, fds, &env, argv);
}

int launch_begin(struct supervisor *sv, struct worker *w, struct logs_fds *fds)
{
	struct logs_worker id = { w->role->name, w->index, w->rank, w->local_rank };
	struct error err = { 0 };
	int r;

	worker_renew(w);
	w->start += w->launched;
	w->launched = true;
	w->logs_due = false;
	/* Set before the process exists: it may write its error file before the agent runs again.
	 */
	w->started_us = (int64_t)loop_real_us();
	w->started_ms = loop_now_ms();
	worker_set_state(w, WORKER_STARTING, NULL);
	r = logs_open_worker(sv->logs, &id, fds, &err);
	if (r < 0) {
		launch_failed(w, -r, "open the logs of", worker_name(w));
		log_error("%s", err.text);
		return r;
	}
	free(w->error_file);
	w->error_file = fds->error_file && *fds->error_file ? strdup(fds->error_file) : NULL;
	FEATURES_CALL(sv, worker_starting, sv, w);
	return 0;
}

void launch_done(struct supervisor *sv, struct worker *w, const char *reason)
{
	worker_set_state(w, WORKER_RUNNING, reason);
	FEATURES_CALL(sv, worker_started, sv, w);
}

void launch_undo(struct supervisor *sv, struct worker *w)
{
	FEATURES_CALL(sv, worker_not_started, sv, w);
	logs_worker_ended(sv->logs, w->local_rank);
}

int launch_worker(struct supervisor *sv, struct worker *w)
{
	struct logs_fds fds = { .out = -1, .err = -1 };
	int r = launch_begin(sv, w, &fds);

	if (r < 0)
		return r;
	r = launch_process(sv, w, &fds);
	logs_fds_fini(&fds);
	if (r < 0)
		launch_undo(sv, w);
	else
		launch_done(sv, w, NULL);
	return r;
}

/* A worker cannot be started: starts no other, since each would fail and be reported alike. */
static void launch_give_up(struct supervisor *sv, int failed)
{
	supervisor_set_reason(
		sv, "%s: %s", worker_name(&sv->workers[failed]), sv->workers[failed].exit.text);
	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].state == WORKER_WAITING)
			worker_set_state(&sv->workers[i], WORKER_STOPPED, "never started");
	apply_decisions(sv);
}

/* Before any worker runs: finds a worker for which there is no device. Returns its place, or -1. */
static int launch_check_devices(struct supervisor *sv)
{
	const struct spec_devices *devices = &sv->spec->resources.devices;

	for (int i = 0; i < sv->n_workers && (sv->spec->virtual_local_rank || devices->ids); i++) {
		_cleanup_(env_fini) struct env env = { 0 };

		if (environment_make(sv, &sv->workers[i], &env) != -ERANGE)
			continue;
		launch_failed(&sv->workers[i], EINVAL,
			devices->ids ? "give one of resources.devices to"
				     : "give one of CUDA_VISIBLE_DEVICES (virtual_local_rank) to",
			sv->workers[i].role->command[0]);
		return i;
	}
	return -1;
}

/* How long the first start of w waits, so that costly starts do not all happen at once. */
static uint64_t launch_delay(const struct worker *w)
{
	int64_t delay = w->role->start_delay_ms > 0 ? w->role->start_delay_ms * w->index : 0;
	int64_t max = w->role->start_delay_max_ms;

	return (uint64_t)(max != SPEC_UNSET && delay > max ? max : delay);
}

/* Starts each worker now or after its delay. Returns the place of one that cannot be started, or
 * -1. */
static int launch_all(struct supervisor *sv, bool *ret_delayed)
{
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];
		uint64_t delay = launch_delay(w);

		if (w->state == WORKER_SUCCEEDED) {
			continue; /* on another host, before this one took its seat */
		} else if (w->on_purpose) {
			worker_set_state(w, WORKER_STOPPED, "stopped on request");
		} else if (delay) {
			lifecycle_start_in(sv, w, delay);
			*ret_delayed = true;
		} else if (launch_worker(sv, w) < 0) {
			return i;
		}
	}
	return -1;
}

/* The data of "started": which workers run now, so that a reader knows them before they end. */
static json_t *launch_ranks(const struct supervisor *sv)
{
	struct ranks ranks = { 0 };
	char *text = NULL;
	json_t *j = NULL;
	int r = 0;

	for (int i = 0; i < sv->n_workers && r == 0; i++)
		if (worker_alive(&sv->workers[i]))
			r = ranks_add(&ranks, sv->workers[i].rank, sv->workers[i].rank);
	if (r == 0)
		text = ranks_to_string(&ranks);
	if (text)
		j = json_pack("{s:s}", "ranks", text);
	free(text);
	ranks_fini(&ranks);
	return j;
}

void launch_group(struct supervisor *sv)
{
	bool delayed = false;
	struct error err = { 0 };
	int r = logs_begin_attempt(sv->logs, sv->attempt, &err), failed;

	sv->spawned_ms = loop_now_ms();
	cgroup_begin(sv->cgroup, sv->attempt);
	if (cgroup_limits_lost(sv->cgroup))
		supervisor_limit(sv);
	oom_begin(sv->oom);
	spawn_probe_cgroup(cgroup_fd(sv->cgroup));
	if (r < 0) {
		supervisor_set_reason(sv, "logs: %s", err.text);
		log_error("%s", sv->reason);
		supervisor_post(sv, GROUP_EV_FAIL);
		return;
	}
	failed = launch_check_devices(sv);
	if (failed < 0) {
		FEATURES_CALL(sv, attempt_begins, sv);
		failed = launch_all(sv, &delayed);
	}
	if (failed >= 0) {
		launch_give_up(sv, failed);
		return;
	}
	supervisor_event(sv, "started", -1, launch_ranks(sv), "%d worker%s, MASTER_PORT %d",
		sv->n_workers, sv->n_workers == 1 ? "" : "s", sv->master.port);
	if (!delayed)
		supervisor_post(sv, GROUP_EV_STARTED);
}
