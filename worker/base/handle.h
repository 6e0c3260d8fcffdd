/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The handle that elasticd_open() and elasticd_queue_connect() give to a program.
 *
 * The library lives in processes that are not its own: it starts no thread, installs no handler of
 * signals, writes to no standard stream, leaves the process no child, and keeps no lock that a
 * child of fork() could find taken.
 */

#include "common/base/board.h"
#include "worker/elasticd.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	WORKER_KEY_MAX = 1024,
	WORKER_VALUE_MAX = 1 << 20,
	WORKER_NAME_MAX = 256,	 /* of a barrier */
	WORKER_PATH_MAX = 4096,	 /* of a checkpoint */
	WORKER_REASON_MAX = 511, /* of a notice */
	WORKER_EXIT_CODE = 42,	 /* where the agent gives none */
};

struct pool;

/* Which worker this is; strings are owned. */
struct identity {
	char *job, *run, *role, *worker;
	int index, rank, local_rank, world_size, attempt, start;
};

struct elasticd {
	/* Touched by each step: in the board, or in memory of this process where it has no board.
	 */
	struct board_header *header;
	struct board_slot *slot;
	uint64_t token;
	uint64_t attempt;
	const atomic_bool *fences; /* see fences.h */

	struct identity identity;
	void *board; /* mapped (BOARD_BYTES), or owned */
	bool board_mapped;
	char *socket, *token_text;   /* NULL: by hand */
	bool outside;		     /* of elasticd_queue_connect(): the socket is elasticd's */
	bool by_hand;		     /* the agent is the process's own (private_agent.h) */
	char *log_file, *error_file; /* NULL: none */
	_Atomic uint64_t log_fd;     /* below; above: the process that opened it; 0: not open yet */
	atomic_bool log_cut;	     /* the last line was not written to its end */
	_Atomic(struct pool *) pool;
	atomic_bool interruptible; /* signals end calls without a time limit, too */
	_Atomic int exit_code;	   /* with which a worker leaves on a notice */
	int silence_ms;		   /* how long the agent may keep a call without a limit */
};

/* NULL without memory. */
struct elasticd *handle_new(void);
/* Waits until all other threads have left the handle. Accepts a half-built one. */
void handle_free(struct elasticd *h);
/* Gives the handle a board of one slot in memory of this process. */
enum elasticd_status handle_own_board(struct elasticd *h);
