/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/spawn.h"

#include "common/base/file.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * Real processes. Most of them are this program itself with --probe: it prints its own session,
 * signals, descriptors and so on.
 */

static char self[PATH_MAX];
static char dir[64];
static char name[PATH_MAX];

static const char *in_dir(const char *rest)
{
	snprintf(name, sizeof(name), "%s/%s", dir, rest);
	return name;
}

static void probe_status(const char *key)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			fputs(line, stdout);
}

static void probe_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	fputs("fds:", stdout);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d))
			printf(" %s", e->d_name);
	fputs("\n", stdout);
	if (d)
		closedir(d);
}

static int probe(const char *what)
{
	struct rlimit nofile, core, queue;
	int death = 0;
	char cwd[PATH_MAX];
	mode_t mask = umask(0);

	if (!strcmp(what, "streams"))
		return write(1, "out", 3) + write(2, "err", 3) == 6 ? 0 : 1;
	prctl(PR_GET_PDEATHSIG, &death);
	getrlimit(RLIMIT_NOFILE, &nofile);
	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_MSGQUEUE, &queue);
	printf("ppid: %d\n", (int)getppid());
	printf("leads: %d%d\n", getsid(0) == getpid(), getpgrp() == getpid());
	printf("umask: %03o\ncwd: %s\n", (unsigned)mask, getcwd(cwd, sizeof(cwd)));
	printf("pdeathsig: %d\n", death);
	printf("nofile: %llu %llu\n", (unsigned long long)nofile.rlim_cur,
		(unsigned long long)nofile.rlim_max);
	printf("msgqueue: %llu %llu\n", (unsigned long long)queue.rlim_cur,
		(unsigned long long)queue.rlim_max);
	printf("core: %llu\n", (unsigned long long)core.rlim_cur);
	printf("env: %s\n", getenv("PROBE") ? getenv("PROBE") : "none");
	probe_status("SigBlk:");
	probe_status("SigIgn:");
	probe_fds();
	fflush(stdout);
	if (!strcmp(what, "wait"))
		pause();
	_exit(7);
}

