/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal of a job's work queue (queue.durable): DIR/queue.journal, to which each record of the
 * machine (agent/queue/machine/queue.h) is appended, so that the next agent of the run finds its
 * tasks. Owns the file; the machine, which it reads into and rewrites it from, is the caller's.
 *
 * What was committed survives the agent, however it ends. The disk is asked to keep it a moment
 * later (JOURNAL_SYNC_MS) by a thread that does nothing else: that much a loss of power can take.
 * Where the file system is full, what could not be written stays in memory and is written as soon
 * as that is possible; until then journal_room() lets nothing new in.
 *
 * The file: eight bytes that say what it is and its version, then records, each with its length and
 * a checksum of it (see codec.h). A tail that was cut off or is broken ends it; what was
 * there is put aside as DIR/queue.journal.broken. When more than half of it tells of what is
 * forgotten by now, a shorter file takes its place.
 */

#include "agent/queue/machine/queue.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

struct journal;

enum { JOURNAL_SYNC_MS = 1000 };

struct journal_options {
	struct loop *loop;
	const char *dir;  /* borrowed until journal_new() returns */
	struct queues *q; /* for as long as the journal */
	/* Workers are known by their names in the file: the name of a number, the number of a name
	 * or -1. Either may be NULL. */
	const char *(*worker_name)(void *arg, int worker);
	int (*worker_number)(void *arg, const char *name);
	/* For people: "journal-read", "journal-cut", "journal-broken", "journal-failed",
	 * "journal-written". Not from journal_add(). */
	void (*event)(void *arg, const char *event, const char *text);
	void *arg;
};

/* Reads what an earlier agent left into the machine, before its first step, and goes on there.
 * Returns 0 or a negative errno with err, which names the file. */
_must_check_ int journal_new(
	const struct journal_options *opt, struct journal **ret, struct error *err);
/* Writes what is left. */
struct journal *journal_free(struct journal *j);
DEFINE_CLEANUP(struct journal *, journal_free)

/* Takes a copy of what queue_next() gave with QUEUE_DO_RECORD. Where memory is short the file is
 * rewritten later, and journal_room() refuses until then. */
void journal_add(struct journal *j, const struct queue_record *r);
/* QUEUE_DO_DUMP: a record was lost, for this errno, before it could be added. The same follows. */
void journal_lost(struct journal *j, int error);
/* QUEUE_DO_ANEW: there is more in the file than there should be. It is written anew soon. */
void journal_stale(struct journal *j);
/* Writes what was added, in one write: before the answers leave that rely on it. */
void journal_commit(struct journal *j);
/* Whether tasks of so many bytes may come: OK, or RESOURCE_EXHAUSTED with a text that names the
 * file. Before they are given to the machine. */
_must_check_ enum status journal_room(struct journal *j, size_t bytes, struct error *err);
/* The run has its end, and nobody reads it any more: the file is removed. journal_free() follows.
 */
void journal_discard(struct journal *j);
