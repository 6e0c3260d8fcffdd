/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shares out an amount of something (bytes of memory, connections, helpers) among those who ask for
 * it. Holders with one key, such as the connections of one user, have one account. An account may
 * hold its share; all together may hold the total, the last part of which is for trusted accounts.
 * These have no share. Where the total does not suffice, the greediest account gives way to one
 * that holds less: its greediest holder is cut.
 *
 * Pure: it knows neither sockets nor clocks, and what is held is the holders' own. Called by the
 * varlink server and client, and by elasticd's relays.
 */

#include "common/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct budget;
struct budget_account;

/* The holder was cut: it has left the budget, and gives up what it holds as soon as it can. Runs
 * inside budget_hold() of another holder, and may free neither. */
typedef void (*budget_cut_fn)(void *arg);

/* Embedded by whoever holds something; zeros before budget_join() and after budget_leave(). */
struct budget_holder {
	LIST_ENTRY(budget_holder) entry;
	struct budget_account *account; /* NULL: takes no part */
	size_t amount;
	budget_cut_fn cut;
	void *arg;
};

struct budget_limits {
	size_t total;
	size_t share;	/* of one account that is not trusted */
	size_t reserve; /* of total: for trusted accounts alone */
};

_must_check_ int budget_new(const struct budget_limits *limits, struct budget **ret);
/* All holders have left. */
struct budget *budget_free(struct budget *b);
DEFINE_CLEANUP(struct budget *, budget_free)

/* What is held already stays, also where it is more now than is allowed. */
void budget_set_limits(struct budget *b, const struct budget_limits *limits);

/* The holder takes part with nothing, in the account of key. Returns 0 or -ENOMEM. */
_must_check_ int budget_join(struct budget *b, struct budget_holder *h, uint64_t key, bool trusted,
	budget_cut_fn cut, void *arg);
/* The holder gives up all. Also for one that takes no part. */
void budget_leave(struct budget_holder *h);

/*
 * From now on h holds amount, more or less than before. May cut others. Returns 0, -EDQUOT where
 * that is more than its account's share, or -ENOBUFS where it is more than is left of the total: it
 * holds what it held then. A holder that takes no part may hold anything.
 */
_must_check_ int budget_hold(struct budget_holder *h, size_t amount);

/* The limit that budget_hold() has named by error: the share or the total. */
size_t budget_limit(const struct budget *b, int error);

/* Whether more than half is held, of h's share or of the total: time to be modest. */
bool budget_crowded(const struct budget_holder *h);

/* What h's account holds, and what all hold. */
size_t budget_of_account(const struct budget_holder *h);
size_t budget_of_all(const struct budget *b);
