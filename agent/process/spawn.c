/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * The child borrows the parent's memory until it executes (CLONE_VM | CLONE_VFORK) and runs on a
 * stack of its own. It must only make system calls and write to its struct spawn_child. clone3 is
 * used for CLONE_INTO_CGROUP: starting in a cgroup costs nothing, while moving a running process
 * costs a grace period of the kernel. Where clone3 is missing or refused (some container filters),
 * clone and a write to cgroup.procs do the same.
 */

enum { SPAWN_STACK = 128 << 10 };

struct spawn_child {
	const struct spawn_request *req;
	pid_t parent;
	int procs_fd; /* cgroup.procs to write to; -1: started inside already */
	int error;
	enum spawn_stage stage;
};

#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

static struct rlimit spawn_nofile;
static bool spawn_nofile_raised;

/* Signals that the child resets, bit N-1 for signal N: all, until the agent knows better. */
static uint64_t spawn_reset = UINT64_MAX;
static bool spawn_no_clone3;

void spawn_note_ignored(void)
{
	struct sigaction sa;

	spawn_reset = 0;
	for (int i = 1; i < _NSIG; i++)
		if (sigaction(i, NULL, &sa) < 0 || sa.sa_handler == SIG_IGN)
			spawn_reset |= UINT64_C(1) << (i - 1);
}

void spawn_raise_nofile(void)
{
	struct rlimit mine;

	if (getrlimit(RLIMIT_NOFILE, &spawn_nofile) < 0)
		return;
	mine = spawn_nofile;
	mine.rlim_cur = mine.rlim_max;
	spawn_nofile_raised = setrlimit(RLIMIT_NOFILE, &mine) == 0;
}

NO_SANITIZE static int spawn_streams(const struct spawn_request *r)
{
	int from[] = { r->in, r->out, r->err };

	/* Move descriptors 0 to 2 out of the way if they are to become another of the three. */
	for (int i = 0; i < 3; i++) {
		if (from[i] < 0 || from[i] > 2 || from[i] == i)
			continue;
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++) {
		if (from[i] < 0)
			continue;
		if (from[i] == i) {
			if (fcntl(i, F_SETFD, 0) < 0)
				return -errno;
		} else if (dup2(from[i], i) < 0) {
			return -errno;
		}
	}
	/* A library may have opened descriptors without close-on-exec. */
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	return 0;
}

NO_SANITIZE static int spawn_prepare(struct spawn_child *c)
{
	const struct spawn_request *r = c->req;
	int e;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != c->parent)
		_exit(127); /* the parent died meanwhile */
	c->stage = SPAWN_SESSION;
	if (setsid() < 0)
		return -errno;
	c->stage = SPAWN_CGROUP;
	if (c->procs_fd >= 0 && write(c->procs_fd, "0", 1) < 0)
		return -errno;
	c->stage = SPAWN_LIMIT;
	if (spawn_nofile_raised && setrlimit(RLIMIT_NOFILE, &spawn_nofile) < 0)
		return -errno;
	for (size_t i = 0; i < r->n_limits; i++) {
		struct rlimit lim = { r->limits[i].soft, r->limits[i].hard };

		if (setrlimit(r->limits[i].resource, &lim) < 0)
			return -errno;
	}
	c->stage = SPAWN_CPUS;
	if (r->cpus && sched_setaffinity(0, sizeof(r->cpus->sets), r->cpus->sets) < 0)
		return -errno;
	if (r->umask != SPEC_UNSET)
		umask((mode_t)r->umask);
	c->stage = SPAWN_CWD;
	if (r->cwd && chdir(r->cwd) < 0)
		return -errno;
	c->stage = SPAWN_STREAM;
	e = spawn_streams(r);
	return e;
}

NO_SANITIZE static int spawn_main(void *arg)
{
	struct spawn_child *c = arg;
	/* Zeros mean SIG_DFL in the kernel's struct. glibc's sigaction() refuses two signals that
	 * the caller may have ignored. */
	static const long zero[16];
	sigset_t none;

	c->error = -spawn_prepare(c);
	if (c->error)
		_exit(127);
	/* Ignored signals survive CLONE_CLEAR_SIGHAND and execve(). Signals stay blocked until none
	 * of the parent's handlers can run here. */
	for (int i = 1; i < _NSIG; i++)
		if (spawn_no_clone3 || spawn_reset & UINT64_C(1) << (i - 1))
			syscall(SYS_rt_sigaction, i, zero, NULL, _NSIG / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	c->stage = SPAWN_EXEC;
	execve(c->req->program, c->req->argv, c->req->envp);
	c->error = errno;
	_exit(127);
}

#if defined(__x86_64__)
/* The child must not return on the parent's stack, so this makes the system call and runs main_fn.
 */
NO_SANITIZE static long spawn_clone3(struct clone_args *args, int (*main_fn)(void *), void *c)
{
	register int (*fn)(void *) __asm__("r8") = main_fn;
	register void *arg __asm__("r9") = c;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "movq %%r9, %%rdi\n\t"
			 "callq *%%r8\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(fn), "r"(arg)
			 : "rcx", "r11", "memory", "cc");
	return ret;
}
#elif defined(__aarch64__)
NO_SANITIZE static long spawn_clone3(struct clone_args *args, int (*main_fn)(void *), void *c)
{
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof(*args);
	register int (*fn)(void *) __asm__("x10") = main_fn;
	register void *arg __asm__("x11") = c;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, #0\n\t"
			 "mov x0, x11\n\t"
			 "blr x10\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x1), "r"(x8), "r"(fn), "r"(arg)
			 : "x30", "memory", "cc");
	return x0;
}
#else
static long spawn_clone3(struct clone_args *args, int (*main_fn)(void *), void *c)
{
	return -ENOSYS;
}
#endif

