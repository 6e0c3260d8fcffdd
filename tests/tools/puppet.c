/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A scripted worker for the end-to-end tests: every argument is one step, done in order, and after
 * the last one it exits 0. A step is NAME or NAME:ARGUMENT. In arguments %r is RANK, %l LOCAL_RANK,
 * %a the attempt, %w WORLD_SIZE, %p the process id and %% a percent sign. Where a step takes a
 * SCRIPT its steps are separated by '+'; braces hold a script within a script together. It waits by
 * inotify or pause(), never by looking again and again.
 *
 * Output (with an e in front, as eprint:TEXT, to standard error): print:TEXT (a line),
 * partial:TEXT (no newline), raw:HEX, lines:N:BYTES, long:BYTES, progress:N.
 *
 * Files: touch:PATH, mark:PATH (appends pid, rank, attempt), stamp:PATH (appends the monotonic time
 * at which the program began), env:PATH, fds:PATH, cwd:PATH, limits:PATH, status:PATH, args:PATH,
 * stdin:PATH, error-json:SHAPE:MESSAGE.
 *
 * Waiting: wait-file:PATH, barrier:DIR (until all ranks of the attempt are there), sleep:MS, hang,
 * spin:MS (of CPU time). Ending: exit:N, signal:NAME.
 *
 * Signals: ignore:NAME, on:NAME:SCRIPT (runs in the handler).
 *
 * Children: fork:SCRIPT, setsid-fork:SCRIPT, double-fork:SCRIPT, daemon:SCRIPT, burst:N, orphans:N,
 * chain:N.
 *
 * Others: hold:PATH (a lock; exits 99 where another process has it), bind-master, alloc:MIB,
 * close:FD, chdir:PATH, if-rank:N:SCRIPT, if-attempt:N:SCRIPT, if-file:PATH:SCRIPT,
 * unless-file:PATH:SCRIPT.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long long started_ns;
static char **program_args;
static char *handlers[NSIG];
static char *volatile kept_memory;
static int out_fd = STDOUT_FILENO;

static void run_script(const char *script);
static void run_step(const char *step);

static void fail(const char *what)
{
	dprintf(STDERR_FILENO, "puppet: %s: %s\n", what, strerror(errno));
	_exit(98);
}

static long long now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static const char *env_or(const char *name, const char *other)
{
	const char *value = getenv(name);

	return value ? value : other;
}

static const char *attempt(void)
{
	return env_or("ELASTICD_ATTEMPT", env_or("TORCHELASTIC_RESTART_COUNT", "0"));
}

/* A full or broken file is the test's business: what does not go out is dropped. */
static void write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

static void expand(const char *in, char *out, size_t size)
{
	size_t n = 0;

	for (; *in && n + 24 < size; in++) {
		const char *value = NULL;
		char pid[16];

		if (*in != '%' || !in[1]) {
			out[n++] = *in;
			continue;
		}
		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		switch (*++in) {
		case 'r':
			value = env_or("RANK", "?");
			break;
		case 'l':
			value = env_or("LOCAL_RANK", "?");
			break;
		case 'a':
			value = attempt();
			break;
		case 'w':
			value = env_or("WORLD_SIZE", "?");
			break;
		case 'p':
			value = pid;
			break;
		default:
			out[n++] = *in;
			continue;
		}
		n += (size_t)snprintf(out + n, size - n, "%.20s", value);
	}
	out[n] = 0;
}

static int signal_of(const char *name)
{
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i) && strcmp(sigabbrev_np(i), name) == 0)
			return i;
	if (atoi(name) <= 0 || atoi(name) >= NSIG) {
		errno = EINVAL;
		fail(name);
	}
	return atoi(name);
}

static int open_append(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (fd < 0)
		fail(path);
	return fd;
}

/* A reader that sees the file sees all of it: written beside, then renamed. */
static void publish(const char *path, const char *data, size_t len)
{
	char tmp[4096];
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.%d.tmp", path, (int)getpid());
	fd = open_append(tmp);
	write_all(fd, data, len);
	close(fd);
	if (rename(tmp, path) < 0)
		fail(path);
}

