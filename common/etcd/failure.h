/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why etcd does not do what it is asked for, and what follows from it. Pure. */

#include "common/etcd/codec.h"

struct etcd_failure {
	enum status status;
	bool certain;	 /* the request was not carried out, and will not be */
	bool elsewhere;	 /* another endpoint may do it */
	bool user;	 /* the token is not accepted, or one is wanted: a new one may help */
	bool no_users;	 /* etcd has no users, and so no tokens */
	bool no_gateway; /* nothing is there under this path */
	char text[448];	 /* one line, what to change in it */
};

/* The body of an answer whose HTTP status is not 200. user: whom we are, or NULL. */
void etcd_failure_of_answer(
	int http_status, const char *body, size_t len, const char *user, struct etcd_failure *ret);
void etcd_failure_of_refusal(
	const struct etcd_refusal *r, const char *user, struct etcd_failure *ret);
/* An answer that cannot be decoded, by what a decoder returned. */
void etcd_failure_of_decoder(int code, struct etcd_failure *ret);
/* No gateway, where the server says that it has that version ("": none). */
void etcd_failure_of_version(const char *version, struct etcd_failure *ret);
