/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_tree.h"

#include "common/base/proc.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int pids[2]; /* processes write their pid to it when they begin */

static void setup(void)
{
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	ck_assert_int_eq(pipe2(pids, O_CLOEXEC), 0);
}

static void teardown(void)
{
	for (int i = 0; i < 2; i++)
		close(pids[i]);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* In a forked process: reports its pid, and waits to be killed. */
static void live(void)
{
	pid_t me = getpid();

	if (write(pids[1], &me, sizeof(me)) != sizeof(me))
		_exit(1);
	for (;;)
		pause();
}

/* Waits until the process sleeps: before that it may be in any state. */
static void until_state(pid_t pid, char state)
{
	struct proc_stat p = { 0 };

	while (p.state != state) {
		sched_yield();
		ck_assert_int_eq(proc_stat_read(pid, &p), 0);
	}
}

static pid_t next_pid(void)
{
	pid_t pid;

	ck_assert_int_eq(read(pids[0], &pid, sizeof(pid)), sizeof(pid));
	return pid;
}

/* A chain of n processes, each the parent of the next and in a session of its own; ret has their
 * pids from the first to the last. */
static void chain(pid_t *ret, int n)
{
	pid_t pid = fork();

	for (int i = 0; pid == 0; i++) {
		pid_t me = getpid();

		setsid();
		if (i == n - 1)
			live();
		if (write(pids[1], &me, sizeof(me)) != sizeof(me))
			_exit(1);
		pid = fork();
		while (pid > 0)
			pause();
	}
	for (int i = 0; i < n; i++)
		ret[i] = next_pid();
	ck_assert_int_eq(ret[0], pid);
}

/* Kills the process in the middle, so that the one below it becomes an orphan. */
static pid_t orphan(void)
{
	pid_t pids_of_chain[2];

	chain(pids_of_chain, 2);
	kill(pids_of_chain[0], SIGKILL);
	ck_assert_int_eq(child_end(pids_of_chain[0]), -SIGKILL);
	return pids_of_chain[1];
}

static int count(const struct tree_except *except)
{
	char comm[17];
	bool stuck;
	pid_t pid;

	return tree_count(except, &pid, comm, &stuck);
}

START_TEST(without_children_there_is_nothing)
{
	char comm[17] = "not touched";
	bool stuck = true;
	pid_t pid = 7;

	ck_assert(tree_empty());
	ck_assert_int_eq(tree_count(NULL, &pid, comm, &stuck), 0);
	ck_assert_int_eq(pid, 0);
	ck_assert_str_eq(comm, "");
	ck_assert(!stuck);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 0);
}
END_TEST

START_TEST(every_generation_is_found_in_whatever_session)
{
	pid_t p[4];

	chain(p, 4);
	ck_assert(!tree_empty());
	ck_assert_int_eq(count(NULL), 4);
	ck_assert_int_eq(tree_signal(NULL, 0), 4);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 4);
	/* Reaps all; orphans are children of the subreaper. */
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(child_end(p[i]), -SIGKILL);
	ck_assert(tree_empty());
}
END_TEST

START_TEST(an_orphan_of_a_double_fork_is_found)
{
	pid_t pid = orphan(), found;
	char comm[17];
	bool stuck;

	until_state(pid, 'S');
	ck_assert_int_eq(tree_count(NULL, &found, comm, &stuck), 1);
	ck_assert_int_eq(found, pid);
	ck_assert_uint_gt(strlen(comm), 0);
	ck_assert(!stuck);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 1);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	ck_assert(tree_empty());
}
END_TEST

START_TEST(a_zombie_is_no_living_descendant_but_is_still_there)
{
	siginfo_t si;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(count(NULL), 0);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 0);
	ck_assert(!tree_empty());
	ck_assert_int_eq(child_end(pid), 3);
	ck_assert(tree_empty());
}
END_TEST

START_TEST(looking_at_the_tree_reaps_no_child)
{
	pid_t pid = fork();
	siginfo_t si;

	if (pid == 0)
		_exit(5);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	ck_assert(!tree_empty());
	ck_assert(!tree_empty());
	ck_assert_int_eq(child_end(pid), 5);
}
END_TEST

START_TEST(the_excepted_and_all_below_them_are_left_alone)
{
	pid_t helper[3], worker[2], listed[2];
	struct tree_except except = { listed, 2 };

	chain(helper, 3);
	chain(worker, 2);
	listed[0] = 1;
	listed[1] = helper[0];
	ck_assert_int_eq(count(NULL), 5);
	ck_assert_int_eq(count(&except), 2);
	ck_assert_int_eq(tree_signal(&except, SIGKILL), 2);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(child_end(worker[i]), -SIGKILL);
	ck_assert_int_eq(count(&except), 0);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(child_end(helper[i]), -SIGKILL);
}
END_TEST

