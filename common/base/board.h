/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The board: a file of shared memory (ELASTICD_BOARD) in which each worker of a job has a slot
 * (ELASTICD_SLOT). A worker beats, stores its step and looks for notices by plain memory accesses;
 * the agent reads the slots when it likes. One board per agent, made before the first worker and
 * never resized. Every process of the job may write to it, so the agent checks all that it reads
 * there, and the worst that a worker can do is to lie about its own progress.
 *
 * A slot has two lines: the worker writes the first, the agent the second. All words are native
 * 64-bit, naturally aligned, each written by one side only. Relaxed atomics are enough, with two
 * exceptions. token is written last (release) and read first (acquire). And a worker stores step,
 * then reads notice, while the agent stores notice, then reads the steps: here the agent makes the
 * barrier in all processes that asked for it (MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED); a worker
 * that cannot ask puts a full barrier between the two.
 */

#include <stdatomic.h>
#include <stdint.h>

/*
 * The path of the board leads through /proc to memory of the agent's, which no process can
 * truncate. In a container that path may lead nowhere: there a worker uses a file beside it with
 * the same layout. The agent reads both.
 */
#define BOARD_FILE_SUFFIX ".file"

#define BOARD_MAGIC UINT64_C(0x316472616f626c65) /* "elboard1" */

enum {
	BOARD_VERSION = 1,
	BOARD_SLOTS = 8192, /* more than a job can have workers at once; the file is sparse */
	BOARD_HEADER_BYTES = 4096,
	BOARD_SLOT_BYTES = 128,
};

struct board_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint32_t header_bytes, slot_bytes;
	_Atomic uint64_t attempt;  /* the group's attempt */
	_Atomic uint64_t notice;   /* odd while a notice of preemption is up; counts up */
	_Atomic uint64_t stopping; /* attempt + 1 of the attempt that ends, else 0 */
	_Atomic int64_t save_at;   /* while a notice is up: the step before which workers go on */
	_Atomic uint64_t error;	   /* not 0: the group has an error that workers are to hear of */
};

struct board_slot {
	/* the worker's */
	_Atomic uint64_t token;	    /* ELASTICD_TOKEN of the process that beats here; 0: none yet */
	_Atomic uint64_t beats;	    /* counts up */
	_Atomic int64_t step;	    /* of the last step() call; -1: none yet */
	_Atomic uint64_t steps;	    /* number of step() calls: progress also if step repeats */
	_Atomic int64_t first_step; /* number of the first step() call */
	_Atomic int64_t first_us;   /* its real time; 0: not known */
	uint64_t worker_spare[2];
	/* the agent's */
	_Atomic uint64_t expected; /* token of the worker's present process; 0: none */
	_Atomic uint64_t cancels;  /* counts the leases of it that were cancelled, from 0 */
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
