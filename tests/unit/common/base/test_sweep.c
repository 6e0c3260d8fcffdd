/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/sweep.h"

#include "agent/process/cgroup.h"
#include "common/base/proc.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static char run[64], entry[96];

/* Runs of other tests, and of this one called twice at a time, are not the same. */
static void setup(void)
{
	snprintf(run, sizeof(run), "sweep_%d", (int)getpid());
	snprintf(entry, sizeof(entry), "ELASTICD_RUN=%s", run);
}

static int sweep(uid_t uid, const char *cgroup)
{
	const struct sweep_target target = { .run = run, .uid = uid, .cgroup = cgroup };

	return sweep_run(&target, NULL);
}

static struct child start(const char *env)
{
	char copy[128];
	char *const envp[] = { copy, NULL };

	snprintf(copy, sizeof(copy), "%s", env);
	return child_start(envp, getuid());
}

/* Whether it is alive; it is let go and waited for all the same. */
static bool survived(struct child *c)
{
	int end = child_release(c);

	ck_assert_msg(end == 0 || end == -SIGKILL, "ended with %d", end);
	return end == 0;
}

START_TEST(every_process_of_the_run_is_killed_and_counted_once)
{
	struct child c[5];

	for (int i = 0; i < 5; i++)
		c[i] = start(entry);
	ck_assert_int_eq(sweep(getuid(), NULL), 5);
	for (int i = 0; i < 5; i++)
		ck_assert(!survived(&c[i]));
	ck_assert_int_eq(sweep(getuid(), NULL), 0);
}
END_TEST

START_TEST(processes_of_other_runs_live_on)
{
	const char *const other[] = { "ELASTICD_RUN=%sx", "ELASTICD_RUN=x%s", "XELASTICD_RUN=%s",
		"ELASTICD_RUN2=%s", "OTHER=ELASTICD_RUN=%s", "elasticd_run=%s" };
	struct child c[6], mine = start(entry);

	for (int i = 0; i < 6; i++) {
		char env[128], *at;

		/* %s becomes the run. */
		snprintf(env, sizeof(env), "%s", other[i]);
		at = strstr(env, "%s");
		ck_assert_ptr_nonnull(at);
		snprintf(at, sizeof(env) - (size_t)(at - env), "%s%s", run,
			strstr(other[i], "%s") + 2);
		c[i] = start(env);
	}
	ck_assert_int_eq(sweep(getuid(), NULL), 1);
	ck_assert(!survived(&mine));
	for (int i = 0; i < 6; i++)
		ck_assert_msg(survived(&c[i]), "%s was killed", other[i]);
}
END_TEST

START_TEST(a_process_of_another_user_lives_on)
{
	char *const envp[] = { entry, NULL };
	struct child c = child_start(envp, getuid());

	ck_assert_int_eq(sweep(getuid() + 1, NULL), 0);
	ck_assert(survived(&c));
	if (getuid() != 0)
		return;
	c = child_start(envp, 65534);
	ck_assert_int_eq(sweep(0, NULL), 0);
	ck_assert_int_eq(sweep(65534, NULL), 1);
	ck_assert(!survived(&c));
}
END_TEST

START_TEST(the_caller_itself_is_spared)
{
	char self[PATH_MAX], arg[] = "--sweep";
	char *const argv[] = { arg, arg, run, NULL }, *const envp[] = { entry, NULL };
	struct child c = start(entry);
	pid_t pid;

	ck_assert_ptr_nonnull(realpath("/proc/self/exe", self));
	pid = fork();
	if (pid == 0) {
		execve(self, argv, envp);
		_exit(127);
	}
	ck_assert_int_eq(child_end(pid), 1);
	ck_assert(!survived(&c));
}
END_TEST

START_TEST(a_zombie_is_not_counted)
{
	struct child c = start(entry);
	siginfo_t si;

	kill(c.pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)c.pid, &si, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(sweep(getuid(), NULL), 0);
	ck_assert(!survived(&c));
}
END_TEST

/* The kernel reads the environment of a process from the process's own memory. */
static int hide(bool stay)
{
	long page = sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)getenv("FILLER"), begin = (first + page - 1) / page * page;
	char byte;

	if (mprotect((void *)begin, page, PROT_NONE) < 0 || read(0, &byte, 1) != 1 ||
		write(1, &byte, 1) != 1)
		return 126;
	while (stay)
		pause();
	return read(0, &byte, 1) == 0 ? 0 : 126;
}