START_TEST(a_parent_of_an_excepted_process_is_not_excepted)
{
	pid_t p[3];
	struct tree_except except = { &p[1], 1 };

	chain(p, 3);
	ck_assert_int_eq(count(&except), 1);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(child_end(p[i]), -SIGKILL);
}
END_TEST

START_TEST(a_dead_child_counts_until_it_is_reaped)
{
	siginfo_t si;
	pid_t pid = orphan();

	ck_assert(!tree_gone(NULL));
	tree_kill(NULL);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	ck_assert(!tree_gone(NULL));
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	ck_assert(tree_gone(NULL));
}
END_TEST

START_TEST(the_excepted_may_be_left_when_all_others_are_gone)
{
	pid_t helper[2], worker[3];
	struct tree_except except = { helper, 1 }, none = { NULL, 0 };

	chain(helper, 2);
	ck_assert(tree_gone(&except));
	ck_assert(!tree_gone(&none));
	chain(worker, 3);
	ck_assert(!tree_gone(&except));
	tree_kill(&except);
	for (int i = 0; i < 3; i++) {
		ck_assert(!tree_gone(&except));
		ck_assert_int_eq(child_end(worker[i]), -SIGKILL);
	}
	ck_assert(tree_gone(&except));
	ck_assert_int_eq(count(NULL), 2);
	tree_kill(&none);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(child_end(helper[i]), -SIGKILL);
	ck_assert(tree_gone(&none));
}
END_TEST

START_TEST(processes_that_fork_and_end_for_ever_are_caught)
{
	pid_t pid = fork();

	if (pid == 0)
		for (int i = 0;; i++) {
			if (i == 10)
				close(pids[1]);
			/* Not _exit(), where valgrind looks for leaks for so long that several
			 * generations are there at a time: more come than a look finds. */
			if (fork())
				raise(SIGKILL);
		}
	/* Ten processes have been forked: the chain runs. */
	close(pids[1]);
	ck_assert_int_eq(read(pids[0], &pid, sizeof(pid)), 0);
	close(pids[0]);
	while (!tree_gone(NULL)) {
		siginfo_t si = { .si_pid = 0 };

		tree_kill(NULL);
		while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) == 0 && si.si_pid)
			si.si_pid = 0;
	}
	ck_assert_int_eq(pipe2(pids, O_CLOEXEC), 0);
}
END_TEST

static pid_t clone_vfork(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
}

START_TEST(a_process_in_uninterruptible_sleep_is_the_one_that_is_named)
{
	pid_t other[1], stuck_pid, below, found;
	bool stuck = false;
	char comm[17];

	chain(other, 1);
	/* A parent sleeps so from vfork() until its child executes or ends. */
	stuck_pid = fork();
	if (stuck_pid == 0) {
		if (clone_vfork() == 0)
			live();
		_exit(0);
	}
	below = next_pid();
	until_state(other[0], 'S');
	until_state(below, 'S');
	until_state(stuck_pid, 'D');
	ck_assert_int_eq(tree_count(NULL, &found, comm, &stuck), 3);
	ck_assert(stuck);
	ck_assert_int_eq(found, stuck_pid);
	ck_assert_int_eq(tree_signal(NULL, SIGKILL), 3);
	ck_assert_int_eq(child_end(other[0]), -SIGKILL);
	ck_assert_int_eq(child_end(stuck_pid), -SIGKILL);
	ck_assert_int_eq(child_end(below), -SIGKILL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree");
	TCase *t = tcase_create("tree");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, without_children_there_is_nothing);
	tcase_add_test(t, every_generation_is_found_in_whatever_session);
	tcase_add_test(t, an_orphan_of_a_double_fork_is_found);
	tcase_add_test(t, a_zombie_is_no_living_descendant_but_is_still_there);
	tcase_add_test(t, looking_at_the_tree_reaps_no_child);
	tcase_add_test(t, the_excepted_and_all_below_them_are_left_alone);
	tcase_add_test(t, a_parent_of_an_excepted_process_is_not_excepted);
	tcase_add_test(t, a_dead_child_counts_until_it_is_reaped);
	tcase_add_test(t, the_excepted_may_be_left_when_all_others_are_gone);
	tcase_add_test(t, processes_that_fork_and_end_for_ever_are_caught);
	if (under_valgrind())
		puts("uninterruptible sleep is left out: valgrind turns vfork() into fork()");
	else
		tcase_add_test(t, a_process_in_uninterruptible_sleep_is_the_one_that_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
