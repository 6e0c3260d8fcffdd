/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Workers in a ring: each sends to the rank after it and receives from the one before it.
 *
 * They meet at MASTER_ADDR:MASTER_PORT, where rank 0 listens: every other rank tells it on which
 * port it waits for its predecessor, and once all are there each learns where its successor is.
 * Any error ends the worker with a line that names the peer; a supervisor then starts the whole
 * group again.
 */

#include <stddef.h>

struct ring {
	int rank, world;
	int timeout_ms;
	int next_fd, prev_fd; /* -1 where there is only one worker */
	char next[24], prev[24];
	float *spare; /* room for the chunk that is coming in */
	size_t spare_n;
};

/* Finds the others. timeout_ms bounds this, and later each wait for a neighbour. */
void ring_open(struct ring *r, int rank, int world, const char *master_addr,
	const char *master_port, int timeout_ms);
void ring_close(struct ring *r);

/* Replaces v[i] by the sum of all ranks' v[i]: the same bits on every rank. */
void ring_sum(struct ring *r, float *v, size_t n);
