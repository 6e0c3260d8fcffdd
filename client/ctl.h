/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What all verbs of elasticctl share: how to print, whom to call, how long to wait, and which
 * exit status says what. Functions that return int here return an exit status, 0 when done, and
 * have said on standard error what went wrong.
 */

#include "client/args.h"
#include "client/color.h"
#include "client/table.h"
#include "common/error.h"
#include "common/varlink_sync.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum exit_status {
	CTL_DONE = 0,
	CTL_REFUSED = 1,
	CTL_USAGE = 2,
	CTL_NOT_ACTIVE = 3,
	CTL_NO_JOB = 4,
	CTL_NO_DAEMON = 5,
	CTL_TIMED_OUT = 124,
	CTL_FAILED = 125,
};

struct verb;

struct ctl {
	const struct verb *verb;
	char *socket;  /* of elasticd, once it is needed */
	bool found;    /* where it is by itself: nobody named it */
	uid_t trusted; /* who may listen there beside root and ourselves; -1: nobody else */
	struct varlink_sync *link;
	/* In a worker of a job: whose token it is. socket is that of the job's agent then. */
	const char *token;
	json_t *refusal; /* what came with the last error of an interface */
	bool json, legend, quiet, utf8;
	bool color_out, color_err;
	int columns;	     /* of the terminal on standard output; 0: not a terminal */
	int64_t timeout_ms;  /* -1: none */
	int64_t deadline_ms; /* CLOCK_MONOTONIC; -1: none */
	/* With a verdict's exit status to hand on, all errors of our own are CTL_FAILED. */
	bool verdict_status;
	/* It prints a stream for as long as somebody reads it: "logs -f | head" ends with head, not
	 * with the next line. */
	bool streams;
};

/* Sets up ctl from the global options that args holds. Returns 0 or an exit status. */
_must_check_ int ctl_init(struct ctl *ctl, const struct args *args);
void ctl_fini(struct ctl *ctl);

/* "elasticctl: ..." on standard error. Returns status, so that one line reports and leaves. */
int ctl_error(const struct ctl *ctl, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for wrong usage, with the verb's synopsis after it. */
int ctl_usage(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* All that is wrong with a job file: lines, NULL-ended. Returns CTL_USAGE, whatever the verb:
 * nothing was begun. */
int ctl_job_file(const struct ctl *ctl, char *const *problems);
/* A line about what happened, on standard output; not with -q or --json. */
void ctl_say(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Connects to elasticd, or says in err why not: see varlink_sync_connect(). */
_must_check_ int ctl_open(const struct ctl *ctl, struct varlink_sync **ret, struct error *err);

/* Whether elasticd may be looked for where nobody named a socket. Returns 0 or -EPERM with err. */
_must_check_ int ctl_check_socket(const struct ctl *ctl, struct error *err);

/* Opens a connection to elasticd; it gives up at the deadline. */
_must_check_ int ctl_connect(struct ctl *ctl, struct varlink_sync **ret);

/*
 * One call over ctl's own connection. method is the short name of one of io.elasticd.Manager, or
 * a whole name; takes parameters (NULL: none). On success ret (may be NULL) is owned.
 */
_must_check_ int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret);

/* The same, without a message where the service answered with one of its errors: its short name is
 * in ret_error (owned) then, its text in err, and the status is what ctl_call() would return. */
_must_check_ int ctl_try(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret,
	char **ret_error, struct error *err);

/* What an error of an interface, by its whole name, means for people: its text is in err. Returns
 * the exit status. */
int ctl_explain(
	const struct ctl *ctl, const char *name, const json_t *parameters, struct error *err);

/* Says what ctl_explain() found, and the details that came with it. Returns status. */
int ctl_refused(
	const struct ctl *ctl, int status, const json_t *parameters, const struct error *err);

/* Says why ctl->socket cannot be connected to, r being a negative errno. Returns the exit status.
 */
int ctl_cannot_connect(const struct ctl *ctl, int r, const struct error *err);

/* Whom ctl->socket belongs to, for messages. */
const char *ctl_peer(const struct ctl *ctl);

/* Opens a connection of its own for a "more" call. */
_must_check_ int ctl_stream(
	struct ctl *ctl, const char *method, json_t *parameters, struct varlink_sync **ret);

/* Sends one more call over link, whose answer ctl_next() gives after those to the calls before it.
 * method and parameters as in ctl_call(); more: it is to answer several times. */
_must_check_ int ctl_send(struct ctl *ctl, struct varlink_sync *link, const char *method,
	json_t *parameters, bool more);

/* The next answer of a stream; ret_more: others follow. */
_must_check_ int ctl_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more);

/* The same, with errors of the interface as in ctl_try(). */
_must_check_ int ctl_try_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret,
	bool *ret_more, char **ret_error, struct error *err);

/*
 * From now on SIGINT and SIGTERM end only ctl_ready(), and ctl_interrupted() tells which came, else
 * 0. Between calls of ctl_ready() they wait, so that none is lost.
 */
void ctl_catch_interrupts(void);
int ctl_interrupted(void);

/* Waits until one of two streams (NULL: none) has something: bit 0, bit 1; 0 when an interrupt
 * came, the deadline passed, or limit_ms did (-1: none). */
int ctl_ready(struct ctl *ctl, struct varlink_sync *a, struct varlink_sync *b, int limit_ms);

/* Milliseconds to the deadline; -1: none. */
int64_t ctl_left_ms(const struct ctl *ctl);

/* Prints a JSON document; lines: in one line. */
void ctl_print_json(const json_t *j, bool lines);

/* Flushes standard output; an error there that is not a closed pipe becomes a status. */
_must_check_ int ctl_flush(struct ctl *ctl, int status);

struct table_style ctl_table_style(const struct ctl *ctl);

/* c's sequence on standard output where colours are wanted, else "". */
const char *ctl_color(const struct ctl *ctl, enum color c);

int64_t ctl_now_us(void);

/* {"job": job} to add to; NULL without memory. */
json_t *ctl_job(const char *job);
/* Sets a member, dropping j and returning NULL where that fails; NULL stays NULL. Takes value. */
json_t *ctl_with(json_t *j, const char *key, json_t *value);

/* Members of answers: NULL or 0 where they are not there. */
const char *get_text(const json_t *j, const char *key);
int64_t get_int(const json_t *j, const char *key);
bool get_true(const json_t *j, const char *key);
bool has_value(const json_t *j, const char *key);
