/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The copy of a journal that another host keeps: which bytes of the file go there next, and which
 * answers may leave. Pure. The agent that leads a group of several hosts has one; the agent that
 * keeps the copy is its deputy.
 *
 * An edition is a set of hosts that have all records: the one that leads, with its deputy or
 * without one. The store that elects the head has a note of the present edition, so that a later
 * head knows whether what it has is all. Answers leave once a noted edition has the records that
 * they rely on. A new deputy first gets the whole file, also one that has replaced a longer file.
 *
 * Positions count bytes of records from when this host began to lead.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	COPY_PART_BYTES = 192 << 10,
	COPY_WINDOW_BYTES = 1 << 20, /* on their way to the deputy at once */
};

enum copy_note { COPY_NOTE_DUE, COPY_NOTE_ASKED, COPY_NOTED };

struct copy {
	uint64_t size; /* of the journal: its file, and what is still to be written there */
	uint64_t end;  /* the position there */
	uint64_t kept; /* up to there answers may leave */
	int64_t copies;
	int64_t number; /* of the copy that the deputy makes; 0: there is no deputy */
	uint64_t whole; /* the copy has all that the edition needs from this size on */
	uint64_t sent, acked;
	enum copy_note note; /* of the present edition */
	bool changed;	     /* ... which is another one than the one whose note was asked for */
};

/* This host begins to lead with a journal of that size, and has no deputy. */
void copy_begin(struct copy *c, uint64_t size);
/* The journal has grown; or another file, of that size, has replaced it. */
void copy_grown(struct copy *c, uint64_t size);
void copy_replaced(struct copy *c, uint64_t size);
/* Another deputy, or none: a new edition. */
void copy_to(struct copy *c, bool deputy);

struct copy_part {
	int64_t number;	 /* of the copy */
	uint64_t offset; /* 0: the copy begins, in place of an earlier one */
	size_t len;
	bool whole; /* with it the copy is whole */
};
/* The next bytes for the deputy; false: there are none, or there is no room on the way. */
bool copy_next(struct copy *c, struct copy_part *ret);
/* The deputy has so many bytes of that copy. 0, or -EPROTO. */
_must_check_ int copy_acked(struct copy *c, int64_t number, uint64_t bytes);

/* Whether the store is to note the edition now: its hosts have all. */
bool copy_wants_note(const struct copy *c);
void copy_note_asked(struct copy *c);
void copy_noted(struct copy *c);
/* Whether an answer has to wait that relies on records up to that position. */
static inline bool copy_holds(const struct copy *c, uint64_t position)
{
	return position > c->kept;
}