static void *spawn_stack(void)
{
	static void *stack;

	if (!stack) {
		stack = mmap(NULL, SPAWN_STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED)
			stack = NULL;
	}
	return stack;
}

static struct clone_args spawn_clone_args(void *stack, int cgroup_fd)
{
	return (struct clone_args){
		.flags = CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND |
			 (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)stack,
		.stack_size = SPAWN_STACK,
		.cgroup = cgroup_fd >= 0 ? (uint64_t)cgroup_fd : 0,
	};
}

static pid_t spawn_clone(struct spawn_child *c, int cgroup_fd)
{
	char *stack = spawn_stack();
	struct clone_args args = spawn_clone_args(stack, cgroup_fd);
	long pid = -ENOSYS;

	if (!stack)
		return -ENOMEM;
	if (!spawn_no_clone3)
		pid = spawn_clone3(&args, spawn_main, c);
	if (pid == -ENOSYS || pid == -EPERM || pid == -EINVAL) {
		spawn_no_clone3 = true;
		if (cgroup_fd >= 0) {
			c->procs_fd = openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
			if (c->procs_fd < 0) {
				c->stage = SPAWN_CGROUP;
				return -errno;
			}
		}
		pid = clone(spawn_main, stack + SPAWN_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
		if (pid < 0)
			pid = -errno;
		c->procs_fd = close_fd(c->procs_fd);
	}
	return (pid_t)pid;
}

NO_SANITIZE static int spawn_probe_main(void *arg)
{
	_exit(0);
}

void spawn_probe_cgroup(int cgroup_fd)
{
	void *stack = spawn_stack();
	struct clone_args args = spawn_clone_args(stack, cgroup_fd);
	siginfo_t si = { .si_code = CLD_KILLED };
	sigset_t all, old;
	long pid;

	if (cgroup_fd < 0 || !stack || spawn_no_clone3)
		return;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = spawn_clone3(&args, spawn_probe_main, NULL);
	while (pid > 0 && waitid(P_PID, (id_t)pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	sigprocmask(SIG_SETMASK, &old, NULL);
	spawn_no_clone3 = pid < 0 || si.si_code != CLD_EXITED;
}

int spawn_process(const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage)
{
	struct spawn_child c = { .req = req, .parent = getpid(), .procs_fd = -1 };
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = spawn_clone(&c, req->cgroup_fd);
	sigprocmask(SIG_SETMASK, &old, NULL);
	*ret_stage = c.stage;
	if (pid < 0)
		return pid;
	if (c.error) {
		siginfo_t si;

		while (waitid(P_PID, (id_t)pid, &si, WEXITED) < 0 && errno == EINTR)
			;
		return -c.error;
	}
	*ret_pid = pid;
	return 0;
}

const char *spawn_stage_name(enum spawn_stage s)
{
	static const char *const names[] = {
#define X(name, text) [SPAWN_##name] = text,
		SPAWN_STAGES(X)
#undef X
	};
	return names[s];
}

/* 0, -EACCES or -ENOENT for one candidate. */
static int spawn_check_file(const char *path, const char *cwd)
{
	_cleanup_close_ int dir = -1;
	int at = AT_FDCWD;
	struct stat st;

	if (path[0] != '/' && cwd) {
		dir = open(cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return -ENOENT;
		at = dir;
	}
	/* A directory that may not be searched counts as not having the file. */
	if (fstatat(at, path, &st, 0) < 0)
		return -ENOENT;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return faccessat(at, path, X_OK, AT_EACCESS) < 0 ? -EACCES : 0;
}

int spawn_find(const char *name, const char *path, const char *cwd, char **ret)
{
	int worst = -ENOENT; /* EACCES counts more */

	if (strchr(name, '/')) {
		*ret = strdup(name);
		return *ret ? 0 : -ENOMEM;
	}
	if (!*name)
		return -ENOENT;
	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin";
	for (const char *p = path; p; p = *p ? p + 1 : NULL) {
		const char *end = strchrnul(p, ':');
		_cleanup_free_ char *full = NULL;
		int r;

		if (asprintf(&full, "%.*s%s%s", (int)(end - p), p, end > p ? "/" : "./", name) <
			0) {
			full = NULL;
			return -ENOMEM;
		}
		r = spawn_check_file(full, cwd);
		if (!r) {
			*ret = TAKE_PTR(full);
			return 0;
		}
		if (r == -EACCES)
			worst = r;
		p = end;
	}
	return worst;
}
