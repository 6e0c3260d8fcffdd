/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of dump.c that runs in a child: it may block, and the agent kills it with everything it
 * started when its time is over. It writes each finding at once, so that none is lost then.
 */

#include "agent/watchdog/dump.h"

#include <stdint.h>

enum {
	DUMP_PROCESSES = 64,	 /* of one worker */
	DUMP_THREADS = 1024,	 /* of one process */
	DUMP_DESCRIPTORS = 4096, /* of one process */
	DUMP_FILE_BYTES = 16 << 20,
	DUMP_DIRS_MAX = 1000, /* hang, hang.1 .. hang.999 */
};

/* Writes what the kernel knows, quickly: why.txt, tail.txt, processes.txt and <pid>.txt in dir. */
void dump_write_kernel(const struct dump_worker *worker, const char *dir);

/* Writes <pid>.py-spy.txt or <pid>.gdb.txt for each process of the worker, until deadline_ms
 * (monotonic). */
void dump_write_stacks(const struct dump_worker *worker, const char *dir, uint64_t deadline_ms);
