/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A followed stream is idle (its watch is on), ready (there may be bytes), or hot (all was read
 * just now and more is likely: it is read again after TEE_BATCH_MS, without a watch). A hot stream
 * that has nothing new turns its watch on, reads once more, because a byte may have come in
 * between, and becomes idle. One timer serves the hot streams and the deadlines of lines. A turn
 * reads at most TURN_BYTES and then lets the loop serve others.
 */
#include "agent/logs/tee.h"

#include "agent/files/file_system.h"
#include "agent/files/inotify.h"
#include "agent/logs/line_splitter.h"
#include "agent/logs/prefix.h"
#include "agent/logs/timestamp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64 * 1024)
#define TURN_BYTES (1024 * 1024)
#define MAX_PIECE (64 * 1024)
/* A stalled console keeps at most this many closed files of a stream open: they hold disk space. */
#define MAX_NEWER 16

enum tee_state { TEE_IDLE, TEE_READY, TEE_HOT };

/* A newer file of the same stream, after rotation. */
struct tee_newer_file {
	struct tee_newer_file *next;
	int fd;
};

struct tee_stream {
	struct tee *tee;
	struct tee_stream *next;
	enum tee_state state;
	int rank, std;
	bool to_console, ending, warned;
	bool watching; /* the watch reports writes */
	int fd;
	off_t offset, limit; /* limit: -1 for none */
	struct tee_newer_file *newer;
	int n_newer;
	uint64_t skipped; /* bytes of files skipped by stream_skip_newer() */
	uint64_t done;	  /* bytes handed out since the start */
	uint64_t target;  /* what done must reach after tee_mark() */
	struct log_watch *watch;
	char *path;
	char *prefix, *plain; /* plain: without colour, for the copy */
	size_t prefix_len, plain_len;
	struct lines lines, *copy_lines; /* for the console; for the filtered copy */
	struct log_copy *copy;
	struct log_copy_line copy_line;
};

struct tee {
	struct loop *loop;
	struct console *console;
	struct tee_hooks hooks;
	struct loop_timer *timer;
	uint64_t timer_at; /* UINT64_MAX: not armed */
	struct tee_stream *streams;
	bool running, again;
	char *block;
};

static const struct lines_config console_config = {
	.max_piece = MAX_PIECE, .quiet_ms = TEE_QUIET_MS, .update_ms = TEE_UPDATE_MS
};
static const struct lines_config console_stamped_config = {
	.max_piece = MAX_PIECE,
	.quiet_ms = TEE_QUIET_MS,
	.update_ms = TEE_UPDATE_MS,
	.strip = LOG_STAMP_LEN,
};
static const struct lines_config copy_config = { .max_piece = MAX_PIECE, .quiet_ms = UINT64_MAX };
static const struct lines_config copy_stamped_config = {
	.max_piece = MAX_PIECE, .quiet_ms = UINT64_MAX, .strip = LOG_STAMP_LEN
};

static void tee_run(struct tee *t);

static void on_line(void *arg, const char *data, size_t len, unsigned flags)
{
	struct tee_stream *s = arg;

	if (s->to_console)
		console_put(s->tee->console, s->std, s, s->prefix, s->prefix_len, data, len, flags);
}

static void on_copy(void *arg, const char *data, size_t len, unsigned flags)
{
	struct tee_stream *s = arg;

	log_copy_put(s->copy, &s->copy_line, s->plain, s->plain_len, data, len, flags);
}

static void tee_arm_at(struct tee *t, uint64_t at_ms, uint64_t now_ms)
{
	if (at_ms >= t->timer_at)
		return;
	t->timer_at = at_ms;
	loop_timer_arm(t->timer, at_ms > now_ms ? at_ms - now_ms : 0);
}

static void tee_arm_now(struct tee *t)
{
	tee_arm_at(t, 0, 0);
}

static void on_timer(void *arg)
{
	struct tee *t = arg;

	t->timer_at = UINT64_MAX;
	for (struct tee_stream *s = t->streams; s; s = s->next)
		if (s->state == TEE_HOT)
			s->state = TEE_READY;
	tee_run(t);
}

static void stream_warn_once(struct tee_stream *s, const char *what)
{
	char text[512];

	if (s->warned)
		return;
	s->warned = true;
	snprintf(text, sizeof(text), "%s %s; following what is still open",
		s->path ? s->path : "a log file", what);
	s->tee->hooks.vanished(s->tee->hooks.arg, s->rank, text);
}

