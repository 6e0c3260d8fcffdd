/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shared part of all verbs of elasticctl: output, connections, timeouts and exit statuses.
 * Functions that return int here return an exit status, 0 when done, and have reported errors on
 * standard error.
 */

#include "client/base/args.h"
#include "client/base/remote.h"
#include "client/output/color.h"
#include "client/output/table.h"
#include "common/base/error.h"
#include "common/varlink/sync.h"

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
	char *socket;	      /* path of elasticd's socket, once it is needed */
	bool found;	      /* found by the default rules: the user named no socket */
	uid_t trusted;	      /* may listen there, beside root and the caller; -1: none */
	struct remote remote; /* elasticd is on another host, which socket then names, for people */
	struct varlink_sync *link;
	/* In a worker of a job: the worker's token. socket is then that of the job's agent. */
	const char *token;
	json_t *refusal; /* parameters of the last error that the service answered */
	bool json, legend, quiet, utf8;
	bool color_out, color_err;
	int columns;	     /* of the terminal on standard output; 0: not a terminal */
	int64_t timeout_ms;  /* -1: none */
	int64_t deadline_ms; /* CLOCK_MONOTONIC; -1: none */
	/* The exit status 0 to 124 belongs to a program or verdict, so all our own errors are
	 * CTL_FAILED. */
	bool verdict_status;
	/* For the line that a terminal shows while the verb waits: see ctl_waiting(). */
	char waiting[160];
	int64_t waiting_ms, waiting_drawn_ms;
	/* The verb prints a stream until its reader is gone: "logs -f | head" then ends when head
	 * ends, not with the next line. */
	bool streams;
};

/* Sets up ctl from the global options that args holds. Returns 0 or an exit status. */
_must_check_ int ctl_init(struct ctl *ctl, const struct args *args);
void ctl_fini(struct ctl *ctl);

/* Prints "elasticctl: ..." on standard error. Returns status, so that one line reports and returns.
 */
int ctl_error(const struct ctl *ctl, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Prints that --timeout is over. Returns CTL_TIMED_OUT. */
int ctl_timed_out(const struct ctl *ctl);

/* As ctl_error(), for wrong usage: also prints the verb's synopsis. */
int ctl_usage(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints all that is wrong with a job file: lines, NULL-ended. Returns CTL_USAGE for every verb,
 * since nothing was begun. */
int ctl_job_file(const struct ctl *ctl, char *const *problems);
/* Prints a line for people on standard output; not with -q or --json. */
void ctl_say(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Connects to elasticd, or says in err why not: see varlink_socket_connect(). A connection to
 * another host may still fail later. */
_must_check_ int ctl_open(struct ctl *ctl, struct varlink_sync **ret, struct error *err);
/* As ctl_open(), but returns the connected socket, owned. */
_must_check_ int ctl_open_fd(struct ctl *ctl, int *ret, struct error *err);

/* Opens a connection to elasticd; it gives up at the deadline. */
_must_check_ int ctl_connect(struct ctl *ctl, struct varlink_sync **ret);

/*
 * One call over ctl's own connection. method is the short name of one of io.elasticd.Manager, or
 * a whole name; takes parameters (NULL: none). On success ret (may be NULL) is owned.
 */
_must_check_ int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret);

/* As ctl_call(), but prints nothing if the service answered with one of its errors: ret_error
 * (owned) gets its short name and err its text. Returns the status that ctl_call() would. */
_must_check_ int ctl_try(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret,
	char **ret_error, struct error *err);

/* Puts a text for people into err for an error of an interface, given by its full name. Returns the
 * exit status. */
int ctl_explain(
	const struct ctl *ctl, const char *name, const json_t *parameters, struct error *err);

/* The name of an error without an interface of ours. Borrowed from name. */
const char *ctl_error_name(const char *name);

/* Prints what ctl_explain() found, and the details that came with the error. Returns status. */
int ctl_refused(
	const struct ctl *ctl, int status, const json_t *parameters, const struct error *err);

/* Prints why ctl->socket cannot be connected to; r is a negative errno. Returns the exit status. */
int ctl_cannot_connect(const struct ctl *ctl, int r, const struct error *err);

/* "the connection to elasticd broke", or what ssh says, for people. why may be NULL. */
void ctl_explain_break(const struct ctl *ctl, const char *why, struct error *err);

/*
 * Says for what the verb waits: "digits to end". A call that is not answered a second after the
 * first ctl_waiting() shows it, with the time that has passed, in a line on standard error if that
 * is a terminal, and removes the line before it returns.
 */
void ctl_waiting(struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Opens a connection of its own for a "more" call. */
_must_check_ int ctl_stream(
	struct ctl *ctl, const char *method, json_t *parameters, struct varlink_sync **ret);

/* Sends one more call over link; ctl_next() returns its answer after those of earlier calls. method
 * and parameters as in ctl_call(); more: the service may answer several times. */
_must_check_ int ctl_send(struct ctl *ctl, struct varlink_sync *link, const char *method,
	json_t *parameters, bool more);

/* Waits for the next answer of a stream; ret_more: others follow. */
_must_check_ int ctl_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more);

/* As ctl_next(), with errors of the interface as in ctl_try(). */
_must_check_ int ctl_try_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret,
	bool *ret_more, char **ret_error, struct error *err);

/*
 * From now on SIGINT and SIGTERM only end ctl_ready(); ctl_interrupted() returns the one that came,
 * else 0. Between calls of ctl_ready() the signals are blocked, so none is lost.
 */
void ctl_catch_interrupts(void);
int ctl_interrupted(void);

/* Waits until one of two streams (NULL: none) has input: returns bit 0 or bit 1, or 0 if an
 * interrupt came, the deadline passed, or limit_ms did (-1: none). */
int ctl_ready(struct ctl *ctl, struct varlink_sync *a, struct varlink_sync *b, int limit_ms);

/* Milliseconds to the deadline; -1: none. */
int64_t ctl_left_ms(const struct ctl *ctl);

/* Prints a JSON document; lines: in one line. */
void ctl_print_json(const json_t *j, bool lines);

/* Flushes standard output; a write error other than a closed pipe becomes a status. */
_must_check_ int ctl_flush(struct ctl *ctl, int status);

struct table_style ctl_table_style(const struct ctl *ctl);

/* The sequence for colour c on standard output if colours are wanted, else "". */
const char *ctl_color(const struct ctl *ctl, enum color c);

int64_t ctl_now_us(void);
/* {"job": job} to add to; NULL without memory. */
json_t *ctl_job(const char *job);
/* Sets a member, dropping j and returning NULL where that fails; NULL stays NULL. Takes value. */
json_t *ctl_with(json_t *j, const char *key, json_t *value);

/* Members of answers: NULL or 0 where they are not there. */
const char *get_text(const json_t *j, const char *key);
int64_t get_int(const json_t *j, const char *key);
bool has_value(const json_t *j, const char *key);
