/* SPDX-License-Identifier: Apache-2.0 */
/* The shutdown barrier of the members. */
#include "agent/sync/members_private.h"

#include <errno.h>
#include <stdio.h>

/* True when leaves wait for this member. */
static bool members_must_leave(const struct member *member)
{
	return member->known && member->alive && !member->left && !member->recoverable &&
	       !member->observer;
}

/* The members that have not left, with a text that starts with begin; NULL without memory. */
static struct members_reply *members_not_left(const struct members *m, const char *begin)
{
	struct members_reply *reply = members_reply_new(m->n_slots);
	size_t all = 0, left = 0;
	char text[96];

	if (!reply)
		return NULL;
	for (size_t i = 0; i < m->n_slots; i++) {
		const struct member *member = &m->slots[i];

		if (!member->known || member->recoverable || member->observer)
			continue;
		all++;
		left += member->left;
		if (members_must_leave(member))
			reply->slots[reply->n++] = (int)i;
	}
	snprintf(text, sizeof(text), ": %zu of %zu have left", left, all);
	slots_append_cut(reply->message, sizeof(reply->message), begin, 300);
	slots_append(reply->message, sizeof(reply->message), text);
	if (all > left + reply->n) {
		snprintf(text, sizeof(text), ", %zu ended without leaving", all - left - reply->n);
		slots_append(reply->message, sizeof(reply->message), text);
	}
	if (reply->n > 0) {
		slots_append(reply->message, sizeof(reply->message), "; missing: ");
		slots_append_names(reply->message, sizeof(reply->message), reply->slots, reply->n,
			m->opt.name, m->opt.arg);
	}
	return reply;
}

void members_leave_all(
	struct members *m, enum status status, const char *text, struct members_reply *reply)
{
	struct members_wait *w;

	while ((w = TAILQ_FIRST(&m->leave_waits)))
		members_wait_ready(m, w, status, text, NULL, reply);
}

void members_leave_clear(struct members *m)
{
	members_reply_unref(m->leave_failed);
	m->leave_failed = NULL;
}

/* The group has an error: leaves no longer wait for members that may never leave. */
static void members_leave_error(struct members *m)
{
	char text[512] = "";
	struct members_reply *reply;

	if (m->leave_failed) {
		members_leave_all(m, STATUS_DEADLINE_EXCEEDED, NULL, m->leave_failed);
		return;
	}
	slots_append(text, sizeof(text), "the group has an error (");
	slots_append_cut(text, sizeof(text), m->error->error.message, 200);
	slots_append(text, sizeof(text), ")");
	reply = members_not_left(m, text);
	members_leave_all(m, STATUS_ABORTED, "the group has an error", reply);
	members_reply_unref(reply);
}

void members_leave_check(struct members *m)
{
	if (TAILQ_EMPTY(&m->leave_waits))
		return;
	if (m->error) {
		members_leave_error(m);
		return;
	}
	for (size_t i = 0; i < m->n_slots; i++)
		if (members_must_leave(&m->slots[i]))
			return;
	members_leave_all(m, STATUS_OK, NULL, NULL);
}

void members_leave_overdue(struct members *m, int64_t now_us)
{
	struct members_reply *reply = members_not_left(m, "the shutdown barrier timed out");
	struct members_shared_error *shared = NULL;

	if (reply && reply->n > 0)
		shared = members_error_new(
			STATUS_DEADLINE_EXCEEDED, reply->message, reply->slots[0], false, now_us);
	members_leave_all(m, STATUS_DEADLINE_EXCEEDED, "the shutdown barrier timed out", reply);
	if (shared && !m->error) {
		m->leave_failed = reply;
		reply->refs++;
		members_set_error(m, shared);
	}
	members_error_unref(m, shared);
	members_reply_unref(reply);
}

int members_leave(struct members *m, int slot, uint64_t deadline_ms, void *token)
{
	struct member *member = members_get(m, slot);
	struct members_wait *w = members_wait_new(m, slot, deadline_ms, token);

	if (!w)
		return -ENOMEM;
	if (member && m->stopped) {
		member->left = true;
		members_wait_ready(m, w, m->stop_status, m->stop_text, NULL, NULL);
	} else if (member) {
		member->left = true;
		members_wait_at(m, w, &m->leave_waits);
		members_waits_changed(m);
	} else {
		members_wait_ready(m, w, STATUS_INVALID_ARGUMENT,
			"the worker is not a member of the group", NULL, NULL);
	}
	members_drain(m);
	return 0;
}