static void stream_check_file(struct tee_stream *s)
{
	struct stat ours, there;
	int r;

	if (!s->path || log_fs_fstat(s->fd, &ours) < 0)
		return;
	r = log_fs_stat(s->path, &there);
	if (r == -ETIMEDOUT)
		return;
	if (r < 0)
		stream_warn_once(s, "was removed");
	else if (there.st_ino != ours.st_ino || there.st_dev != ours.st_dev)
		stream_warn_once(s, "was replaced");
}

static void on_watch(void *arg, int events)
{
	struct tee_stream *s = arg;

	if (events & LOG_WATCH_GONE)
		stream_check_file(s);
	s->state = TEE_READY;
	tee_run(s->tee);
}

/* on: the watch reports writes, too. It is off while the file is busy. */
static void stream_set_watch(struct tee_stream *s, bool on)
{
	int events = LOG_WATCH_GONE | LOG_WATCH_MUST | (on ? LOG_WATCH_MODIFY : 0);

	s->watching = on;
	if (s->watch && log_watch_set(s->watch, s->fd, events) < 0) {
		s->watch = log_watch_free(s->watch);
		stream_warn_once(s, "can no longer be watched");
	}
}

static bool stream_has_no_reader(const struct tee_stream *s)
{
	return !s->to_console && !s->copy;
}

/* Returns bytes read, 0 at the present end. */
static size_t stream_read_block(struct tee_stream *s, uint64_t now_ms)
{
	size_t want = BLOCK_BYTES;
	ssize_t n;

	if (s->limit >= 0 && s->limit - s->offset < (off_t)want)
		want = s->limit > s->offset ? s->limit - s->offset : 0;
	n = s->fd < 0 || want == 0 ? 0 : log_fs_pread(s->fd, s->tee->block, want, s->offset);
	if (n <= 0)
		return 0;
	s->offset += n;
	s->done += n;
	lines_feed(&s->lines, s->tee->block, n, now_ms);
	if (s->copy_lines)
		lines_feed(s->copy_lines, s->tee->block, n, now_ms);
	return n;
}

static int stream_take_newer(struct tee_stream *s)
{
	struct tee_newer_file *file = s->newer;
	int fd = file->fd;

	s->newer = file->next;
	s->n_newer--;
	free(file);
	return fd;
}

static void stream_report_skipped(struct tee_stream *s)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
		"elasticd: %llu bytes are only in the log files: the console is too slow",
		(unsigned long long)s->skipped);

	s->skipped = 0;
	if (s->to_console)
		console_put(s->tee->console, s->std, s, s->prefix, s->prefix_len, text, n,
			LINE_START | LINE_END);
}

static bool stream_next_file(struct tee_stream *s)
{
	if (!s->newer)
		return false;
	log_fs_close(s->fd);
	s->fd = stream_take_newer(s);
	s->offset = 0;
	s->limit = -1;
	if (s->skipped > 0)
		stream_report_skipped(s);
	return true;
}

/* Skips the oldest file that waits to be read. */
static void stream_skip_newer(struct tee_stream *s)
{
	struct stat st;
	int fd = stream_take_newer(s);

	if (log_fs_fstat(fd, &st) == 0) {
		s->skipped += st.st_size;
		s->done += st.st_size;
	}
	log_fs_close(fd);
}

/* Reads a file that shrank from its start, where an appending writer goes on. */
static bool stream_restart_truncated(struct tee_stream *s)
{
	struct stat st;

	if (!s->path || s->ending || log_fs_fstat(s->fd, &st) < 0 || st.st_size >= s->offset)
		return false;
	stream_warn_once(s, "was truncated");
	s->offset = 0;
	s->target = s->done;
	return st.st_size > 0;
}

/* Called when all was read: goes to the next file, or decides how the stream waits. */
static void stream_at_end(struct tee_stream *s, bool read_some)
{
	if (stream_next_file(s))
		return;
	if (s->ending || !s->watch) {
		s->state = TEE_IDLE;
		return;
	}
	if (read_some) {
		stream_set_watch(s, false);
		s->state = TEE_HOT;
		return;
	}
	if (s->watching && !stream_restart_truncated(s)) {
		s->state = TEE_IDLE;
		return;
	}
	stream_set_watch(s, true);
}

/* Reads one stream until its end, a full console, or the end of the budget. */
static size_t stream_read(struct tee_stream *s, size_t budget, uint64_t now_ms)
{
	size_t total = 0;

	while (s->state == TEE_READY && total < budget && tee_has_room(s)) {
		size_t n;

		if (stream_has_no_reader(s)) {
			s->state = TEE_IDLE;
			break;
		}
		n = stream_read_block(s, now_ms);
		total += n;
		if (n == BLOCK_BYTES)
			continue;
		stream_at_end(s, total > 0);
	}
	return total;
}

