/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/user_name.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

enum { GROUPS_MAX = 65536 };

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

int user_groups(const char *name, gid_t gid, gid_t **ret, int *ret_n)
{
	_cleanup_free_ gid_t *groups = NULL;

	for (int room = 32; room <= GROUPS_MAX; room *= 2) {
		gid_t *grown = reallocarray(groups, (size_t)room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		groups = grown;
		*ret_n = room;
		if (getgrouplist(name, gid, groups, ret_n) >= 0) {
			*ret = TAKE_PTR(groups);
			return 0;
		}
	}
	return -E2BIG;
}
