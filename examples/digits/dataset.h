/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images, read whole into memory. The last DATASET_HELD_OUT lines are never trained on.
 */

#include <stddef.h>
#include <stdint.h>

#define DATASET_PIXELS 64
#define DATASET_CLASSES 10
#define DATASET_HELD_OUT 360

struct sample {
	float pixel[DATASET_PIXELS]; /* 0..1 */
	int label;		     /* 0..9 */
};

struct dataset {
	struct sample *samples;
	size_t n_train; /* samples[0 .. n_train) are for training */
	size_t n;	/* samples[n_train .. n) are held out */
};

/* Reads the CSV file (64 pixels of 0..16 and a label a line); fails, naming the line, on others. */
void dataset_load(struct dataset *d, const char *path);
void dataset_fini(struct dataset *d);

/* A permutation of 0..n-1 that depends on seed alone: every rank computes the same one. */
void dataset_shuffle(uint32_t *order, size_t n, uint64_t seed);
