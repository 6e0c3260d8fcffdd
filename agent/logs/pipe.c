/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only the agent's end of the pipe is non-blocking; the worker's end has a description of its own.
 * A pipe that brings little is read at most every PAUSE_MS, so that a worker that writes line by
 * line does not wake the agent for each; meanwhile the pipe buffers.
 */
#include "agent/logs/pipe.h"

#include "agent/files/file_system.h"
#include "agent/logs/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64 * 1024)
#define TURN_BYTES (4 * BLOCK_BYTES)
#define PIPE_BYTES (256 * 1024)
#define BACKLOG_BYTES (256 * 1024) /* wait for a full disk */
#define RECENT_BYTES 8192	   /* kept of a stream without file */
#define RETRY_MS 1000
#define FEW_BYTES 16384
#define PAUSE_MS 5
#define CONSOLE_MS 100
#define CHECK_GAP_MS (2 * CONSOLE_MS)

struct log_pipe {
	struct loop *loop;
	struct log_pipe_options opt;
	char *path;
	int fd;
	struct loop_fd *readable;
	struct loop_timer *pause, *retry;
	struct tee_stream *tee; /* NULL: lines go to no console and no copy */
	struct log_file *file;	/* NULL: to the console only */
	bool full;
	bool stalled; /* the console takes nothing: its lines are dropped */
	bool closing; /* hand over the rest, whether there is room or not */
	uint64_t dropped;
	/* Of the console, since it had no room: */
	uint64_t console_bytes; /* tee_console_bytes() at the last check */
	uint64_t checked_ms;	/* 0: it has room */
	uint64_t still_ms;	/* in which it took nothing */
	char *recent;
	size_t recent_len;
	bool recent_cut; /* its first line lacks its start */
};

static void pipe_set_reading(struct log_pipe *p, bool on)
{
	if (loop_fd_set(p->readable, on ? LOOP_READ : 0) < 0)
		loop_timer_arm(p->pause, RETRY_MS);
}

static void pipe_check_file(struct log_pipe *p, int r)
{
	bool full = r == 0 && log_file_full(p->file);

	if (r < 0)
		p->opt.failed(p->opt.arg, p->opt.rank, p->path, -r);
	if (full && !loop_timer_armed(p->retry))
		loop_timer_arm(p->retry, RETRY_MS);
	if (full == p->full)
		return;
	p->full = full;
	p->opt.full(p->opt.arg, p->opt.rank, p->path, full);
}

static void on_retry(void *arg)
{
	struct log_pipe *p = arg;

	pipe_check_file(p, log_file_retry(p->file, loop_real_us()));
	if (p->tee)
		tee_file_grew(p->tee);
}

static void pipe_keep_recent(struct log_pipe *p, const char *data, size_t len)
{
	if (!p->recent && !(p->recent = malloc(2 * RECENT_BYTES)))
		return;
	if (len > RECENT_BYTES) {
		p->recent_cut = true;
		p->recent_len = 0;
		data += len - RECENT_BYTES;
		len = RECENT_BYTES;
	}
	if (p->recent_len + len > 2 * RECENT_BYTES) {
		size_t drop = p->recent_len + len - RECENT_BYTES;

		if (drop > p->recent_len)
			drop = p->recent_len;
		p->recent_len -= drop;
		p->recent_cut = true;
		memmove(p->recent, p->recent + drop, p->recent_len);
	}
	memcpy(p->recent + p->recent_len, data, len);
	p->recent_len += len;
}

const char *log_pipe_recent(const struct log_pipe *p, size_t *ret_len)
{
	const char *nl = p->recent_cut ? memchr(p->recent, '\n', p->recent_len) : NULL;
	size_t skip = nl ? (size_t)(nl + 1 - p->recent) : 0;

	*ret_len = p->recent_len - skip;
	return *ret_len ? p->recent + skip : "";
}

static void pipe_resume_console(struct log_pipe *p)
{
	char text[128];
	int n;

	p->stalled = false;
	p->checked_ms = 0;
	if (p->dropped == 0)
		return;
	n = snprintf(text, sizeof(text),
		"\nelasticd: %llu bytes were lost while the console stood still\n",
		(unsigned long long)p->dropped);
	p->dropped = 0;
	tee_feed(p->tee, text, n);
}

/* True when bytes may be read from the pipe. Without a file they go to the console only: read while
 * it has room, and, once it has stalled, to drop them. */
static bool pipe_may_read(struct log_pipe *p)
{
	uint64_t now, bytes, passed;

	if (p->file || !p->tee || p->closing)
		return true;
	if (tee_has_room(p->tee)) {
		pipe_resume_console(p);
		return true;
	}
	now = loop_now_ms();
	bytes = tee_console_bytes(p->tee);
	if (!p->checked_ms || bytes != p->console_bytes) {
		p->console_bytes = bytes;
		p->still_ms = 0;
		p->stalled = false;
	} else {
		/* A long gap since the last check means that the agent slept, not the console:
		 * count at most CHECK_GAP_MS. */
		passed = now - p->checked_ms;
		p->still_ms += passed < CHECK_GAP_MS ? passed : CHECK_GAP_MS;
	}
	p->checked_ms = now;
	if (p->still_ms >= LOG_PIPE_STALL_MS)
		p->stalled = true;
	return p->stalled;
}

