/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A library to be preloaded: a file system that hangs. In a program called elastic-agent, every
 * call that names a path below STALL_DIR does not return for as long as the file STALL_FLAG is
 * there; no signal but SIGKILL ends it.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void stall(const char *path)
{
	const char *dir = getenv("STALL_DIR"), *flag = getenv("STALL_FLAG");
	const struct timespec tick = { .tv_nsec = 20000000 };
	int error = errno;

	if (!dir || !flag || strcmp(program_invocation_short_name, "elastic-agent") != 0 ||
		strncmp(path, dir, strlen(dir)) != 0)
		return;
	while (access(flag, F_OK) == 0)
		nanosleep(&tick, NULL);
	errno = error;
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* One of the open() family; parameters: those up to the flags, and behind them their names. */
#define OPEN(name, parameters, ...)                              \
	int name parameters                                      \
	{                                                        \
		va_list ap;                                      \
		mode_t mode;                                     \
                                                                 \
		va_start(ap, flags);                             \
		mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0; \
		va_end(ap);                                      \
		stall(path);                                     \
		return NEXT(name)(__VA_ARGS__, mode);            \
	}

OPEN(open, (const char *path, int flags, ...), path, flags)
OPEN(open64, (const char *path, int flags, ...), path, flags)
OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd, path, flags)
OPEN(openat64, (int dirfd, const char *path, int flags, ...), dirfd, path, flags)

/* openat2() has no function of the C library's. */
long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2)
		stall((const char *)a[1]);
	return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

FILE *fopen(const char *path, const char *mode)
{
	stall(path);
	return NEXT(fopen)(path, mode);
}

DIR *opendir(const char *path)
{
	stall(path);
	return NEXT(opendir)(path);
}

int mkdir(const char *path, mode_t mode)
{
	stall(path);
	return NEXT(mkdir)(path, mode);
}

int rename(const char *from, const char *to)
{
	stall(from);
	return NEXT(rename)(from, to);
}

int stat(const char *path, struct stat *ret)
{
	stall(path);
	return NEXT(stat)(path, ret);
}

int lstat(const char *path, struct stat *ret)
{
	stall(path);
	return NEXT(lstat)(path, ret);
}
