/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump_writer.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* The stacks of a process in user space, from the debuggers that are installed. */

enum { STACKS_EACH_MS = 20000 };

static void stacks_exec(const char *path, char *const argv[], pid_t parent)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || getppid() != parent || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(127);
	execvp(argv[0], argv);
	unlink(path);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Waits for a child's end, by its pidfd where the kernel has one. */
static void stacks_wait(pid_t pid, uint64_t deadline_ms)
{
	_cleanup_close_ int fd = proc_pidfd(pid);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;

	while ((now = monotonic_ms()) < deadline_ms) {
		siginfo_t si = { 0 };
		uint64_t left = deadline_ms - now;

		if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid)
			return;
		/* poll() ignores a negative descriptor: then this only sleeps. */
		poll(&p, 1, fd < 0 && left > 50 ? 50 : (int)left);
	}
}

static bool stacks_stopped(pid_t pid)
{
	struct proc_stat stat;

	return proc_stat_read(pid, &stat) == 0 && (stat.state == 'T' || stat.state == 't');
}

/*
 * Runs a debugger on a process with its output in path, until deadline_ms. False where it is not
 * installed. A debugger killed while it attaches may leave the process stopped for good, and a
 * worker that only seemed to hang would really hang.
 */
static bool stacks_run(const char *path, char *const argv[], pid_t of, uint64_t deadline_ms)
{
	const bool stopped = stacks_stopped(of);
	pid_t self = getpid(), pid = fork();
	siginfo_t si = { 0 };

	if (pid == 0)
		stacks_exec(path, argv, self);
	if (pid < 0)
		return true;
	stacks_wait(pid, deadline_ms);
	kill(pid, SIGKILL); /* its time is over; harmless if it has ended */
	while (waitid(P_PID, (id_t)pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	if (si.si_code != CLD_EXITED && !stopped)
		kill(of, SIGCONT);
	return si.si_code != CLD_EXITED || si.si_status != 127;
}

static bool stacks_is_python(pid_t pid)
{
	char path[64], exe[PATH_MAX];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0)
		return false;
	exe[n] = '\0';
	name = strrchr(exe, '/');
	return !strncmp(name ? name + 1 : exe, "python", 6);
}

static bool stacks_py_spy(const char *dir, pid_t pid, uint64_t deadline_ms)
{
	static char py_spy[] = "py-spy", dump[] = "dump", option[] = "--pid";
	char number[16], path[PATH_MAX];
	char *const argv[] = { py_spy, dump, option, number, NULL };

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (snprintf(path, sizeof(path), "%s/%s.py-spy.txt", dir, number) >= (int)sizeof(path))
		return false;
	return stacks_run(path, argv, pid, deadline_ms);
}

static bool stacks_gdb(const char *dir, pid_t pid, uint64_t deadline_ms)
{
	static char gdb[] = "gdb", nx[] = "-nx", batch[] = "-batch", ex[] = "-ex", p[] = "-p";
	static char no_debuginfod[] = "set debuginfod enabled off";
	static char bt[] = "thread apply all backtrace 64";
	char number[16], path[PATH_MAX];
	char *const argv[] = { gdb, nx, batch, ex, no_debuginfod, p, number, ex, bt, NULL };

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (snprintf(path, sizeof(path), "%s/%s.gdb.txt", dir, number) >= (int)sizeof(path))
		return false;
	return stacks_run(path, argv, pid, deadline_ms);
}

static void stacks_process(
	const char *dir, pid_t pid, uint64_t deadline_ms, bool *have_py_spy, bool *have_gdb)
{
	uint64_t now = monotonic_ms(), limit = now + STACKS_EACH_MS;

	if (now >= deadline_ms)
		return;
	if (limit > deadline_ms)
		limit = deadline_ms;
	if (*have_py_spy && stacks_is_python(pid)) {
		*have_py_spy = stacks_py_spy(dir, pid, limit);
		if (*have_py_spy)
			return;
	}
	if (*have_gdb)
		*have_gdb = stacks_gdb(dir, pid, limit);
}

void dump_write_stacks(const struct dump_worker *worker, const char *dir, uint64_t deadline_ms)
{
	static bool have_py_spy = true, have_gdb = true;
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n = 0;

	/* The worker itself first: it matters most. */
	stacks_process(dir, worker->pid, deadline_ms, &have_py_spy, &have_gdb);
	if ((!have_py_spy && !have_gdb) || proc_stat_all(&procs, &n) < 0)
		return;
	n = proc_keep_descendants(procs, n, worker->pid);
	for (size_t i = 0; i < n && i < DUMP_PROCESSES; i++)
		stacks_process(dir, procs[i].pid, deadline_ms, &have_py_spy, &have_gdb);
}
