/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A supervisor with fake processes: a test ends each process, and lets time pass. A record gets a
 * word for each start and signal of a process ("spawn:0", "TERM:0") and for each hook of the
 * recording feature ("worker_started:0"), except hooks that come with every visible change
 * (changed, describe_...).
 */

#include "agent/process/env_list.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "tests/unit/spec_doc.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_PID = 5000000, PROCESSES = 16 }; /* above all pids of the kernel */

struct process {
	bool alive, reaped;
	int code, status;
	int64_t made_us; /* real time */
	char env[4096];
};

static struct loop *loop;
static struct spec *spec;
static struct supervisor *supervisor;
static char dir[64], state_dir[96], log_dir[96];
static struct process processes[PROCESSES];
static int n_processes;
static int kill_errno; /* signals fail with it; 0: they succeed */
static char record[8192];

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
	size_t n = strlen(record);
	va_list ap;

	if (n)
		record[n++] = ' ';
	va_start(ap, fmt);
	vsnprintf(record + n, sizeof(record) - n, fmt, ap);
	va_end(ap);
}

/* The record holds exactly these words; empties it. */
static void expect(const char *words)
{
	ck_assert_msg(!strcmp(record, words), "expected %s\n     got %s", words, record);
	record[0] = '\0';
}

/* --- processes --- */

static int world_spawn(const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage)
{
	struct process *p = &processes[n_processes];
	size_t n = 0;

	ck_assert_int_lt(n_processes, PROCESSES);
	for (char *const *v = req->envp; *v; v++)
		n += (size_t)snprintf(p->env + n, sizeof(p->env) - n, "%s\n", *v);
	p->alive = true;
	p->made_us = (int64_t)loop_real_us();
	while ((int64_t)loop_real_us() == p->made_us)
		; /* the process may run before the supervisor goes on */
	note("spawn:%d", n_processes);
	*ret_pid = FIRST_PID + n_processes++;
	return 0;
}

static struct process *process_of(pid_t pid)
{
	int i = (int)(pid < 0 ? -pid : pid) - FIRST_PID;

	return i >= 0 && i < n_processes ? &processes[i] : NULL;
}

static int world_kill(pid_t pid, int signo)
{
	struct process *p = process_of(pid);
	char name[SIGNALS_TEXT_MAX];

	if (!p || p->reaped) {
		errno = ESRCH;
		return -1;
	}
	note("%s:%d", signals_short(signo, name), (int)(p - processes));
	if (!kill_errno)
		return 0;
	errno = kill_errno;
	return -1;
}

static int world_waitid(idtype_t type, id_t id, siginfo_t *ret, int options)
{
	*ret = (siginfo_t){ 0 };
	for (int i = 0; i < n_processes; i++) {
		struct process *p = &processes[i];

		if (p->alive || p->reaped || (type == P_PID && (pid_t)id != FIRST_PID + i))
			continue;
		p->reaped = !(options & WNOWAIT);
		ret->si_pid = FIRST_PID + i;
		ret->si_code = p->code;
		ret->si_status = p->status;
		return 0;
	}
	return 0;
}

static const struct supervisor_processes world = {
	.spawn = world_spawn,
	.kill = world_kill,
	.waitid = world_waitid,
};

/* --- steps of a test --- */

/* Runs the loop until nothing is left to do. */
static void turns(void)
{
	for (int i = 0; i < 8; i++)
		loop_run_once(loop, false);
}

static void ends_by(int process, int code, int status)
{
	processes[process].alive = false;
	processes[process].code = code;
	processes[process].status = status;
}

/* A process exits, together with those that ends_by() has ended before. */
static void exits(int process, int code)
{
	ends_by(process, CLD_EXITED, code);
	reap_children(supervisor);
	turns();
}

__attribute__((unused)) static void dies(int process, int signo)
{
	ends_by(process, CLD_KILLED, signo);
	reap_children(supervisor);
	turns();
}

static void passes(uint64_t ms)
{
	loop_pass(loop, ms);
	turns();
}

__attribute__((unused)) static const char *variable(int process, const char *name)
{
	static char value[256];
	size_t n = strlen(name);

	for (const char *line = processes[process].env; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, name, n) && line[n] == '=') {
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + n + 1, "\n"),
				line + n + 1);
			return value;
		}
	return NULL;
}

static void world_make(void)
{
	log_init("test", LOG_EMERG);
	strcpy(dir, "/tmp/test_supervisor.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
	snprintf(log_dir, sizeof(log_dir), "%s/logs", dir);
	ck_assert_int_eq(file_mkdir_p(state_dir, 0700), 0);
	ck_assert_int_eq(loop_new(&loop), 0);
	loop_freeze();
	n_processes = kill_errno = 0;
	memset(processes, 0, sizeof(processes));
	record[0] = '\0';
}

static void world_free(void)
{
	supervisor = supervisor_free(supervisor);
	spec = spec_free(spec);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static int world_agent(const char *doc, const struct feature *const *features, bool resume)
{
	struct supervisor_options opt = {
		.run = "job_abc",
		.log_root = log_dir,
		.state_dir = state_dir,
		.listen_fd = -1,
		.features = features,
		.processes = &world,
		.resume = resume,
	};
	struct error err = { 0 };

	if (!spec) {
		spec = parse(doc);
		spec->name = strdup("job");
		ck_assert_int_eq(spec_resolve(spec, &err), 0);
	}
	return supervisor_new(loop, spec, &opt, NULL, &supervisor, &err);
}

/* Begins a job whose agent calls these features. */
static void begins(const char *doc, const struct feature *const *features)
{
	ck_assert_int_eq(world_agent(doc, features, false), 0);
	supervisor_start(supervisor);
	turns();
}

/* The agent and its workers are lost, and another agent goes on. */
__attribute__((unused)) static void is_lost_and_followed(const struct feature *const *features)
{
	supervisor = supervisor_free(supervisor);
	record[0] = '\0';
	ck_assert_int_eq(world_agent(NULL, features, true), 0);
	supervisor_start(supervisor);
	turns();
}
