/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits that are made again. Who submits from outside of the job may not hear the answer, because
 * elasticd has ended between the two; it makes the same call again, with the same number of its
 * own, and gets the answer that it has not heard. The last few thousand numbers are known: each has
 * a place in one of many sets, where the newest ones stay.
 */
#include "agent/dispatch_private.h"

#include <string.h>

enum { SETS = 1024, WAYS = 4 };

struct once {
	int64_t number, first;
	size_t accepted; /* 0: the place is free */
};

struct dispatch_once {
	struct once sets[SETS][WAYS]; /* the newest first */
};

static struct once *set_of(const struct dispatch *d, int64_t number)
{
	return d->once->sets[(uint64_t)number % SETS];
}

void dispatch_once_keep(const struct dispatch_wait *x)
{
	struct dispatch *d = x->d;
	struct once *set;

	if (!x->once || !x->wait.accepted)
		return;
	if (!d->once)
		d->once = calloc(1, sizeof(*d->once));
	if (!d->once)
		return;
	set = set_of(d, x->once);
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	*set = (struct once){
		.number = x->once, .first = x->wait.first, .accepted = x->wait.accepted
	};
}

bool dispatch_once_find(
	const struct dispatch *d, int64_t number, int64_t *ret_first, size_t *ret_accepted)
{
	struct once *set;

	if (!number || !d->once)
		return false;
	set = set_of(d, number);
	for (int i = 0; i < WAYS; i++)
		if (set[i].accepted && set[i].number == number) {
			*ret_first = set[i].first;
			*ret_accepted = set[i].accepted;
			return true;
		}
	return false;
}

void dispatch_once_free(struct dispatch *d)
{
	free(d->once);
}
