/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/members_private.h"
#include "common/base/array.h"
#include "common/base/printable.h"

#include <errno.h>
#include <string.h>

int members_new(const struct members_options *opt, struct members **ret)
{
	struct members *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->opt = *opt;
	m->deadline_ms = UINT64_MAX;
	m->deadline_known = true;
	TAILQ_INIT(&m->queries);
	TAILQ_INIT(&m->error_waits);
	TAILQ_INIT(&m->leave_waits);
	TAILQ_INIT(&m->ready);
	*ret = m;
	return 0;
}

static void members_clear(struct members *m)
{
	for (size_t i = 0; i < m->n_slots; i++)
		members_error_unref(m, m->slots[i].own);
	if (m->n_slots)
		memset(m->slots, 0, m->n_slots * sizeof(*m->slots));
	m->error = members_error_unref(m, m->error);
	m->error_announced = false;
	members_leave_clear(m);
	m->stopped = false;
}

struct members *members_free(struct members *m)
{
	if (!m)
		return NULL;
	members_waits_free(m);
	members_clear(m);
	free(m->slots);
	free(m);
	return NULL;
}

void members_reset(struct members *m)
{
	members_waits_end(m, STATUS_CANCELLED, "another attempt of the group begins");
	members_clear(m);
	members_drain(m);
}

void members_stop(struct members *m, enum status status, const char *message)
{
	m->stopped = true;
	m->stop_status = status;
	m->stop_text[0] = '\0';
	slots_append(m->stop_text, sizeof(m->stop_text), message);
	members_waits_end(m, status, m->stop_text);
	members_drain(m);
}

struct member *members_get(const struct members *m, int slot)
{
	if (slot < 0 || (size_t)slot >= m->n_slots || !m->slots[slot].known)
		return NULL;
	return &m->slots[slot];
}

