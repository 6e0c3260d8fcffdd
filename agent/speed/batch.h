/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Collects the looks of one host of a group into messages for the head: Steps of io.elasticd.Peer,
 * for some looks at once. While no worker makes a step there is no message; where all workers rest
 * before each step there are at most about twenty in the window. Pure.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BATCH_LOOKS = 5 };

/* All zero at first, and after a fini. */
struct batch {
	json_t *looks;
	uint64_t *counts; /* at the last look */
	uint64_t number;  /* of that look */
	size_t n;
	bool sends; /* the head waits for more */
	bool moved; /* some worker has begun a step since the last Steps */
};

void batch_fini(struct batch *b);
/* Adds a look at n workers: how many steps each has begun, and the number of the last one. Returns
 * an owned Steps, without its round, when the host must send one; else NULL. */
json_t *batch_add(
	struct batch *b, uint64_t number, const uint64_t *counts, const int64_t *last, size_t n);
/* The process of worker i has ended. */
void batch_forget(struct batch *b, size_t i);
