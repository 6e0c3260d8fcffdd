/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/private_dir.h"

#include "common/base/user_name.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { UNMAPPED = 65534, EVERYBODY = 0xffffffff };

/* Whether all users outside of this user namespace, even root, show as UNMAPPED here. */
static bool has_unmapped_users(void)
{
	_cleanup_close_ int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	unsigned inside, outside, count;
	char text[64] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	return sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && count != EVERYBODY;
}

static bool is_trusted(uid_t uid, bool is_last)
{
	return uid == 0 || uid == geteuid() ||
	       (!is_last && uid == UNMAPPED && has_unmapped_users());
}

static int check_one(const char *path, bool is_last, struct error *err)
{
	char owner[USER_NAME_MAX], own[USER_NAME_MAX];
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(err, -ENOTDIR, "%s: expected a directory", path);
	if (!is_trusted(st.st_uid, is_last))
		return error_set(err, -EPERM, "%s: belongs to user %s, expected %s%s", path,
			user_name(st.st_uid, owner), geteuid() == 0 ? "" : "root or ",
			user_name(geteuid(), own));
	if (st.st_mode & (S_IWGRP | S_IWOTH) && (is_last || !(st.st_mode & S_ISVTX)))
		return error_set(err, -EPERM,
			"%s: other users may write there (mode %03o), expected only user %s", path,
			st.st_mode & 07777, user_name(geteuid(), own));
	return 0;
}

int private_dir_check(const char *dir, struct error *err)
{
	_cleanup_free_ char *path = realpath(dir, NULL);
	int r;

	if (!path)
		return error_set(err, -errno, "%s: %s", dir, strerror(errno));
	r = check_one("/", !path[1], err);
	for (char *end = path; r == 0 && *end && path[1];) {
		end = strchrnul(end + 1, '/');
		if (*end) {
			*end = '\0';
			r = check_one(path, false, err);
			*end = '/';
		} else {
			r = check_one(path, true, err);
		}
	}
	return r;
}
