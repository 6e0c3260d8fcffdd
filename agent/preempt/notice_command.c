/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/notice_command.h"

#include "agent/process/spawn.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/duration.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
	COMMAND_LIMIT_MS = 10000,
	COMMAND_LINE = 400,
	COMMAND_SHORTER_MS = 2000, /* "30s", and "29s" a second later, is the same notice */
};

/* One stream of the command: keeps the first line, and reads and drops the rest, so that the
 * command never waits for a reader. */
struct command_stream {
	int fd;
	struct loop_fd *watch;
	char line[COMMAND_LINE];
	size_t len;
	bool whole;
};

struct notice_command {
	struct supervisor *sv;
	notice_command_fn fn;
	void *arg;
	struct loop_timer *timer; /* for the next run, or the limit of the present one */
	pid_t pid;		  /* 0: none runs */
	uint64_t started_ms;
	bool late, ended;
	struct command_stream out, err;
	struct notice_command_result last;
};

static void stream_close(struct command_stream *s)
{
	s->watch = loop_fd_free(s->watch);
	s->fd = close_fd(s->fd);
}

static void stream_take(struct command_stream *s, const char *data, size_t n)
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

/* Reads what is there, up to a limit: a command may write without end. */
static void stream_read(struct command_stream *s)
{
	char data[4096];
	ssize_t n = 0;

	for (int i = 0; s->fd >= 0 && i < 16; i++) {
		n = read(s->fd, data, sizeof(data));
		if (n <= 0)
			break;
		stream_take(s, data, (size_t)n);
	}
	if (s->fd >= 0 && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))
		stream_close(s);
}

static void stream_on_fd(int fd, int events, void *arg)
{
	stream_read(arg);
}