static void stream_free(struct tee_stream *s)
{
	log_watch_free(s->watch);
	while (s->newer)
		log_fs_close(stream_take_newer(s));
	log_fs_close(s->fd);
	lines_fini(&s->lines);
	if (s->copy_lines)
		lines_fini(s->copy_lines);
	free(s->copy_lines);
	log_copy_unref(s->copy);
	free(s->path);
	free(s->prefix);
	free(s->plain);
	free(s);
}

static bool stream_is_finished(const struct tee_stream *s)
{
	return s->ending && s->state == TEE_IDLE && !s->newer;
}

static void tee_remove_finished(struct tee *t)
{
	for (struct tee_stream **p = &t->streams; *p;) {
		struct tee_stream *s = *p;

		if (!stream_is_finished(s)) {
			p = &s->next;
			continue;
		}
		lines_finish(&s->lines);
		if (s->copy_lines) {
			lines_finish(s->copy_lines);
			log_copy_flush(s->copy);
		}
		*p = s->next;
		stream_free(s);
	}
}

/* Flushes the copies, arms the timer for what comes first, and trims the console's buffers. */
static void tee_finish_turn(struct tee *t, uint64_t now)
{
	bool hot = false, ready = false;

	for (struct tee_stream *s = t->streams; s; s = s->next) {
		uint64_t at = lines_deadline(&s->lines);

		hot |= s->state == TEE_HOT;
		ready |= s->state == TEE_READY && tee_has_room(s);
		if (at != UINT64_MAX && s->state != TEE_READY && tee_has_room(s))
			tee_arm_at(t, at, now);
		if (s->copy)
			log_copy_flush(s->copy);
	}
	if (ready)
		tee_arm_at(t, now, now);
	if (hot)
		tee_arm_at(t, now + TEE_BATCH_MS, now);
	if (t->console && !hot && !ready)
		console_trim(t->console);
}

static void tee_turn(struct tee *t, uint64_t now)
{
	size_t budget = TURN_BYTES;
	bool some = true;

	while (some && budget > 0) {
		some = false;
		for (struct tee_stream *s = t->streams; s && budget > 0; s = s->next) {
			size_t n = stream_read(s, BLOCK_BYTES < budget ? BLOCK_BYTES : budget, now);

			some |= n > 0;
			budget -= n < budget ? n : budget;
		}
		if (t->console)
			console_flush(t->console);
	}
	tee_remove_finished(t);
	/* Only a stream read to its end has partial lines: otherwise the rest may be in the file
	 * already. */
	for (struct tee_stream *s = t->streams; s; s = s->next)
		if (s->state != TEE_READY)
			lines_tick(&s->lines, now);
	if (t->console)
		console_flush(t->console);
	tee_finish_turn(t, now);
	t->hooks.progress(t->hooks.arg);
}

/* A callback of the console may call tee_run() from inside: run again afterwards. */
static void tee_run(struct tee *t)
{
	t->again = true;
	if (t->running)
		return;
	t->running = true;
	while (t->again) {
		t->again = false;
		tee_turn(t, loop_now_ms());
	}
	t->running = false;
}

int tee_new(
	struct loop *loop, struct console *console, const struct tee_hooks *hooks, struct tee **ret)
{
	_cleanup_(tee_freep) struct tee *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	*t = (struct tee){ .loop = loop, .console = console, .hooks = *hooks };
	t->timer_at = UINT64_MAX;
	t->block = malloc(BLOCK_BYTES);
	r = t->block ? loop_timer_new(loop, on_timer, t, &t->timer) : -ENOMEM;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

struct tee *tee_free(struct tee *t)
{
	if (!t)
		return NULL;
	while (t->streams) {
		struct tee_stream *s = t->streams;

		t->streams = s->next;
		stream_free(s);
	}
	loop_timer_free(t->timer);
	free(t->block);
	free(t);
	return NULL;
}

static int stream_set_texts(struct tee_stream *s, const struct tee_options *opt)
{
	s->plain = strdup(opt->prefix);
	if (!s->plain || (opt->path && !(s->path = strdup(opt->path))))
		return -ENOMEM;
	if (opt->colour && s->to_console && console_is_tty(s->tee->console, s->std))
		s->prefix = prefix_colour(opt->prefix, opt->rank);
	else
		s->prefix = strdup(opt->prefix);
	if (!s->prefix)
		return -ENOMEM;
	s->prefix_len = strlen(s->prefix);
	s->plain_len = strlen(s->plain);
	return 0;
}

static int stream_set_lines(struct tee_stream *s, const struct tee_options *opt)
{
	lines_init(&s->lines, opt->stamped ? &console_stamped_config : &console_config, on_line, s);
	if (!opt->copy)
		return 0;
	s->copy_lines = calloc(1, sizeof(*s->copy_lines));
	if (!s->copy_lines)
		return -ENOMEM;
	lines_init(s->copy_lines, opt->stamped ? &copy_stamped_config : &copy_config, on_copy, s);
	s->copy = log_copy_ref(opt->copy);
	return 0;
}

int tee_add(
	struct tee *t, const struct tee_options *opt, int fd, off_t offset, struct tee_stream **ret)
{
	struct tee_stream *s = calloc(1, sizeof(*s)), **p;
	int r;

