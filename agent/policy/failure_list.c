/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure_list.h"

#include "agent/policy/root_cause.h"
#include "common/text/json.h"

#include <stdlib.h>

static bool failure_list_is(const json_t *failure, const char *flag)
{
	return json_is_true(json_object_get(failure, flag));
}

struct failure_list_item {
	json_t *failure; /* borrowed */
	struct root_cause_place place;
	size_t at; /* index in the list before it is ordered */
};

static struct root_cause_place failure_list_place(const json_t *failure)
{
	const json_t *exit = json_object_get(failure, "exit");

	return (struct root_cause_place){
		.group = failure_list_is(failure, "made_good")	  ? ROOT_CAUSE_MADE_GOOD
			 : failure_list_is(failure, "collateral") ? ROOT_CAUSE_COLLATERAL
								  : ROOT_CAUSE_ENDED_IT,
		.time_us = json_get_int(failure, "time_us", 0),
		.by_signal = json_object_get(exit, "signal"),
		.out_of_memory = failure_list_is(exit, "out_of_memory"),
	};
}

/* Keeps the order of failures between which nothing decides. */
static int failure_list_compare(const void *pa, const void *pb)
{
	const struct failure_list_item *a = pa, *b = pb;
	int order = root_cause_compare(&a->place, &b->place);

	return order ? order : a->at < b->at ? -1 : a->at > b->at;
}

void failure_list_order(json_t *list)
{
	size_t n = json_array_size(list), i;
	struct failure_list_item *items = calloc(n + 1, sizeof(*items));
	json_t *failure;

	if (!items)
		return; /* the list keeps its order */
	json_array_foreach (list, i, failure)
		items[i] = (struct failure_list_item){ json_incref(failure),
			failure_list_place(failure), i };
	qsort(items, n, sizeof(*items), failure_list_compare);
	for (i = 0; i < n; i++)
		json_array_set_new(list, i, items[i].failure);
	free(items);
}

void failure_list_cut(json_t *list, size_t n)
{
	failure_list_order(list);
	while (json_array_size(list) > n)
		json_array_remove(list, json_array_size(list) - 1);
}

static bool failure_list_same(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "role", "index", "attempt", "pid", "time_us" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *va = json_object_get(a, keys[i]), *vb = json_object_get(b, keys[i]);

		if (va != vb && !json_equal(va, vb))
			return false;
	}
	return true;
}

void failure_list_put_first(json_t *list, const json_t *root)
{
	json_t *failure;
	size_t i;

	json_array_foreach (list, i, failure)
		if (root && i && failure_list_same(failure, root)) {
			json_array_insert(list, 0, failure);
			json_array_remove(list, i + 1);
			return;
		}
}

json_t *failure_list_last(const json_t *list)
{
	json_t *first = NULL, *reported = NULL, *good = NULL, *failure;
	size_t i;

	json_array_foreach (list, i, failure) {
		if (failure_list_is(failure, "collateral"))
			continue;
		if (failure_list_is(failure, "made_good")) {
			if (failure_list_is(failure, "reported") || !good ||
				!failure_list_is(good, "reported"))
				good = failure;
			continue;
		}
		if (!first)
			first = failure;
		if (!reported && failure_list_is(failure, "reported"))
			reported = failure;
	}
	return reported ? reported : first ? first : good;
}