static void setup(void)
{
	strcpy(dir, "/tmp/test_spawn.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	umask(022);
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static char probe_argv[][8] = { "probe", "--probe", "wait", "streams", "PROBE=1" };
static char *const argv_probe[] = { probe_argv[0], probe_argv[1], NULL };
static char *const argv_wait[] = { probe_argv[0], probe_argv[1], probe_argv[2], NULL };
static char *const argv_streams[] = { probe_argv[0], probe_argv[1], probe_argv[3], NULL };
static char *const envp_probe[] = { probe_argv[4], NULL };

static struct spawn_request request(int out)
{
	return (struct spawn_request){ .program = self,
		.argv = argv_probe,
		.envp = envp_probe,
		.umask = SPEC_UNSET,
		.in = -1,
		.out = out,
		.err = -1,
		.cgroup_fd = -1 };
}

static void read_all(int fd, char *text, size_t size)
{
	size_t got = 0;
	ssize_t n;

	while ((n = read(fd, text + got, size - 1 - got)) > 0)
		got += (size_t)n;
	ck_assert_int_eq(n, 0);
	text[got] = '\0';
}

/* Spawns a process that exits with 7, and returns all that it writes to its standard output. */
static const char *report_of(struct spawn_request *req)
{
	static char text[8192];
	enum spawn_stage stage;
	int fds[2], r;
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	req->out = fds[1];
	r = spawn_process(req, &pid, &stage);
	ck_assert_msg(r == 0, "%s at %s", strerror(-r), spawn_stage_name(stage));
	req->out = close_fd(fds[1]);
	read_all(fds[0], text, sizeof(text));
	close(fds[0]);
	ck_assert_int_eq(child_end(pid), 7);
	return text;
}

static void has(const char *report, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void has(const char *report, const char *fmt, ...)
{
	char line[PATH_MAX + 32];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	ck_assert_msg(strstr(report, line), "missing: %s\nin:\n%s", line, report);
}

START_TEST(a_worker_is_a_child_with_a_session_of_its_own_and_dies_with_its_parent)
{
	struct spawn_request req = request(-1);
	const char *report = report_of(&req);

	has(report, "ppid: %d\n", (int)getpid());
	has(report, "leads: 11\n");
	has(report, "pdeathsig: %d\n", SIGKILL);
	has(report, "env: 1\n");
}
END_TEST

START_TEST(an_empty_environment_is_empty)
{
	char *const none[] = { NULL };
	struct spawn_request req = request(-1);

	setenv("PROBE", "parent", 1);
	req.envp = none;
	has(report_of(&req), "env: none\n");
	unsetenv("PROBE");
}
END_TEST

START_TEST(a_worker_inherits_no_descriptor_but_its_streams)
{
	struct spawn_request req = request(-1);
	int fds[4];

	for (int i = 0; i < 4; i++)
		fds[i] = open("/dev/null", O_RDWR); /* inheritable, as a library would leave it */
	has(report_of(&req), "fds: 0 1 2\n");
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}
END_TEST

enum { SIGNALS = 64 };

START_TEST(a_worker_has_clean_signals_whatever_its_parent_does)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before[SIGNALS + 1] = { 0 };
	struct spawn_request req = request(-1);
	sigset_t term, now, old;
	const char *report;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigaddset(&term, SIGUSR1);
	sigprocmask(SIG_BLOCK, &term, &old);
	for (int i = 1; i <= SIGNALS; i++) {
		sigaction(i, NULL, &before[i]);
		if (i != SIGCHLD && before[i].sa_handler != SIG_IGN)
			sigaction(i, &ignore, NULL);
	}
	if (_i)
		spawn_note_ignored();
	report = report_of(&req);
	/* The parent's own mask and dispositions are as before. */
	sigprocmask(SIG_BLOCK, NULL, &now);
	ck_assert(sigismember(&now, SIGTERM) && sigismember(&now, SIGUSR1));
	ck_assert(!sigismember(&now, SIGHUP));
	sigaction(SIGHUP, NULL, &ignore);
	ck_assert_ptr_eq(ignore.sa_handler, SIG_IGN);
	for (int i = 1; i <= SIGNALS; i++)
		sigaction(i, &before[i], NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	has(report, "SigBlk:\t0000000000000000\n");
	has(report, "SigIgn:\t0000000000000000\n");
}
END_TEST

static volatile sig_atomic_t handled;

static void on_signal(int signo)
{
	handled++;
}

START_TEST(a_signal_that_waits_for_the_parent_is_handled_in_the_parent_alone)
{
	struct sigaction sa = { .sa_handler = on_signal }, before;
	struct spawn_request req = request(-1);
	sigset_t set, old;

	handled = 0;
	sigaction(SIGALRM, &sa, &before);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &old);
	raise(SIGALRM);
	report_of(&req);
	ck_assert_int_eq(handled, 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	ck_assert_int_eq(handled, 1);
	sigaction(SIGALRM, &before, NULL);
}
END_TEST

START_TEST(umask_directory_and_limits_are_set)
{
	struct spec_rlimit limits[] = { { RLIMIT_MSGQUEUE, 17, 23 }, { RLIMIT_CORE, 0, 0 } };
	struct spawn_request req = request(-1);
	const char *report;

	req.umask = 077;
	req.cwd = dir;
	req.limits = limits;
	req.n_limits = 2;
	report = report_of(&req);
	has(report, "umask: 077\n");
	has(report, "cwd: %s\n", dir);
	has(report, "msgqueue: 17 23\n");
	has(report, "core: 0\n");
}
END_TEST

START_TEST(unset_properties_are_inherited)
{
	struct spawn_request req = request(-1);
	char cwd[PATH_MAX];
	const char *report;

	umask(027);
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	report = report_of(&req);
	umask(022);
	has(report, "umask: 027\n");
	has(report, "cwd: %s\n", cwd);
}
END_TEST

START_TEST(a_raised_limit_of_descriptors_is_the_parent_s_alone)
{
	struct spawn_request req = request(-1);
	struct spec_rlimit own = { RLIMIT_NOFILE, 5000, 5000 };
	struct rlimit before, lower;
	pid_t pid = fork();

	/* In a process of its own: it cannot be undone. */
	if (pid == 0) {
		getrlimit(RLIMIT_NOFILE, &before);
		lower = before;
		lower.rlim_cur = 100;
		setrlimit(RLIMIT_NOFILE, &lower);
		spawn_raise_nofile();
		getrlimit(RLIMIT_NOFILE, &lower);
		if (lower.rlim_cur != before.rlim_max)
			_exit(1);
		if (!strstr(report_of(&req), "nofile: 100 "))
			_exit(2);
		req.limits = &own;
		req.n_limits = before.rlim_max >= 5000;
		if (req.n_limits && !strstr(report_of(&req), "nofile: 5000 5000\n"))
			_exit(3);
		_exit(0);
	}
	ck_assert_int_eq(child_end(pid), 0);
}
END_TEST

/* Spawns a process that cannot start; checks errno and stage, and that no child is left. */
static void fails(const struct spawn_request *req, int error, enum spawn_stage expected)
{
	enum spawn_stage stage = -1;
	pid_t pid = -77;
	int r = spawn_process(req, &pid, &stage);

	ck_assert_msg(r == -error, "%s at %s", strerror(-r), spawn_stage_name(stage));
	ck_assert_int_eq(stage, expected);
	ck_assert_int_eq(pid, -77);
	ck_assert_int_eq(waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
}

static void put(const char *rest, const char *text, mode_t mode)
{
	ck_assert_int_eq(file_write_atomic(in_dir(rest), text, strlen(text), mode, false), 0);
}

START_TEST(a_program_that_cannot_be_executed_fails_with_its_errno)
{
	struct spawn_request req = request(-1);

	req.program = in_dir("none");
	fails(&req, ENOENT, SPAWN_EXEC);
	put("plain", "echo\n", 0644);
	fails((req.program = name, &req), EACCES, SPAWN_EXEC);
	put("text", "echo\n", 0755);
	fails((req.program = name, &req), ENOEXEC, SPAWN_EXEC);
	put("script", "#!/no/such/interpreter\n", 0755);
	fails((req.program = name, &req), ENOENT, SPAWN_EXEC);
	req.program = dir;
	fails(&req, EACCES, SPAWN_EXEC);
}
END_TEST

START_TEST(a_missing_directory_fails_with_its_stage)
{
	struct spawn_request req = request(-1);

	req.cwd = in_dir("none");
	fails(&req, ENOENT, SPAWN_CWD);
	put("file", "", 0644);
	req.cwd = name;
	fails(&req, ENOTDIR, SPAWN_CWD);
}
END_TEST

START_TEST(a_limit_that_cannot_be_set_fails_with_its_stage)
{
	struct spec_rlimit limit = { RLIMIT_NOFILE, 20, 10 };
	struct spawn_request req = request(-1);

	req.limits = &limit;
	req.n_limits = 1;
	fails(&req, EINVAL, SPAWN_LIMIT);
}
END_TEST

START_TEST(a_closed_stream_and_a_closed_cgroup_fail_with_their_stage)
{
	struct spawn_request req = request(1000);

	fails(&req, EBADF, SPAWN_STREAM);
	req.out = -1;
	req.cgroup_fd = 1000;
	fails(&req, EBADF, SPAWN_CLONE);
}
END_TEST

START_TEST(stages_have_names_of_their_own)
{
	for (int i = SPAWN_CLONE; i <= SPAWN_EXEC; i++)
		for (int k = SPAWN_CLONE; k < i; k++)
			ck_assert_str_ne(spawn_stage_name(i), spawn_stage_name(k));
}
END_TEST

/*
 * The parent's descriptors 0 to 2 become the write ends of three pipes. The worker gets those that
 * in, out and err name, and writes "out" and "err". Returns the pipes that these came from.
 */
static void wire(int out, int err, char got[3][16])
{
	struct spawn_request req = request(out);
	enum spawn_stage stage;
	int saved[3], pipes[3][2], r;
	pid_t pid = 0;

	req.argv = argv_streams;
	req.err = err;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pipe2(pipes[i], O_CLOEXEC), 0);
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 20);
	}
	for (int i = 0; i < 3; i++) {
		dup3(pipes[i][1], i, O_CLOEXEC);
		close(pipes[i][1]);
	}
	r = spawn_process(&req, &pid, &stage);
	for (int i = 0; i < 3; i++) {
		dup2(saved[i], i);
		close(saved[i]);
	}
	ck_assert_msg(r == 0, "%s at %s", strerror(-r), spawn_stage_name(stage));
	for (int i = 0; i < 3; i++) {
		read_all(pipes[i][0], got[i], 16);
		close(pipes[i][0]);
	}
	ck_assert_int_eq(child_end(pid), 0);
}

START_TEST(streams_may_be_any_of_the_parent_s_first_three)
{
	for (int out = 0; out < 3; out++)
		for (int err = 0; err < 3; err++) {
			char got[3][16], expected[3][16] = { "", "", "" };

			wire(out, err, got);
			strcat(expected[out], "out");
			strcat(expected[err], "err");
			for (int i = 0; i < 3; i++)
				ck_assert_msg(!strcmp(got[i], expected[i]),
					"out %d, err %d: pipe %d has \"%s\"", out, err, i, got[i]);
		}
}
END_TEST

START_TEST(a_parent_without_streams_can_give_some)
{
	struct spawn_request req = request(-1);
	int fds[2];
	pid_t pid, child;
	char text[16];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		enum spawn_stage stage;

		for (int i = 0; i < 3; i++)
			close(i);
		req.argv = argv_streams;
		req.out = dup(fds[1]); /* 0 */
		req.err = dup(fds[1]); /* 1 */
		if (req.out != 0 || req.err != 1 || spawn_process(&req, &child, &stage))
			_exit(1);
		_exit(child_end(child));
	}
	close(fds[1]);
	read_all(fds[0], text, sizeof(text));
	close(fds[0]);
	ck_assert_int_eq(child_end(pid), 0);
	ck_assert_str_eq(text, "outerr");
}
END_TEST

