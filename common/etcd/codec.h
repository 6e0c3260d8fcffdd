/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts requests to etcd's JSON gateway, and its answers, from and to typed values. The JSON is
 * protobuf's: 64-bit integers are strings, bytes are base64, and members that are zero or empty are
 * left out. Pure. Source: api/etcdserverpb/rpc.proto of etcd; tried against 3.4.23.
 */

#include "common/etcd/etcd.h"
#include "common/text/json_writer.h"

/* The kinds of operations in a transaction, whose results the answer must have. */
struct etcd_shape {
	size_t n_then, n_else;
	unsigned char kinds[2 * ETCD_OPS_MAX]; /* enum etcd_kind; first those of then_ops */
};

/* Each writes a request to w; without memory w->failed is set. 0, -EINVAL, -E2BIG (more than
 * ETCD_OPS_MAX) or -EMSGSIZE (more than ETCD_REQUEST_MAX). */
_must_check_ int etcd_encode_txn(
	struct json_writer *w, const struct etcd_txn *t, struct etcd_shape *ret);
_must_check_ int etcd_encode_keep_alive(struct json_writer *w, const int64_t *leases, size_t n);
_must_check_ int etcd_encode_watch(
	struct json_writer *w, const char *key, const char *end, int64_t revision);
/* -EINVAL where a name or password is not UTF-8. */
_must_check_ int etcd_encode_user(struct json_writer *w, const char *user, const char *password);
void etcd_encode_grant(struct json_writer *w, int64_t ttl_s);
void etcd_encode_revoke(struct json_writer *w, int64_t lease);

/* A refusal: code is gRPC's (enum status), or -1 where there is none. */
struct etcd_refusal {
	int code;
	char text[256];
};

/* A message of a watch. */
struct etcd_change {
	bool created, canceled, refused; /* refused: see refusal, also with canceled */
	struct etcd_refusal refusal;
	int64_t compact_revision; /* canceled: the oldest that etcd still has; 0: that is not why */
	const struct etcd_event *events;
	size_t n;
};

/* A decoded answer with the memory that it points into. All zeros is an empty one. */
struct etcd_decoded {
	struct etcd_answer answer; /* a watch's message has cluster and revision of it */
	struct etcd_change change;
	json_t *tree;
	struct etcd_result *results;
	struct etcd_entry *entries;
	struct etcd_event *events;
	struct etcd_lease *leases;
	struct etcd_member member;
	char *token;
	char *bytes;
	size_t n_entries, n_bytes; /* in use */
};
void etcd_decoded_fini(struct etcd_decoded *d);

/*
 * Each reads the body of an answer with HTTP status 200. Returns 0, -EBADMSG for another message,
 * -EMSGSIZE where it has too many values, or -ENOMEM. Free ret with etcd_decoded_fini() in any
 * case.
 */
_must_check_ int etcd_decode_txn(
	const char *text, size_t len, const struct etcd_shape *shape, struct etcd_decoded *ret);
_must_check_ int etcd_decode_grant(const char *text, size_t len, struct etcd_decoded *ret);
/* -EREMOTEIO: etcd refused, see ret->change.refusal. */
_must_check_ int etcd_decode_keep_alive(
	const char *text, size_t len, const int64_t *leases, size_t n, struct etcd_decoded *ret);
_must_check_ int etcd_decode_revoke(const char *text, size_t len, struct etcd_decoded *ret);
_must_check_ int etcd_decode_status(const char *text, size_t len, struct etcd_decoded *ret);
_must_check_ int etcd_decode_user(const char *text, size_t len, struct etcd_decoded *ret);
_must_check_ int etcd_decode_change(const char *text, size_t len, struct etcd_decoded *ret);

/* Reads the body of an answer with another HTTP status. Code -1: it is not etcd's. */
void etcd_decode_refusal(const char *text, size_t len, struct etcd_refusal *ret);
/* Reads the answer to GET /version; version becomes "" where that has none. */
enum { ETCD_VERSION_MAX = 32 };
void etcd_decode_version(const char *text, size_t len, char version[ETCD_VERSION_MAX]);
