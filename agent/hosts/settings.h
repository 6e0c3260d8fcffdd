/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings that must be alike on all hosts of a group: an array of Setting, as in Join of
 * io.elasticd.Peer. Pure. Commands and environments of workers are not among them: each host has
 * its own.
 */

#include "common/base/error.h"
#include "common/spec/spec.h"

#include <jansson.h>

/* Returns owned; NULL without memory. */
json_t *settings_of(const struct spec *spec);
/* 16 digits, alike if the settings are. Returns owned; NULL without memory. */
char *settings_digest(const json_t *settings);
/* Fills err with the first key in which two hosts differ, both values and both hosts: head has
 * ours, host has theirs. Always returns -EINVAL. */
int settings_differ(const json_t *ours, const json_t *theirs, const char *head, const char *host,
	struct error *err);
