/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What must be alike on all hosts of a group, as in Join of io.elasticd.Peer: an array of Setting.
 * Pure. Commands and variables of workers are not among it: each host runs what its own user said.
 */

#include "common/base/error.h"
#include "common/spec/spec.h"

#include <jansson.h>

/* Owned; NULL without memory. */
json_t *settings_of(const struct spec *spec);
/* 16 digits by which two hosts agree or not. Owned; NULL without memory. */
char *settings_digest(const json_t *settings);
/* Names the first key in which two hosts differ, with both values and both hosts: head has ours,
 * host has theirs. Always returns -EINVAL. */
int settings_differ(const json_t *ours, const json_t *theirs, const char *head, const char *host,
	struct error *err);
