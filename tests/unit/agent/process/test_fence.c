/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/fence.h"

#include "common/base/proc.h"
#include "tests/unit/run.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

START_TEST(without_a_fence_there_is_no_deadline)
{
	ck_assert(!fence_set(1));
	ck_assert_int_eq(fence_left_ms(), -1);
	fence_say_last_word();
}
END_TEST

START_TEST(the_guard_knows_how_much_time_is_left)
{
	ck_assert_int_eq(fence_make(), 0);
	ck_assert_int_eq(fence_left_ms(), -1);
	ck_assert(fence_set(now_ms() + 60000)); /* the guard waits without a limit */
	ck_assert_int_gt(fence_left_ms(), 50000);
	ck_assert(!fence_set(now_ms() + 120000)); /* it looks again by itself */
	ck_assert_int_gt(fence_left_ms(), 110000);
	ck_assert(!fence_set(now_ms()));
	ck_assert_int_eq(fence_left_ms(), 0);
	ck_assert(!fence_set(0));
	ck_assert_int_eq(fence_left_ms(), -1);
	ck_assert(fence_set(now_ms() + 60000));
}
END_TEST

static void until_state(pid_t pid, char state)
{
	struct proc_stat p = { 0 };

	while (p.state != state) {
		sched_yield();
		ck_assert_int_eq(proc_stat_read(pid, &p), 0);
	}
}

/* An agent with a worker that has a child of its own session; writes their pids to fd. */
static void be_agent(int fd)
{
	pid_t pids[2];

	pids[0] = fork();
	if (pids[0] == 0) {
		pids[1] = fork();
		if (pids[1] == 0) {
			setsid();
			pids[1] = getpid();
			(void)!write(fd, &pids[1], sizeof(pids[1]));
		} else {
			pids[0] = getpid();
			(void)!write(fd, &pids[0], sizeof(pids[0]));
		}
	}
	for (;;)
		pause();
}

START_TEST(workers_of_a_stopped_agent_are_killed_and_the_agent_is_not)
{
	int fds[2];
	pid_t agent, workers[2];

	ck_assert_int_eq(fence_make(), 0);
	ck_assert_int_eq(pipe(fds), 0);
	agent = fork();
	if (agent == 0)
		be_agent(fds[1]);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(read(fds[0], &workers[i], sizeof(pid_t)), sizeof(pid_t));
	kill(agent, SIGSTOP);
	until_state(agent, 'T');
	fence_set(now_ms());
	ck_assert_int_eq(fence_left_ms(), 0);
	fence_kill(agent);
	ck_assert_int_eq(fence_left_ms(), -1);
	for (int i = 0; i < 2; i++) {
		struct proc_stat p = { .state = 'X' };

		if (proc_stat_read(workers[i], &p) == 0)
			ck_assert(p.state == 'Z' || p.state == 'X');
	}
	until_state(agent, 'T');
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
}
END_TEST

static pid_t start_worker(int fd)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	(void)!write(fd, &pid, sizeof(pid));
	return pid;
}

START_TEST(workers_that_an_agent_starts_when_it_goes_on_are_not_killed)
{
	int fds[2];
	pid_t agent, worker;
	struct proc_stat p = { 0 };

	ck_assert_int_eq(fence_make(), 0);
	ck_assert_int_eq(pipe(fds), 0);
	agent = fork();
	if (agent == 0) {
		waitpid(start_worker(fds[1]), NULL, 0);
		fence_set(0);
		fence_set(now_ms() + 60000);
		start_worker(fds[1]);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(fds[0], &worker, sizeof(worker)), sizeof(worker));
	fence_set(now_ms());
	fence_kill(agent);
	ck_assert_int_eq(read(fds[0], &worker, sizeof(worker)), sizeof(worker));
	ck_assert_int_eq(proc_stat_read(worker, &p), 0);
	ck_assert(!proc_stat_dead(&p));
	ck_assert_int_gt(fence_left_ms(), 50000);
	kill(worker, SIGKILL);
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
}
END_TEST

/* As a worker that is to die soon may still start another process. */
START_TEST(processes_that_begin_after_the_deadline_are_killed_while_the_agent_stands_still)
{
	pid_t agent, worker;
	struct proc_stat p = { 0 };
	int fds[2];

	ck_assert_int_eq(fence_make(), 0);
	ck_assert_int_eq(pipe(fds), 0);
	fence_set(now_ms() - 1000);
	agent = fork();
	if (agent == 0) {
		start_worker(fds[1]);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(fds[0], &worker, sizeof(worker)), sizeof(worker));
	fence_kill(agent);
	ck_assert(proc_stat_read(worker, &p) < 0 || proc_stat_dead(&p));
	ck_assert_int_eq(fence_left_ms(), -1);
	kill(worker, SIGKILL);
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
}
END_TEST

START_TEST(the_last_word_goes_to_the_address_that_was_left)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int s = socket(AF_INET, SOCK_STREAM, 0), fd;
	char text[16] = "";

	ck_assert_int_eq(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(s, 1), 0);
	ck_assert_int_eq(getsockname(s, (struct sockaddr *)&a, &len), 0);
	ck_assert_int_eq(fence_make(), 0);
	fence_say_last_word(); /* there is none yet */
	fence_last_word((struct sockaddr *)&a, sizeof(a), "gone", 5);
	fence_say_last_word();
	fd = accept(s, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(recv(fd, text, sizeof(text), MSG_WAITALL), 5);
	ck_assert_str_eq(text, "gone");
	close(fd);
	close(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fence");
	TCase *tc = tcase_create("fence");

	tcase_add_test(tc, without_a_fence_there_is_no_deadline);
	tcase_add_test(tc, the_guard_knows_how_much_time_is_left);
	tcase_add_test(tc, workers_of_a_stopped_agent_are_killed_and_the_agent_is_not);
	tcase_add_test(tc, workers_that_an_agent_starts_when_it_goes_on_are_not_killed);
	tcase_add_test(tc,
		processes_that_begin_after_the_deadline_are_killed_while_the_agent_stands_still);
	tcase_add_test(tc, the_last_word_goes_to_the_address_that_was_left);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
