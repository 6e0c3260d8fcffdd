/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>

/* The section `queue`: its keys, its defaults, and its relations to roles. */

enum {
	SLOTS_MAX = 1024,
	DEATHS_MAX = 1023, /* the queue's machine counts no more */
};

const struct spec_key spec_keys_queue[] = {
	KEY("max", int, spec_queue, max),
	KEY("results", int, spec_queue, results),
	KEY("memory", size, spec_queue, memory),
	KEY("slots", int, spec_queue, slots, .min = 1, .max = SLOTS_MAX),
	KEY("cancel_grace", duration, spec_queue, cancel_grace_ms),
	KEY("recovery_timeout", duration, spec_queue, recovery_timeout_ms),
	KEY("blame_limit", int, spec_queue, blame_limit),
	KEY("blame_window", duration, spec_queue, blame_window_ms, .min = 1),
	KEY("deaths", int, spec_queue, deaths, .max = DEATHS_MAX),
	KEY("durable", bool, spec_queue, durable),
	KEY("stall", duration, spec_queue, stall_ms, .min = 1),
	KEY("call_timeout", duration, spec_queue, call_timeout_ms, .min = 1),
	KEY("answer_timeout", duration, spec_queue, answer_timeout_ms, .min = 1),
	KEY("exit_code", int, spec_queue, exit_code, .min = 1, .max = 255),
	KEY("loss_grace", duration, spec_queue, loss_grace_ms),
	END,
};

void spec_queue_init(struct spec_queue *q)
{
	*q = (struct spec_queue){
		.max = 262144,
		.results = 262144,
		.memory = INT64_C(1) << 30,
		.slots = 1,
		.cancel_grace_ms = 30000,
		.recovery_timeout_ms = 3600000,
		.blame_limit = 3,
		.blame_window_ms = SPEC_UNSET,
		.stall_ms = SPEC_UNSET,
		.call_timeout_ms = 300000,
		.answer_timeout_ms = 120000,
		.exit_code = SPEC_UNSET,
		.loss_grace_ms = 30000,
	};
}

/* Checks a role with on_failure fail_queue: it cannot have other special meanings. */
static void check_role(struct spec_ctx *ctx, const struct spec_role *role, size_t i)
{
	char path[64];

	if (role->on_failure != SPEC_FAILURE_QUEUE || (!role->leader && !role->recoverable))
		return;
	snprintf(path, sizeof(path), "roles[%zu].on_failure", i);
	spec_note(ctx, path, "\"fail_queue\" is not for a role that %s",
		role->leader ? "leads: it is the one that would be told"
			     : "is `recoverable`: its loss is to be no error");
}

void spec_check_queue(struct spec_ctx *ctx, const struct spec *s)
{
	for (size_t i = 0; i < s->n_roles; i++)
		check_role(ctx, &s->roles[i], i);
	if (s->queue.blame_window_ms != SPEC_UNSET && !s->queue.blame_limit)
		spec_note(ctx, "queue.blame_window",
			"needs `blame_limit` greater than 0, the number of failures in it");
}
