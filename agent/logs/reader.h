/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a run's log files for one viewer: history first, then, with follow, new lines over all
 * restarts. Works on the directory tree alone, so it serves running and ended runs alike. Finds new
 * attempts and lines by inotify. A viewer that is too slow skips lines and learns how many; workers
 * and other viewers do not notice.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>

struct log_reader;

/* Takes lines, an owned array of io.elasticd.Manager.Line objects that may be empty. missed: lines
 * skipped since the last call. more: false in the last call, in which the callback may free the
 * reader. Returns 0, or -EAGAIN: lines were taken, and the callback's owner calls
 * log_reader_resume() when it wants more. */
typedef int (*log_reader_fn)(void *arg, json_t *lines, int64_t missed, bool more);

/* params: the parameters of io.elasticd.Manager.Logs (borrowed), of the right types already.
 * workers: how many the job has; a rank beyond them must have logs in the attempt. Returns 0, or a
 * negative errno with err: -ENOENT no such attempt (or no files at all), -ESRCH no such worker
 * (err's field names the parameter). */
_must_check_ int log_reader_new(struct loop *loop, const char *run_dir, const json_t *params,
	int workers, log_reader_fn fn, void *arg, struct log_reader **ret, struct error *err);
struct log_reader *log_reader_free(struct log_reader *r);
DEFINE_CLEANUP(struct log_reader *, log_reader_free)

void log_reader_resume(struct log_reader *r);

/* The run has ended: a following reader delivers the rest and makes its last call. */
void log_reader_run_ended(struct log_reader *r);
