/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a run in its record: state.json, which is replaced in one step, and two spares,
 * which are made while there is room and written in place, in turn, when the disk is full. Each
 * state has a version; the highest one that is complete is the state. Knows nothing else of what it
 * says. Called by record.c, and for reading by agent/api/archived_run.c; elasticd reads the same
 * files.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

enum { STATE_FILE_SPARES = 2, STATE_FILE_SPARE_BYTES = 64 << 10, STATE_FILE_MAX = 16 << 20 };

struct state_file;

/* dir: the run's record. Without room for a spare there is none. NULL without memory. */
struct state_file *state_file_new(const char *dir);
struct state_file *state_file_free(struct state_file *s);

/* The path of state.json, borrowed. */
const char *state_file_name(const struct state_file *s);

/*
 * Writes doc (borrowed; gets its version) to state.json; where the disk is full to a spare, without
 * the workers where it is too long for that. Returns 0 where state.json has it, or a negative
 * errno.
 */
_must_check_ int state_file_write(struct state_file *s, json_t *doc);

/* The last state was written: gives the spares' room back where that state is not in them. */
void state_file_done(struct state_file *s);

/* The newest state in dir, owned. Returns a negative errno with err; -ENOENT: there is none. */
_must_check_ int state_file_read(const char *dir, size_t max, json_t **ret, struct error *err);