START_TEST(a_worker_dies_with_its_parent)
{
	struct spawn_request req = request(-1);
	enum spawn_stage stage;
	char text[8192];
	int fds[2], ready[2];
	pid_t pid, child;
	ssize_t n;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		req.argv = argv_wait;
		req.out = fds[1];
		if (spawn_process(&req, &child, &stage) < 0 || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	/* The worker has reported, and no process has closed its end of the pipe. */
	ck_assert_int_eq(read(ready[0], text, 1), 1);
	n = read(fds[0], text, sizeof(text));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = ready[0], .events = POLLIN }, 1, 0), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(child_end(pid), -SIGKILL);
	/* Only its death closes its end of the pipe. */
	read_all(fds[0], text, sizeof(text));
	for (int i = 0; i < 2; i++)
		close(i ? ready[0] : fds[0]);
	close(ready[1]);
}
END_TEST

/* From here on clone3() fails with ENOSYS in this process. */
static int deny_clone3(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

START_TEST(without_clone3_workers_start_the_same_way)
{
	struct spawn_request req = request(-1);
	enum spawn_stage stage;
	pid_t pid = fork(), child;

	if (pid == 0) {
		const char *report;
		int r;

		if (deny_clone3() < 0)
			_exit(77);
		signal(SIGPIPE, SIG_IGN);
		report = report_of(&req);
		if (!strstr(report, "leads: 11\n") || !strstr(report, "fds: 0 1 2\n") ||
			!strstr(report, "SigIgn:\t0000000000000000\n"))
			_exit(1);
		req.program = "/no/such/program";
		if (spawn_process(&req, &child, &stage) != -ENOENT || stage != SPAWN_EXEC)
			_exit(2);
		req.program = self;
		req.cgroup_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		/* The worker must not run outside the requested cgroup instead. */
		r = spawn_process(&req, &child, &stage);
		if (r != -ENOENT || stage != SPAWN_CGROUP)
			_exit(3);
		_exit(0);
	}
	ck_assert_int_eq(child_end(pid), 0);
}
END_TEST

START_TEST(many_workers_leave_nothing_behind)
{
	struct spawn_request req = request(-1);
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC), after;

	close(before);
	for (int i = 0; i < 30; i++)
		report_of(&req);
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(before, after);
	close(after);
}
END_TEST

