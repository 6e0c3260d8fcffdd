/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last N lines are found by reading backwards. Where lines are chosen by text or time, reading
 * backwards cannot count them, so the log is read twice: once to count, then to hand out the last
 * N. All history is fed at time 0, so that both ways give the same lines, and of a progress bar
 * only the last state.
 */
#include "agent/logs/viewer.h"

#include "agent/files/file_system.h"
#include "agent/logs/timestamp.h"
#include "common/loop/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIP_BYTES (64 * 1024)
#define PIECE_BYTES (16 * 1024) /* longer lines come in parts */
#define QUIET_MS 200
#define UPDATE_MS 1000

/* True when the line may have been written in the wanted time. */
static bool wanted_by_time(const struct log_view *v, const struct log_line *line)
{
	if (line->time_us < 0)
		return true;
	if (v->rules->since_us >= 0 && line->time_us + line->range_us < v->rules->since_us)
		return false;
	return v->rules->until_us < 0 || line->time_us <= v->rules->until_us;
}

/* True when the part of the line read so far matches. */
static bool line_matches(struct log_view *v, const char *data, size_t len, bool first)
{
	if (first)
		v->chosen = false;
	if (!log_match_piece(&v->match, data, len, first))
		return false;
	if (!v->chosen && v->state == LOG_VIEW_COUNT)
		v->matches++;
	else if (!v->chosen && v->skip_matches > 0)
		v->skipping = v->skip_matches-- > 0;
	v->chosen = true;
	return v->state != LOG_VIEW_COUNT && !v->skipping;
}

static void on_line(void *arg, const char *data, size_t len, unsigned flags)
{
	struct log_view *v = arg;
	const char *stamp = lines_stamp(&v->lines);
	struct log_line line = { .data = data,
		.len = len,
		.time_us = v->time_us,
		.range_us = v->range_us,
		.partial = !(flags & LINE_END) };

	if (flags & LINE_START) {
		v->skipping = v->skip_lines > 0;
		v->skip_lines -= v->skipping;
	}
	if (v->skipping)
		return;
	if (stamp) {
		line.range_us = 0;
		if (log_stamp_read(stamp, &line.time_us) < 0)
			line.time_us = -1;
	}
	if (wanted_by_time(v, &line) && line_matches(v, data, len, flags & LINE_START))
		v->fn(v->arg, v, &line);
}

static void view_reset_lines(struct log_view *v)
{
	lines_fini(&v->lines);
	lines_init(&v->lines, &v->config, on_line, v);
	v->lines.ever_shown = true;
}

/* Skips the parts closed before the wanted time, and within the first part left whatever its index
 * proves to be older. */
static int view_open_since(struct log_view *v)
{
	struct log_source *s = &v->input.source;
	struct stat st;
	int r = log_source_open_oldest(s);

	if (r < 0 || v->rules->since_us < 0)
		return r;
	while (!s->live && log_fs_fstat(s->fd, &st) == 0 &&
		(int64_t)st.st_mtim.tv_sec * 1000000 + 1000000 < v->rules->since_us) {
		if (!log_source_next(s))
			break;
	}
	if (!s->zstd && s->index.n > 0) {
		int64_t offset = log_index_since(&s->index, v->rules->since_us);

		s->offset = offset;
		if (log_fs_fstat(s->fd, &st) == 0 && offset > st.st_size)
			s->offset = s->index.entries[s->index.n - 1].offset;
	}
	/* Parts removed before this are older than the wanted time. */
	s->missing.parts = 0;
	return 0;
}

static int view_begin(struct log_view *v, bool history)
{
	int r;

	if (!history || v->rules->lines < 0) {
		v->state = LOG_VIEW_READ;
		return view_open_since(v);
	}
	if (v->rules->lines == 0) {
		v->state = LOG_VIEW_READ;
		v->live = true;
		v->quiet_us = (int64_t)loop_real_us();
		r = log_source_open(&v->input.source, 0);
		if (r == 0) {
			struct stat st;

			v->input.source.offset =
				log_fs_fstat(v->input.source.fd, &st) == 0 ? st.st_size : 0;
		}
		return r;
	}
	if (v->rules->contains || v->rules->until_us >= 0) {
		v->state = LOG_VIEW_COUNT;
		return view_open_since(v);
	}
	v->state = LOG_VIEW_FIND;
	return log_finder_init(&v->finder, &v->input.source, v->rules->lines);
}

