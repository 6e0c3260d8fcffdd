/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network after an epoch, in one file. A new checkpoint replaces the old one by rename(), so
 * that a crash at any moment leaves a whole one. For the machine that wrote it (byte order).
 */

#include "examples/digits/net.h"

#include <stdint.h>

/* Returns the epoch of the checkpoint at path, read into n, or 0 when there is none. Fails on one
 * that is damaged or belongs to another seed. */
int checkpoint_load(const char *path, uint64_t seed, struct net *n);

/* Writes n to the disk and puts it in place of what was at path. */
void checkpoint_save(const char *path, uint64_t seed, int epoch, const struct net *n);
