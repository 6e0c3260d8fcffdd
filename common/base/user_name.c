/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/user_name.h"

#include <pwd.h>
#include <stdio.h>

const char *user_name(uid_t uid, char buf[USER_NAME_MAX])
{
	char room[1024];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found)
		snprintf(buf, USER_NAME_MAX, "%.40s (%u)", found->pw_name, (unsigned)uid);
	else
		snprintf(buf, USER_NAME_MAX, "%u", (unsigned)uid);
	return buf;
}
