/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dispatch_private.h"
#include "common/json.h"

#include <string.h>

enum { LIST_DEFAULT = 1000 };

/* A bit for each state. */
static unsigned states_of(const json_t *list)
{
	const json_t *name;
	unsigned states = 0;
	size_t i;

	json_array_foreach (list, i, name)
		for (unsigned s = 0; s < QUEUE_N_STATES; s++)
			if (!strcmp(json_string_value(name), dispatch_state_name(s)))
				states |= 1u << s;
	return list ? states : ~0u;
}

int dispatch_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_door *door = arg;
	struct dispatch *d = door->d;
	const char *queue = json_get_string(p, "queue", NULL);
	unsigned states = states_of(json_get_array(p, "states"));
	int64_t limit = json_get_int(p, "limit", LIST_DEFAULT), n = 0;
	struct queue_outcome o = { .task = json_get_int(p, "after", -1) };
	struct worker_text *t;
	bool more = false;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)) ||
		(door->workers && worker_too_much_unread(call)))
		return 0;
	t = dispatch_text_begin(d);
	dispatch_put(t, "{\"tasks\":[");
	while (!more && queue_after(d->q, queue, o.task, &o)) {
		if (!(states & 1u << o.state))
			continue;
		more = n == limit || t->len >= DISPATCH_ANSWER_BYTES;
		if (more)
			break;
		if (n++)
			dispatch_put(t, ",");
		dispatch_text_info(d, t, &o);
	}
	if (more)
		dispatch_put(t, "],\"more\":true}");
	else
		dispatch_put(t, "],\"more\":false}");
	return dispatch_text_reply(d, call);
}

int dispatch_stats(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_door *door = arg;
	struct dispatch *d = door->d;
	struct queue_stats s;
	json_t *stats, *answer;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	queue_stats(d->q, json_get_string(p, "queue", NULL), &s);
	stats = json_object();
	for (unsigned i = 0; i < QUEUE_N_STATES; i++)
		json_put_int(stats, dispatch_state_name(i), (int64_t)s.n[i]);
	json_put_int(stats, "put_back", (int64_t)s.put_back);
	json_put_int(stats, "bytes", (int64_t)s.bytes);
	json_put_int(stats, "waiting", (int64_t)s.waiting);
	json_put_int(stats, "workers", (int64_t)s.workers);
	json_put_int(stats, "free", (int64_t)s.free);
	if (s.has_error)
		json_put(stats, "error", dispatch_error_json(d, &s.error));
	json_put(stats, "closed", json_boolean(s.closed));
	answer = json_object();
	json_put(answer, "stats", stats);
	return varlink_reply(call, answer);
}
