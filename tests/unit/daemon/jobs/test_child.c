/* SPDX-License-Identifier: Apache-2.0 */
/* A child that cannot be reaped: another process traces it. */
#include "daemon/jobs/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static struct loop *loop;
static struct child_orphans orphans;

static void setup(void)
{
	ck_assert_int_eq(loop_new(&loop), 0);
}

static void teardown(void)
{
	child_orphans_fini(&orphans);
	loop = loop_free(loop);
}

/* Waits at its gate. */
static struct child waiting_child(void)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	char *argv[] = { (char *)"true", NULL };
	struct child_request q = {
		.program = "/bin/true", .argv = argv, .user = &user, .log_dir_fd = -1
	};
	struct error err = { 0 };
	struct child c;

	ck_assert_int_eq(child_user_init(&user, geteuid(), &err), 0);
	ck_assert_msg(child_start(&q, &c, &err) == 0, "%s", err.text);
	return c;
}

/* Traces pid until the returned descriptor is closed; returns -1 where that may not be. */
static int trace(pid_t pid, pid_t *ret_tracer)
{
	int told[2], hold[2];
	char byte = 0;

	ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	*ret_tracer = fork();
	if (*ret_tracer == 0) {
		close(hold[1]);
		byte = ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 ? 'y' : 'n';
		if (write(told[1], &byte, 1) != 1 || read(hold[0], &byte, 1) != 0)
			_exit(1);
		_exit(0);
	}
	close(told[1]);
	close(hold[0]);
	ck_assert_int_eq(read(told[0], &byte, 1), 1);
	close(told[0]);
	if (byte == 'y')
		return hold[1];
	close(hold[1]);
	waitpid(*ret_tracer, NULL, 0);
	return -1;
}

START_TEST(a_child_that_is_traced_when_it_is_abandoned_is_not_waited_for)
{
	struct child c = waiting_child();
	siginfo_t si = { 0 };
	pid_t tracer;
	int hold = trace(c.pid, &tracer);

	if (hold < 0)
		fprintf(stderr, "no process may be traced here\n");
	child_abandon(&c, loop, &orphans);
	ck_assert_int_eq(c.pidfd, -1);
	if (hold >= 0) {
		loop_run_once(loop, false);
		ck_assert_ptr_nonnull(orphans.first);
		close(hold);
		waitpid(tracer, NULL, 0);
	}
	while (orphans.first)
		loop_run_once(loop, true);
	ck_assert_int_eq(waitid(P_PID, (id_t)c.pid, &si, WEXITED | WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("child");
	TCase *t = tcase_create("child");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_child_that_is_traced_when_it_is_abandoned_is_not_waited_for);
	suite_add_tcase(s, t);
	return suite_run(s);
}