static int stream_open(struct loop *loop, struct command_stream *s, int *ret_write)
{
	int fds[2], r;

	*s = (struct command_stream){ .fd = -1 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	s->fd = fds[0];
	*ret_write = fds[1];
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	r = loop_fd_new(loop, s->fd, LOOP_READ, stream_on_fd, s, &s->watch);
	return r;
}

/* Takes the word "grace=30s" out of the text. False when it is no duration. */
static bool command_grace(char *text, int64_t *ret_ms)
{
	for (char *p = text; (p = strstr(p, "grace=")); p++) {
		size_t n = strcspn(p, " \t");
		char word[64];

		if (p > text && p[-1] != ' ' && p[-1] != '\t')
			continue;
		snprintf(word, sizeof(word), "%.*s", n < sizeof(word) ? (int)n : 63, p);
		if (duration_parse(word + strlen("grace="), NULL, ret_ms, NULL) < 0)
			return false;
		memmove(p, p + n, strlen(p + n) + 1);
		break;
	}
	for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
		text[n - 1] = '\0';
	memmove(text, text + strspn(text, " "), strlen(text + strspn(text, " ")) + 1);
	return true;
}

void notice_command_evaluate(
	int code, int status, const char *out, const char *err, struct notice_command_result *ret)
{
	const char *said = *err ? err : out;
	char name[SIGNALS_TEXT_MAX];

	*ret = (struct notice_command_result){ .grace_ms = SPEC_UNSET };
	if (code == CLD_EXITED && status == 1)
		return;
	if (code == CLD_EXITED && status == 0) {
		ret->what = NOTICE_COMMAND_NOTICE;
		snprintf(ret->text, sizeof(ret->text), "%.*s", COMMAND_LINE, out);
		if (command_grace(ret->text, &ret->grace_ms))
			return;
		/* A notice with a mistake is still a notice. */
		ret->grace_ms = SPEC_UNSET;
		return;
	}
	ret->what = NOTICE_COMMAND_BROKEN;
	if (code == CLD_EXITED)
		snprintf(ret->text, sizeof(ret->text),
			"it exited with %d, expected 0 (a notice) or 1 (none)%s%.*s", status,
			*said ? ": " : "", COMMAND_LINE, said);
	else
		snprintf(ret->text, sizeof(ret->text), "it was ended by %s%s%.*s",
			signals_name(status, name), *said ? ": " : "", COMMAND_LINE, said);
}

bool notice_command_is_news(
	const struct notice_command_result *last, const struct notice_command_result *r)
{
	if (r->what != NOTICE_COMMAND_NOTICE)
		return false;
	if (last->what != NOTICE_COMMAND_NOTICE)
		return true;
	if (last->grace_ms == SPEC_UNSET || r->grace_ms == SPEC_UNSET)
		return last->grace_ms != r->grace_ms;
	return (int64_t)r->time_ms + r->grace_ms + COMMAND_SHORTER_MS <
	       (int64_t)last->time_ms + last->grace_ms;
}

static int64_t command_limit_ms(const struct notice_command *c)
{
	int64_t poll = supervisor_spec(c->sv)->preemption.poll_ms;

	return poll > COMMAND_LIMIT_MS ? poll : COMMAND_LIMIT_MS;
}

static void command_tell(void *arg)
{
	struct notice_command *c = arg;

	c->fn(c->arg, &c->last);
}

/* Logs a result that differs from the last. Reports a notice on a later turn, since more workers
 * may have ended in this one. */
static void command_result(struct notice_command *c, const struct notice_command_result *r)
{
	struct supervisor *sv = c->sv;
	bool news = notice_command_is_news(&c->last, r);
	bool was_broken = c->last.what == NOTICE_COMMAND_BROKEN;

	if (r->what == c->last.what && !news)
		return;
	c->last = *r;
	if (r->what == NOTICE_COMMAND_BROKEN) {
		log_warning("preemption.command is broken: %s", r->text);
		events_add(supervisor_events(sv), "notice-source", supervisor_attempt(sv), -1, NULL,
			"preemption.command is broken: %s", r->text);
	} else if (was_broken) {
		log_notice("preemption.command works again");
		events_add(supervisor_events(sv), "notice-source", supervisor_attempt(sv), -1, NULL,
			"preemption.command works again");
	}
	if (news && loop_defer(supervisor_loop(sv), command_tell, c) < 0)
		c->last.what = NOTICE_COMMAND_NONE; /* without memory: the next run reports it */
}

/* Starts the next run once poll has passed since the start of the last one, at once if that took
 * longer. */
static void command_again(struct notice_command *c)
{
	uint64_t poll = (uint64_t)supervisor_spec(c->sv)->preemption.poll_ms;
	uint64_t took = loop_now_ms() - c->started_ms;

	if (!c->ended)
		loop_timer_arm(c->timer, took < poll ? poll - took : 0);
}

static int command_streams(struct notice_command *c, int *out, int *err)
{
	int r = stream_open(supervisor_loop(c->sv), &c->out, out);

	return r < 0 ? r : stream_open(supervisor_loop(c->sv), &c->err, err);
}

static int command_spawn(struct notice_command *c, char *text, size_t size)
{
	char *const *argv = supervisor_spec(c->sv)->preemption.command;
	const char *cwd = supervisor_spec(c->sv)->cwd;
	_cleanup_close_ int in = open("/dev/null", O_RDWR | O_CLOEXEC), out = -1, err = -1;
	_cleanup_free_ char *program = NULL;
	enum spawn_stage stage = SPAWN_STREAM;
	struct spawn_request req = {
		.argv = argv,
		.envp = environ,
		.cwd = cwd,
		.umask = SPEC_UNSET,
		.cgroup_fd = -1,
	};
	int r = in < 0 ? -errno : command_streams(c, &out, &err);

	if (!r) {
		stage = SPAWN_EXEC;
		r = spawn_find(argv[0], getenv("PATH"), cwd, &program);
	}
	if (!r) {
		req.program = program;
		req.in = in;
		req.out = out;
		req.err = err;
		r = spawn_process(&req, &c->pid, &stage);
	}
	if (r < 0) {
		c->pid = 0;
		snprintf(text, size, "%.200s: cannot %s: %s", argv[0], spawn_stage_name(stage),
			strerror(-r));
	}
	return r;
}

static void command_start(struct notice_command *c)
{
	struct notice_command_result r = { NOTICE_COMMAND_BROKEN, SPEC_UNSET, 0, "" };

	c->late = false;
	c->started_ms = loop_now_ms();
	if (command_spawn(c, r.text, sizeof(r.text)) == 0) {
		loop_timer_arm(c->timer, (uint64_t)command_limit_ms(c));
		return;
	}
	stream_close(&c->out);
	stream_close(&c->err);
	command_again(c);
	command_result(c, &r);
}

/* The command leads a session and a process group. */
static void command_kill(struct notice_command *c)
{
	if (c->pid > 0)
		kill(-c->pid, SIGKILL);
}

static void command_on_timer(void *arg)
{
	struct notice_command *c = arg;

	if (!c->pid) {
		command_start(c);
		return;
	}
	c->late = true;
	command_kill(c);
}

int notice_command_new(
	struct supervisor *sv, notice_command_fn fn, void *arg, struct notice_command **ret)
{
	struct notice_command *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct notice_command){ .sv = sv, .fn = fn, .arg = arg };
	c->out.fd = c->err.fd = -1;
	if (loop_timer_new(supervisor_loop(sv), command_on_timer, c, &c->timer) < 0) {
		free(c);
		return -ENOMEM;
	}
	loop_timer_arm(c->timer, 0);
	*ret = c;
	return 0;
}

struct notice_command *notice_command_free(struct notice_command *c)
{
	if (!c)
		return NULL;
	loop_cancel(supervisor_loop(c->sv), command_tell, c);
	command_kill(c);
	stream_close(&c->out);
	stream_close(&c->err);
	loop_timer_free(c->timer);
	free(c);
	return NULL;
}

void notice_command_end(struct notice_command *c)
{
	c->ended = true;
	loop_timer_disarm(c->timer);
	loop_cancel(supervisor_loop(c->sv), command_tell, c);
	command_kill(c);
}

bool notice_command_exited(struct notice_command *c, pid_t pid, int code, int status)
{
	struct notice_command_result r;

	if (!c->pid || c->pid != pid)
		return false;
	stream_read(&c->out);
	stream_read(&c->err);
	stream_close(&c->out);
	stream_close(&c->err);
	/* Processes left in its group end with it. */
	command_kill(c);
	c->pid = 0;
	loop_timer_disarm(c->timer);
	if (c->ended)
		return true;
	notice_command_evaluate(code, status, c->out.line, c->err.line, &r);
	r.time_ms = loop_now_ms();
	if (c->late) {
		r = (struct notice_command_result){ NOTICE_COMMAND_BROKEN, SPEC_UNSET, 0, "" };
		snprintf(r.text, sizeof(r.text), "it did not end in %.3g s, and was killed",
			(double)command_limit_ms(c) / 1000);
	}
	command_again(c);
	command_result(c, &r);
	return true;
}

pid_t notice_command_pid(const struct notice_command *c)
{
	return c->pid;
}
