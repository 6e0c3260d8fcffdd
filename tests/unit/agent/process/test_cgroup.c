/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/cgroup.h"

#include "agent/process/spawn.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char run[32];
static struct cgroup *group;

static void setup(void)
{
	group = NULL;
	snprintf(run, sizeof(run), "test_%d", (int)getpid());
	ck_assert_int_eq(cgroup_new(run, &group), 0);
}

static void teardown(void)
{
	group = cgroup_free(group);
}

static void read_at(int dir, const char *file, char *text, size_t size)
{
	_cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
}

/* A shell in the attempt's leaf. It writes "ready"; its pipe ends when all processes that it has
 * started are gone. */
static pid_t shell(const char *script, int *ret_pipe)
{
	static char name[] = "sh", flag[] = "-c";
	char path[] = "PATH=/usr/bin:/bin", text[256], ready[16];
	char *argv[] = { name, flag, text, NULL }, *envp[] = { path, NULL };
	struct spawn_request req = { .program = "/bin/sh",
		.argv = argv,
		.envp = envp,
		.umask = SPEC_UNSET,
		.in = -1,
		.err = -1,
		.cgroup_fd = cgroup_fd(group) };
	enum spawn_stage stage;
	int fds[2], r;
	pid_t pid;

	snprintf(text, sizeof(text), "%s", script);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	req.out = fds[1];
	r = spawn_process(&req, &pid, &stage);
	ck_assert_msg(r == 0, "%s at %s", strerror(-r), spawn_stage_name(stage));
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], ready, sizeof(ready)), 6);
	*ret_pipe = fds[0];
	return pid;
}

/* Waits until the kernel reports that the last process has left. */
static void wait_empty(void)
{
	char path[512], text[128];
	struct pollfd p = { .events = POLLPRI };

	snprintf(path, sizeof(path), "%s/cgroup.events", cgroup_dir(group));
	p.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(p.fd, 0);
	for (;;) {
		ck_assert_int_gt(pread(p.fd, text, sizeof(text) - 1, 0), 0);
		if (!cgroup_populated(group))
			break;
		ck_assert_int_eq(poll(&p, 1, -1), 1);
	}
	close(p.fd);
}

/* Waits until every process that can write to the pipe is dead. */
static void assert_ended(int pipe)
{
	char text[16];

	ck_assert_int_eq(read(pipe, text, sizeof(text)), 0);
	close(pipe);
}

START_TEST(without_a_cgroup_every_call_is_harmless)
{
	struct spec_resources none = {
		.memory_max = SPEC_UNSET, .cpu_weight = SPEC_UNSET, .tasks_max = SPEC_UNSET
	};
	struct spec_resources some = {
		.memory_max = 1 << 30, .cpu_weight = SPEC_UNSET, .tasks_max = 10
	};
	struct error err = { 0 };
	int64_t memory, cpu;

	ck_assert_int_eq(cgroup_fd(NULL), -1);
	ck_assert_ptr_null(cgroup_dir(NULL));
	ck_assert(!cgroup_populated(NULL));
	ck_assert_int_lt(cgroup_kill(NULL), 0);
	cgroup_usage(NULL, &memory, &cpu);
	ck_assert_int_eq(memory, -1);
	ck_assert_int_eq(cpu, -1);
	ck_assert_ptr_null(cgroup_free(NULL));
	cgroup_begin(NULL, 0);
	cgroup_close(NULL);
	cgroup_reopen(NULL);
	ck_assert_int_eq(cgroup_limit(NULL, &none, true, &err), 0);
	ck_assert_int_lt(cgroup_limit(NULL, &some, true, &err), 0);
	ck_assert_str_eq(err.field, "resources.memory_max");
	ck_assert_ptr_nonnull(strstr(err.text, "no writable cgroup v2 on this host"));
}
END_TEST

START_TEST(elastic_cgroup_off_means_no_cgroup)
{
	struct cgroup *none = (struct cgroup *)1;

	setenv("ELASTIC_CGROUP", "off", 1);
	ck_assert_int_eq(cgroup_new("off", &none), 0);
	unsetenv("ELASTIC_CGROUP");
	ck_assert_ptr_null(none);
}
END_TEST

/* Runs in a process of its own, which exits with 0 when it gets no cgroup, else with 1.
 */
static int try_one(void)
{
	struct cgroup *c = NULL;
	int r = cgroup_new("nobody", &c);

	if (r || !c)
		return r ? 2 : 0;
	cgroup_free(c);
	return 1;
}

