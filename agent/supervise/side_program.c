/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/side_program.h"

#include "agent/process/spawn.h"
#include "common/base/file.h"
#include "common/base/signals.h"
#include "common/text/duration.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIDE_LINE = 400, SIDE_READS = 16 };

struct side_stream {
	int fd;
	struct loop_fd *watch;
	char line[SIDE_LINE];
	size_t len;
	bool whole;
};

struct side_program {
	struct supervisor *sv;
	side_program_fn fn;
	void *arg;
	pid_t pid; /* 0: none runs */
	bool late;
	uint64_t started_ms, limit_ms, due_ms;
	struct loop_timer *timer;
	struct side_stream out, err;
};

static void side_stream_close(struct side_stream *s)
{
	s->watch = loop_fd_free(s->watch);
	s->fd = close_fd(s->fd);
}

static void side_stream_add(struct side_stream *s, const char *data, size_t n)
{
	for (size_t i = 0; i < n && !s->whole; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c == '\n')
			s->whole = true;
		else if (s->len < sizeof(s->line) - 1)
			s->line[s->len++] = c < ' ' || c == 0x7f ? ' ' : (char)c;
	}
	s->line[s->len] = '\0';
}

/* Reads what is there, up to a limit: a program may write without end. */
static void side_stream_read(struct side_stream *s)
{
	char data[4096];
	ssize_t n = 0;

	for (int i = 0; s->fd >= 0 && i < SIDE_READS; i++) {
		n = read(s->fd, data, sizeof(data));
		if (n <= 0)
			break;
		side_stream_add(s, data, (size_t)n);
	}
	if (s->fd >= 0 && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))
		side_stream_close(s);
}

static void side_stream_on_fd(int fd, int events, void *arg)
{
	side_stream_read(arg);
}

static int side_stream_open(struct loop *loop, struct side_stream *s, int *ret_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	s->fd = fds[0];
	*ret_write = fds[1];
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return loop_fd_new(loop, s->fd, LOOP_READ, side_stream_on_fd, s, &s->watch);
}

/* A file in memory, so that no program can leave the agent with a full pipe. */
static int side_input(const char *text)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (!text) {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -errno : TAKE_FD(fd);
	}
	fd = memfd_create("elasticd-input", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, text, strlen(text));
	if (r < 0)
		return r;
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

static int side_spawn(
	struct side_program *p, const struct side_program_request *q, struct error *err)
{
	const char *cwd = supervisor_spec(p->sv)->cwd;
	struct loop *loop = supervisor_loop(p->sv);
	_cleanup_close_ int in = side_input(q->input), out = -1, errors = -1;
	_cleanup_free_ char *program = NULL;
	enum spawn_stage stage = SPAWN_STREAM;
	struct spawn_request req = {
		.argv = q->argv,
		.envp = q->envp,
		.cwd = cwd,
		.umask = SPEC_UNSET,
		.cgroup_fd = -1,
	};
	int r = in < 0 ? in : side_stream_open(loop, &p->out, &out);

	if (!r)
		r = side_stream_open(loop, &p->err, &errors);
	if (!r) {
		stage = SPAWN_EXEC;
		r = spawn_find(q->argv[0], getenv("PATH"), cwd, &program);
	}
	if (!r) {
		req.program = program;
		req.in = in;
		req.out = out;
		req.err = errors;
		r = spawn_process(&req, &p->pid, &stage);
	}
	if (!r)
		return 0;
	p->pid = 0;
	return error_set(
		err, r, "%.200s: cannot %s: %s", q->argv[0], spawn_stage_name(stage), strerror(-r));
}

void side_program_kill(struct side_program *p)
{
	if (p->pid > 0)
		kill(-p->pid, SIGKILL);
}

static void side_on_timer(void *arg)
{
	struct side_program *p = arg;

	p->late = true;
	side_program_kill(p);
}

void side_program_hurry(struct side_program *p, uint64_t most_ms)
{
	uint64_t now = loop_now_ms();

	if (p->late || now + most_ms >= p->due_ms)
		return;
	p->due_ms = now + most_ms;
	p->limit_ms = p->due_ms - p->started_ms;
	loop_timer_arm(p->timer, most_ms);
}

struct side_program *side_program_free(struct side_program *p)
{
	if (!p)
		return NULL;
	side_program_kill(p);
	side_stream_close(&p->out);
	side_stream_close(&p->err);
	loop_timer_free(p->timer);
	free(p);
	return NULL;
}

int side_program_new(struct supervisor *sv, const struct side_program_request *req,
	side_program_fn fn, void *arg, struct side_program **ret, struct error *err)
{
	struct side_program *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	*p = (struct side_program){ .sv = sv,
		.fn = fn,
		.arg = arg,
		.started_ms = loop_now_ms(),
		.limit_ms = req->limit_ms,
		.due_ms = loop_now_ms() + req->limit_ms };
	p->out.fd = p->err.fd = -1;
	r = loop_timer_new(supervisor_loop(sv), side_on_timer, p, &p->timer);
	r = r < 0 ? error_set(err, r, "out of memory") : side_spawn(p, req, err);
	if (r < 0) {
		side_program_free(p);
		return r;
	}
	loop_timer_arm(p->timer, req->limit_ms);
	*ret = p;
	return 0;
}

pid_t side_program_pid(const struct side_program *p)
{
	return p ? p->pid : 0;
}

bool side_program_exited(struct side_program *p, const siginfo_t *si)
{
	struct side_program_end end;

	if (!p || !p->pid || si->si_pid != p->pid)
		return false;
	side_stream_read(&p->out);
	side_stream_read(&p->err);
	side_stream_close(&p->out);
	side_stream_close(&p->err);
	/* Processes left in its group end with it. */
	side_program_kill(p);
	p->pid = 0;
	loop_timer_disarm(p->timer);
	end = (struct side_program_end){ .code = si->si_code,
		.status = si->si_status,
		.late = p->late,
		.took_ms = p->late ? p->limit_ms : loop_now_ms() - p->started_ms,
		.out = p->out.line,
		.err = p->err.line };
	p->fn(p->arg, &end);
	return true;
}

int side_program_environment(const struct supervisor *sv, struct env *e)
{
	int r = env_add(e, environ);

	r = r ? r : env_setf(e, "ELASTICD_JOB", "%s", supervisor_spec(sv)->name);
	return r ? r : env_setf(e, "ELASTICD_RUN", "%s", supervisor_options(sv)->run);
}

void side_program_fault(const struct side_program_end *end, char *text, size_t size)
{
	const char *said = *end->err ? end->err : end->out;
	char name[SIGNALS_TEXT_MAX], limit[DURATION_TEXT_MAX];

	if (end->late)
		snprintf(text, size, "it did not end in %s, and was killed",
			duration_format((int64_t)end->took_ms, limit));
	else if (end->code != CLD_EXITED)
		snprintf(text, size, "it was ended by %s%s%s", signals_name(end->status, name),
			*said ? ": " : "", said);
	else if (end->status)
		snprintf(text, size, "it exited with %d%s%s", end->status, *said ? ": " : "", said);
	else
		text[0] = '\0';
}