	if (!s) {
		log_fs_close(fd);
		return -ENOMEM;
	}
	*s = (struct tee_stream){ .tee = t, .fd = fd, .offset = offset, .limit = -1 };
	s->rank = opt->rank;
	s->std = opt->std;
	s->to_console = opt->to_console && t->console;
	s->watching = true;
	r = stream_set_texts(s, opt);
	if (r == 0)
		r = stream_set_lines(s, opt);
	if (r == 0 && fd >= 0 && opt->path)
		r = log_watch_new(t->loop, fd, LOG_WATCH_MODIFY | LOG_WATCH_GONE | LOG_WATCH_MUST,
			on_watch, s, &s->watch);
	if (r < 0) {
		stream_free(s);
		return r;
	}
	for (p = &t->streams; *p; p = &(*p)->next)
		;
	*p = s;
	*ret = s;
	tee_file_grew(s);
	return 0;
}

void tee_file_grew(struct tee_stream *s)
{
	s->state = TEE_READY;
	tee_arm_now(s->tee);
}

void tee_follow_next(struct tee_stream *s, int fd)
{
	struct tee_newer_file *file, **p;

	if (stream_has_no_reader(s) || !(file = malloc(sizeof(*file)))) {
		log_fs_close(fd);
		return;
	}
	*file = (struct tee_newer_file){ .fd = fd };
	for (p = &s->newer; *p; p = &(*p)->next)
		;
	*p = file;
	s->n_newer++;
	tee_file_grew(s);
	if (s->n_newer > MAX_NEWER)
		tee_run(s->tee);
	if (s->n_newer > MAX_NEWER)
		stream_skip_newer(s);
}

void tee_feed(struct tee_stream *s, const char *data, size_t len)
{
	uint64_t now = loop_now_ms();

	lines_feed(&s->lines, data, len, now);
	if (s->copy_lines)
		lines_feed(s->copy_lines, data, len, now);
	tee_arm_now(s->tee);
}

bool tee_has_room(const struct tee_stream *s)
{
	return !s->to_console || console_has_room(s->tee->console, s->std);
}

uint64_t tee_console_bytes(const struct tee_stream *s)
{
	return s->to_console ? console_done_bytes(s->tee->console, s->std) : 0;
}

void tee_end(struct tee_stream *s)
{
	struct stat st;

	s->ending = true;
	/* Stop at the present end: the worker's next process may append to this file, for another
	 * stream. */
	if (!s->newer && s->fd >= 0 && log_fs_fstat(s->fd, &st) == 0)
		s->limit = st.st_size;
	s->watch = log_watch_free(s->watch);
	s->state = TEE_READY;
	tee_arm_now(s->tee);
}

void tee_console_ready(struct tee *t)
{
	tee_run(t);
}

void tee_console_closed(struct tee *t, int std)
{
	for (struct tee_stream *s = t->streams; s; s = s->next)
		if (s->std == std)
			s->to_console = false;
}

void tee_mark(struct tee *t)
{
	for (struct tee_stream *s = t->streams; s; s = s->next) {
		struct stat st;

		s->target = s->done;
		if (s->fd < 0 || stream_has_no_reader(s))
			continue;
		if (log_fs_fstat(s->fd, &st) == 0 && st.st_size > s->offset)
			s->target += st.st_size - s->offset;
		for (struct tee_newer_file *file = s->newer; file; file = file->next)
			if (log_fs_fstat(file->fd, &st) == 0)
				s->target += st.st_size;
		s->state = TEE_READY;
	}
	tee_run(t);
}

uint64_t tee_done_bytes(const struct tee *t)
{
	uint64_t done = 0;

	for (const struct tee_stream *s = t->streams; s; s = s->next)
		done += s->done;
	return done;
}

bool tee_caught_up(const struct tee *t)
{
	uint64_t now = loop_now_ms();

	for (struct tee_stream *s = t->streams; s; s = s->next)
		if (s->done < s->target && !stream_has_no_reader(s))
			return false;
	for (struct tee_stream *s = t->streams; s; s = s->next) {
		lines_release(&s->lines, now);
		if (s->to_console)
			console_break(t->console, s->std, s);
	}
	if (t->console)
		console_flush(t->console);
	return true;
}