static void publish_copy(const char *path, const char *source)
{
	static char data[65536];
	size_t len = 0;
	ssize_t n;
	int fd = open(source, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(source);
	while (len < sizeof(data) && (n = read(fd, data + len, sizeof(data) - len)) > 0)
		len += (size_t)n;
	close(fd);
	publish(path, data, len);
}

/* Output */

static void put_text(const char *text, const char *end)
{
	char line[8192];

	expand(text, line, sizeof(line) - 2);
	strcat(line, end);
	write_all(out_fd, line, strlen(line));
}

static void do_print(const char *arg)
{
	put_text(arg, "\n");
}

static void do_partial(const char *arg)
{
	put_text(arg, "");
}

static void do_raw(const char *arg)
{
	char data[4096];
	size_t n = 0;
	unsigned int byte;

	while (n < sizeof(data) && sscanf(arg, "%2x", &byte) == 1) {
		data[n++] = (char)byte;
		arg += 2;
	}
	write_all(out_fd, data, n);
}

/* "N:BYTES": N lines "rank number xxx...", each of BYTES bytes with its newline. */
static void do_lines(const char *arg)
{
	static char block[65536];
	long count = atol(arg);
	size_t bytes = 80, used = 0;

	if (strchr(arg, ':'))
		bytes = (size_t)atol(strchr(arg, ':') + 1);
	if (bytes < 24 || bytes > sizeof(block) / 2)
		bytes = 80;
	for (long i = 0; i < count; i++) {
		size_t n = (size_t)snprintf(
			block + used, sizeof(block) - used, "%s %ld ", env_or("RANK", "?"), i);

		memset(block + used + n, 'x', bytes - n - 1);
		used += bytes;
		block[used - 1] = '\n';
		if (used + bytes > sizeof(block)) {
			write_all(out_fd, block, used);
			used = 0;
		}
	}
	write_all(out_fd, block, used);
}

static void do_long(const char *arg)
{
	static char block[1 << 20];
	long long left = atoll(arg);

	memset(block, 'L', sizeof(block));
	for (; left > 0; left -= (long long)sizeof(block))
		write_all(out_fd, block,
			left < (long long)sizeof(block) ? (size_t)left : sizeof(block));
	write_all(out_fd, "\n", 1);
}

static void do_progress(const char *arg)
{
	int count = atoi(arg);

	for (int i = 1; i <= count; i++)
		dprintf(out_fd, "\rstep %d/%d", i, count);
	dprintf(out_fd, "\n");
}

/* Files */

static void do_touch(const char *arg)
{
	publish(arg, "", 0);
}

static void do_mark(const char *arg)
{
	int fd = open_append(arg);

	dprintf(fd, "%d %s %s\n", (int)getpid(), env_or("RANK", "?"), attempt());
	close(fd);
}

static void do_stamp(const char *arg)
{
	int fd = open_append(arg);

	dprintf(fd, "%lld %s %s\n", started_ns, env_or("RANK", "?"), attempt());
	close(fd);
}

static void publish_strings(const char *path, char **strings)
{
	static char data[262144];
	size_t len = 0;

	for (; *strings && len + strlen(*strings) + 1 < sizeof(data); strings++) {
		strcpy(data + len, *strings);
		len += strlen(*strings) + 1;
	}
	publish(path, data, len);
}

static void do_env(const char *arg)
{
	publish_strings(arg, environ);
}

static void do_args(const char *arg)
{
	publish_strings(arg, program_args);
}

static void do_fds(const char *arg)
{
	char data[8192], link[64], target[512];
	size_t len = 0;

	for (int fd = 0; fd < 1024 && len + 600 < sizeof(data); fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = 0;
		len += (size_t)snprintf(data + len, sizeof(data) - len, "%d %s\n", fd, target);
	}
	publish(arg, data, len);
}

static void do_cwd(const char *arg)
{
	char dir[4096];

	if (!getcwd(dir, sizeof(dir)))
		fail("getcwd");
	publish(arg, dir, strlen(dir));
}

static void do_limits(const char *arg)
{
	publish_copy(arg, "/proc/self/limits");
}

static void do_status(const char *arg)
{
	publish_copy(arg, "/proc/self/status");
}

static void do_stdin(const char *arg)
{
	char data[4096];
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(data) && (n = read(0, data + len, sizeof(data) - len)) > 0)
		len += (size_t)n;
	publish(arg, data, len);
}

