/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network before a step, in one file. A new checkpoint replaces the old one by rename(), so
 * that a crash at any moment leaves a whole one. For the machine that wrote it (byte order).
 */

#include "examples/digits/net.h"

#include <stdbool.h>
#include <stdint.h>

/* The file begins with it. Another run of the training must have the same seed and batch. */
struct checkpoint {
	uint64_t seed, batch;
	uint64_t step;	  /* the first one that is not trained yet; 0 is the beginning */
	uint64_t trained; /* how many steps were trained, by all runs: step, if none was twice */
};

/* Reads the checkpoint at path into n, and into c, whose seed and batch are those of the caller.
 * False when there is none. Fails on one that is damaged or of another training. */
bool checkpoint_load(const char *path, struct checkpoint *c, struct net *n);

/* Writes c and n to the disk and puts them in place of what was at path. */
void checkpoint_save(const char *path, const struct checkpoint *c, const struct net *n);
