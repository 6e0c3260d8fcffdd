/* SPDX-License-Identifier: Apache-2.0 */
#include "common/sweep.h"

#include "agent/cgroup.h"
#include "common/proc.h"
#include "tests/unit/child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

static char run[64], entry[96];

/* Runs of other tests, and of this one called twice at a time, are not the same. */
static void setup(void)
{
	snprintf(run, sizeof(run), "sweep_%d", (int)getpid());
	snprintf(entry, sizeof(entry), "ELASTICD_RUN=%s", run);
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
	ck_assert_int_eq(sweep_run(run, getuid(), NULL, NULL), 5);
	for (int i = 0; i < 5; i++)
		ck_assert(!survived(&c[i]));
	ck_assert_int_eq(sweep_run(run, getuid(), NULL, NULL), 0);
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
	ck_assert_int_eq(sweep_run(run, getuid(), NULL, NULL), 1);
	ck_assert(!survived(&mine));
	for (int i = 0; i < 6; i++)
		ck_assert_msg(survived(&c[i]), "%s was killed", other[i]);
}
END_TEST

START_TEST(a_process_of_another_user_lives_on)
{
	char *const envp[] = { entry, NULL };
	struct child c = child_start(envp, getuid());

	ck_assert_int_eq(sweep_run(run, getuid() + 1, NULL, NULL), 0);
	ck_assert(survived(&c));
	if (getuid() != 0)
		return;
	c = child_start(envp, 65534);
	ck_assert_int_eq(sweep_run(run, 0, NULL, NULL), 0);
	ck_assert_int_eq(sweep_run(run, 65534, NULL, NULL), 1);
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
	ck_assert_int_eq(sweep_run(run, getuid(), NULL, NULL), 0);
	ck_assert(!survived(&c));
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

START_TEST(what_is_amid_execve_is_found_in_a_later_look)
{
	_cleanup_(sweep_freep) struct sweep *s = NULL;
	int n;
	bool unsure;
	pid_t pid;

	for (int round = 0; round < (under_valgrind() ? 4 : 40); round++) {
		s = sweep_free(s);
		pid = ring();
		ck_assert_int_eq(sweep_new(entry, round % 2 ? SWEEP_ANY : getuid(), &s), 0);
		while ((n = sweep_look(s, &unsure)) == 0)
			ck_assert_msg(unsure, "it was missed");
		ck_assert_int_eq(n, 1);
		ck_assert_int_eq(child_end(pid), -SIGKILL);
	}
}
END_TEST

START_TEST(a_cgroup_that_is_not_there_does_not_hurt)
{
	struct child c = start(entry);

	ck_assert_int_eq(sweep_run(run, getuid(), "/no/such/cgroup", NULL), 1);
	ck_assert(!survived(&c));
}
END_TEST

START_TEST(all_of_the_cgroup_is_killed_whatever_its_environment)
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
	ck_assert_int_eq(sweep_run(run, getuid(), cgroup_dir(group), NULL), 0);
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
	SRunner *r;
	int failed;

	if (argc > 2 && !strcmp(argv[1], "--sweep"))
		return sweep_run(argv[2], getuid(), NULL, NULL);
	s = suite_create("sweep");
	t = tcase_create("sweep");
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, every_process_of_the_run_is_killed_and_counted_once);
	tcase_add_test(t, processes_of_other_runs_live_on);
	tcase_add_test(t, a_process_of_another_user_lives_on);
	tcase_add_test(t, the_caller_itself_is_spared);
	tcase_add_test(t, a_zombie_is_not_counted);
	tcase_add_test(t, what_is_amid_execve_is_found_in_a_later_look);
	tcase_add_test(t, a_cgroup_that_is_not_there_does_not_hurt);
	tcase_add_test(t, all_of_the_cgroup_is_killed_whatever_its_environment);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