static int members_grow(struct members *m, size_t n)
{
	struct member *bigger;

	if (n <= m->n_slots)
		return 0;
	if (n < m->n_slots * 2)
		n = m->n_slots * 2;
	bigger = array_grow(m->slots, m->n_slots, n, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	m->slots = bigger;
	m->n_slots = n;
	return 0;
}

void members_set_error(struct members *m, struct members_shared_error *shared)
{
	if (m->error)
		return;
	m->error = members_error_ref(shared);
	m->error_announced = false;
	members_waits_error(m);
}

/* The group's error was that of slot's last process: replaces it by the next one. */
static void members_error_over(struct members *m, int slot)
{
	struct members_shared_error *next = NULL;

	if (!m->error || m->leave_failed || m->error->error.slot != slot)
		return;
	m->error = members_error_unref(m, m->error);
	for (size_t i = 0; i < m->n_slots; i++) {
		const struct member *member = &m->slots[i];

		if (member->counts && (!next || member->own->error.time_us < next->error.time_us))
			next = member->own;
	}
	if (next)
		members_set_error(m, next);
}

int members_started(struct members *m, int slot, bool recoverable, bool observer)
{
	struct member *member;
	int r;

	if (slot < 0 || slot >= MEMBERS_SLOTS)
		return -EINVAL;
	r = members_grow(m, (size_t)slot + 1);
	if (r < 0)
		return r;
	member = &m->slots[slot];
	members_error_unref(m, member->own);
	*member = (struct member){
		.known = true, .alive = true, .recoverable = recoverable, .observer = observer
	};
	members_error_over(m, slot);
	members_waits_started(m);
	members_drain(m);
	return 0;
}

struct members_shared_error *members_error_ref(struct members_shared_error *shared)
{
	shared->refs++;
	return shared;
}

struct members_shared_error *members_error_unref(
	struct members *m, struct members_shared_error *shared)
{
	if (shared && --shared->refs == 0 && shared != &m->spare)
		free(shared);
	return NULL;
}

struct members_shared_error *members_error_new(
	enum status code, const char *message, int slot, bool reported, int64_t time_us)
{
	size_t len = strlen(message);
	struct members_shared_error *shared;

	if (len > MEMBERS_ERROR_MAX)
		len = printable_cut(message, MEMBERS_ERROR_MAX);
	shared = malloc(sizeof(*shared) + len + 1);
	if (!shared)
		return NULL;
	*shared = (struct members_shared_error){ .refs = 1,
		.error = { .code = code,
			.message = (char *)(shared + 1),
			.slot = slot,
			.reported = reported,
			.time_us = time_us } };
	memcpy(shared->error.message, message, len);
	shared->error.message[len] = '\0';
	return shared;
}

/* The error for slot's bad end. Without memory the spare one; NULL when that is in use. */
static struct members_shared_error *members_end_error(
	struct members *m, int slot, const char *why, int64_t now_us)
{
	char text[512] = "";
	struct members_shared_error *shared;

	slots_append(text, sizeof(text), m->opt.name(m->opt.arg, slot));
	slots_append(text, sizeof(text), " ended");
	if (why && *why) {
		slots_append(text, sizeof(text), ": ");
		slots_append(text, sizeof(text), why);
	}
	shared = members_error_new(STATUS_UNAVAILABLE, text, slot, false, now_us);
	if (shared || m->spare.refs)
		return shared;
	m->spare_text[0] = '\0';
	slots_append(m->spare_text, sizeof(m->spare_text), text);
	m->spare = (struct members_shared_error){ .refs = 1,
		.error = { .code = STATUS_UNAVAILABLE,
			.message = m->spare_text,
			.slot = slot,
			.time_us = now_us } };
	return &m->spare;
}

/* Makes shared, member's own error, count for the group. */
static void members_count(
	struct members *m, struct member *member, struct members_shared_error *shared)
{
	member->counts = true;
	members_set_error(m, shared);
}

void members_ended(struct members *m, int slot, bool bad, const char *why, int64_t now_us)
{
	struct member *member = members_get(m, slot);
	struct members_shared_error *shared;

	if (!member || !member->alive)
		return;
	member->alive = false;
	members_waits_ended(m, slot);
	shared = bad ? members_end_error(m, slot, why, now_us) : NULL;
	if (shared) {
		if (!member->own)
			member->own = members_error_ref(shared);
		if (!member->recoverable && !member->observer && !member->left)
			members_count(m, member, shared);
		members_error_unref(m, shared);
	}
	members_waits_changed(m);
	members_drain(m);
}

int members_report(
	struct members *m, int slot, enum status code, const char *message, int64_t now_us)
{
	struct member *member = members_get(m, slot);
	struct members_shared_error *shared;

	if (!member)
		return -EINVAL;
	shared = members_error_new(code, message ? message : "", slot, true, now_us);
	if (!shared)
		return -ENOMEM;
	if (!member->own || !member->own->error.reported) {
		members_error_unref(m, member->own);
		member->own = members_error_ref(shared);
	}
	if (!member->recoverable)
		members_count(m, member, shared);
	members_error_unref(m, shared);
	members_drain(m);
	return 0;
}

const struct members_error *members_group_error(const struct members *m)
{
	return m->error ? &m->error->error : NULL;
}

const struct members_error *members_reported_error(const struct members *m)
{
	const struct members_error *oldest = NULL;

	if (m->error && m->error->error.reported)
		return &m->error->error;
	for (size_t i = 0; m->error && i < m->n_slots; i++) {
		const struct member *member = &m->slots[i];
		const struct members_error *e =
			member->counts && member->own ? &member->own->error : NULL;

		if (e && e->reported && (!oldest || e->time_us < oldest->time_us))
			oldest = e;
	}
	return oldest;
}

const struct members_error *members_own_error(const struct members *m, int slot)
{
	const struct member *member = members_get(m, slot);

	return member && member->own ? &member->own->error : NULL;
}

bool members_healthy(const struct members *m, int slot)
{
	const struct member *member = members_get(m, slot);

	return member && member->alive && !member->own && !member->left;
}

bool members_left(const struct members *m, int slot)
{
	const struct member *member = members_get(m, slot);

	return member && member->left;
}
