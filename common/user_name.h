/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Users in messages. Asks the system's user database, so not for the way of each call. */

#include <sys/types.h>

enum { USER_NAME_MAX = 80 };

/* "alice (1000)", or "1000" where no name is known, in buf, which is returned. */
const char *user_name(uid_t uid, char buf[USER_NAME_MAX]);
