/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/logs.h"

#include "agent/files/file_system.h"
#include "agent/files/inotify.h"
#include "agent/logs/dirs.h"
#include "agent/logs/line_splitter.h"
#include "agent/logs/private.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const logs_stream_names[] = { "stdout", "stderr" };

static void logs_event(struct logs *l, const char *event, int rank, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void logs_event(struct logs *l, const char *event, int rank, const char *fmt, ...)
{
	char text[PATH_MAX + 256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->opt.event(l->opt.arg, event, rank, text);
}

/* Many streams find the same disk full: report that once, and the end of it once. */
void logs_on_full(void *arg, int rank, const char *path, bool full)
{
	struct logs *l = arg;

	if (l->full == full)
		return;
	l->full = full;
	l->was_full = true;
	if (full)
		logs_event(l, "log-disk-full", rank, "no space left on the disk for %s", path);
	else
		logs_event(l, "log-resumed", rank, "there is space on the disk again: writing %s",
			path);
}

const char *logs_loss_note(const struct logs *l)
{
	return l->full	     ? "the disk of the logs is full: they lack lines"
	       : l->was_full ? "the disk of the logs was full: they lack lines"
			     : NULL;
}

void logs_on_failed(void *arg, int rank, const char *path, int error)
{
	logs_event(arg, "log-write-failed", rank, "%s: %s", path, safe_open_text(-error));
}

void logs_on_vanished(void *arg, int rank, const char *path)
{
	logs_event(arg, "log-vanished", rank,
		"%s was removed or replaced; writing goes on in a new file", path);
}

/* A tee reports the vanished file of the stream it follows. */
static void on_index_vanished(void *arg, int rank, const char *path)
{
	struct logs *l = arg;

	for (int k = 0; k < l->n_workers; k++)
		for (int i = 0; i < 2; i++) {
			const struct log_stream *s = l->workers[k] ? &l->workers[k]->std[i] : NULL;

			if (s && s->path && !strcmp(s->path, path) && s->tee)
				return;
		}
	logs_event(l, "log-vanished", rank, "%s was removed or replaced; what is written is lost",
		path);
}

static void on_copy_failed(void *arg, const char *path, int error)
{
	logs_event(arg, "log-write-failed", -1, "%s: %s; no further copies", path,
		safe_open_text(-error));
}

static void on_tee_vanished(void *arg, int rank, const char *text)
{
	logs_event(arg, "log-vanished", rank, "%s", text);
}

bool logs_no_room(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

void logs_report_failure(struct logs *l, int rank, const char *path, int r)
{
	if (logs_no_room(r))
		logs_on_full(l, rank, path, true);
	else
		logs_on_failed(l, rank, path, -r);
}

static void on_progress(void *arg)
{
	struct logs *l = arg;

	log_drains_progress(l->drains);
	for (int k = 0; k < l->n_workers; k++)
		for (int i = 0; l->workers[k] && i < 2; i++)
			if (l->workers[k]->std[i].pipe)
				log_pipe_console_ready(l->workers[k]->std[i].pipe);
}

static void logs_console_closed(struct logs *l, int error)
{
	log_drains_progress(l->drains);
	for (int i = 0; i < 2 && l->tee; i++)
		if (console_is_closed(l->console, i))
			tee_console_closed(l->tee, i);
	logs_event(l, "console-closed", -1, "the console takes no more lines: %s; log files go on",
		strerror(error));
}

static void on_console(void *arg, bool closed, int error)
{
	struct logs *l = arg;

	if (closed)
		logs_console_closed(l, error);
	else if (error)
		logs_event(l, "console-full", -1,
			"cannot write to the console now: %s; log files go on, and the agent tries again",
			strerror(error));
	else if (l->tee)
		tee_console_ready(l->tee);
	else
		log_drains_progress(l->drains);
}

static int make_tee(struct logs *l)
{
	const int own[2] = { STDOUT_FILENO, STDERR_FILENO };
	const struct tee_hooks hooks = {
		.vanished = on_tee_vanished, .progress = on_progress, .arg = l
	};
	int r = 0;

	if (l->opt.use_console)
		r = console_new(l->loop, l->opt.console_fds ? l->opt.console_fds : own, on_console,
			l, &l->console);
	if (r < 0 || std_map_empty(&l->opt.spec->tee))
		return r;
	return tee_new(l->loop, l->console, &hooks, &l->tee);
}

static int make_files(struct logs *l, struct error *err)
{
	const struct log_index_hooks hooks = {
		.full = logs_on_full, .vanished = on_index_vanished, .arg = l
	};
	int r;

	if (!strcmp(l->opt.root, "/dev/null"))
		return 0;
	r = log_dirs_make_run(l->opt.root, l->opt.job, l->opt.run, &l->run_dir, &l->run_lock, err);
	if (r < 0)
		return r;
	r = log_indexes_new(l->loop, &hooks, &l->indexes);
	if (r == 0)
		r = log_compress_new(&l->compress);
	return r < 0 ? error_set(err, r, "logs: %s", strerror(-r)) : 0;
}

int logs_new(
	struct loop *loop, const struct logs_options *opt, struct logs **ret, struct error *err)
{
	_cleanup_(logs_freep) struct logs *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return error_set(err, -ENOMEM, "out of memory");
	*l = (struct logs){ .loop = loop, .opt = *opt, .run_lock = -1 };
	log_watcher_ref();
	if (opt->spec->filter) {
		r = ranks_parse(&l->shown, opt->spec->filter, "logs.filter", err);
		if (r < 0)
			return r;
	}
	r = make_files(l, err);
	if (r < 0)
		return r;
	r = make_tee(l);
	if (r == 0)
		r = log_drains_new(loop, l->tee, l->console, &l->drains);
	if (r < 0)
		return error_set(err, r, "console: %s", strerror(-r));
	*ret = TAKE_PTR(l);
	return 0;
}

bool logs_put_message(struct logs *l, const char *line)
{
	if (!l->console || console_is_closed(l->console, 1))
		return false;
	console_put(l->console, 1, l, "", 0, line, strlen(line), LINE_START | LINE_END);
	console_flush(l->console);
	return true;
}

const char *logs_run_dir(const struct logs *l)
{
	return l->run_dir;
}

static void make_copies(struct logs *l)
{
	for (int i = 0; i < 2; i++) {
		char **texts =
			i == 0 ? l->opt.spec->duplicate_stdout : l->opt.spec->duplicate_stderr;
		char path[PATH_MAX];
		int r;

		if (!texts || !texts[0] || !l->tee)
			continue;
		if (snprintf(path, sizeof(path), "%s/filtered_%s.log", l->attempt_dir,
			    logs_stream_names[i]) >= (int)sizeof(path))
			continue;
		r = log_copy_new(path, texts, on_copy_failed, l, &l->copies[i]);
		if (r < 0)
			logs_report_failure(l, -1, path, r);
	}
}

static void leave_attempt(struct logs *l)
{
	for (int i = 0; i < l->n_workers; i++)
		logs_drop_worker(l, i);
	for (int i = 0; i < 2; i++)
		l->copies[i] = log_copy_unref(l->copies[i]);
	free(l->attempt_dir);
	l->attempt_dir = NULL;
}

int logs_begin_attempt(struct logs *l, int attempt, struct error *err)
{
	int r;

	leave_attempt(l);
	if (!l->run_dir)
		return 0;
	if (asprintf(&l->attempt_dir, "%s/attempt_%d", l->run_dir, attempt) < 0) {
		l->attempt_dir = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	r = log_dirs_make(l->attempt_dir);
	if (r < 0) {
		logs_report_failure(l, -1, l->attempt_dir, r);
		free(l->attempt_dir);
		l->attempt_dir = NULL;
		return 0;
	}
	logs_on_full(l, -1, l->attempt_dir, false);
	make_copies(l);
	return 0;
}

enum { DRAIN_TIMEOUTS_MOST = 12 }; /* in timeouts: for a console that is slow but takes some */

void logs_drain_end(struct logs *l)
{
	log_drains_end(l->drains);
}

int logs_drain(struct logs *l, uint64_t timeout_ms, loop_fn fn, void *arg)
{
	for (int k = 0; k < l->n_workers; k++)
		for (int i = 0; l->workers[k] && i < 2; i++)
			if (l->workers[k]->std[i].pipe)
				log_pipe_drain(l->workers[k]->std[i].pipe);
	return log_drains_add(l->drains, timeout_ms, DRAIN_TIMEOUTS_MOST * timeout_ms, fn, arg);
}

bool logs_child_exited(struct logs *l, pid_t pid, int status)
{
	return l->compress && log_compress_exited(l->compress, pid, status == 0);
}

size_t logs_helper_pids(const struct logs *l, pid_t *pids, size_t max)
{
	return l->compress ? log_compress_pids(l->compress, pids, max) : 0;
}

struct logs *logs_free(struct logs *l)
{
	if (!l)
		return NULL;
	leave_attempt(l);
	log_drains_free(l->drains);
	tee_free(l->tee);
	console_free(l->console);
	log_indexes_free(l->indexes);
	log_compress_free(l->compress);
	log_watcher_unref();
	ranks_fini(&l->shown);
	log_fs_close(l->run_lock);
	free(l->workers);
	free(l->run_dir);
	free(l);
	return NULL;
}

const char *logs_worker_dir(const struct logs *l, int local_rank)
{
	const struct log_worker *w = logs_find_worker(l, local_rank);

	return w ? w->dir : NULL;
}

const char *logs_worker_path(const struct logs *l, int local_rank, int std)
{
	const struct log_worker *w = logs_find_worker(l, local_rank);

	return w ? w->std[std].path : NULL;
}
