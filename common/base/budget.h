/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shares out an amount of something (bytes of memory, connections, helpers) among its holders.
 * Holders with one key, such as the connections of one user, have one account. An account may hold
 * its share; all together may hold the total, whose last part is reserved for trusted accounts.
 * Trusted accounts have no share of their own. When the total is used up, the account that holds
 * most gives way to one that holds less: its largest holder is cut.
 *
 * Pure: knows neither sockets nor clocks, and does not touch what is held. Called by the varlink
 * server and client, and by elasticd's relays.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct budget;
struct budget_account;

/* The holder was cut: it has left the budget, and must release what it holds as soon as it can.
 * Runs inside budget_hold() of another holder, and may free neither of the two. */
typedef void (*budget_cut_fn)(void *arg);

/* Embedded in the holder; zeros before budget_join() and after budget_leave(). */
struct budget_holder {
	LIST_ENTRY(budget_holder) entry;
	struct budget_account *account; /* NULL: not in a budget */
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
/* All holders must have left. */
struct budget *budget_free(struct budget *b);
DEFINE_CLEANUP(struct budget *, budget_free)

/* Holders keep what they have, even if it is over the new limits. */
void budget_set_limits(struct budget *b, const struct budget_limits *limits);

/* Adds the holder, which holds nothing yet, to the account of key. Returns 0 or -ENOMEM. */
_must_check_ int budget_join(struct budget *b, struct budget_holder *h, uint64_t key, bool trusted,
	budget_cut_fn cut, void *arg);
/* Removes the holder with all that it holds. Does nothing for one that is not in a budget. */
void budget_leave(struct budget_holder *h);

/*
 * Sets what h holds to amount, more or less than before. May cut others. Returns 0, -EDQUOT if
 * amount is more than its account's share, or -ENOBUFS if it is more than is left of the total; h
 * then holds what it held before. Does nothing and returns 0 for a holder that is not in a budget.
 */
_must_check_ int budget_hold(struct budget_holder *h, size_t amount);

/* The limit behind an error of budget_hold(): the share or the total. */
size_t budget_limit(const struct budget *b, int error);

/* Whether more than half of h's share or of the total is held, so that h should be sparing. */
bool budget_crowded(const struct budget_holder *h);

/* How much h's account holds, and how much all hold. */
size_t budget_of_account(const struct budget_holder *h);
size_t budget_of_all(const struct budget *b);
/* How many holders h's account has. */
size_t budget_holders(const struct budget_holder *h);

/*
 * Time, too, is shared out: budget_worked() counts the time that work for h's account took in a
 * turn of the loop. budget_may_work() says whether that was less than most_ms so far, or h's
 * account is trusted; if not, the work waits for the next turn, so that others have theirs.
 */
bool budget_may_work(const struct budget_holder *h, uint64_t turn, uint64_t most_ms);
void budget_worked(struct budget_holder *h, uint64_t turn, uint64_t ms);
