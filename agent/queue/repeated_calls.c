/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeated calls. A caller outside the job may lose the answer when elasticd ends. It then repeats
 * the call with the same number, and gets the answer of the first call: the numbers of accepted
 * tasks, or the error of a queue, which other callers get only once. This file remembers the last
 * few thousand answers: each number belongs to one of many sets, and a set keeps the newest.
 */
#include "agent/queue/private.h"
#include "common/base/hash_chain.h"
#include "common/text/json.h"

#include <string.h>

enum { SETS = 1024, WAYS = 4 };

struct repeated_answer {
	uint64_t key; /* 0: the entry is free */
	int64_t first;
	size_t accepted;
	json_t *error; /* the parameters of QueueFailed; NULL: it was accepted */
};

struct dispatch_repeated {
	struct repeated_answer sets[SETS][WAYS]; /* the newest first */
};

/* The key depends on the queue, so that one number may be used for several queues. */
uint64_t dispatch_repeat_key(int64_t number, const char *queue)
{
	uint64_t key = (uint64_t)number ^ chain_hash(queue, strlen(queue));

	return !number ? 0 : key ? key : 1;
}

static struct repeated_answer *repeated_set(const struct dispatch *d, uint64_t key)
{
	return d->repeated->sets[(key ^ key >> 32) % SETS];
}

/* A new entry in place of the oldest one of its set. NULL without memory. */
static struct repeated_answer *repeated_add(struct dispatch *d, uint64_t key)
{
	struct repeated_answer *set;

	if (!d->repeated)
		d->repeated = calloc(1, sizeof(*d->repeated));
	if (!d->repeated)
		return NULL;
	set = repeated_set(d, key);
	json_decref(set[WAYS - 1].error);
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	*set = (struct repeated_answer){ .key = key };
	return set;
}

void dispatch_repeat_remember(const struct dispatch_wait *x)
{
	struct repeated_answer *o =
		x->repeat_key && x->wait.accepted ? repeated_add(x->d, x->repeat_key) : NULL;

	if (!o)
		return;
	o->first = x->wait.first;
	o->accepted = x->wait.accepted;
}

void dispatch_repeat_remember_error(const struct dispatch_wait *x, json_t *error)
{
	struct repeated_answer *o = x->repeat_key ? repeated_add(x->d, x->repeat_key) : NULL;

	if (o)
		o->error = json_incref(error);
}

static const struct repeated_answer *repeated_find(const struct dispatch *d, uint64_t key)
{
	const struct repeated_answer *set = key && d->repeated ? repeated_set(d, key) : NULL;

	for (int i = 0; i < WAYS && set; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

bool dispatch_repeat_answer(struct dispatch *d, struct varlink_call *call, uint64_t key)
{
	const struct repeated_answer *o = repeated_find(d, key);

	if (!o)
		return false;
	if (o->error)
		varlink_error(call, "QueueFailed", json_incref(o->error));
	else if (!strcmp(varlink_call_method(call), "Submit"))
		sharing_reply_int(call, "task", o->first);
	else
		dispatch_reply_many(d, call, o->first, o->accepted);
	return true;
}

void dispatch_repeated_free(struct dispatch *d)
{
	for (int i = 0; d->repeated && i < SETS * WAYS; i++)
		json_decref(d->repeated->sets[i / WAYS][i % WAYS].error);
	free(d->repeated);
}
