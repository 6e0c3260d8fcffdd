/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/event_log.h"

#include "agent/files/file_system.h"
#include "agent/policy/failure_list.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/loop/loop.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_KEPT = 128, EVENTS_CLOCK_US = 1000000 };

struct events_file {
	char *path;
	int fd;
	bool slow;    /* on the file system of the logs (agent/files/file_system.h) */
	bool failing; /* the last write failed, which was logged */
	bool torn;    /* the last line may be incomplete */
};

struct events {
	char *job, *run;
	struct events_file files[2];
	int64_t seq;
	int64_t clock_us; /* the clock's time at the boot of the host, as it was set last */
	json_t *ring;	  /* the newest events, oldest first */
	events_fn fn;
	void *arg;
};

/* Only a clock that is set, not one that is slewed or a host that sleeps, changes this. */
static int64_t events_clock_us(void)
{
	return (int64_t)loop_real_us() - boottime_us();
}

int64_t events_clock_set_us(const struct events *e)
{
	int64_t by = events_clock_us() - e->clock_us;

	return by > -EVENTS_CLOCK_US && by < EVENTS_CLOCK_US ? 0 : by;
}

int events_new(const char *job, const char *run, const char *const dirs[2], int64_t seq,
	events_fn fn, void *arg, struct events **ret)
{
	_cleanup_(events_freep) struct events *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->files[0].fd = e->files[1].fd = -1;
	e->job = strdup(job);
	e->run = strdup(run);
	e->ring = json_array();
	e->seq = seq;
	e->clock_us = events_clock_us();
	e->fn = fn;
	e->arg = arg;
	if (!e->job || !e->run || !e->ring)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		if (!dirs[i])
			continue;
		e->files[i].path = paths_join(dirs[i], "events.jsonl");
		if (!e->files[i].path)
			return -ENOMEM;
		e->files[i].slow = i == 0;
		e->files[i].torn = true; /* an earlier agent may have died while it wrote a line */
	}
	*ret = TAKE_PTR(e);
	return 0;
}

struct events *events_free(struct events *e)
{
	if (!e)
		return NULL;
	for (int i = 0; i < 2; i++) {
		if (e->files[i].slow)
			log_fs_close(e->files[i].fd);
		else
			close_fd(e->files[i].fd);
		free(e->files[i].path);
	}
	json_decref(e->ring);
	free(e->job);
	free(e->run);
	free(e);
	return NULL;
}

static ssize_t events_pread(const struct events_file *f, char *buf, size_t len, off_t offset)
{
	ssize_t n;

	if (f->slow)
		return log_fs_pread(f->fd, buf, len, offset);
	n = pread(f->fd, buf, len, offset);
	return n < 0 ? -errno : n;
}

