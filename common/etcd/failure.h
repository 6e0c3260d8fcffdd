/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why etcd did not carry out a request, and what follows from that. Pure. */

#include "common/etcd/codec.h"

struct etcd_failure {
	enum status status;
	bool certain;	 /* etcd has not carried out the request, and will not */
	bool elsewhere;	 /* another endpoint may carry it out */
	bool user;	 /* etcd does not accept the token, or wants one: a new one may help */
	bool no_users;	 /* etcd has no users, and so no tokens */
	bool no_gateway; /* nothing is there under this path */
	char text[448];	 /* one line for people, with what to change */
};

/* From the body of an answer whose HTTP status is not 200. user: the name that the client uses, or
 * NULL. */
void etcd_failure_of_answer(
	int http_status, const char *body, size_t len, const char *user, struct etcd_failure *ret);
void etcd_failure_of_refusal(
	const struct etcd_refusal *r, const char *user, struct etcd_failure *ret);
/* From the error that a decoder returned. */
void etcd_failure_of_decoder(int code, struct etcd_failure *ret);
/* There is no gateway; version: what the server says, "": nothing. */
void etcd_failure_of_version(const char *version, struct etcd_failure *ret);
