/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a run in its record: state.json, which is replaced in one step, and two spare files.
 * The spares are made at the beginning; when the disk is full the state is written in place into
 * one and the other in turn. Each state has a version; the complete one with the highest version
 * counts. Knows only these two members of a state. Called by record.c, and for reading by
 * agent/api/archived_run.c; elasticd reads the same files.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

enum { STATE_FILE_SPARES = 2, STATE_FILE_SPARE_BYTES = 64 << 10, STATE_FILE_MAX = 16 << 20 };

struct state_file;

/* dir: the run's record. Goes without spares if the disk has no room. NULL without memory. */
struct state_file *state_file_new(const char *dir);
struct state_file *state_file_free(struct state_file *s);

/* The path of state.json, borrowed. */
const char *state_file_name(const struct state_file *s);

/*
 * Writes doc (borrowed; its version is set) to state.json or, if the disk is full, to a spare; a
 * state that is too long for a spare goes without its workers. Returns 0 if state.json has the
 * state, or a negative errno.
 */
_must_check_ int state_file_write(struct state_file *s, json_t *doc);

/* The last state was written: removes the spares, unless they hold it. */
void state_file_done(struct state_file *s);

/* The newest state in dir, owned. Returns a negative errno with err; -ENOENT: there is none. */
_must_check_ int state_file_read(const char *dir, json_t **ret, struct error *err);