int log_view_new(const char *path, const struct log_worker_info *worker, int std, bool history,
	const struct log_view_rules *rules, log_view_fn fn, void *arg, struct log_view **ret)
{
	struct log_view *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return -ENOMEM;
	*v = (struct log_view){
		.worker = *worker, .std = std, .rules = rules, .fn = fn, .arg = arg
	};
	v->time_us = v->skip_to = -1;
	v->finder.fd = -1;
	v->config = (struct lines_config){
		.max_piece = PIECE_BYTES,
		.quiet_ms = QUIET_MS,
		.update_ms = UPDATE_MS,
		.strip = worker->stamped ? LOG_STAMP_LEN : 0,
	};
	lines_init(&v->lines, &v->config, on_line, v);
	v->lines.ever_shown = true;
	r = log_input_init(&v->input, path, worker->stamped);
	if (r == 0)
		r = log_match_init(&v->match, rules->contains);
	if (r == 0)
		r = view_begin(v, history);
	if (r < 0) {
		log_view_free(v);
		return r;
	}
	*ret = v;
	return 0;
}

struct log_view *log_view_free(struct log_view *v)
{
	if (!v)
		return NULL;
	log_watch_free(v->watch);
	log_finder_fini(&v->finder);
	log_input_fini(&v->input);
	log_match_fini(&v->match);
	lines_fini(&v->lines);
	free(v);
	return NULL;
}

static int view_step_find(struct log_view *v)
{
	int r = log_finder_step(&v->finder);

	v->worked = SKIP_BYTES;
	if (r <= 0)
		return r < 0 ? r : 1;
	if (v->finder.left > 0) {
		r = log_source_open_oldest(&v->input.source);
	} else {
		r = log_source_open(&v->input.source, v->finder.number);
		v->input.source.offset = v->finder.offset;
		v->skip_lines = v->finder.skip;
	}
	log_finder_fini(&v->finder);
	v->state = LOG_VIEW_READ;
	return r < 0 ? r : 1;
}

/* Counting is done: reads again from the start, to hand out the last lines. */
static int view_begin_reading(struct log_view *v)
{
	lines_finish(&v->lines);
	view_reset_lines(v);
	log_input_reset(&v->input);
	v->state = LOG_VIEW_READ;
	if (v->matches > v->rules->lines)
		v->skip_matches = v->matches - v->rules->lines;
	return view_open_since(v);
}

/* Skips, and counts, lines that a slow viewer misses, up to the start of a line. */
static int view_step_skip(struct log_view *v)
{
	static char buf[SKIP_BYTES];
	struct log_source *s = &v->input.source;
	ssize_t n = log_fs_pread(s->fd, buf, sizeof(buf), s->offset);
	const char *p = buf, *nl;

	v->worked = SKIP_BYTES;
	if (n <= 0) {
		v->skip_to = -1;
		return 1;
	}
	while ((nl = memchr(p, '\n', buf + n - p))) {
		v->missed++;
		p = nl + 1;
		if (s->offset + (p - buf) >= v->skip_to) {
			s->offset += p - buf;
			v->skip_to = -1;
			return 1;
		}
	}
	s->offset += n;
	return 1;
}

/* Hands out a line that says how much rotation has removed here. */
static void view_report_missing(struct log_view *v)
{
	const struct log_missing missing = v->input.source.missing;
	struct log_line line = {
		.time_us = v->input.next_us, .range_us = v->input.range_us, .missing = &missing
	};
	char text[160];

	v->input.source.missing.parts = 0;
	lines_finish(&v->lines);
	view_reset_lines(v);
	if (v->state == LOG_VIEW_COUNT || v->skip_matches > 0 || !wanted_by_time(v, &line))
		return;
	line.data = text;
	line.len = snprintf(text, sizeof(text),
		"elasticd: %s%" PRId64 " lines (%" PRId64 " bytes) are missing here: rotation has "
		"removed %d part%s of this log",
		missing.unknown ? "at least " : "", missing.lines, missing.bytes, missing.parts,
		missing.parts == 1 ? "" : "s");
	v->fn(v->arg, v, &line);
}

