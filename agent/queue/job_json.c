/* SPDX-License-Identifier: Apache-2.0 */
/* The work queue as a part of the job, for people. */
#include "agent/queue/group_hooks_private.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_used(const struct supervisor *sv, struct queue_stats *s)
{
	const struct dispatch_group *g = dispatch_group_of(sv);

	if (!g)
		return false;
	queue_stats(g->d->q, NULL, s);
	return s->over || s->waiting || s->has_error || s->n[QUEUE_QUEUED] || s->n[QUEUE_RUNNING];
}

json_t *dispatch_json(const struct supervisor *sv)
{
	struct queue_stats s;
	json_t *j;

	if (!is_used(sv, &s))
		return NULL;
	j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "queued",
		(json_int_t)s.n[QUEUE_QUEUED], "running", (json_int_t)s.n[QUEUE_RUNNING],
		"succeeded", (json_int_t)s.n[QUEUE_SUCCEEDED], "failed",
		(json_int_t)s.n[QUEUE_FAILED], "cancelled", (json_int_t)s.n[QUEUE_CANCELLED],
		"over", (json_int_t)s.over, "put_back", (json_int_t)s.put_back, "workers",
		(json_int_t)s.workers);
	if (s.has_error)
		json_put_string(j, "error", s.error.message);
	return j;
}

void dispatch_text(const struct supervisor *sv, char *text, size_t size)
{
	struct queue_stats s;

	text[0] = '\0';
	if (!is_used(sv, &s))
		return;
	/* The message of a failure may have many lines. */
	snprintf(text, size, "queue: %zu queued, %zu running, %" PRIu64 " over, %zu workers%s%.*s",
		s.n[QUEUE_QUEUED], s.n[QUEUE_RUNNING], s.over, s.workers,
		s.has_error ? "; error: " : "",
		s.has_error ? (int)strcspn(s.error.message, "\n") : 0,
		s.has_error ? s.error.message : "");
}
