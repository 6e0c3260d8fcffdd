/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are made again. Who calls from outside of the job may not hear the answer, because
 * elasticd has ended between the two; it makes the same call again, with the same number, and gets
 * the answer that it has not heard: tasks that are in, and the error of a queue, which is told
 * once. The last few thousand numbers are known: each has a place in one of many sets, where the
 * newest ones stay.
 */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <string.h>

enum { SETS = 1024, WAYS = 4 };

struct once {
	uint64_t key; /* 0: the place is free */
	int64_t first;
	size_t accepted;
	json_t *error; /* the parameters of QueueFailed; NULL: it was accepted */
};

struct dispatch_once {
	struct once sets[SETS][WAYS]; /* the newest first */
};

/* The same number is another one for another queue. */
uint64_t dispatch_once_key(int64_t number, const char *queue)
{
	uint64_t key = (uint64_t)number;

	if (!number)
		return 0;
	for (; *queue; queue++)
		key = (key ^ (unsigned char)*queue) * UINT64_C(1099511628211);
	return key ? key : 1;
}

static struct once *set_of(const struct dispatch *d, uint64_t key)
{
	return d->once->sets[(key ^ key >> 32) % SETS];
}

/* The one that is longest there goes. NULL without memory. */
static struct once *place_for(struct dispatch *d, uint64_t key)
{
	struct once *set;

	if (!d->once)
		d->once = calloc(1, sizeof(*d->once));
	if (!d->once)
		return NULL;
	set = set_of(d, key);
	json_decref(set[WAYS - 1].error);
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	*set = (struct once){ .key = key };
	return set;
}

void dispatch_once_keep(const struct dispatch_wait *x)
{
	struct once *o = x->once && x->wait.accepted ? place_for(x->d, x->once) : NULL;

	if (!o)
		return;
	o->first = x->wait.first;
	o->accepted = x->wait.accepted;
}

void dispatch_once_keep_error(const struct dispatch_wait *x, json_t *error)
{
	struct once *o = x->once ? place_for(x->d, x->once) : NULL;

	if (o)
		o->error = json_incref(error);
}

static const struct once *find(const struct dispatch *d, uint64_t key)
{
	const struct once *set = key && d->once ? set_of(d, key) : NULL;

	for (int i = 0; i < WAYS && set; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

bool dispatch_once_answer(struct dispatch *d, struct varlink_call *call, uint64_t key)
{
	const struct once *o = find(d, key);

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

void dispatch_once_free(struct dispatch *d)
{
	for (int i = 0; d->once && i < SETS * WAYS; i++)
		json_decref(d->once->sets[i / WAYS][i % WAYS].error);
	free(d->once);
}
