/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names and groups of users. Asks the system's user database, which is slow: not for each call. */

#include "common/base/cleanup.h"

#include <sys/types.h>

enum { USER_NAME_MAX = 80 };

/* "alice (1000)", or "1000" where no name is known, in buf, which is returned. */
const char *user_name(uid_t uid, char buf[USER_NAME_MAX]);

/* The groups of the user of that name, and gid, the primary one: *ret_n of them, owned. -ENOMEM, or
 * -E2BIG for more than 65536. */
_must_check_ int user_groups(const char *name, gid_t gid, gid_t **ret, int *ret_n);