/* "SHAPE:MESSAGE"; SHAPE may end in @SECONDS, a timestamp other than now. */
static void do_error_json(const char *arg)
{
	const char *path = env_or("TORCHELASTIC_ERROR_FILE", "");
	const char *message = strchr(arg, ':');
	const char *at = strchr(arg, '@');
	char data[8192], when[32];
	struct timespec ts;
	int n = 0;

	if (!*path || !message)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(when, sizeof(when), "%lld", (long long)ts.tv_sec);
	if (at && at < message)
		snprintf(when, sizeof(when), "%.*s", (int)(message - at - 1), at + 1);
	message++;
#define IS(shape) (strncmp(arg, shape, sizeof(shape) - 1) == 0)
	if (IS("object"))
		n = snprintf(data, sizeof(data),
			"{\"message\": {\"message\": \"%s\", \"extraInfo\": {\"py_callstack\": "
			"\"Traceback of %s\\n  line two\", \"timestamp\": \"%s\"}}}",
			message, message, when);
	else if (IS("int"))
		n = snprintf(data, sizeof(data), "{\"message\": \"%s\", \"timestamp\": %s}",
			message, when);
	else if (IS("string"))
		n = snprintf(data, sizeof(data), "{\"message\": \"%s\", \"timestamp\": \"%s\"}",
			message, when);
	else if (IS("broken"))
		n = snprintf(data, sizeof(data), "{\"message\": {\"mess");
	else if (IS("nokey"))
		n = snprintf(data, sizeof(data), "{\"something\": \"%s\"}", message);
	else if (IS("array"))
		n = snprintf(data, sizeof(data), "[1, 2, 3]");
#undef IS
	publish(path, data, (size_t)n);
}

/* Waiting */

/* Waits until ready() says so; it is asked again after each change in dir. A user has only so many
 * inotify instances, and watches: without one it is asked again and again after all. */
static void wait_dir(const char *dir, bool (*ready)(const char *), const char *arg)
{
	char events[4096];
	int fd = inotify_init1(IN_CLOEXEC);
	bool told = fd >= 0 && inotify_add_watch(fd, dir, IN_CREATE | IN_MOVED_TO) >= 0;

	if (fd >= 0 && !told && errno != ENOSPC)
		fail(dir);
	while (!ready(arg)) {
		if (!told)
			nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
		else if (read(fd, events, sizeof(events)) < 0 && errno != EINTR)
			fail("inotify");
	}
	close(fd);
}

static bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static void do_wait_file(const char *arg)
{
	char dir[4096];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", arg);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	wait_dir(slash ? dir : ".", file_exists, arg);
}

static bool barrier_full(const char *dir)
{
	char path[4200];
	int world = atoi(env_or("WORLD_SIZE", "1"));

	for (int i = 0; i < world; i++) {
		snprintf(path, sizeof(path), "%s/a%s.r%d", dir, attempt(), i);
		if (!file_exists(path))
			return false;
	}
	return true;
}

static void do_barrier(const char *arg)
{
	char path[4200];

	if (mkdir(arg, 0777) < 0 && errno != EEXIST)
		fail(arg);
	snprintf(path, sizeof(path), "%s/a%s.r%s", arg, attempt(), env_or("RANK", "0"));
	do_touch(path);
	wait_dir(arg, barrier_full, arg);
}

