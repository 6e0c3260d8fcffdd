/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/proc.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

START_TEST(a_process_reads_itself)
{
	struct proc_stat p, again;

	memset(&p, 0xee, sizeof(p));
	ck_assert_int_eq(proc_stat_read(getpid(), &p), 0);
	ck_assert_int_eq(p.pid, getpid());
	ck_assert_int_eq(p.ppid, getppid());
	ck_assert_int_eq(p.pgrp, getpgrp());
	ck_assert_int_eq(p.session, getsid(0));
	ck_assert_int_eq(p.state, 'R');
	ck_assert_uint_gt(p.rss_bytes, 100 << 10);
	ck_assert_uint_lt(p.rss_bytes, 1ull << 40);
	ck_assert_uint_gt(p.start_ticks, 0);
	ck_assert_int_eq(proc_stat_read(getpid(), &again), 0);
	ck_assert_uint_eq(p.start_ticks, again.start_ticks);
	ck_assert_uint_le(p.cpu_ms, again.cpu_ms);
}
END_TEST

static const char *const nasty[] = { "a) R 1 (b", ")", "((", "", " ", "x\ny", "\xff\xfe",
	"fifteen letters", ") Z 0 0 0 0" };

START_TEST(a_name_may_contain_any_character)
{
	int fds[2], hold[2];
	struct proc_stat p;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, nasty[_i]);
		close(hold[1]);
		if (write(fds[1], "r", 1) != 1)
			_exit(1);
		_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	ck_assert_int_eq(proc_stat_read(pid, &p), 0);
	ck_assert_str_eq(p.comm, nasty[_i]);
	ck_assert_int_eq(p.pid, pid);
	ck_assert_int_eq(p.ppid, getpid());
	for (int i = 0; i < 2; i++)
		close(fds[i]), close(hold[i]);
	ck_assert_int_eq(child_end(pid), 0);
}
END_TEST

