/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides what a peer may do, by its credentials: root, the daemon's own user and members of the
 * admin group may do everything; other allowed users see and control only their own jobs. The
 * decisions are pure. Group lookups behind them are cached for a short time, because asking the
 * system's user database costs more than all the rest of a call.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum access_level {
	ACCESS_NONE, /* nothing */
	ACCESS_OWN,  /* its own jobs */
	ACCESS_ALL,
};

/* Facts about a caller; the input of the pure decision. */
struct access_peer {
	uid_t uid;
	bool in_admin_group;
	bool in_allowed_group;
	bool is_allowed_user;
};

struct access_rules {
	uid_t own_uid;	 /* the daemon's */
	bool restricted; /* only allowed groups and users may call */
};

enum access_level access_decide(const struct access_rules *rules, const struct access_peer *peer);

/* Whether a caller of that level and uid may see and control a job of owner. */
bool access_job(enum access_level level, uid_t uid, uid_t owner);

/*
 * The user that a job of caller runs as. wanted: the user that the specification names, or -1 where
 * it names none. Returns 0, or -EPERM with err.
 */
_must_check_ int access_job_user(
	uid_t own_uid, uid_t caller, uid_t wanted, uid_t *ret, struct error *err);

struct access;

/* Groups and users that do not exist are kept and match no caller; the user "*" is all. Lists
 * are NULL-ended or NULL, and copied. */
_must_check_ int access_new(const char *admin_group, char *const *allow_groups,
	char *const *allow_users, struct access **ret);
struct access *access_free(struct access *a);
DEFINE_CLEANUP(struct access *, access_free)

/* Writes into buf (size bytes) why uid, whose level is ACCESS_NONE, may not call, and which users
 * and groups may. */
void access_refusal(const struct access *a, uid_t uid, char *buf, size_t size);

/* The level of a peer at now_ms (monotonic); gid is its primary group. */
enum access_level access_level(struct access *a, uid_t uid, gid_t gid, uint64_t now_ms);
