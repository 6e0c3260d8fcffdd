/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The limits of io.elasticd.Queue and the states of its tasks, for the agent, which keeps them, and
 * the library for workers, which refuses early.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	QUEUE_NAME_MAX = 64,	   /* bytes of a queue's or resource's name: [A-Za-z0-9_.-] */
	QUEUE_FORMAT_MAX = 31,	   /* bytes of a format */
	QUEUE_VALUE_MAX = 1 << 20, /* bytes of a payload or value */
	QUEUE_TEXT_MAX = 4096,	   /* bytes of an error's message; more is cut */
	QUEUE_DETAILS_MAX = 65536, /* bytes of its details; more is cut */
	QUEUE_NEEDS_MAX = 16,	   /* resources that one task needs */
	QUEUE_QUEUES_MAX = 1024,   /* queues at once */
	QUEUE_RESOURCES_MAX = 64,  /* resources at once */
	QUEUE_CALLS_MAX = 1024,	   /* calls at once */
};

/* Whether a queue or a resource may have this name. */
static inline bool queue_name_ok(const char *name, bool may_be_empty)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				"0123456789_.-");

	return !name[n] && n <= QUEUE_NAME_MAX && (n || may_be_empty);
}

/* Numbers of tasks and leases: all up to this are exact in JSON. */
#define QUEUE_TASK_MAX (INT64_C(1) << 53)

#define QUEUE_STATES(X)           \
	X(QUEUED, "queued")       \
	X(RUNNING, "running")     \
	X(SUCCEEDED, "succeeded") \
	X(FAILED, "failed")       \
	X(CANCELLED, "cancelled")

enum queue_state {
#define X(name, text) QUEUE_##name,
	QUEUE_STATES(X)
#undef X
		QUEUE_N_STATES
};
