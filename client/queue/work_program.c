/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/work_program.h"

#include "common/base/file.h"
#include "common/base/proc.h"
#include "common/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { CHUNK = 32 * 1024 };

/* Our end of one of the program's three pipes. */
struct stream {
	int fd;
	struct loop_fd *watch;
};

struct work_program {
	struct loop *loop;
	pid_t pid;
	int pidfd;
	struct loop_fd *end_watch;
	struct loop_timer *kill_timer;
	struct stream in, out, err;
	char *payload; /* what was not written yet, from payload_at on */
	size_t payload_at, payload_len;
	char *output;
	size_t output_len, output_room;
	char errors[2 * WORK_ERRORS_MAX];
	size_t errors_len;
	bool too_much, ended;
	int status;
	work_program_fn fn;
	void *arg;
};

static void stream_close(struct stream *s)
{
	s->watch = loop_fd_free(s->watch);
	s->fd = close_fd(s->fd);
}

/* --- standard input of the program */

static void on_writable(int fd, int events, void *arg)
{
	struct work_program *p = arg;
	ssize_t n;

	while (p->payload_at < p->payload_len) {
		n = write(fd, p->payload + p->payload_at, p->payload_len - p->payload_at);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* the program does not want the rest */
		p->payload_at += (size_t)n;
	}
	stream_close(&p->in);
}

/* --- output of the program */

static bool keep_output(struct work_program *p, const char *data, size_t len)
{
	size_t room = p->output_room ? p->output_room : 4096;
	char *grown;

	if (p->output_len + len > WORK_OUTPUT_MAX)
		return false;
	while (room < p->output_len + len)
		room *= 2;
	if (room > p->output_room) {
		grown = realloc(p->output, room);
		if (!grown)
			return false;
		p->output = grown;
		p->output_room = room;
	}
	memcpy(p->output + p->output_len, data, len);
	p->output_len += len;
	return true;
}

/* Keeps the end of its standard error, which says most. */
static void keep_errors(struct work_program *p, const char *data, size_t len)
{
	if (len > WORK_ERRORS_MAX) {
		data += len - WORK_ERRORS_MAX;
		len = WORK_ERRORS_MAX;
	}
	if (p->errors_len + len > sizeof(p->errors)) {
		size_t cut = p->errors_len + len - WORK_ERRORS_MAX;

		memmove(p->errors, p->errors + cut, p->errors_len - cut);
		p->errors_len -= cut;
	}
	memcpy(p->errors + p->errors_len, data, len);
	p->errors_len += len;
}

/* Reads what is there. False at the end. */
static bool read_stream(struct work_program *p, struct stream *s)
{
	char data[CHUNK];
	ssize_t n;

	if (s->fd < 0)
		return false;
	n = read(s->fd, data, sizeof(data));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (n <= 0) {
		stream_close(s);
		return false;
	}
	if (s == &p->err) {
		(void)!file_write_all(STDERR_FILENO, data, (size_t)n);
		keep_errors(p, data, (size_t)n);
	} else if (!p->too_much && !keep_output(p, data, (size_t)n)) {
		/* The rest is read and dropped, so that the program can end. */
		p->too_much = true;
		work_program_end(p);
	}
	return true;
}

static void on_output(int fd, int events, void *arg)
{
	struct work_program *p = arg;

	read_stream(p, fd == p->out.fd ? &p->out : &p->err);
}

/* --- the end of the program */

/* The program was not reaped yet, so the number of its process group still belongs to it. */
static void on_end(int fd, int events, void *arg)
{
	struct work_program *p = arg;
	siginfo_t si = { .si_pid = 0 };
	size_t limit = 64;

	if (waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == 0)
		return;
	kill(-p->pid, SIGKILL);
	/* A process that left the group could print for ever: read a limited amount. */
	while (limit-- > 0 && (read_stream(p, &p->out) || read_stream(p, &p->err)))
		;
	while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
		;
	p->ended = true;
	p->end_watch = loop_fd_free(p->end_watch);
	stream_close(&p->in);
	stream_close(&p->out);
	stream_close(&p->err);
	loop_timer_disarm(p->kill_timer);
	p->fn(p->arg);
}

void work_program_kill(struct work_program *p)
{
	if (!p->ended)
		kill(-p->pid, SIGKILL);
}

static void on_kill_timer(void *arg)
{
	work_program_kill(arg);
}

void work_program_end(struct work_program *p)
{
	if (p->ended || loop_timer_armed(p->kill_timer))
		return;
	kill(-p->pid, SIGTERM);
	kill(-p->pid, SIGCONT);
	loop_timer_arm(p->kill_timer, WORK_KILL_MS);
}

/* --- starting the program */

struct ends {
	int in[2], out[2], err[2], failed[2];
};