/* A process of a run that cannot be told from another by its environment. fresh: in a session of
 * its own, which else is the caller's. stay: it outlives its parent. */
static struct child start_hidden(bool fresh, bool stay)
{
	char self[PATH_MAX], hide_arg[] = "--hide", filler[40000] = "FILLER=", byte = 'x';
	char *const argv[] = { hide_arg, hide_arg, stay ? hide_arg : NULL, NULL };
	char *const envp[] = { filler, entry, NULL };
	int hold[2], echo[2];
	struct child c;

	memset(filler + 7, 'x', sizeof(filler) - 8);
	filler[sizeof(filler) - 1] = '\0';
	ck_assert_ptr_nonnull(realpath("/proc/self/exe", self));
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(echo, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		if (dup2(hold[0], 0) < 0 || dup2(echo[1], 1) < 0 || (fresh && setsid() < 0))
			_exit(126);
		execve(self, argv, envp);
		_exit(127);
	}
	close(hold[0]);
	close(echo[1]);
	ck_assert_int_eq(write(hold[1], &byte, 1), 1);
	ck_assert_int_eq(read(echo[0], &byte, 1), 1);
	close(echo[0]);
	c.hold = hold[1];
	ck_assert_int_eq(proc_environ_has(c.pid, entry), -EAGAIN);
	return c;
}

START_TEST(a_process_that_hides_its_environment_delays_no_sweep)
{
	struct child hidden = start_hidden(true, false), c = start(entry);
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	ck_assert_int_eq(sweep(getuid(), NULL), 1);
	clock_gettime(CLOCK_MONOTONIC, &after);
	ck_assert_int_lt(after.tv_sec - before.tv_sec, 4);
	ck_assert(!survived(&c));
	ck_assert(survived(&hidden));
}
END_TEST

/* A guard: the leader of a session, with one process in that session and one below it that left. */
static void guard(int fd)
{
	struct child c[2];

	if (setsid() < 0)
		_exit(126);
	c[0] = start_hidden(false, true);
	c[1] = start_hidden(true, true);
	if (write(fd, c, sizeof(c)) != sizeof(c))
		_exit(126);
	pause();
	_exit(0);
}

static pid_t start_guard(struct child below[2], uint64_t *ret_ticks)
{
	struct proc_stat stat;
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		guard(fds[1]);
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], below, 2 * sizeof(*below)), (ssize_t)(2 * sizeof(*below)));
	close(fds[0]);
	ck_assert_int_eq(proc_stat_read(pid, &stat), 0);
	*ret_ticks = stat.start_ticks;
	return pid;
}

START_TEST(every_process_below_the_guard_is_killed_even_if_unreadable)
{
	struct sweep_target target = { .run = run, .uid = getuid() };
	struct child below[2], stranger = start_hidden(true, false);

	target.guard = start_guard(below, &target.guard_ticks);
	ck_assert_int_eq(sweep_run(&target, NULL), 3);
	ck_assert_int_eq(child_end(target.guard), -SIGKILL);
	ck_assert(survived(&stranger));
}
END_TEST

START_TEST(the_session_of_a_guard_that_died_gives_its_processes_away)
{
	struct sweep_target target = { .run = run, .uid = getuid() };
	struct child below[2];

	target.guard = start_guard(below, &target.guard_ticks);
	kill(target.guard, SIGKILL);
	ck_assert_int_eq(child_end(target.guard), -SIGKILL);
	ck_assert_int_eq(sweep_run(&target, NULL), 1);
	kill(below[1].pid, SIGKILL);
}
END_TEST

START_TEST(a_process_that_has_the_guards_number_by_now_is_left_alone)
{
	struct sweep_target target = { .run = run, .uid = getuid() };
	struct child below[2];

	target.guard = start_guard(below, &target.guard_ticks);
	target.guard_ticks += 1000000;
	ck_assert_int_eq(sweep_run(&target, NULL), 0);
	target.guard_ticks -= 1000000;
	ck_assert_int_eq(sweep_run(&target, NULL), 3);
	ck_assert_int_eq(child_end(target.guard), -SIGKILL);
}
END_TEST

/* A shell that executes itself again and again, with one environment, long for the kernel to take
 * its time. */
