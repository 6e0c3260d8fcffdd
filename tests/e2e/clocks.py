# SPDX-License-Identifier: Apache-2.0
"""Clocks that a test sets: limits of minutes are over in no time."""

import struct
import subprocess

import pytest

from harness import SANITIZED, have

# Both clocks of a program and of its libraries, set forward by what a file says in ns: wall, monotonic.
CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none[2], *shift = none;

__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);

	if (map != MAP_FAILED)
		shift = map;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);
	int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
	int64_t ns = shift[!wall] + ret->tv_nsec + ret->tv_sec * 1000000000;

	if (!r && (wall || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
			  clock == CLOCK_BOOTTIME))
		*ret = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*ret = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
"""


class Clocks:
    """Those of what the box starts from now on, by a library that is preloaded."""

    def __init__(self, box):
        if SANITIZED:
            pytest.skip("nothing is preloaded before the sanitizer")
        if not have("cc"):
            pytest.skip("no cc")
        self.shift = box.path("shift")
        self.shift.write_bytes(bytes(16))
        box.path("clock.c").write_text(CLOCK)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", box.path("clock.so"), box.path("clock.c")],
                       check=True)
        self.env = {"LD_PRELOAD": str(box.path("clock.so")), "CLOCK_SHIFT": str(self.shift)}
        box.env.update(self.env)

    def __call__(self, wall=0, monotonic=0):
        """Sets them forward by so many seconds."""
        with open(self.shift, "r+b", buffering=0) as f:
            f.write(struct.pack("qq", int(wall * 1e9), int(monotonic * 1e9)))
