/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/barrier_private.h"

#include <stdio.h>

enum { BARRIER_SHOWN_NAME = 100, BARRIER_SHOWN_WHY = 150 };

static void barrier_append(struct barrier_use *use, const char *text)
{
	slots_append(use->answer.message, sizeof(use->answer.message), text);
}

static void barrier_begin(struct barrier_use *use, const char *name, const char *then)
{
	char *message = use->answer.message;

	snprintf(message, sizeof(use->answer.message), "barrier \"");
	slots_append_cut(message, sizeof(use->answer.message), name, BARRIER_SHOWN_NAME);
	barrier_append(use, "\"");
	barrier_append(use, then);
}

static void barrier_append_slots(
	struct barriers *b, struct barrier_use *use, const int *slots, size_t n)
{
	slots_append_names(
		use->answer.message, sizeof(use->answer.message), slots, n, b->name, b->arg);
}

static void barrier_append_reached(struct barrier_use *use)
{
	char text[64];

	snprintf(text, sizeof(text), "reached %zu of %zu", use->n_arrived, use->n);
	barrier_append(use, text);
}

static void barrier_missing_one(struct barrier_use *use, int slot)
{
	use->missing[0] = slot;
	use->answer.n_missing = 1;
}

void barrier_text_missing(
	struct barriers *b, struct barrier_use *use, const char *name, const char *text)
{
	use->answer.n_missing = 0;
	for (size_t i = 0; i < use->n; i++)
		if (!use->places[i].arrived)
			use->missing[use->answer.n_missing++] = use->places[i].slot;
	if (text) {
		use->answer.message[0] = '\0';
		barrier_append(use, text);
		return;
	}
	barrier_begin(use, name, " timed out: ");
	barrier_append_reached(use);
	barrier_append(use, "; missing: ");
	barrier_append_slots(b, use, use->missing, use->answer.n_missing);
}

static void barrier_append_why(struct barrier_use *use, const char *why)
{
	bool stopped = why == barrier_ended_stopped;

	barrier_append(use, stopped ? " " : " (");
	slots_append_cut(use->answer.message, sizeof(use->answer.message), why, BARRIER_SHOWN_WHY);
	barrier_append(use, stopped ? "" : ")");
}

enum status barrier_text_ended(
	struct barriers *b, struct barrier_use *use, const char *name, int slot, const char *why)
{
	barrier_missing_one(use, slot);
	if (slot < 0) {
		use->answer.n_missing = 0;
		for (size_t i = 0; i < use->n; i++)
			if (b->ended[use->places[i].slot])
				use->missing[use->answer.n_missing++] = use->places[i].slot;
		why = b->ended[use->missing[0]];
	}
	barrier_begin(use, name, " failed, ");
	barrier_append_reached(use);
	barrier_append(use, ": ");
	barrier_append_slots(b, use, use->missing, 1);
	barrier_append_why(use, why);
	if (use->answer.n_missing > 1) {
		barrier_append(use, ", ");
		barrier_append_slots(b, use, use->missing + 1, use->answer.n_missing - 1);
	}
	return why == barrier_ended_stopped ? STATUS_FAILED_PRECONDITION : STATUS_INTERNAL;
}

void barrier_text_stranger(struct barriers *b, struct barrier_use *use, const char *name, int slot)
{
	barrier_missing_one(use, slot);
	barrier_begin(use, name, ": ");
	barrier_append_slots(b, use, &slot, 1);
	barrier_append(use, " arrived but is not one of its members");
}

/* A slot in only one of the two sets, which differ. */
static int barrier_difference(const struct barrier_use *use, const struct slot_set *set)
{
	size_t i = 0;

	while (i < set->n && i < use->n && set->slots[i] == use->places[i].slot)
		i++;
	if (i == set->n || (i < use->n && use->places[i].slot < set->slots[i]))
		return use->places[i].slot;
	return set->slots[i];
}

void barrier_text_differs(struct barriers *b, struct barrier_use *use, const char *name, int slot,
	const struct slot_set *members)
{
	int differs = barrier_difference(use, members);

	barrier_missing_one(use, slot);
	barrier_begin(use, name, ": ");
	barrier_append_slots(b, use, &slot, 1);
	barrier_append(use, " arrived with other members than ");
	barrier_append_slots(b, use, &use->first, 1);
	barrier_append(use, ", which was first: only one of them named ");
	barrier_append_slots(b, use, &differs, 1);
}