static void pipe_pass_bytes(struct log_pipe *p, const char *data, size_t len)
{
	if (p->file) {
		pipe_check_file(p, log_file_write(p->file, data, len, loop_real_us()));
		if (p->tee)
			tee_file_grew(p->tee);
		return;
	}
	pipe_keep_recent(p, data, len);
	if (p->stalled)
		p->dropped += len;
	else if (p->tee)
		tee_feed(p->tee, data, len);
}

/* Returns bytes read; *ret_end: the pipe is empty and closed. */
static size_t pipe_read(struct log_pipe *p, size_t limit, bool *ret_end)
{
	static char block[BLOCK_BYTES];
	size_t total = 0;

	*ret_end = false;
	while (total < limit && pipe_may_read(p)) {
		ssize_t n = read(p->fd, block, sizeof(block));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*ret_end = n == 0 || errno != EAGAIN;
			break;
		}
		pipe_pass_bytes(p, block, n);
		total += n;
		if ((size_t)n < sizeof(block) / 2)
			break;
	}
	return total;
}

static void on_readable(int fd, int events, void *arg)
{
	struct log_pipe *p = arg;
	bool end;
	size_t n = pipe_read(p, TURN_BYTES, &end);

	if (end) {
		pipe_set_reading(p, false);
	} else if (!pipe_may_read(p)) {
		pipe_set_reading(p, false);
		loop_timer_arm(p->pause, CONSOLE_MS);
	} else if (n < FEW_BYTES) {
		pipe_set_reading(p, false);
		loop_timer_arm(p->pause, PAUSE_MS);
	}
}

static void on_pause(void *arg)
{
	struct log_pipe *p = arg;

	if (pipe_may_read(p))
		pipe_set_reading(p, true);
	else
		loop_timer_arm(p->pause, CONSOLE_MS);
}

void log_pipe_set_tee(struct log_pipe *p, struct tee_stream *tee)
{
	p->tee = tee;
}

void log_pipe_console_ready(struct log_pipe *p)
{
	if (p->checked_ms && pipe_may_read(p) && !loop_timer_armed(p->pause))
		pipe_set_reading(p, true);
}

void log_pipe_drain(struct log_pipe *p)
{
	size_t total = 0, n;
	bool end = p->fd < 0;

	if (end)
		return;
	do {
		n = pipe_read(p, TURN_BYTES, &end);
		total += n;
	} while (n > 0 && !end && total < 16 * TURN_BYTES);
}

static void on_rotated(void *arg, int fd)
{
	struct log_pipe *p = arg;

	if (p->tee)
		tee_follow_next(p->tee, fd);
	else
		log_fs_close(fd);
}

static void on_vanished(void *arg, const char *path)
{
	struct log_pipe *p = arg;

	p->opt.vanished(p->opt.arg, p->opt.rank, path);
}

static int pipe_open_file(struct log_pipe *p)
{
	const struct log_file_options opt = {
		.path = p->path,
		.timestamps = p->opt.timestamps,
		.max_size = p->opt.max_size,
		.keep = p->opt.keep,
		.backlog = BACKLOG_BYTES,
		.compress = p->opt.compress,
		.rotated = on_rotated,
		.vanished = on_vanished,
		.arg = p,
	};

	return p->path ? log_file_new(&opt, &p->file) : 0;
}

static int pipe_make(struct log_pipe *p, int *ret_fd)
{
	int fds[2], r, flags;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->fd = fds[0];
	flags = fcntl(p->fd, F_GETFL);
	if (flags < 0 || fcntl(p->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		r = -errno;
		close(fds[1]);
		return r;
	}
	/* A larger pipe is better, but an unprivileged user's quota may be used up. */
	if (fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
		errno = 0;
	r = loop_fd_new(p->loop, p->fd, LOOP_READ, on_readable, p, &p->readable);
	if (r < 0)
		close(fds[1]);
	else
		*ret_fd = fds[1];
	return r;
}

int log_pipe_new(
	struct loop *loop, const struct log_pipe_options *opt, int *ret_fd, struct log_pipe **ret)
{
	struct log_pipe *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct log_pipe){ .loop = loop, .opt = *opt, .fd = -1 };
	p->path = opt->path ? strdup(opt->path) : NULL;
	r = opt->path && !p->path ? -ENOMEM : 0;
	if (r == 0)
		r = loop_timer_new(loop, on_pause, p, &p->pause);
	if (r == 0)
		r = loop_timer_new(loop, on_retry, p, &p->retry);
	if (r == 0)
		r = pipe_open_file(p);
	if (r == 0)
		r = pipe_make(p, ret_fd);
	if (r < 0) {
		log_pipe_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void log_pipe_end(struct log_pipe *p)
{
	/* As long as the console has room, the rest is shown there; what then is left is read for
	 * reports. */
	log_pipe_drain(p);
	p->closing = true;
	log_pipe_drain(p);
	p->readable = loop_fd_free(p->readable);
	p->pause = loop_timer_free(p->pause);
	p->retry = loop_timer_free(p->retry);
	p->fd = close_fd(p->fd);
	p->file = log_file_free(p->file);
	p->tee = NULL;
	p->checked_ms = 0;
}

struct log_pipe *log_pipe_free(struct log_pipe *p)
{
	if (!p)
		return NULL;
	log_pipe_end(p);
	free(p->recent);
	free(p->path);
	free(p);
	return NULL;
}
