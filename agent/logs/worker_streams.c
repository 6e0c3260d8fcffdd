/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up the streams of each worker: log_plan decides where they go, log_dirs makes the
 * directories. A stream is a file that the worker writes (with a log_index beside it) or a
 * log_pipe; a tee_stream follows it where the console or a filtered copy wants its lines. Where
 * files cannot be made, because the disk is full or read-only, the worker runs without them.
 */
#include "agent/files/file_system.h"
#include "agent/logs/dirs.h"
#include "agent/logs/disk_reserve.h"
#include "agent/logs/prefix.h"
#include "agent/logs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void worker_end(struct log_worker *w)
{
	for (int i = 0; i < 2; i++) {
		struct log_stream *s = &w->std[i];

		if (s->pipe)
			log_pipe_end(s->pipe);
		if (s->tee)
			tee_end(s->tee);
		s->tee = NULL;
		s->index = log_index_free(s->index);
	}
}

static void worker_free(struct log_worker *w)
{
	worker_end(w);
	for (int i = 0; i < 2; i++) {
		log_pipe_free(w->std[i].pipe);
		free(w->std[i].path);
	}
	free(w->dir);
	free(w);
}

bool logs_is_merged(const struct log_worker *w)
{
	return w->plan.std[1].sink == LOG_SINK_STDOUT;
}

struct log_worker *logs_find_worker(const struct logs *l, int local_rank)
{
	return local_rank >= 0 && local_rank < l->n_workers ? l->workers[local_rank] : NULL;
}

void logs_drop_worker(struct logs *l, int local_rank)
{
	struct log_worker *w = logs_find_worker(l, local_rank);

	if (!w)
		return;
	l->workers[local_rank] = NULL;
	worker_free(w);
}

/* In place of the one of that rank before. NULL without memory. */
static struct log_worker *logs_add_worker(struct logs *l, const struct logs_worker *worker)
{
	int n = worker->local_rank + 1;
	struct log_worker *w, **bigger;

	logs_drop_worker(l, worker->local_rank);
	if (n > l->n_workers) {
		bigger = reallocarray(l->workers, (size_t)n, sizeof(*bigger));
		if (!bigger)
			return NULL;
		for (int i = l->n_workers; i < n; i++)
			bigger[i] = NULL;
		l->workers = bigger;
		l->n_workers = n;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->rank = worker->rank;
	w->local_rank = worker->local_rank;
	l->workers[w->local_rank] = w;
	return w;
}

void logs_worker_ended(struct logs *l, int local_rank)
{
	struct log_worker *w = logs_find_worker(l, local_rank);

	if (w)
		worker_end(w);
}

static struct log_plan make_plan(const struct logs *l, int local_rank, bool files)
{
	const struct log_plan_options opt = {
		.foreground = l->opt.foreground,
		.files = files,
		.use_console = l->console != NULL,
		.shown = !l->opt.spec->filter || ranks_contains(&l->shown, local_rank),
	};
	struct log_plan plan;

