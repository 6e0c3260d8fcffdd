/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a host and the head find out whether the other one is still there, so that a host that the
 * head declares lost has no worker left. Pure: times are milliseconds of CLOCK_BOOTTIME, each end's
 * by its own host's clock.
 *
 * A member beats each fifth of the lease; its JOIN is the first beat. Its workers must be dead when
 * nine tenths of the lease have passed since it SENT the last beat that the head answered; its
 * guard sees to that deadline. The head declares a member lost when a lease has passed since its
 * last beat CAME. A beat comes after it was sent, and the head has answered no later beat than the
 * last one that came: so the deadline is at least a tenth of the lease before the head's time, and
 * the guard kills in between.
 *
 * The member on the head's own host beats like the others. A head that was stopped checks the
 * leases before it reads the messages that have come meanwhile: where its own member's lease is
 * over, it is the head no longer.
 */

#include <stdbool.h>
#include <stdint.h>

enum { LEASE_MIN_MS = 10 }; /* shorter ones have no tenth */

/* The member's end. */
struct lease_member {
	uint64_t lease_ms;
	uint64_t sent_ms;     /* when the newest beat was sent that was answered; at first: JOIN */
	uint64_t deadline_ms; /* no worker may live from then on; UINT64_MAX: JOIN has no answer */
	bool over;
};

/* A JOIN is sent: the first beat of a new lease. There is no deadline before its answer, but no
 * worker may be started before it either. */
void lease_begin(struct lease_member *m, uint64_t lease_ms, uint64_t now_ms);
/* The answer to a beat that was sent at sent_ms; to the JOIN: m->sent_ms. Returns whether the lease
 * holds: one that was over stays so, whatever is answered after. */
bool lease_answer(struct lease_member *m, uint64_t sent_ms, uint64_t now_ms);
/* Whether workers may live. */
bool lease_holds(struct lease_member *m, uint64_t now_ms);

/* The head's end. All leases are equally long, so the one whose beat came first is over first. */
struct lease_held {
	struct lease_held *before, *after; /* in the order in which beats came */
	uint64_t came_ms;
};

struct lease_head {
	uint64_t lease_ms;
	struct lease_held *oldest, *newest;
};

/* A member's JOIN has come. */
void lease_add(struct lease_head *h, struct lease_held *x, uint64_t now_ms);
/* A beat of the member has come. */
void lease_came(struct lease_head *h, struct lease_held *x, uint64_t now_ms);
/* The member has left, or was declared lost. */
void lease_remove(struct lease_head *h, struct lease_held *x);
/* A member whose lease is over; NULL: none. The caller removes it, and calls again. */
struct lease_held *lease_over(const struct lease_head *h, uint64_t now_ms);
/* When the next lease will be over; UINT64_MAX: there is no member. */
uint64_t lease_due_ms(const struct lease_head *h);