static void exec_program(const struct ends *e, char *const *argv, char *const *env, pid_t parent)
{
	int error;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	signals_reset();
	for (; *env; env++)
		putenv(*env);
	if (dup2(e->in[0], STDIN_FILENO) >= 0 && dup2(e->out[1], STDOUT_FILENO) >= 0 &&
		dup2(e->err[1], STDERR_FILENO) >= 0)
		execvp(argv[0], argv);
	error = errno;
	(void)!write(e->failed[1], &error, sizeof(error));
	_exit(127);
}

static void ends_close(struct ends *e)
{
	int *const all[] = { e->in, e->out, e->err, e->failed };

	for (size_t i = 0; i < 4; i++) {
		all[i][0] = close_fd(all[i][0]);
		all[i][1] = close_fd(all[i][1]);
	}
}

/* Makes the process, and waits until it has executed the program. */
static int make_process(struct work_program *p, struct ends *e, char *const *argv, char *const *env,
	struct error *err)
{
	pid_t parent = getpid();
	int error = 0;
	ssize_t n;

	if (pipe2(e->in, O_CLOEXEC) < 0 || pipe2(e->out, O_CLOEXEC) < 0 ||
		pipe2(e->err, O_CLOEXEC) < 0 || pipe2(e->failed, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	p->pid = fork();
	if (p->pid < 0) {
		p->pid = 0;
		return error_set(err, -errno, "cannot make a process: %s", strerror(errno));
	}
	if (p->pid == 0)
		exec_program(e, argv, env, parent);
	setpgid(p->pid, p->pid);
	e->failed[1] = close_fd(e->failed[1]);
	do
		n = read(e->failed[0], &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(error))
		return error_set(err, -error, "cannot execute %s: %s", argv[0], strerror(error));
	return 0;
}

static int watch_stream(
	struct work_program *p, struct stream *s, int *fd, int events, loop_fd_fn fn)
{
	s->fd = TAKE_FD(*fd);
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return loop_fd_new(p->loop, s->fd, events, fn, p, &s->watch);
}

static int watch_process(struct work_program *p, struct ends *e, struct error *err)
{
	int r;

	p->pidfd = proc_pidfd(p->pid);
	r = p->pidfd < 0 ? p->pidfd
			 : loop_fd_new(p->loop, p->pidfd, LOOP_READ, on_end, p, &p->end_watch);
	if (r == 0)
		r = loop_timer_new(p->loop, on_kill_timer, p, &p->kill_timer);
	if (r == 0)
		r = watch_stream(p, &p->in, &e->in[1], LOOP_WRITE, on_writable);
	if (r == 0)
		r = watch_stream(p, &p->out, &e->out[0], LOOP_READ, on_output);
	if (r == 0)
		r = watch_stream(p, &p->err, &e->err[0], LOOP_READ, on_output);
	return r < 0 ? error_set(err, r, "cannot watch a process: %s", strerror(-r)) : 0;
}

int work_program_start(struct loop *loop, char *const *argv, char *const *env, const void *payload,
	size_t len, work_program_fn fn, void *arg, struct work_program **ret, struct error *err)
{
	_cleanup_(work_program_freep) struct work_program *p = calloc(1, sizeof(*p));
	struct ends e = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int r;

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	p->loop = loop;
	p->fn = fn;
	p->arg = arg;
	p->pidfd = p->in.fd = p->out.fd = p->err.fd = -1;
	p->payload = malloc(len + 1);
	if (!p->payload)
		return error_set(err, -ENOMEM, "out of memory");
	memcpy(p->payload, payload, len);
	p->payload_len = len;
	r = make_process(p, &e, argv, env, err);
	if (r == 0)
		r = watch_process(p, &e, err);
	ends_close(&e);
	if (r == 0)
		*ret = TAKE_PTR(p);
	return r;
}

struct work_program *work_program_free(struct work_program *p)
{
	if (!p)
		return NULL;
	if (p->pid > 0 && !p->ended) {
		kill(-p->pid, SIGKILL);
		while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
			;
	}
	loop_fd_free(p->end_watch);
	close_fd(p->pidfd);
	loop_timer_free(p->kill_timer);
	stream_close(&p->in);
	stream_close(&p->out);
	stream_close(&p->err);
	free(p->payload);
	free(p->output);
	free(p);
	return NULL;
}

int work_program_status(const struct work_program *p)
{
	return p->status;
}

bool work_program_too_much(const struct work_program *p)
{
	return p->too_much;
}

const char *work_program_output(const struct work_program *p, size_t *ret_len)
{
	*ret_len = p->output_len;
	return p->output ? p->output : "";
}

const char *work_program_errors(const struct work_program *p, size_t *ret_len)
{
	size_t skip = p->errors_len > WORK_ERRORS_MAX ? p->errors_len - WORK_ERRORS_MAX : 0;

	*ret_len = p->errors_len - skip;
	return p->errors + skip;
}