static pid_t ring(void)
{
	char script[] = "S=exec /bin/sh -c \"$S\"", filler[] = "FILLER=123456789012";
	char sh[] = "sh", c[] = "-c", text[] = "exec /bin/sh -c \"$S\"";
	char *envp[1003], *const argv[] = { sh, c, text, NULL };
	int n = 0;
	pid_t pid;

	envp[n++] = script;
	while (n < 1001)
		envp[n++] = filler;
	envp[n++] = entry;
	envp[n] = NULL;
	pid = fork();
	if (pid == 0) {
		execve("/bin/sh", argv, envp);
		_exit(127);
	}
	while (proc_environ_has(pid, entry) != 1)
		ck_assert_int_eq(kill(pid, 0), 0);
	return pid;
}

START_TEST(a_process_within_execve_is_found_in_a_later_pass)
{
	_cleanup_(sweep_freep) struct sweep *s = NULL;
	int n;
	bool unsure;
	pid_t pid;

	for (int round = 0; round < (under_valgrind() ? 4 : 40); round++) {
		s = sweep_free(s);
		pid = ring();
		ck_assert_int_eq(sweep_new(entry, round % 2 ? SWEEP_ANY : getuid(), &s), 0);
		while ((n = sweep_kill(s, &unsure)) == 0)
			ck_assert_msg(unsure, "it was missed");
		ck_assert_int_eq(n, 1);
		ck_assert_int_eq(child_end(pid), -SIGKILL);
	}
}
END_TEST

START_TEST(a_cgroup_that_is_not_there_does_not_hurt)
{
	struct child c = start(entry);

	ck_assert_int_eq(sweep(getuid(), "/no/such/cgroup"), 1);
	ck_assert(!survived(&c));
}
END_TEST

START_TEST(every_process_of_the_cgroup_is_killed_with_any_environment)
{
	_cleanup_(cgroup_freep) struct cgroup *group = NULL;
	_cleanup_close_ int procs = -1;
	struct child in, out;
	char pid[16];

	ck_assert_int_eq(cgroup_new(run, &group), 0);
	if (!group) {
		puts("no writable cgroup v2: its part of the sweep is left out");
		return;
	}
	cgroup_begin(group, 0);
	in = start("A=1");
	out = start("A=1");
	procs = openat(cgroup_fd(group), "cgroup.procs", O_WRONLY | O_CLOEXEC);
	snprintf(pid, sizeof(pid), "%d", (int)in.pid);
	ck_assert_int_gt(write(procs, pid, strlen(pid)), 0);
	/* The pass over /proc may still find what the cgroup's kill is ending. */
	ck_assert_int_le(sweep(getuid(), cgroup_dir(group)), 1);
	ck_assert_int_eq(child_end(in.pid), -SIGKILL);
	close(in.hold);
	ck_assert(survived(&out));
	close(TAKE_FD(procs));
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	if (argc > 2 && !strcmp(argv[1], "--sweep")) {
		snprintf(run, sizeof(run), "%s", argv[2]);
		return sweep(getuid(), NULL);
	}
	if (argc > 1 && !strcmp(argv[1], "--hide"))
		_exit(hide(argc > 2)); /* a leak check would look at what cannot be looked at */
	s = suite_create("sweep");
	t = tcase_create("sweep");
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, every_process_of_the_run_is_killed_and_counted_once);
	tcase_add_test(t, processes_of_other_runs_live_on);
	tcase_add_test(t, a_process_of_another_user_lives_on);
	tcase_add_test(t, the_caller_itself_is_spared);
	tcase_add_test(t, a_zombie_is_not_counted);
	tcase_add_test(t, a_process_that_hides_its_environment_delays_no_sweep);
	tcase_add_test(t, every_process_below_the_guard_is_killed_even_if_unreadable);
	tcase_add_test(t, the_session_of_a_guard_that_died_gives_its_processes_away);
	tcase_add_test(t, a_process_that_has_the_guards_number_by_now_is_left_alone);
	tcase_add_test(t, a_process_within_execve_is_found_in_a_later_pass);
	tcase_add_test(t, a_cgroup_that_is_not_there_does_not_hurt);
	tcase_add_test(t, every_process_of_the_cgroup_is_killed_with_any_environment);
	suite_add_tcase(s, t);
	return suite_run(s);
}
