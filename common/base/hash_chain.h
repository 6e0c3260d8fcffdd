/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A hash table of structs that embed a struct chain_node; owns only its buckets. All zeros is an
 * empty table. A put cannot fail if room was reserved before; removing does not move other nodes.
 */

#include "common/base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct chain_node {
	struct chain_node *next;
	uint64_t hash;
};

struct chain {
	struct chain_node **buckets;
	size_t size; /* buckets, a power of two */
	size_t n;
};

/* Room for the next chain_put(): 0 or -ENOMEM. */
_must_check_ int chain_reserve(struct chain *c);
void chain_put(struct chain *c, struct chain_node *node, uint64_t hash);
/* node must be in c. */
void chain_remove(struct chain *c, struct chain_node *node);
void chain_fini(struct chain *c);

/* The nodes of a hash, one after the other; NULL after the last. The caller compares keys. Returned
 * borrowed. */
struct chain_node *chain_first(const struct chain *c, uint64_t hash);
struct chain_node *chain_next(const struct chain_node *node);

uint64_t chain_hash(const void *data, size_t len);
uint64_t chain_hash_pointer(const void *p);
