/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The board: a file of shared memory (ELASTICD_BOARD) in which each task of a job has a slot
 * (ELASTICD_SLOT). A worker beats, tells its step and looks for notices by plain memory accesses;
 * the agent looks at the slots in its own time. One board per agent, made before the first worker
 * and never resized. Every process of the job may write to it, so the agent believes nothing that
 * it reads there without a check, and nothing there can do more harm than a worker that lies about
 * its own progress.
 *
 * A slot has two lines: the first is the worker's, the second the agent's. All words are native
 * 64-bit, naturally aligned, each written by one side only; relaxed atomics are enough except for
 * token, which is written last (release) and read first (acquire), and for step and notice: step is
 * stored, then notice is read, and the agent, which stores notice and then reads the steps, makes
 * the barrier between these two in all processes that asked for it
 * (MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED). Who cannot ask puts a full barrier between them.
 */

#include <stdatomic.h>
#include <stdint.h>

/*
 * The path of the board leads to memory of the agent's that nobody can cut short, by way of /proc.
 * From a container, where that does not lead there, a file beside it has the same: the agent reads
 * what is said in either.
 */
#define BOARD_FILE_SUFFIX ".file"

#define BOARD_MAGIC UINT64_C(0x316472616f626c65) /* "elboard1" */

enum {
	BOARD_VERSION = 1,
	BOARD_SLOTS = 8192, /* more than a job can have tasks at once; the file is sparse */
	BOARD_HEADER_BYTES = 4096,
	BOARD_SLOT_BYTES = 128,
};

struct board_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint32_t header_bytes, slot_bytes;
	_Atomic uint64_t attempt;  /* the group's incarnation */
	_Atomic uint64_t notice;   /* odd while a notice of preemption is up; counts up */
	_Atomic uint64_t stopping; /* attempt + 1 of the incarnation that ends, else 0 */
	_Atomic int64_t save_at;   /* while a notice is up: who begins a step below it goes on */
	_Atomic uint64_t error;	   /* not 0: the group has an error that tasks are to hear of */
};

struct board_slot {
	/* the worker's */
	_Atomic uint64_t token; /* ELASTICD_TOKEN of who beats here; 0: nobody has yet */
	_Atomic uint64_t beats; /* counts up */
	_Atomic int64_t step;	/* of the last step() call; -1: none yet */
	_Atomic uint64_t steps; /* how many step() calls: progress also where the number repeats */
	uint64_t worker_spare[4];
	/* the agent's */
	_Atomic uint64_t expected; /* token of the task's present process; 0: none */
	_Atomic uint64_t cancels;  /* counts up: leases of it that were cancelled; from 0 */
	uint64_t agent_spare[6];
};

_Static_assert(sizeof(struct board_slot) == BOARD_SLOT_BYTES, "a slot has two lines");
_Static_assert(sizeof(struct board_header) <= BOARD_HEADER_BYTES, "the header has a page");

static inline struct board_slot *board_slot(void *board, unsigned i)
{
	return (struct board_slot *)((char *)board + BOARD_HEADER_BYTES +
				     (uint64_t)i * BOARD_SLOT_BYTES);
}

#define BOARD_BYTES ((uint64_t)BOARD_HEADER_BYTES + (uint64_t)BOARD_SLOTS * BOARD_SLOT_BYTES)
