/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a run's log files for one viewer: history, then (with follow) what comes, over restarts.
 * Works on the directory tree alone, so it serves runs that are going on and runs that ended alike.
 * Finds new attempts and lines by inotify. A viewer that stops taking lines is skipped ahead and
 * told how many lines it missed; nobody else notices.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <jansson.h>
#include <stdbool.h>

struct log_reader;

/* lines: owned array of io.elasticd.Manager.Line objects, may be empty; missed: lines skipped
 * since the last call; more: false at the last call, after which the reader calls no more and the
 * callback may free it. Returns 0, or -EAGAIN: took these, call log_reader_resume() for more. */
typedef int (*log_reader_fn)(void *arg, json_t *lines, int64_t missed, bool more);

/* params: the parameters of io.elasticd.Manager.Logs (borrowed), already of the right types;
 * workers: how many the job has, for a rank beyond them needs logs in the attempt. Returns 0, or a
 * negative errno with err: -ENOENT no such attempt (or no files at all), -ESRCH no such worker,
 * which err's field names. */
_must_check_ int log_reader_new(struct loop *loop, const char *run_dir, const json_t *params,
	int workers, log_reader_fn fn, void *arg, struct log_reader **ret, struct error *err);
struct log_reader *log_reader_free(struct log_reader *r);
DEFINE_CLEANUP(struct log_reader *, log_reader_free)

void log_reader_resume(struct log_reader *r);

/* The run has ended: a following reader delivers the rest and then its last call. */
void log_reader_run_ended(struct log_reader *r);