	log_plan(l->opt.spec, local_rank, &opt, &plan);
	return plan;
}

static bool has_files(const struct log_plan *plan)
{
	return plan->std[0].file || plan->std[1].file;
}

/* Makes <rank>/ with its worker.json. Without them the worker has no files. */
static int make_rank_dir(struct logs *l, struct log_worker *w, const struct logs_worker *worker)
{
	struct log_worker_info info = { .index = worker->index,
		.rank = worker->rank,
		.local_rank = worker->local_rank,
		.stamped = l->opt.spec->timestamps,
		.merged = logs_is_merged(w) };
	int r;

	if (!l->attempt_dir)
		return 0;
	if (asprintf(&w->dir, "%s/%d", l->attempt_dir, worker->local_rank) < 0) {
		w->dir = NULL;
		return -ENOMEM;
	}
	r = log_dirs_make(w->dir);
	if (r < 0) {
		logs_report_failure(l, worker->rank, w->dir, r);
		free(w->dir);
		w->dir = NULL;
		return 0;
	}
	snprintf(info.role, sizeof(info.role), "%s", worker->role);
	r = has_files(&w->plan) ? log_dirs_write_worker(w->dir, &info) : 0;
	if (r < 0)
		logs_report_failure(l, worker->rank, w->dir, r);
	return 0;
}

static bool is_followed(const struct log_plan_stream *plan)
{
	return plan->tee || plan->copy;
}

static bool wants_colour(void)
{
	const char *term = getenv("TERM");

	return !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
}

/* Follows the stream if the console or a filtered copy wants its lines. s->path is set already. */
static int stream_open_tee(struct logs *l, struct log_worker *w, int std, const char *prefix)
{
	const struct log_plan_stream *plan = &w->plan.std[std];
	struct log_stream *s = &w->std[std];
	bool direct = plan->sink == LOG_SINK_FILE;
	const struct tee_options opt = {
		.rank = w->rank,
		.std = std,
		.to_console = plan->tee,
		.prefix = prefix,
		.colour = wants_colour(),
		.copy = plan->copy ? l->copies[std] : NULL,
		.stamped = l->opt.spec->timestamps && s->path,
		.path = direct ? s->path : NULL,
	};
	struct stat st = { 0 };
	int fd = -1, r;

	if (!l->tee || (!plan->tee && !opt.copy))
		return 0;
	if (s->path) {
		fd = log_fs_open(s->path, O_RDONLY, 0);
		r = fd < 0 ? fd : log_fs_fstat(fd, &st);
		if (r < 0) {
			log_fs_close(fd);
			return r;
		}
	}
	return tee_add(l->tee, &opt, fd, st.st_size, &s->tee);
}

static int stream_open_pipe(
	struct logs *l, struct log_worker *w, int std, const char *prefix, int *ret_fd)
{
	const struct spec_logs *spec = l->opt.spec;
	struct log_stream *s = &w->std[std];
	struct log_pipe_options opt = {
		.path = s->path,
		.rank = w->rank,
		.timestamps = spec->timestamps,
		.max_size = spec->max_size,
		.keep = spec->keep,
		.compress = l->compress,
		.full = logs_on_full,
		.failed = logs_on_failed,
		.vanished = logs_on_vanished,
		.arg = l,
	};
	int r;

	/* log_pipe_new() closes the file of an earlier process first. The tee must follow the new
	 * file. */
	r = log_pipe_new(l->loop, &opt, ret_fd, &s->pipe);
	if (r < 0)
		return r;
	r = stream_open_tee(l, w, std, prefix);
	if (r < 0) {
		logs_report_failure(l, w->rank, s->path ? s->path : "console", r);
		return 0;
	}
	log_pipe_set_tee(s->pipe, s->tee);
	return 0;
}

/* Gives the worker its own descriptor on the file. -ENOSPC: the disk is full. */
static int stream_open_direct(
	struct logs *l, struct log_worker *w, int std, const char *prefix, int *ret_fd)
{
	struct log_stream *s = &w->std[std];
	_cleanup_log_fd_ int fd = log_dirs_open_append(s->path);
	int r;

