/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The members of a test, and what they have answered. */

#include "agent/sync/members.h"
#include "tests/unit/child.h"

#include <errno.h>
#include <stdio.h>

#define NEVER UINT64_MAX

struct answered {
	intptr_t token;
	enum status status;
	unsigned slots;
	int error_slot;
	enum status error_code;
	char message[512];
};

static struct members *m;
static struct answered answers[256];
static int n_answers;
static int n_texts; /* made of lists of the living */
static void (*in_callback)(intptr_t token);

static inline const char *name_of(void *arg, int slot)
{
	static char text[32];

	(void)arg;
	snprintf(text, sizeof(text), "worker:%d", slot);
	return text;
}

static inline void on_answer(void *arg, void *token, const struct members_answer *a)
{
	struct answered *t = &answers[n_answers++ % 256];
	void (*fn)(intptr_t) = in_callback;

	(void)arg;
	*t = (struct answered){ .token = (intptr_t)token, .status = a->status, .error_slot = -1 };
	snprintf(t->message, sizeof(t->message), "%s", a->message);
	if (a->error) {
		t->error_slot = a->error->slot;
		t->error_code = a->error->code;
	}
	if (a->text && a->status == STATUS_OK && !*a->text) {
		n_texts++;
		*a->text = strdup("list");
	}
	for (size_t i = 0; i < a->n; i++) {
		if (i > 0 && a->slots[i - 1] >= a->slots[i])
			ck_abort_msg("slots are not sorted");
		t->slots |= 1u << (a->slots[i] & 31);
	}
	if (fn)
		fn((intptr_t)token);
}

static inline void teardown(void)
{
	m = members_free(m);
}