START_TEST(a_dead_child_is_a_zombie_until_it_is_waited_for)
{
	struct child c = child_start(NULL, getuid());
	struct proc_stat p;
	siginfo_t si;

	c.hold = close_fd(c.hold);
	ck_assert_int_eq(waitid(P_PID, (id_t)c.pid, &si, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(proc_stat_read(c.pid, &p), 0);
	ck_assert_int_eq(p.state, 'Z');
	ck_assert_int_eq(proc_environ_has(c.pid, "A=1"), -ESRCH);
	ck_assert_int_eq(child_end(c.pid), 0);
	ck_assert_int_eq(proc_stat_read(c.pid, &p), -ESRCH);
	ck_assert_int_eq(proc_environ_has(c.pid, "A=1"), -ESRCH);
	ck_assert_int_eq(proc_kill(&p, 0), -ESRCH);
	if (!under_valgrind())
		ck_assert_int_eq(proc_pidfd(c.pid), -ESRCH);
}
END_TEST

START_TEST(impossible_pids_are_no_processes)
{
	struct proc_stat p;

	ck_assert_int_eq(proc_stat_read(0, &p), -ESRCH);
	ck_assert_int_eq(proc_stat_read(-1, &p), -ESRCH);
	ck_assert_int_eq(proc_stat_read(INT32_MAX, &p), -ESRCH);
}
END_TEST

static int count_pid(const struct proc_stat *procs, size_t n, pid_t pid)
{
	int found = 0;

	for (size_t i = 0; i < n; i++)
		found += procs[i].pid == pid;
	return found;
}

START_TEST(all_processes_are_listed_once)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	struct child c = child_start(NULL, getuid());
	size_t n;

	ck_assert_int_eq(proc_stat_all(&procs, &n), 0);
	ck_assert_int_eq(count_pid(procs, n, getpid()), 1);
	ck_assert_int_eq(count_pid(procs, n, c.pid), 1);
	n = proc_keep_descendants(procs, n, getpid());
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(procs[0].pid, c.pid);
	ck_assert_str_eq(procs[0].comm, "cat");
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* 10 is the root; 11 to 14 are below it; 20, 21 are not; 30 and 31 are each other's parents. */
static const struct proc_stat family[] = { { .pid = 10, .ppid = 1 }, { .pid = 11, .ppid = 10 },
	{ .pid = 12, .ppid = 11 }, { .pid = 13, .ppid = 12 }, { .pid = 14, .ppid = 10 },
	{ .pid = 20, .ppid = 1 }, { .pid = 21, .ppid = 20 }, { .pid = 30, .ppid = 31 },
	{ .pid = 31, .ppid = 30 } };

enum { FAMILY = sizeof(family) / sizeof(family[0]) };

static void check_family(struct proc_stat *procs)
{
	size_t n = proc_keep_descendants(procs, FAMILY, 10);

	ck_assert_uint_eq(n, 4);
	for (pid_t pid = 11; pid <= 14; pid++)
		ck_assert_int_eq(count_pid(procs, n, pid), 1);
	/* Parents are before their children. */
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			ck_assert_int_ne(procs[i].ppid, procs[k].pid);
}

START_TEST(descendants_are_found_in_any_order_of_the_list)
{
	unsigned seed = 12345;

	for (int round = 0; round < 3000; round++) {
		struct proc_stat procs[FAMILY];

		memcpy(procs, family, sizeof(procs));
		for (size_t i = FAMILY; i > 1; i--) {
			struct proc_stat swap;
			size_t k;

			seed = seed * 1103515245 + 12345;
			k = (seed >> 16) % i;
			swap = procs[k];
			procs[k] = procs[i - 1];
			procs[i - 1] = swap;
		}
		check_family(procs);
	}
}
END_TEST

START_TEST(a_loop_through_the_root_ends)
{
	/* As it may look when pids are used again while the list is read. */
	struct proc_stat procs[] = { { .pid = 10, .ppid = 12 }, { .pid = 11, .ppid = 10 },
		{ .pid = 12, .ppid = 11 } };

	ck_assert_uint_eq(proc_keep_descendants(procs, 3, 10), 2);
	ck_assert_int_eq(count_pid(procs, 2, 10), 0);
	ck_assert_uint_eq(proc_keep_descendants(procs, 0, 10), 0);
}
END_TEST

/* A process that says that it is there, and ends when the last holder of the pipe has let go. */
static pid_t fork_held(const int *hold, const int *told)
{
	pid_t pid = fork();
	char byte;

	if (pid != 0)
		return pid;
	close(hold[1]);
	_exit(write(told[1], "r", 1) == 1 && read(hold[0], &byte, 1) == 0 ? 0 : 1);
}

static int hold[2], told[2];

static void *fork_in_thread(void *arg)
{
	fork_held(hold, told);
	pause(); /* the child of a thread that ends would go to another one */
	return NULL;
}

static void held_with_two_threads(void)
{
	pthread_t thread;
	char byte;

	fork_held(hold, told);
	if (pthread_create(&thread, NULL, fork_in_thread, NULL) != 0)
		_exit(1);
	close(hold[1]);
	_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
}

START_TEST(those_below_a_process_are_found_by_all_its_threads)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n = 0;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		held_with_two_threads();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(read(told[0], &byte, 1), 1);
	ck_assert_int_eq(proc_stat_below(pid, &procs, &n), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(procs[0].ppid, pid);
	ck_assert_int_eq(procs[1].ppid, pid);
	free(TAKE_PTR(procs));
	ck_assert_int_eq(proc_stat_below(getpid(), &procs, &n), 0);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(procs[0].pid, pid); /* parents before their children */
	for (int i = 0; i < 2; i++)
		close(hold[i]), close(told[i]);
	ck_assert_int_eq(child_end(pid), 0);
	free(TAKE_PTR(procs));
	ck_assert_int_eq(proc_stat_below(pid, &procs, &n), 0);
	ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(an_entry_of_the_environment_is_compared_whole)
{
	char env[][16] = { "RUN=abc", "XRUN=x", "EMPTY=", "LAST=1=2" };
	char *const envp[] = { env[0], env[1], env[2], env[3], NULL };
	struct child c = child_start(envp, getuid());
	char value[4];

	ck_assert_int_eq(proc_environ_has(c.pid, "RUN=abc"), 1);
	ck_assert_int_eq(proc_environ_has(c.pid, "EMPTY="), 1);
	ck_assert_int_eq(proc_environ_has(c.pid, "LAST=1=2"), 1);
	ck_assert_int_eq(proc_environ_has(c.pid, "RUN=ab"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, "RUN=abcd"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, "RUN=x"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, "UN=abc"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, "EMPTY"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, "LAST=1"), 0);
	ck_assert_int_eq(proc_environ_has(c.pid, ""), 0);
	ck_assert_int_eq(proc_environ_get(c.pid, "LAST=", value, sizeof(value)), 1);
	ck_assert_str_eq(value, "1=2");
	ck_assert_int_eq(proc_environ_get(c.pid, "LAST", value, sizeof(value)), 1);
	ck_assert_str_eq(value, "=1="); /* cut */
	ck_assert_int_eq(proc_environ_get(c.pid, "EMPTY=", value, sizeof(value)), 1);
	ck_assert_str_eq(value, "");
	ck_assert_int_eq(proc_environ_get(c.pid, "UN=", value, sizeof(value)), 0);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* The entry stands behind one of filler bytes, and before and behind longer ones. */
static void check_long_environment(size_t filler)
{
	char entry[] = "RUN=abc";
	_cleanup_free_ char *before = calloc(1, filler + 1), *longer = calloc(1, 100001);
	char *const envp[] = { before, entry, longer, before, NULL };
	struct child c;

	memset(before, 'x', filler);
	memset(longer, 'y', 100000);
	/* Within a long entry it is no entry. */
	memcpy(longer + 50000, "FALSE=1", 7);
	c = child_start(envp, getuid());
	ck_assert_msg(proc_environ_has(c.pid, "RUN=abc") == 1, "behind %zu bytes", filler);
	ck_assert_int_eq(proc_environ_has(c.pid, "FALSE=1"), 0);
	ck_assert_int_eq(child_release(&c), 0);
}

START_TEST(long_entries_do_not_hide_others)
{
	for (size_t filler = 16374; filler <= 16394; filler++)
		check_long_environment(filler);
	check_long_environment(1);
	check_long_environment(2 * 16384 - 1);
	check_long_environment(2 * 16384);
	check_long_environment(60000);
}
END_TEST

START_TEST(the_tail_of_a_long_entry_is_no_entry)
{
	for (size_t filler = 16380; filler <= 16388; filler++) {
		_cleanup_free_ char *longer = calloc(1, filler + 8);
		char *const envp[] = { longer, NULL };
		struct child c;

		memset(longer, 'x', filler);
		strcpy(longer + filler, "RUN=abc");
		c = child_start(envp, getuid());
		ck_assert_msg(!proc_environ_has(c.pid, "RUN=abc"), "behind %zu bytes", filler);
		ck_assert_int_eq(child_release(&c), 0);
	}
}
END_TEST

START_TEST(a_process_within_execve_does_not_count_as_one_without_the_entry)
{
	/* It executes itself again and again, with one environment: long, for the kernel to take
	 * its time, and for a reader to need more than one piece. */
	char run[] = "RUN=abc", script[] = "S=exec /bin/sh -c \"$S\"";
	char sh[] = "sh", c[] = "-c", text[] = "exec /bin/sh -c \"$S\"",
	     filler[] = "FILLER=123456789012";
	char *envp[1003], *const argv[] = { sh, c, text, NULL };
	int has = 0, n = 0;
	pid_t pid;

	envp[n++] = script;
	while (n < 1001)
		envp[n++] = filler;
	envp[n++] = run;
	envp[n] = NULL;
	pid = fork();
	if (pid == 0) {
		execve("/bin/sh", argv, envp);
		_exit(127);
	}
	ck_assert_int_gt(pid, 0);
	while (has != 1)
		has = proc_environ_has(pid, run);
	for (int i = 0; i < 5000; i++) {
		has = proc_environ_has(pid, run);
		ck_assert_msg(has == 1 || has == -EAGAIN, "look %d: %d", i, has);
	}
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
}
END_TEST

START_TEST(a_pidfd_tells_the_end_and_never_hits_a_stranger)
{
	struct child c = child_start(NULL, getuid());
	_cleanup_close_ int pidfd = proc_pidfd(c.pid);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	ck_assert_int_ge(pidfd, 0);
	ck_assert_int_eq(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(proc_pidfd_kill(pidfd, 0), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(proc_pidfd_kill(pidfd, SIGKILL), 0);
	ck_assert_int_eq(poll(&p, 1, -1), 1);
	ck_assert_int_eq(child_release(&c), -SIGKILL);
	ck_assert_int_eq(proc_pidfd_kill(pidfd, SIGKILL), -ESRCH);
}
END_TEST

START_TEST(a_signal_reaches_the_process_that_was_read_and_no_other)
{
	struct child c = child_start(NULL, getuid());
	struct proc_stat p, other;

	ck_assert_int_eq(proc_stat_read(c.pid, &p), 0);
	other = p;
	other.start_ticks--;
	ck_assert_int_eq(proc_kill(&other, SIGKILL), -ESRCH);
	ck_assert_int_eq(proc_kill(&p, 0), 0);
	ck_assert_int_eq(proc_kill(&p, SIGTERM), 0);
	ck_assert_int_eq(child_end(c.pid), -SIGTERM);
	close(c.hold);
}
END_TEST

START_TEST(the_owner_of_a_process_that_shows_nothing_is_known)
{
	uid_t uid = 12345;
	pid_t pid;

	ck_assert_int_eq(proc_uid(getpid(), &uid), 0);
	ck_assert_int_eq(uid, getuid());
	ck_assert_int_eq(proc_uid(INT32_MAX, &uid), -ESRCH);
	pid = fork();
	if (pid == 0) {
		/* Its files in /proc are root's now. */
		if (prctl(PR_SET_DUMPABLE, 0) < 0 || raise(SIGSTOP))
			_exit(1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
	uid = 12345;
	ck_assert_int_eq(proc_uid(pid, &uid), 0);
	ck_assert_int_eq(uid, getuid());
	kill(pid, SIGKILL);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
}
END_TEST

START_TEST(nothing_is_in_a_cgroup_that_is_not_there)
{
	ck_assert(!proc_in_cgroup(getpid(), "elasticd.no_such_run"));
	ck_assert(!proc_in_cgroup(getpid(), ""));
	ck_assert(!proc_in_cgroup(INT32_MAX, "elasticd.no_such_run"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("proc");
	TCase *t = tcase_create("proc");

	tcase_add_test(t, a_process_reads_itself);
	tcase_add_loop_test(
		t, a_name_may_contain_any_character, 0, sizeof(nasty) / sizeof(nasty[0]));
	tcase_add_test(t, a_dead_child_is_a_zombie_until_it_is_waited_for);
	tcase_add_test(t, impossible_pids_are_no_processes);
	tcase_add_test(t, all_processes_are_listed_once);
	tcase_add_test(t, descendants_are_found_in_any_order_of_the_list);
	tcase_add_test(t, a_loop_through_the_root_ends);
	tcase_add_test(t, those_below_a_process_are_found_by_all_its_threads);
	tcase_add_test(t, an_entry_of_the_environment_is_compared_whole);
	tcase_add_test(t, long_entries_do_not_hide_others);
	tcase_add_test(t, the_tail_of_a_long_entry_is_no_entry);
	tcase_add_test(t, a_signal_reaches_the_process_that_was_read_and_no_other);
	tcase_add_test(t, the_owner_of_a_process_that_shows_nothing_is_known);
	tcase_add_test(t, nothing_is_in_a_cgroup_that_is_not_there);
	tcase_add_test(t, a_process_within_execve_does_not_count_as_one_without_the_entry);
	if (!under_valgrind()) /* it has no pidfd_open() */
		tcase_add_test(t, a_pidfd_tells_the_end_and_never_hits_a_stranger);
	suite_add_tcase(s, t);
	return suite_run(s);
}