	if (fd < 0)
		return fd;
	r = log_index_add(l->indexes, s->path, w->rank, &s->index);
	if (logs_no_room(r))
		return r;
	r = stream_open_tee(l, w, std, prefix);
	if (r < 0)
		logs_report_failure(l, w->rank, s->path, r);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int open_null(int *ret_fd)
{
	*ret_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int stream_open_file_or_pipe(
	struct logs *l, struct log_worker *w, int std, const char *prefix, int *ret_fd)
{
	struct log_plan_stream *plan = &w->plan.std[std];
	struct log_stream *s = &w->std[std];
	int r = 0;

	if (plan->file && asprintf(&s->path, "%s/%s.log", w->dir, logs_stream_names[std]) < 0) {
		s->path = NULL;
		return -ENOMEM;
	}
	/* With a nearly full disk the agent writes: a worker that writes itself could fail. */
	if (plan->sink == LOG_SINK_FILE && log_disk_is_low(w->dir))
		plan->sink = LOG_SINK_PIPE;
	if (plan->sink == LOG_SINK_FILE) {
		r = stream_open_direct(l, w, std, prefix, ret_fd);
		if (r == 0)
			return 0;
		logs_report_failure(l, w->rank, s->path, r);
		plan->sink = LOG_SINK_PIPE;
	}
	r = stream_open_pipe(l, w, std, prefix, ret_fd);
	if (r == 0 || !s->path)
		return r;
	logs_report_failure(l, w->rank, s->path, r);
	free(s->path);
	s->path = NULL;
	if (!plan->tee)
		return open_null(ret_fd);
	return stream_open_pipe(l, w, std, prefix, ret_fd);
}

static int stream_open(
	struct logs *l, struct log_worker *w, int std, const char *prefix, struct logs_fds *fds)
{
	int *fd = std == 0 ? &fds->out : &fds->err;

	switch (w->plan.std[std].sink) {
	case LOG_SINK_INHERIT:
		return 0;
	case LOG_SINK_NULL:
		return open_null(fd);
	case LOG_SINK_STDOUT:
		*fd = fcntl(fds->out, F_DUPFD_CLOEXEC, 3);
		return *fd < 0 ? -errno : 0;
	case LOG_SINK_FILE:
	case LOG_SINK_PIPE:
		break;
	}
	return stream_open_file_or_pipe(l, w, std, prefix, fd);
}

static int open_streams(struct logs *l, struct log_worker *w, const struct logs_worker *worker,
	struct logs_fds *fds)
{
	const struct prefix_vars vars = { .role = worker->role,
		.host = l->opt.host,
		.index = worker->index,
		.rank = worker->rank,
		.local_rank = worker->local_rank };
	bool followed = is_followed(&w->plan.std[0]) || is_followed(&w->plan.std[1]);
	_cleanup_free_ char *prefix = followed ? prefix_expand(l->opt.spec->prefix, &vars) : NULL;
	int r = followed && !prefix ? -ENOMEM : 0;

	for (int i = 0; i < 2 && r == 0; i++)
		r = stream_open(l, w, i, prefix, fds);
	return r;
}

static int set_error_file(const struct log_worker *w, struct logs_fds *fds)
{
	if (asprintf(&fds->error_file, "%s%s", w->dir ? w->dir : "", w->dir ? "/error.json" : "") <
		0) {
		fds->error_file = NULL;
		return -ENOMEM;
	}
	if (w->dir)
		log_dirs_move_error_file(fds->error_file);
	return 0;
}

int logs_open_worker(
	struct logs *l, const struct logs_worker *worker, struct logs_fds *ret, struct error *err)
{
	struct log_worker *w;
	int r;

	*ret = (struct logs_fds){ .out = -1, .err = -1 };
	w = logs_add_worker(l, worker);
	if (!w)
		return error_set(err, -ENOMEM, "out of memory");
	w->plan = make_plan(l, worker->local_rank, l->attempt_dir != NULL);
	r = make_rank_dir(l, w, worker);
	if (r == 0 && !w->dir)
		w->plan = make_plan(l, worker->local_rank, false);
	if (r == 0)
		r = open_streams(l, w, worker, ret);
	if (r == 0)
		r = set_error_file(w, ret);
	if (r < 0) {
		logs_fds_fini(ret);
		logs_drop_worker(l, worker->local_rank);
		return error_set(err, r, "logs of rank %d: %s", worker->rank, strerror(-r));
	}
	return 0;
}

void logs_fds_fini(struct logs_fds *fds)
{
	fds->out = log_fs_close(fds->out);
	fds->err = log_fs_close(fds->err);
	free(fds->error_file);
	fds->error_file = NULL;
}