static void find(const char *what, const char *path, const char *expected)
{
	_cleanup_free_ char *found = NULL;
	int r = spawn_find(what, path, dir, &found);

	ck_assert_msg(r == 0, "%s: %s", what, strerror(-r));
	ck_assert_str_eq(found, expected);
}

static int find_error(const char *what, const char *path)
{
	char *found = NULL;
	int r = spawn_find(what, path, dir, &found);

	ck_assert_ptr_null(found);
	return r;
}

static void make_programs(void)
{
	ck_assert_int_eq(mkdir(in_dir("bin"), 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("bin/folder"), 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("more"), 0755), 0);
	put("bin/plain", "", 0644);
	put("bin/tool", "", 0755);
	put("more/tool", "", 0755);
	put("more/plain", "", 0755);
	put("here", "", 0755);
}

START_TEST(a_name_with_a_slash_stands_as_it_is)
{
	find("./nothing", "/bin", "./nothing");
	find("/no/such", NULL, "/no/such");
	find("a/b", "", "a/b");
}
END_TEST

START_TEST(a_name_is_looked_for_along_the_path)
{
	char path[256], expected[128];

	make_programs();
	snprintf(path, sizeof(path), "/no/such:%s/more:%s/bin", dir, dir);
	snprintf(expected, sizeof(expected), "%s/more/tool", dir);
	find("tool", path, expected);
	ck_assert_int_eq(find_error("missing", path), -ENOENT);
	ck_assert_int_eq(find_error("", path), -ENOENT);
	ck_assert_int_eq(find_error("folder", path), -EACCES);
	/* A file that cannot be executed does not hide one that can. */
	snprintf(path, sizeof(path), "%s/bin:%s/more", dir, dir);
	snprintf(expected, sizeof(expected), "%s/more/plain", dir);
	find("plain", path, expected);
	path[strlen(path) - strlen("/more")] = '\0';
	ck_assert_int_eq(find_error("plain", path), -EACCES);
}
END_TEST

