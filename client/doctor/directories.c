/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "common/base/paths.h"
#include "common/text/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SPACE_LEAST ((uint64_t)64 << 20)
#define SPACE_LITTLE ((uint64_t)1 << 30)

/* path, or the directory above it in which it would be made. */
static char *place_there(const char *path)
{
	char *at = strdup(path), *slash;

	while (at && access(at, F_OK) < 0 && errno == ENOENT && (slash = strrchr(at, '/')))
		slash[slash == at] = '\0';
	return at;
}

static void check_place(struct doctor *d, const char *check, const char *path, const char *advice)
{
	_cleanup_free_ char *there = place_there(path);
	char size[SIZE_TEXT_MAX];
	struct statvfs fs;
	struct stat st;
	uint64_t left;

	if (!there)
		return;
	if (stat(there, &st) < 0 || (!S_ISDIR(st.st_mode) && (errno = ENOTDIR)) ||
		access(there, W_OK | X_OK) < 0 || statvfs(there, &fs) < 0) {
		doctor_found(
			d, DOCTOR_PROBLEM, check, path, advice, "%s: %s", there, strerror(errno));
		return;
	}
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	size_text((int64_t)left, size);
	if (left < SPACE_LEAST)
		doctor_found(d, DOCTOR_PROBLEM, check, path, "make room, or name another place",
			"%s free", size);
	else if (fs.f_files && !fs.f_favail)
		doctor_found(d, DOCTOR_PROBLEM, check, path, "remove files there",
			"no more files can be made: no inode is free");
	else
		doctor_found(d, left < SPACE_LITTLE ? DOCTOR_WARNING : DOCTOR_OK, check, path,
			left < SPACE_LITTLE ? "make room, or name another place" : NULL, "%s free",
			size);
}

static void check_directories(struct doctor *d)
{
	const char *given = d->spec->logs.dir;
	struct error err = { 0 };
	struct paths p, own;

	if (paths_init(&p, paths_is_system(), NULL, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "state-directory", NULL, NULL, "%s", err.text);
		return;
	}
	check_place(d, "state-directory", p.state_dir, "see --state-dir of elasticd(8)");
	check_place(d, "log-directory", p.log_dir, "see --log-dir of elasticd(8)");
	if (given && strcmp(given, "/dev/null"))
		check_place(d, "log-directory", given, "name another one with --log-dir");
	/* That of "run", where it is another one. */
	if (!given && paths_is_system() && paths_init(&own, false, NULL, &err) == 0) {
		check_place(d, "log-directory", own.log_dir, "name another one with --log-dir");
		paths_fini(&own);
	}
	paths_fini(&p);
}

/* Processes that load data hand it to the training process there. */
static void check_shared_memory(struct doctor *d)
{
	char size[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX];
	struct statvfs fs;
	uint64_t all;

	if (statvfs("/dev/shm", &fs) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "shared-memory", "/dev/shm", "mount a tmpfs there",
			"%s", strerror(errno));
		return;
	}
	all = (uint64_t)fs.f_blocks * fs.f_frsize;
	size_text((int64_t)all, size);
	size_text((int64_t)((uint64_t)fs.f_bavail * fs.f_frsize), left);
	if (all < SPACE_LITTLE)
		doctor_found(d, DOCTOR_WARNING, "shared-memory", "/dev/shm",
			"in a container: --shm-size=8g or --ipc=host; else remount it with size=",
			"%s, %s of them free: little for processes that load data", size, left);
	else
		doctor_found(d, DOCTOR_OK, "shared-memory", "/dev/shm", NULL, "%s, %s of them free",
			size, left);
}

void doctor_check_directories(struct doctor *d)
{
	check_directories(d);
	check_shared_memory(d);
}
