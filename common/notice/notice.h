/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The clouds' notices about the end of a machine, as pure machines: each makes the next request,
 * takes the answer, and says what is new. No clock, no socket; the caller (noticer.c) asks, waits,
 * and reports. An answer that differs from the cloud's documentation counts as a failure of the
 * server, never as a notice. One file for each cloud: gce.c, aws.c, azure.c; notice.c has the
 * common part.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The possible sources of a job's notices. */
#define NOTICE_SOURCES(X) \
	X(operator)       \
	X(signal)         \
	X(command)        \
	X(gce)            \
	X(aws)            \
	X(azure)          \
	X(logind)         \
	X(worker)
bool notice_source_is_known(const char *source);

struct notice {
	const char *source; /* "gce", "aws", "azure" */
	char id[128];	    /* of the event: each is reported once */
	char reason[256];
	int64_t deadline_us; /* real time; SPEC_UNSET: not said */
};

enum { NOTICE_HEADERS = 2, NOTICE_TOKEN = 512, NOTICE_REPORTED = 16 };

struct notice_request {
	char path[256]; /* behind the endpoint, beginning with a slash */
	bool put;
	char headers[NOTICE_HEADERS][NOTICE_TOKEN + 64]; /* "Name: value"; "" : none */
	int64_t timeout_ms;
};

struct notice_answer {
	int status; /* 0: no answer, and error says why */
	const char *body;
	size_t len;
	const char *flavor, *etag; /* headers Metadata-Flavor and ETag, or NULL */
	const char *error;
};

/* The result of an answer. */
struct notice_result {
	bool failed;
	bool halfway;	 /* the poll needs another request: nothing is certain yet */
	int64_t wait_ms; /* until the next request */
	bool is_new;	 /* notice has not been reported before */
	struct notice notice;
	int level;	   /* of message */
	char message[384]; /* what changed, for people; "": nothing */
};

struct notice_machine;

struct notice_kind {
	const char *source;
	void (*request)(struct notice_machine *m, int64_t now_us, struct notice_request *ret);
	/* 0, or a negative errno with err if the server's answer is wrong. The caller counts
	 * failures. */
	int (*answer)(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
		struct notice_result *ret, struct error *err);
};

extern const struct notice_kind notice_gce_maintenance, notice_gce_preempted, notice_aws,
	notice_azure;

enum notice_aws_step { NOTICE_AWS_TOKEN, NOTICE_AWS_ACTION, NOTICE_AWS_REBALANCE };

struct notice_machine {
	const struct notice_kind *kind;
	int64_t poll_ms;
	bool gpu;	   /* this machine has a GPU; set by the caller */
	unsigned failures; /* in a row */
	bool up;	   /* current is a notice that still holds */
	struct notice current;
	char text[256];			     /* the present state, for people */
	char reported[NOTICE_REPORTED][128]; /* identifiers, the newest overwrites the oldest */
	unsigned n_reported;
	union {
		struct {
			char etag[64];
			char value[64];
		} gce;
		struct {
			enum notice_aws_step step;
			bool v1;      /* the server knows no tokens */
			bool refused; /* a token was refused in this poll */
			char token[NOTICE_TOKEN];
			int64_t token_us; /* when the token came */
			bool action_up;
		} aws;
		struct {
			char name[128]; /* this machine's name; "": not known yet */
			bool awake;	/* the service has answered before */
		} azure;
	};
};

void notice_machine_init(struct notice_machine *m, const struct notice_kind *kind, int64_t poll_ms);
void notice_machine_request(struct notice_machine *m, int64_t now_us, struct notice_request *ret);
void notice_machine_answer(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret);

/* For the clouds' files: whether no notice of that id was reported before. */
bool notice_is_new(const struct notice_machine *m, const char *id);
/* Makes n (whose source the function sets) the notice that holds, and reports it if it is new. */
void notice_set(struct notice_machine *m, const struct notice *n, struct notice_result *ret);
/* 0 for status 200, else -EPROTO with err. */
_must_check_ int notice_expect_ok(const struct notice_answer *a, struct error *err);
/* Copies the body without white space at its ends, if it is one word of printable characters.
 * -EPROTO with err if it is not, or is too long for size. */
_must_check_ int notice_word(
	const struct notice_answer *a, char *ret, size_t size, struct error *err);

/* "2017-09-18T08:22:00Z" and "Mon, 19 Sep 2016 18:29:47 GMT" in microseconds; -EINVAL. */
_must_check_ int notice_time_iso(const char *text, int64_t *ret_us);
_must_check_ int notice_time_http(const char *text, int64_t *ret_us);

/* Normalises an endpoint that a person wrote to "http://address[:port]": adds the scheme, removes a
 * last slash, knows the metadata servers' usual names. Refuses other names, which would have to be
 * resolved. */
_must_check_ int notice_endpoint(const char *text, char *ret, size_t size, struct error *err);