/* True when the file's last byte is not a newline. */
static bool events_ends_torn(const struct events_file *f)
{
	struct stat st;
	char last;

	if ((f->slow ? log_fs_fstat(f->fd, &st) : fstat(f->fd, &st)) < 0 || !st.st_size)
		return false;
	return events_pread(f, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

static int events_open(struct events_file *f)
{
	int flags = O_RDWR | O_APPEND | O_CREAT;
	int fd = f->slow ? log_fs_open(f->path, flags, 0640)
			 : safe_open(AT_FDCWD, f->path, flags, 0640);

	if (fd < 0)
		return fd;
	f->fd = fd;
	return 0;
}

/* line begins with a newline, which ends a torn line before it, and ends with another. */
static int events_append(struct events_file *f, const char *line, size_t len)
{
	int r = f->fd < 0 ? events_open(f) : 0;
	ssize_t got;

	if (r < 0)
		return r;
	if (!f->torn || !events_ends_torn(f)) {
		line++;
		len--;
	}
	got = f->slow ? log_fs_write(f->fd, line, len) : write(f->fd, line, len);
	f->torn = got != (ssize_t)len;
	if (got < 0)
		return f->slow ? (int)got : -errno;
	return f->torn ? -ENOSPC : 0;
}

static void events_write(struct events *e, const json_t *event)
{
	bool any = e->files[0].path || e->files[1].path;
	_cleanup_free_ char *text = any ? json_dumps(event, JSON_COMPACT) : NULL, *line = NULL;

	if (!text || asprintf(&line, "\n%s\n", text) < 0)
		line = NULL;
	for (int i = 0; line && i < 2; i++) {
		struct events_file *f = &e->files[i];
		int r;

		if (!f->path)
			continue;
		r = events_append(f, line, strlen(line));
		if (r < 0 && !f->failing)
			log_warning("%s: %s; events stay in memory", f->path, safe_open_text(r));
		f->failing = r < 0;
	}
}

/* Times of events before and after this one cannot be compared. */
static void events_check_clock(struct events *e, int attempt)
{
	int64_t by = events_clock_set_us(e);
	char took[DURATION_TEXT_MAX];

	if (!by)
		return;
	e->clock_us += by;
	events_add(e, "clock-set", attempt, -1, json_pack("{s:I}", "by_us", (json_int_t)by),
		"the clock was set %s by %s", by > 0 ? "forward" : "back",
		duration_text(llabs(by) / 1000, took));
}

void events_add(struct events *e, const char *event, int attempt, int rank, json_t *data,
	const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	json_t *j;

	events_check_clock(e, attempt);

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	j = json_object();
	json_put_int(j, "seq", ++e->seq);
	json_put_int(j, "time_us", (int64_t)loop_real_us());
	json_put(j, "event", json_string(event));
	json_put(j, "job", json_string(e->job));
	json_put(j, "run", json_string(e->run));
	if (attempt >= 0)
		json_put_int(j, "attempt", attempt);
	if (rank >= 0)
		json_put_int(j, "rank", rank);
	json_put_string(j, "text", text);
	if (data)
		json_put(j, "data", data);
	events_write(e, j);
	if (json_array_size(e->ring) >= EVENTS_KEPT)
		json_array_remove(e->ring, 0);
	json_array_append(e->ring, j);
	if (e->fn)
		e->fn(e->arg, j);
	json_decref(j);
}

int64_t events_last_seq(const struct events *e)
{
	return e->seq;
}

static int64_t events_seq(const json_t *event)
{
	return json_integer_value(json_object_get(event, "seq"));
}

/* The next event of f, owned, or NULL at its end. Skips lines that are no events. */
static json_t *events_next(FILE *f, char **line, size_t *cap)
{
	while (getline(line, cap, f) > 0) {
		json_t *event = json_loads(*line, 0, NULL);

		if (json_is_object(event) && json_is_string(json_object_get(event, "event")))
			return event;
		json_decref(event);
	}
	return NULL;
}

static FILE *events_stream(const char *path)
{
	_cleanup_close_ int fd = safe_open(AT_FDCWD, path, O_RDONLY, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f)
		fd = -1;
	return f;
}

void events_each(const char *path, events_fn fn, void *arg)
{
	_cleanup_file_ FILE *f = events_stream(path);
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	json_t *event;

	while (f && (event = events_next(f, &line, &cap))) {
		fn(arg, event);
		json_decref(event);
	}
}

/* Takes stream, which may be NULL. */
static json_t *events_read(FILE *stream, int64_t since, size_t limit)
{
	_cleanup_file_ FILE *f = stream;
	_cleanup_free_ char *line = NULL;
	json_t *found = json_array(), *event;
	size_t cap = 0;

	while (f && json_array_size(found) < limit && (event = events_next(f, &line, &cap))) {
		if (events_seq(event) > since)
			json_array_append(found, event);
		json_decref(event);
	}
	return found;
}

json_t *events_read_file(const char *path, int64_t since, size_t limit)
{
	return events_read(events_stream(path), since, limit);
}

/* Events before number first, from a file: those from first on are in memory, and a full disk may
 * have kept them from the file. */
static json_t *events_older(const struct events *e, int64_t since, int64_t first, size_t limit)
{
	json_t *found = NULL;

	for (int i = 1; i >= 0; i--) {
		const struct events_file *f = &e->files[i];
		size_t n;

		if (!f->path)
			continue;
		json_decref(found);
		found = events_read(
			f->slow ? log_fs_stream(f->path) : events_stream(f->path), since, limit);
		for (n = json_array_size(found);
			n > 0 && events_seq(json_array_get(found, n - 1)) >= first; n--)
			json_array_remove(found, n - 1);
		if (n)
			break;
	}
	return found ? found : json_array();
}

json_t *events_since(const struct events *e, int64_t since, size_t limit)
{
	int64_t first =
		json_array_size(e->ring) ? events_seq(json_array_get(e->ring, 0)) : e->seq + 1;
	json_t *found = since < first - 1 ? events_older(e, since, first, limit) : json_array();
	json_t *event;
	size_t i;

	json_array_foreach (e->ring, i, event)
		if (events_seq(event) > since && json_array_size(found) < limit)
			json_array_append(found, event);
	return found;
}

struct events_search {
	int64_t attempt; /* the wanted one, or the newest so far */
	bool newest;
	json_t *found;
	json_t *restarted; /* of "worker-failed-once" */
};

static void events_search(void *arg, const json_t *event)
{
	struct events_search *s = arg;
	int64_t attempt = json_get_int(event, "attempt", -1);
	json_t *data = json_get_object(event, "data");
	const char *name = json_get_string(event, "event", "");
	bool restarted = !strcmp(name, "worker-failed-once");

	if (!data || (strcmp(name, "worker-failed") != 0 && !restarted &&
			     strcmp(name, "worker-failed-elsewhere") != 0))
		return;
	if (s->newest && attempt != s->attempt) {
		json_array_clear(s->found);
		json_array_clear(s->restarted);
		s->attempt = attempt;
	}
	if (attempt == s->attempt)
		json_array_append(restarted ? s->restarted : s->found, data);
}

static json_t *events_find_failures(const char *path, int attempt, bool all)
{
	struct events_search s = { .attempt = attempt,
		.newest = attempt < 0,
		.found = json_array(),
		.restarted = json_array() };

	events_each(path, events_search, &s);
	failure_list_order(s.found);
	if (all)
		json_array_extend(s.found, s.restarted);
	json_decref(s.restarted);
	return s.found;
}

json_t *events_failures(const char *path, int attempt)
{
	return events_find_failures(path, attempt, false);
}

json_t *events_failures_all(const char *path, int attempt)
{
	return events_find_failures(path, attempt, true);
}
