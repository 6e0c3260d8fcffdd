/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A head of agent/rounds/round.h, what comes to it, and its orders as text. */

#include "agent/rounds/round.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LAST_CALL = 30000,
	JOIN_DELAY = 3000,
	PREPARE = 60000,
	JOIN_TIMEOUT = 600000,
	LEASE = 10000
};

static const bool first_only[2] = { false, true };
static struct round_config config;
static struct round *r;
static uint64_t now;
static char text[4096];

static inline void setup(void)
{
	config = (struct round_config){ .min = 2,
		.max = 3,
		.last_call_ms = LAST_CALL,
		.join_timeout_ms = JOIN_TIMEOUT,
		.prepare_timeout_ms = PREPARE,
		.join_delay_ms = JOIN_DELAY,
		.lease_ms = LEASE,
		.roles = { 2, first_only },
		.digest = "same" };
	now = 1000000;
	r = NULL;
}

static inline void teardown(void)
{
	r = round_free(r);
}

static inline void begin(void)
{
	r = round_new(&config, now);
	ck_assert_ptr_nonnull(r);
}

/* --- what the last call wants --- */

static inline const char *order_name(const struct round_order *o)
{
	static const char *const names[] = { "admit", "refuse", "assign", "start", "stop", "end",
		"take", "leave out", "drop", "vacate", "record", "running", "save", "late", "rest",
		"give up", "finish" };

	return names[o->what];
}

static inline const char *why_name(const struct round_order *o)
{
	static const char *const names[] = { "", "digest", "node rank", "full", "ended", "bye",
		"lost", "replaced", "rejoined", "unable", "late" };

	return names[o->why];
}

/* "drop c (lost), stop a b". */
static inline const char *orders(void)
{
	size_t n = 0;
	int count, last = -1;
	const struct round_order *o = round_orders(r, &count);

	text[0] = '\0';
	for (int i = 0; i < count && n < sizeof(text) - 100; i++) {
		const struct round_host *h = round_host(r, o[i].host);

		if ((int)o[i].what != last)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ", " : "",
				order_name(&o[i]));
		if (h)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", h->name);
		if (o[i].why)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " (%s)", why_name(&o[i]));
		last = (int)o[i].what;
	}
	return text;
}

static inline int number(const char *name)
{
	const struct round_host *h = NULL, *found = NULL;

	while ((h = round_next_host(r, h)))
		if (!strcmp(h->name, name) && h->state != HOST_GONE)
			found = h;
	return found ? found->number : -1;
}

static inline const struct round_host *host(const char *name)
{
	const struct round_host *h = round_host(r, number(name));

	ck_assert_msg(h != NULL, "%s is no member", name);
	return h;
}

/* --- what comes --- */

static inline struct round_join join_as(const char *name)
{
	static const int replicas[2] = { 2, 1 };

	return (struct round_join){ .run = name,
		.agent = "1",
		.boot = "b",
		.name = name,
		.digest = "same",
		.node_rank = -1,
		.replicas = replicas };
}

static inline const char *join_with(struct round_join j)
{
	ck_assert_int_eq(round_join(r, &j, now), 0);
	return orders();
}

static inline const char *join(const char *name)
{
	return join_with(join_as(name));
}

static inline const char *hear(const char *name, enum host_event e)
{
	ck_assert_int_eq(round_hear(r, number(name), e, host(name)->round, now), 0);
	return orders();
}

/* The same of several hosts, a letter each; returns what the last one causes. */
static inline const char *hear_all(const char *names, enum host_event e)
{
	char name[2] = "";

	for (; *names; names++) {
		name[0] = *names;
		hear(name, e);
	}
	return orders();
}

static inline const char *at(uint64_t ms)
{
	now = ms;
	round_time(r, now);
	return orders();
}

static inline const char *due(void)
{
	ck_assert_uint_ne(round_due_ms(r), UINT64_MAX);
	return at(round_due_ms(r));
}

/* a, b and c run. */
static inline void three_run(void)
{
	begin();
	join("a");
	join("b");
	ck_assert_str_eq(join("c"), "admit c, assign a b c");
	ck_assert_str_eq(hear_all("abc", HOST_EV_PREPARED), "start a b c");
	ck_assert_str_eq(hear_all("abc", HOST_EV_STARTED), "running");
}

static inline void stop_and_run(const char *names, const char *next)
{
	hear_all(names, HOST_EV_STOPPED);
	hear_all(next, HOST_EV_PREPARED);
	ck_assert_str_eq(hear_all(next, HOST_EV_STARTED), "running");
}
