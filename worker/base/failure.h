/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last failure of each thread: its message, the workers that it names, and what the error of a
 * queue adds. Each fail function records a failure of the calling thread and returns its status.
 */

#include "common/base/error.h"
#include "worker/elasticd.h"

struct failure {
	char text[8192 + 1]; /* room for an error of the group, as long as the agent keeps it */
	char *missing;	     /* NULL: names no worker */
	/* of the error of a queue: */
	bool queue;
	int64_t task;  /* 0: not of a task */
	int exit_code; /* -1: none */
	char *details, *worker;
};

/* Of the calling thread; NULL before its first. Borrowed until its next one. */
const struct failure *failure_last(void);

enum elasticd_status fail(enum elasticd_status status, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Takes missing ("a:0 b:1", or NULL). */
enum elasticd_status fail_missing(enum elasticd_status status, char *missing, const char *message);

struct queue_error_parts {
	enum elasticd_status code;
	const char *message, *details, *worker;
	int64_t task;  /* -1: none */
	int exit_code; /* -1: none */
};
enum elasticd_status fail_queue(const struct queue_error_parts *e);

enum elasticd_status fail_memory(void);
/* The kernel gives no random number. */
enum elasticd_status fail_random(void);
/* The agent's answer is not what it should be. */
enum elasticd_status fail_malformed(void);
/* The one of these two that a negative errno of a reading function means. */
enum elasticd_status fail_reading(int r);
/* This wait would never end: by hand, and there is no other thread or child. */
enum elasticd_status fail_alone(void);
enum elasticd_status fail_closed(void);
/* Of a slot of the queue. */
enum elasticd_status fail_stopped(void);
enum elasticd_status fail_interrupted(void);
/* Of a negative errno, with err's text. */
enum elasticd_status fail_errno(int r, const struct error *err);