START_TEST(without_write_access_there_is_no_cgroup)
{
	pid_t pid;

	if (getuid() != 0)
		return;
	pid = fork();
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) < 0 ? 3 : try_one());
	ck_assert_int_eq(child_end(pid), 0);
}
END_TEST

static void detach_cgroup2(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[1024], root[512], point[512];
	char found[512] = "";

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, " - cgroup2 ") &&
			sscanf(line, "%*s %*s %*s %511s %511s", root, point) == 2)
			strcpy(found, point);
	if (f)
		fclose(f);
	if (*found)
		umount2(found, MNT_DETACH);
}

START_TEST(a_host_without_cgroup_v2_gets_none)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
			mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(0); /* not permitted: there is nothing to test */
		detach_cgroup2();
		_exit(try_one());
	}
	ck_assert_int_eq(child_end(pid), 0);
}
END_TEST

START_TEST(the_cgroup_bears_the_name_of_the_run_and_is_removed_with_it)
{
	char dir[512], expected[64];
	struct stat st;

	snprintf(dir, sizeof(dir), "%s", cgroup_dir(group));
	snprintf(expected, sizeof(expected), "/elastic.%s", run);
	ck_assert_ptr_nonnull(strstr(dir, expected));
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert(!cgroup_populated(group));
	ck_assert_int_eq(cgroup_fd(group), -1);
	cgroup_begin(group, 0);
	cgroup_begin(group, 1);
	group = cgroup_free(group);
	ck_assert_int_eq(stat(dir, &st), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(each_attempt_has_a_leaf_of_its_own)
{
	char path[600];
	struct stat first, second, st;

	cgroup_begin(group, 0);
	ck_assert_int_ge(cgroup_fd(group), 0);
	ck_assert_int_eq(fcntl(cgroup_fd(group), F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fstat(cgroup_fd(group), &first), 0);
	cgroup_begin(group, 1);
	ck_assert_int_eq(fstat(cgroup_fd(group), &second), 0);
	ck_assert_uint_ne(first.st_ino, second.st_ino);
	snprintf(path, sizeof(path), "%s/a0", cgroup_dir(group));
	ck_assert_int_eq(stat(path, &st), -1);
}
END_TEST

START_TEST(a_worker_starts_inside_the_cgroup)
{
	char path[64], text[1024], expected[80];
	pid_t pid;
	int pipe;

	cgroup_begin(group, 3);
	pid = shell("echo ready; exec sleep 1000", &pipe);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	read_at(AT_FDCWD, path, text, sizeof(text));
	snprintf(expected, sizeof(expected), "/elastic.%s/a3\n", run);
	ck_assert_msg(strstr(text, expected), "it is in:\n%s", text);
	ck_assert(cgroup_populated(group));
	ck_assert_int_eq(cgroup_kill(group), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	assert_ended(pipe);
}
END_TEST

START_TEST(a_kill_reaches_all_that_a_worker_started)
{
	pid_t pid;
	int pipe;

	cgroup_begin(group, 0);
	pid = shell("trap '' TERM HUP; sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; "
		    "echo ready; wait",
		&pipe);
	ck_assert_int_eq(cgroup_kill(group), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	assert_ended(pipe);
	wait_empty();
}
END_TEST

START_TEST(after_a_kill_the_next_attempt_lives)
{
	pid_t pid;
	int pipe;

	for (int attempt = 0; attempt < 5; attempt++) {
		cgroup_begin(group, attempt);
		spawn_probe_cgroup(cgroup_fd(group));
		pid = shell("echo ready; exec sleep 1000", &pipe);
		ck_assert_int_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOHANG), 0);
		ck_assert(cgroup_populated(group));
		ck_assert_int_eq(cgroup_kill(group), 0);
		ck_assert_int_eq(child_end(pid), -SIGKILL);
		assert_ended(pipe);
		wait_empty();
	}
}
END_TEST

START_TEST(a_guard_that_has_let_go_of_it_takes_it_again)
{
	pid_t pid;
	int pipe;

	cgroup_begin(group, 0);
	pid = shell("echo ready; exec sleep 1000", &pipe);
	cgroup_close(group);
	ck_assert_int_lt(cgroup_kill(group), 0);
	ck_assert(!cgroup_populated(group));
	cgroup_reopen(group);
	ck_assert(cgroup_populated(group));
	ck_assert_int_eq(cgroup_kill(group), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	assert_ended(pipe);
}
END_TEST

START_TEST(the_next_agent_takes_over_what_the_last_one_left)
{
	struct cgroup *next = NULL;
	struct stat st;
	pid_t pid;
	int pipe;

	cgroup_begin(group, 0);
	pid = shell("echo ready; exec sleep 1000", &pipe);
	ck_assert_int_eq(cgroup_new(run, &next), 0);
	ck_assert_ptr_nonnull(next);
	ck_assert(cgroup_populated(next));
	/* An agent that frees the cgroup of a living process removes nothing. */
	group = cgroup_free(group);
	ck_assert_int_eq(stat(cgroup_dir(next), &st), 0);
	ck_assert_int_eq(cgroup_kill(next), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	assert_ended(pipe);
	group = next;
	wait_empty();
	cgroup_begin(group, 1);
}
END_TEST

static bool has_controller(const char *name)
{
	char path[600], text[256], *save = NULL;

	snprintf(path, sizeof(path), "%s/../cgroup.controllers", cgroup_dir(group));
	read_at(AT_FDCWD, path, text, sizeof(text));
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		if (!strcmp(w, name))
			return true;
	return false;
}

START_TEST(a_limit_is_set_or_the_error_names_it)
{
	struct spec_resources res = {
		.memory_max = SPEC_UNSET, .cpu_weight = SPEC_UNSET, .tasks_max = 50
	};
	_cleanup_close_ int dir = open(cgroup_dir(group), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error err = { 0 };
	char text[64];
	int r = cgroup_limit(group, &res, false, &err);

	if (r == 0) {
		read_at(dir, "pids.max", text, sizeof(text));
		ck_assert_str_eq(text, "50\n");
		return;
	}
	ck_assert_str_eq(err.field, "resources.tasks_max");
	ck_assert_ptr_nonnull(strstr(err.text, "not enforced"));
	ck_assert(!has_controller("pids") || r == -EBUSY || r == -EACCES || r == -EPERM);
}
END_TEST

START_TEST(the_first_limit_that_does_not_hold_is_named)
{
	struct spec_resources res = { .memory_max = 1 << 30, .cpu_weight = 100, .tasks_max = 50 };
	struct error err = { 0 };

	if (has_controller("memory"))
		return;
	ck_assert_int_lt(cgroup_limit(group, &res, false, &err), 0);
	ck_assert_str_eq(err.field, "resources.memory_max");
	res.memory_max = SPEC_UNSET;
	if (!has_controller("cpu")) {
		ck_assert_int_lt(cgroup_limit(group, &res, false, &err), 0);
		ck_assert_str_eq(err.field, "resources.cpu_weight");
	}
}
END_TEST

START_TEST(usage_has_memory_and_cpu_time_of_its_processes)
{
	int64_t memory, cpu;
	int end;
	pid_t pid;

	cgroup_begin(group, 0);
	pid = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; exec sleep 1000",
		&end);
	cgroup_usage(group, &memory, &cpu);
	ck_assert_int_gt(cpu, 0);
	if (memory != -1) /* the controller is not everywhere */
		ck_assert_int_gt(memory, 4096);
	ck_assert_int_eq(cgroup_kill(group), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	close(end);
	wait_empty();
}
END_TEST

static void add_writable(TCase *t)
{
	tcase_add_test(t, the_cgroup_bears_the_name_of_the_run_and_is_removed_with_it);
	tcase_add_test(t, each_attempt_has_a_leaf_of_its_own);
	tcase_add_test(t, a_worker_starts_inside_the_cgroup);
	tcase_add_test(t, a_kill_reaches_all_that_a_worker_started);
	tcase_add_test(t, after_a_kill_the_next_attempt_lives);
	tcase_add_test(t, a_guard_that_has_let_go_of_it_takes_it_again);
	tcase_add_test(t, the_next_agent_takes_over_what_the_last_one_left);
	tcase_add_test(t, usage_has_memory_and_cpu_time_of_its_processes);
	tcase_add_test(t, a_limit_is_set_or_the_error_names_it);
	tcase_add_test(t, the_first_limit_that_does_not_hold_is_named);
}

int main(void)
{
	Suite *s = suite_create("cgroup");
	TCase *t = tcase_create("cgroup");
	bool writable;

	/* Several of these programs may run at the same time. */
	snprintf(run, sizeof(run), "test_%d", (int)getpid());
	writable = cgroup_new(run, &group) == 0 && group;
	group = cgroup_free(group);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, without_a_cgroup_every_call_is_harmless);
	tcase_add_test(t, elastic_cgroup_off_means_no_cgroup);
	tcase_add_test(t, without_write_access_there_is_no_cgroup);
	tcase_add_test(t, a_host_without_cgroup_v2_gets_none);
	if (writable)
		add_writable(t);
	else
		puts("no writable cgroup v2 here: only what needs none is tested");
	suite_add_tcase(s, t);
	return suite_run(s);
}