/* New bytes were written after the last read or, if inotify reported the write, at that moment. */
static void view_set_live_time(struct log_view *v)
{
	int64_t now = (int64_t)loop_real_us(), from = v->woken_us ? v->woken_us : v->quiet_us;

	v->input.time_us = from < now ? from : now;
	v->input.range_us = now - v->input.time_us + 1;
}

/* Hands out a piece of what was read. */
static void view_step_take(struct log_view *v, uint64_t now_ms)
{
	bool begins = !v->input.within;
	const char *piece;
	size_t n;

	if (v->input.source.missing.parts > 0) {
		view_report_missing(v);
		return;
	}
	if (begins) {
		v->time_us = v->input.time_us;
		v->range_us = v->input.range_us;
	}
	n = log_input_take(&v->input, &piece);
	lines_feed(&v->lines, piece, n, v->live ? now_ms : 0);
	v->worked = n;
}

static int view_step_end(struct log_view *v, uint64_t now_ms)
{
	if (v->input.source.missing.parts > 0)
		view_report_missing(v);
	if (v->state == LOG_VIEW_COUNT) {
		int r = view_begin_reading(v);

		return r < 0 ? r : 1;
	}
	v->state = LOG_VIEW_END;
	/* History is over: from now on quiet_ms counts for the partial line at the end. */
	if (!v->live)
		v->lines.input_ms = now_ms;
	v->live = true;
	v->quiet_us = (int64_t)loop_real_us();
	v->woken_us = 0;
	return 0;
}

static int view_step_read(struct log_view *v, uint64_t now_ms)
{
	int r;

	if (log_input_ready(&v->input)) {
		view_step_take(v, now_ms);
		return 1;
	}
	r = log_input_fill(&v->input);
	if (r == 0)
		return view_step_end(v, now_ms);
	if (r > 0 && v->live && v->quiet_us)
		view_set_live_time(v);
	return r;
}

bool log_view_step(struct log_view *v, uint64_t now_ms)
{
	int r = 0;

	v->worked = 0;
	if (v->state == LOG_VIEW_FIND)
		r = view_step_find(v);
	else if (!log_view_at_end(v))
		r = v->skip_to >= 0 ? view_step_skip(v) : view_step_read(v, now_ms);
	if (r < 0)
		v->state = LOG_VIEW_BROKEN;
	return r > 0;
}

bool log_view_at_end(const struct log_view *v)
{
	return v->state == LOG_VIEW_END || v->state == LOG_VIEW_BROKEN;
}

void log_view_check_again(struct log_view *v)
{
	if (v->state == LOG_VIEW_END)
		v->state = LOG_VIEW_READ;
}

void log_view_written(struct log_view *v)
{
	if (v->live && !v->woken_us)
		v->woken_us = (int64_t)loop_real_us();
	log_view_check_again(v);
}

bool log_view_ready(const struct log_view *v)
{
	return v->state == LOG_VIEW_READ && log_input_ready(&v->input);
}

uint64_t log_view_deadline(const struct log_view *v)
{
	return v->live ? lines_deadline(&v->lines) : UINT64_MAX;
}

void log_view_tick(struct log_view *v, uint64_t now_ms)
{
	if (v->live)
		lines_tick(&v->lines, now_ms);
}

void log_view_finish(struct log_view *v, bool over)
{
	if (over)
		lines_finish(&v->lines);
	else
		lines_release(&v->lines, 0);
}

void log_view_skip(struct log_view *v, int64_t max, int64_t keep)
{
	struct log_source *s = &v->input.source;
	struct stat st;

	if (!v->live || !s->live || s->fd < 0 || log_fs_fstat(s->fd, &st) < 0 ||
		st.st_size - s->offset <= max)
		return;
	s->offset -= v->input.end - v->input.at;
	log_input_reset(&v->input);
	/* Finishes a line that was partly shown; counts a line that was not shown as missed. */
	if (v->lines.open)
		lines_finish(&v->lines);
	view_reset_lines(v);
	v->skip_to = st.st_size - keep;
	log_view_check_again(v);
}
