/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All runs that elasticd knows, in the order in which it accepted them, found by run or by name.
 * Owns the jobs. Among active jobs a name is unique over all users; a run's identifier is never
 * used twice.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct registry;
struct job;

/* Whether the caller of a lookup may see the job. */
typedef bool (*registry_filter_fn)(const struct job *j, void *arg);

_must_check_ int registry_new(struct registry **ret);
/* Frees all jobs. */
struct registry *registry_free(struct registry *r);

/* Takes j and adds it behind the others. */
void registry_add(struct registry *r, struct job *j);
/* Gives j back to the caller. */
void registry_remove(struct registry *r, struct job *j);

/* The run of that identifier, else the newest of that name, among those that filter lets through
 * (NULL: all). Returns borrowed or NULL. */
struct job *registry_find(
	const struct registry *r, const char *key, registry_filter_fn filter, void *arg);
/* The run of that name that has not ended, or NULL. */
struct job *registry_active(const struct registry *r, const char *name);

/* From the oldest to the newest; NULL at the end. */
struct job *registry_first(const struct registry *r);
struct job *registry_next(const struct job *j);

/* The same, of those that have not ended, and of few others: see registry_tidy(). */
struct job *registry_first_active(const struct registry *r);
struct job *registry_next_active(const struct job *j);
/* Call it once in each turn with changes: the two above leave out what has ended by now, of which a
 * user may have thousands. No caller may be going through the jobs. */
void registry_tidy(struct registry *r);

size_t registry_count(const struct registry *r);
/* Runs that have not ended: all, or (uid not -1) one user's. */
size_t registry_count_active(const struct registry *r, uid_t uid);
