/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A worker's error.json, in either of torchelastic's shapes: {"message": {"message", "extraInfo":
 * {"py_callstack", "timestamp"}}} or {"message": "text", "timestamp"}. Anything may be in it: what
 * is not usable is reported, never fatal.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What goes into events, answers and the record, for each of many workers. Longer texts are cut,
 * a traceback at its beginning; the file itself and its copy stay whole.
 */
enum { ERRORFILE_MESSAGE_MAX = 4 << 10, ERRORFILE_TRACEBACK_MAX = 16 << 10 };

struct errorfile {
	json_t *doc;	      /* the whole document, owned */
	char *message;	      /* one text, owned, cut */
	char *traceback;      /* or NULL, owned, cut */
	int64_t timestamp_us; /* what the worker said, or -1 */
	bool whole_seconds;   /* the timestamp was given without a fraction */
	bool structured;      /* message was an object (torchrun adds errorCode to such) */
};

/* Parses len bytes. Returns 0, or -EBADMSG with a static text in ret_problem: what is wrong. */
_must_check_ int errorfile_parse(
	const char *text, size_t len, struct errorfile *ret, const char **ret_problem);

/* Reads path (no more than 16 MiB, no symbolic link, regular files only). ret_mtime_us is when it
 * was last written. -ENOENT: there is none. Else as errorfile_parse(), with the cause in
 * ret_problem. */
_must_check_ int errorfile_read(
	const char *path, struct errorfile *ret, int64_t *ret_mtime_us, const char **ret_problem);

void errorfile_fini(struct errorfile *e);

/* Copies the root cause's document to path as torchrun does: with message.errorCode = exit_code
 * added where message is an object. Returns 0 or a negative errno. */
_must_check_ int errorfile_copy(const struct errorfile *e, const char *path, int exit_code);