static void do_sleep(const char *arg)
{
	struct timespec left = { atol(arg) / 1000, atol(arg) % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void do_hang(const char *arg)
{
	for (;;)
		pause();
}

static void do_spin(const char *arg)
{
	long long end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + atoll(arg) * 1000000;

	while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

/* Ending and signals */

static void do_exit(const char *arg)
{
	_exit(atoi(arg));
}

static void do_signal(const char *arg)
{
	int signo = signal_of(arg);
	sigset_t set;

	signal(signo, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(getpid(), signo);
}

static void do_ignore(const char *arg)
{
	signal(signal_of(arg), SIG_IGN);
}

static void on_signal(int signo)
{
	int saved = errno;

	run_script(handlers[signo]);
	errno = saved;
}

static void do_on(const char *arg)
{
	char name[16];
	const char *script = strchr(arg, ':');
	int signo;

	snprintf(name, sizeof(name), "%.*s", script ? (int)(script - arg) : 15, arg);
	signo = signal_of(name);
	free(handlers[signo]);
	handlers[signo] = strdup(script ? script + 1 : "");
	signal(signo, on_signal);
}

/* Children */

static void child_run(const char *script)
{
	run_script(script);
	_exit(0);
}

static void do_fork(const char *arg)
{
	if (fork() == 0)
		child_run(arg);
}

static void do_setsid_fork(const char *arg)
{
	if (fork() == 0) {
		setsid();
		child_run(arg);
	}
}

static void do_double_fork(const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (fork() == 0)
			child_run(arg);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* As daemons do: own session, orphaned, nothing inherited open, environment gone. */
static void do_daemon(const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (fork() == 0) {
			for (int fd = 0; fd < 256; fd++)
				close(fd);
			child_run(arg);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void do_burst(const char *arg)
{
	for (int i = atoi(arg); i > 0; i--)
		if (fork() == 0)
			_exit(i % 2);
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

/* N processes that outlive their parent: the process that adopts orphans has to reap them. */
static void do_orphans(const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = atoi(arg); i > 0; i--)
			if (fork() == 0)
				_exit(7);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* A process that is another one each millisecond, in a session of its own, at most N times. */
static void do_chain(const char *arg)
{
	int left = atoi(arg);

	if (fork() != 0)
		return;
	setsid();
	while (left-- > 0) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid == 0)
			do_sleep("1");
	}
	_exit(0);
}

/* Others */

static void do_hold(const char *arg)
{
	int fd = open(arg, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		fail(arg);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		dprintf(STDERR_FILENO, "puppet: %s is held by another process\n", arg);
		_exit(99);
	}
}

static void do_bind_master(const char *arg)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)arg;
	sin.sin_port = htons((unsigned short)atoi(env_or("MASTER_PORT", "0")));
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 || listen(fd, 1) < 0)
		fail("MASTER_PORT");
}

static void do_alloc(const char *arg)
{
	size_t size = (size_t)atol(arg) << 20;

	kept_memory = malloc(size);
	if (!kept_memory)
		fail("alloc");
	memset(kept_memory, 1, size);
}

static void do_close(const char *arg)
{
	close(atoi(arg));
}

static void do_chdir(const char *arg)
{
	if (chdir(arg) < 0)
		fail(arg);
}

/* "VALUE:SCRIPT": wanted is what VALUE has to be, or NULL where VALUE is a file that has to exist.
 */
static void run_if(const char *arg, const char *wanted, bool otherwise)
{
	char value[4096];
	size_t len = strcspn(arg, ":");
	bool holds;

	snprintf(value, sizeof(value), "%.*s", (int)len, arg);
	holds = wanted ? strcmp(value, wanted) == 0 : file_exists(value);
	if (holds != otherwise && arg[len])
		run_script(arg + len + 1);
}

static void do_if_rank(const char *arg)
{
	run_if(arg, env_or("RANK", ""), false);
}

static void do_if_attempt(const char *arg)
{
	run_if(arg, attempt(), false);
}

static void do_if_file(const char *arg)
{
	run_if(arg, NULL, false);
}

static void do_unless_file(const char *arg)
{
	run_if(arg, NULL, true);
}

/* How a step takes its argument. */
enum {
	PLAIN,	/* handed on as it is: the step expands it itself, or its script's steps do later */
	EXPAND, /* with its percent signs expanded */
	OUTPUT, /* plain; and the step can have an e in front */
};

/* clang-format off */
static const struct {
	const char *name;
	void (*fn)(const char *arg);
	int kind;
} steps[] = {
	{ "print", do_print, OUTPUT }, { "partial", do_partial, OUTPUT },
	{ "raw", do_raw, OUTPUT }, { "lines", do_lines, OUTPUT }, { "long", do_long, OUTPUT },
	{ "progress", do_progress, OUTPUT },
	{ "touch", do_touch, EXPAND }, { "mark", do_mark, EXPAND }, { "stamp", do_stamp, EXPAND },
	{ "env", do_env, EXPAND }, { "args", do_args, EXPAND }, { "fds", do_fds, EXPAND },
	{ "cwd", do_cwd, EXPAND }, { "limits", do_limits, EXPAND },
	{ "status", do_status, EXPAND }, { "stdin", do_stdin, EXPAND },
	{ "error-json", do_error_json, EXPAND }, { "wait-file", do_wait_file, EXPAND },
	{ "barrier", do_barrier, EXPAND }, { "exit", do_exit, EXPAND },
	{ "hold", do_hold, EXPAND }, { "chdir", do_chdir, EXPAND },
	{ "sleep", do_sleep, PLAIN }, { "hang", do_hang, PLAIN }, { "spin", do_spin, PLAIN },
	{ "signal", do_signal, PLAIN }, { "ignore", do_ignore, PLAIN },
	{ "on", do_on, PLAIN }, { "fork", do_fork, PLAIN },
	{ "setsid-fork", do_setsid_fork, PLAIN }, { "double-fork", do_double_fork, PLAIN },
	{ "daemon", do_daemon, PLAIN }, { "burst", do_burst, PLAIN },
	{ "orphans", do_orphans, PLAIN }, { "chain", do_chain, PLAIN },
	{ "bind-master", do_bind_master, PLAIN },
	{ "alloc", do_alloc, PLAIN }, { "close", do_close, PLAIN },
	{ "if-rank", do_if_rank, PLAIN }, { "if-attempt", do_if_attempt, PLAIN },
	{ "if-file", do_if_file, PLAIN }, { "unless-file", do_unless_file, PLAIN },
};
/* clang-format on */

static bool step_is(size_t i, const char *name, size_t len)
{
	return strlen(steps[i].name) == len && strncmp(steps[i].name, name, len) == 0;
}

static void run_step(const char *step)
{
	size_t len = strcspn(step, ":");
	const char *arg = step[len] ? step + len + 1 : "";
	char expanded[8192];

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		bool to_err =
			steps[i].kind == OUTPUT && *step == 'e' && step_is(i, step + 1, len - 1);

		if (!to_err && !step_is(i, step, len))
			continue;
		out_fd = to_err ? STDERR_FILENO : STDOUT_FILENO;
		if (steps[i].kind == EXPAND) {
			expand(arg, expanded, sizeof(expanded));
			arg = expanded;
		}
		steps[i].fn(arg);
		return;
	}
	dprintf(STDERR_FILENO, "puppet: unknown step %s\n", step);
	_exit(97);
}

static void run_script(const char *script)
{
	char step[8192];

	while (script && *script) {
		bool braces = *script == '{';
		int depth = 0;
		size_t n = 0;

		for (; script[n] && (script[n] != '+' || depth > 0); n++)
			depth += (script[n] == '{') - (script[n] == '}');
		snprintf(step, sizeof(step), "%.*s", (int)n - 2 * braces, script + braces);
		if (braces)
			run_script(step);
		else
			run_step(step);
		script += n + (script[n] == '+');
	}
}

int main(int argc, char **argv)
{
	struct rlimit no_core = { 0, 0 };

	started_ns = now_ns(CLOCK_MONOTONIC);
	program_args = argv;
	setrlimit(RLIMIT_CORE, &no_core);
	for (int i = 1; i < argc; i++)
		run_step(argv[i]);
	_exit(0);
}