START_TEST(a_directory_that_may_not_be_searched_holds_no_program)
{
	char path[256], expected[128];

	make_programs();
	ck_assert_int_eq(chmod(dir, 0755), 0);
	ck_assert_int_eq(chmod(in_dir("bin"), 0), 0);
	snprintf(path, sizeof(path), "%s/bin:%s/more", dir, dir);
	snprintf(expected, sizeof(expected), "%s/more/tool", dir);
	/* Root may search every directory. */
	ck_assert(geteuid() != 0 || seteuid(65534) == 0);
	ck_assert_int_eq(find_error("missing", path), -ENOENT);
	find("tool", path, expected);
	ck_assert(getuid() != 0 || seteuid(0) == 0);
	ck_assert_int_eq(chmod(in_dir("bin"), 0755), 0);
}
END_TEST

START_TEST(relative_and_empty_entries_count_from_the_working_directory)
{
	make_programs();
	find("tool", "bin", "bin/tool");
	find("tool", "no:./more", "./more/tool");
	find("here", "", "./here");
	find("here", "bin:", "./here");
	find("here", ":bin", "./here");
	find("here", "bin::more", "./here");
	ck_assert_int_eq(find_error("here", "bin:more"), -ENOENT);
	ck_assert_int_eq(find_error("tool", "here"), -ENOENT); /* a file in a directory's place */
}
END_TEST

