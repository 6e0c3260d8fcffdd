/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A worker's error.json, in either of torchelastic's shapes: {"message": {"message", "extraInfo":
 * {"py_callstack", "timestamp"}}} or {"message": "text", "timestamp"}. The worker may write
 * anything into it: an unusable file is reported, and is never fatal.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Limits of texts in events, answers and the record, since each of many workers may have one.
 * Longer texts lose their end, tracebacks their beginning; the file itself and its copy stay whole.
 */
enum { ERROR_FILE_MESSAGE_MAX = 4 << 10, ERROR_FILE_TRACEBACK_MAX = 16 << 10 };

struct error_file {
	json_t *doc;	      /* the whole document, owned */
	char *message;	      /* owned, cut to its limit */
	char *traceback;      /* or NULL; owned, cut to its limit */
	int64_t timestamp_us; /* as the worker wrote it, or -1 */
	bool whole_seconds;   /* the timestamp was given without a fraction */
};

/* Parses len bytes. Returns 0, or -EBADMSG with the problem, a static text, in ret_problem. */
_must_check_ int error_file_parse(
	const char *text, size_t len, struct error_file *ret, const char **ret_problem);

/* Reads path (no more than 16 MiB, no symbolic link, regular files only). ret_mtime_us is when it
 * was last written. -ENOENT: there is no file. Other errors: as error_file_parse(), with the
 * problem in ret_problem. */
_must_check_ int error_file_read(
	const char *path, struct error_file *ret, int64_t *ret_mtime_us, const char **ret_problem);

void error_file_fini(struct error_file *e);

/* Copies the root cause's document to path and, as torchrun does, adds message.errorCode =
 * exit_code if message is an object. Returns 0 or a negative errno. */
_must_check_ int error_file_copy(const struct error_file *e, const char *path, int exit_code);
