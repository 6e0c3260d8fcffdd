/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal of a job's work queue (queue.durable): the file DIR/queue.journal, to which it
 * appends each record of the machine (agent/queue/machine/queue.h), so that the next agent of the
 * run finds the tasks. Owns the file; the machine, which it fills and from which it rewrites the
 * file, is the caller's.
 *
 * Committed records survive the agent, however it ends. A thread asks the disk to keep them a
 * moment later (JOURNAL_SYNC_MS): so much can be lost with the power. If the file system is full,
 * records stay in memory and are written as soon as possible; until then journal_room() refuses new
 * tasks.
 *
 * The file begins with eight bytes for its type and version, then come records, each with its
 * length and a checksum (see codec.h). Reading stops at a tail that is cut off or broken; a broken
 * file is kept as DIR/queue.journal.broken. When more than half of the file is about forgotten
 * tasks, a shorter file replaces it.
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
	/* The file has names of workers: these give the name of a number, and the number of a name
	 * or -1. Either may be NULL. */
	const char *(*worker_name)(void *arg, int worker);
	int (*worker_number)(void *arg, const char *name);
	/* For people: "journal-read", "journal-cut", "journal-broken", "journal-failed",
	 * "journal-written". Never called inside journal_add(). */
	void (*event)(void *arg, const char *event, const char *text);
	/* May be NULL. Another file has replaced the present one. */
	void (*replaced)(void *arg);
	void *arg;
};

/* Reads the file of an earlier agent into the machine, before its first step, and appends to it.
 * Returns 0 or a negative errno with err, which names the file. */
_must_check_ int journal_new(
	const struct journal_options *opt, struct journal **ret, struct error *err);
/* Writes the remaining records. */
struct journal *journal_free(struct journal *j);
DEFINE_CLEANUP(struct journal *, journal_free)

/* Copies a record of QUEUE_ORDER_RECORD. Without memory, the file is rewritten later, and
 * journal_room() refuses until then. */
void journal_add(struct journal *j, const struct queue_record *r);
/* QUEUE_ORDER_RECORD_LOST: the machine could not make a record, for this errno. The same follows.
 */
void journal_lost(struct journal *j, int error);
/* QUEUE_ORDER_STALE: the file has records that must not stay. It is rewritten soon. */
void journal_stale(struct journal *j);
/* Writes the added records at once. Call it before answers leave that rely on them. */
void journal_commit(struct journal *j);
/* Whether the file has all added records. */
bool journal_written(const struct journal *j);
/* Call it before the machine gets tasks of so many bytes. OK, or RESOURCE_EXHAUSTED with a text
 * that names the file. */
_must_check_ enum status journal_room(struct journal *j, size_t bytes, struct error *err);
/* How many bytes its file has, with those that are still to be written. */
uint64_t journal_size(const struct journal *j);
/* Reads len of these bytes from offset on. 0 or a negative errno. */
_must_check_ int journal_bytes(struct journal *j, uint64_t offset, void *data, size_t len);
/* The run has ended, and no agent will read the file: removes it. Call journal_free() next. */
void journal_discard(struct journal *j);