START_TEST(without_a_path_the_usual_one_is_taken)
{
	_cleanup_free_ char *found = NULL;

	ck_assert_int_eq(spawn_find("sh", NULL, NULL, &found), 0);
	ck_assert(found[0] == '/' && access(found, X_OK) == 0);
}
END_TEST

START_TEST(a_program_found_relative_to_a_directory_runs_in_it)
{
	struct spawn_request req = request(-1);
	_cleanup_free_ char *found = NULL;

	ck_assert_int_eq(mkdir(in_dir("bin"), 0755), 0);
	ck_assert_int_eq(symlink(self, in_dir("bin/prog")), 0);
	ck_assert_int_eq(spawn_find("prog", "bin", dir, &found), 0);
	ck_assert_str_eq(found, "bin/prog");
	req.program = found;
	req.cwd = dir;
	has(report_of(&req), "cwd: %s\n", dir);
}
END_TEST

static void add_native(TCase *t)
{
	tcase_add_test(t, a_raised_limit_of_descriptors_is_the_parent_s_alone);
	tcase_add_test(t, a_program_that_cannot_be_executed_fails_with_its_errno);
	tcase_add_test(t, a_missing_directory_fails_with_its_stage);
	tcase_add_test(t, a_limit_that_cannot_be_set_fails_with_its_stage);
	tcase_add_test(t, a_closed_stream_and_a_closed_cgroup_fail_with_their_stage);
	tcase_add_test(t, without_clone3_workers_start_the_same_way);
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	if (argc > 1 && !strcmp(argv[1], "--probe"))
		return probe(argc > 2 ? argv[2] : "");
	if (!realpath("/proc/self/exe", self))
		return EXIT_FAILURE;
	s = suite_create("spawn");
	t = tcase_create("spawn");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_worker_is_a_child_with_a_session_of_its_own_and_dies_with_its_parent);
	tcase_add_test(t, an_empty_environment_is_empty);
	tcase_add_test(t, a_worker_inherits_no_descriptor_but_its_streams);
	tcase_add_loop_test(t, a_worker_has_clean_signals_whatever_its_parent_does, 0, 2);
	tcase_add_test(t, a_signal_that_waits_for_the_parent_is_handled_in_the_parent_alone);
	tcase_add_test(t, umask_directory_and_limits_are_set);
	tcase_add_test(t, unset_properties_are_inherited);
	tcase_add_test(t, stages_have_names_of_their_own);
	tcase_add_test(t, streams_may_be_any_of_the_parent_s_first_three);
	tcase_add_test(t, a_parent_without_streams_can_give_some);
	tcase_add_test(t, a_worker_dies_with_its_parent);
	tcase_add_test(t, many_workers_leave_nothing_behind);
	tcase_add_test(t, a_name_with_a_slash_stands_as_it_is);
	tcase_add_test(t, a_name_is_looked_for_along_the_path);
	tcase_add_test(t, a_directory_that_may_not_be_searched_holds_no_program);
	tcase_add_test(t, relative_and_empty_entries_count_from_the_working_directory);
	tcase_add_test(t, without_a_path_the_usual_one_is_taken);
	tcase_add_test(t, a_program_found_relative_to_a_directory_runs_in_it);
	if (under_valgrind())
		puts("tests of what cannot be spawned are left out: valgrind turns a shared memory "
		     "into a copy, so that the parent does not hear of it");
	else
		add_native(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
