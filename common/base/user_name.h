/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of users for messages. Asks the system's user database, which is slow: not for each call.
 */

#include <sys/types.h>

enum { USER_NAME_MAX = 80 };

/* "alice (1000)", or "1000" where no name is known, in buf, which is returned. */
const char *user_name(uid_t uid, char buf[USER_NAME_MAX]);
