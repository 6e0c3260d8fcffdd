/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/members_private.h"
#include "agent/sync/slot_set.h"

#include <errno.h>

void members_reply_unref(struct members_reply *reply)
{
	if (!reply || --reply->refs)
		return;
	free(reply->text);
	free(reply);
}

struct members_reply *members_reply_new(size_t n)
{
	struct members_reply *reply = calloc(1, sizeof(*reply) + n * sizeof(int));

	if (reply)
		reply->refs = 1;
	return reply;
}

/* --- the queue of decided waits --- */

static void members_wait_free(struct members *m, struct members_wait *w)
{
	TAILQ_REMOVE(w->home, w, link);
	chain_remove(&m->tokens, &w->node);
	members_error_unref(m, w->shared);
	members_reply_unref(w->reply);
	free(w);
}

static void members_announce_error(struct members *m)
{
	struct members_shared_error *shared = m->error;

	if (!shared || m->error_announced)
		return;
	m->error_announced = true;
	members_error_ref(shared);
	if (m->opt.error)
		m->opt.error(m->opt.arg, &shared->error);
	members_error_unref(m, shared);
}

static void members_answer_wait(struct members *m, struct members_wait *w)
{
	struct members_shared_error *shared = w->shared ? members_error_ref(w->shared) : NULL;
	struct members_reply *reply = w->reply;
	struct members_answer answer = { .status = w->status };
	void *token = w->token;
	char text[512] = "";

	if (w->text)
		slots_append(text, sizeof(text), w->text);
	answer.message = text;
	if (shared)
		answer.error = &shared->error;
	if (reply) {
		reply->refs++;
		answer.message = reply->message;
		answer.slots = reply->slots;
		answer.n = reply->n;
		answer.text = &reply->text;
	}
	members_wait_free(m, w);
	m->opt.answer(m->opt.arg, token, &answer);
	members_error_unref(m, shared);
	members_reply_unref(reply);
}

void members_drain(struct members *m)
{
	struct members_wait *w;

	if (m->draining)
		return;
	m->draining = true;
	do {
		members_announce_error(m);
		w = TAILQ_FIRST(&m->ready);
		if (w)
			members_answer_wait(m, w);
	} while (w);
	m->draining = false;
}

/* --- calls of ALIVE --- */

static struct members_caller *members_caller(const struct members_query *q, int slot)
{
	return bsearch(&slot, q->callers, q->n, sizeof(q->callers[0]), slot_compare);
}

static void members_query_free(struct members *m, struct members_query *q)
{
	if (m->everyone == q)
		m->everyone = NULL;
	TAILQ_REMOVE(&m->queries, q, link);
	chain_remove(&m->sets, &q->node);
	members_reply_unref(q->reply);
	free(q);
}

/* Takes w off its list. Frees its query if no waits are left. */
static void members_wait_remove(struct members *m, struct members_wait *w)
{
	struct members_query *q = w->query;

	TAILQ_REMOVE(w->home, w, link);
	w->home = NULL;
	w->query = NULL;
	if (w->deadline_ms != UINT64_MAX && w->deadline_ms <= m->deadline_ms)
		m->deadline_known = false;
	if (!q)
		return;
	members_caller(q, w->slot)->calls--;
	q->missing = 0;
	if (TAILQ_EMPTY(&q->waits))
		members_query_free(m, q);
}

void members_wait_ready(struct members *m, struct members_wait *w, enum status status,
	const char *text, struct members_shared_error *shared, struct members_reply *reply)
{
	if (shared)
		members_error_ref(shared);
	if (reply)
		reply->refs++;
	if (w->home)
		members_wait_remove(m, w);
	w->status = status;
	w->text = text;
	w->shared = shared;
	w->reply = reply;
	w->home = &m->ready;
	TAILQ_INSERT_TAIL(&m->ready, w, link);
}

static bool members_may_call(const struct members *m, int slot)
{
	const struct member *member = members_get(m, slot);

	return member && member->alive && !member->left;
}

/* True when every member of the set that can call has called. */
static bool members_query_complete(const struct members *m, struct members_query *q)
{
	for (; q->missing < q->n; q->missing++)
		if (!q->callers[q->missing].calls &&
			members_may_call(m, q->callers[q->missing].slot))
			return false;
	return true;
}

static void members_query_answer(struct members *m, struct members_query *q)
{
	struct members_reply *reply = q->reply;
	struct members_wait *w, *next;

	reply->n = 0;
	reply->message[0] = '\0';
	for (size_t i = 0; i < q->n; i++)
		if (members_may_call(m, q->callers[i].slot))
			reply->slots[reply->n++] = q->callers[i].slot;
	reply->refs++;
	for (w = TAILQ_FIRST(&q->waits); w; w = next) {
		next = TAILQ_NEXT(w, link); /* the last one frees q */
		members_wait_ready(m, w, STATUS_OK, NULL, NULL, reply);
	}
	members_reply_unref(reply);
}

static uint64_t members_set_hash(const struct slot_set *set)
{
	return chain_hash(set->slots, set->n * sizeof(*set->slots));
}

static struct members_query *members_query_find(const struct members *m, const struct slot_set *set)
{
	for (struct chain_node *node = chain_first(&m->sets, members_set_hash(set)); node;
		node = chain_next(node)) {
		struct members_query *q = (struct members_query *)node;
		size_t i = 0;

		while (q->n == set->n && i < q->n && q->callers[i].slot == set->slots[i])
			i++;
		if (q->n == set->n && i == q->n)
			return q;
	}
	return NULL;
}

static struct members_query *members_query_new(struct members *m, const struct slot_set *set)
{
	struct members_query *q;
	size_t n = set->n;

	if (chain_reserve(&m->sets) < 0)
		return NULL;
	q = calloc(1, sizeof(*q) + n * sizeof(q->callers[0]));
	if (!q)
		return NULL;
	q->reply = members_reply_new(n);
	if (!q->reply) {
		free(q);
		return NULL;
	}
	TAILQ_INIT(&q->waits);
	q->n = n;
	for (size_t i = 0; i < n; i++)
		q->callers[i].slot = set->slots[i];
	TAILQ_INSERT_TAIL(&m->queries, q, link);
	chain_put(&m->sets, &q->node, members_set_hash(set));
	return q;
}

/* --- events --- */

void members_waits_error(struct members *m)
{
	struct members_wait *w;

	while ((w = TAILQ_FIRST(&m->error_waits)))
		members_wait_ready(m, w, STATUS_OK, NULL, m->error, NULL);
	members_leave_check(m);
}

void members_waits_started(struct members *m)
{
	struct members_query *q;

	TAILQ_FOREACH (q, &m->queries, link)
		q->missing = 0;
}

void members_waits_changed(struct members *m)
{
	struct members_query *next;

	for (struct members_query *q = TAILQ_FIRST(&m->queries); q; q = next) {
		next = TAILQ_NEXT(q, link);
		q->missing = 0;
		if (members_query_complete(m, q))
			members_query_answer(m, q);
	}
	members_leave_check(m);
}

static void members_list_ended(struct members *m, struct members_waits *list, int slot)
{
	struct members_wait *next;

	for (struct members_wait *w = TAILQ_FIRST(list); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->slot == slot)
			members_wait_ready(m, w, STATUS_CANCELLED, "the worker's process has ended",
				NULL, NULL);
	}
}

void members_waits_ended(struct members *m, int slot)
{
	struct members_query *next;

	for (struct members_query *q = TAILQ_FIRST(&m->queries); q; q = next) {
		next = TAILQ_NEXT(q, link);
		members_list_ended(m, &q->waits, slot);
	}
	members_list_ended(m, &m->leave_waits, slot);
}

void members_waits_end(struct members *m, enum status status, const char *text)
{
	struct members_query *q;
	struct members_wait *w;

	while ((q = TAILQ_FIRST(&m->queries)))
		members_wait_ready(m, TAILQ_FIRST(&q->waits), status, text, NULL, NULL);
	while ((w = TAILQ_FIRST(&m->error_waits)))
		members_wait_ready(m, w, status, text, NULL, NULL);
	members_leave_all(m, status, text, NULL);
}

void members_waits_free(struct members *m)
{
	struct members_wait *w;

	members_waits_end(m, STATUS_CANCELLED, NULL);
	while ((w = TAILQ_FIRST(&m->ready)))
		members_wait_free(m, w);
	chain_fini(&m->tokens);
	chain_fini(&m->sets);
}

struct members_wait *members_wait_new(
	struct members *m, int slot, uint64_t deadline_ms, void *token)
{
	struct members_wait *w;

	if (chain_reserve(&m->tokens) < 0)
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct members_wait){ .token = token, .slot = slot, .deadline_ms = deadline_ms };
	chain_put(&m->tokens, &w->node, chain_hash_pointer(token));
	return w;
}

void members_wait_at(struct members *m, struct members_wait *w, struct members_waits *home)
{
	w->home = home;
	TAILQ_INSERT_TAIL(home, w, link);
	if (w->deadline_ms < m->deadline_ms)
		m->deadline_ms = w->deadline_ms;
}

/* --- calls --- */

int members_wait_error(struct members *m, uint64_t deadline_ms, void *token)
{
	struct members_wait *w = members_wait_new(m, -1, deadline_ms, token);

	if (!w)
		return -ENOMEM;
	if (m->error)
		members_wait_ready(m, w, STATUS_OK, NULL, m->error, NULL);
	else if (m->stopped)
		members_wait_ready(m, w, m->stop_status, m->stop_text, NULL, NULL);
	else
		members_wait_at(m, w, &m->error_waits);
	members_drain(m);
	return 0;
}

/* Adds the wait to the query with this set, or to that of all callers without one. */
static int members_query_add(
	struct members *m, struct members_wait *w, const struct slot_set *set, bool by_default)
{
	bool begun = by_default && members_begun_default(m, w->slot);
	struct members_query *q = begun ? m->everyone : members_query_find(m, set);

	if (!q)
		q = members_query_new(m, set);
	if (!q)
		return -ENOMEM;
	if (by_default)
		m->everyone = q;
	w->query = q;
	members_caller(q, w->slot)->calls++;
	members_wait_at(m, w, &q->waits);
	if (members_query_complete(m, q))
		members_query_answer(m, q);
	return 0;
}

bool members_begun_default(const struct members *m, int slot)
{
	return m->everyone && members_caller(m->everyone, slot);
}

int members_wait_alive(struct members *m, int slot, const int *list, size_t n, bool by_default,
	uint64_t deadline_ms, void *token)
{
	_cleanup_(slot_set_fini) struct slot_set set;
	struct members_wait *w;
	int r = slot_set_init(&set, list, n);

	if (r < 0)
		return r;
	w = members_wait_new(m, slot, deadline_ms, token);
	if (!w)
		return -ENOMEM;
	if (m->stopped)
		members_wait_ready(m, w, m->stop_status, m->stop_text, NULL, NULL);
	else if (!slot_set_has(&set, slot))
		members_wait_ready(m, w, STATUS_INVALID_ARGUMENT,
			"members: expected the calling worker among them", NULL, NULL);
	else
		r = members_query_add(m, w, &set, by_default);
	if (r < 0) {
		chain_remove(&m->tokens, &w->node);
		free(w);
	}
	members_drain(m);
	return r;
}

void members_forget(struct members *m, void *token)
{
	struct chain_node *node = chain_first(&m->tokens, chain_hash_pointer(token));
	struct members_wait *w;

	while (node && ((struct members_wait *)node)->token != token)
		node = chain_next(node);
	if (!node)
		return;
	w = (struct members_wait *)node;
	if (w->home != &m->ready)
		members_wait_ready(m, w, STATUS_CANCELLED, NULL, NULL, NULL);
	members_wait_free(m, w);
}

/* The members of q that have not called, with a text that names them; NULL without memory. */
static struct members_reply *members_not_called(
	const struct members *m, const struct members_query *q)
{
	struct members_reply *reply = members_reply_new(q->n);

	if (!reply)
		return NULL;
	for (size_t i = 0; i < q->n; i++)
		if (!q->callers[i].calls && members_may_call(m, q->callers[i].slot))
			reply->slots[reply->n++] = q->callers[i].slot;
	slots_append(reply->message, sizeof(reply->message),
		"some living members have not called Alive in time; missing: ");
	slots_append_names(reply->message, sizeof(reply->message), reply->slots, reply->n,
		m->opt.name, m->opt.arg);
	return reply;
}

static bool members_wait_overdue(const struct members_wait *w, uint64_t now_ms, uint64_t *next_ms)
{
	if (w->deadline_ms == UINT64_MAX)
		return false;
	if (w->deadline_ms <= now_ms)
		return true;
	if (w->deadline_ms < *next_ms)
		*next_ms = w->deadline_ms;
	return false;
}

/* Ends the overdue waits of q. The last wait frees q. */
static void members_query_expire(
	struct members *m, struct members_query *q, uint64_t now_ms, uint64_t *next_ms)
{
	struct members_reply *reply = NULL;
	struct members_wait *w, *next;

	for (w = TAILQ_FIRST(&q->waits); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (!members_wait_overdue(w, now_ms, next_ms))
			continue;
		if (!reply)
			reply = members_not_called(m, q);
		members_wait_ready(m, w, STATUS_DEADLINE_EXCEEDED,
			"some living members have not called Alive in time", NULL, reply);
	}
	members_reply_unref(reply);
}

/* Ends waits that are overdue, and finds the next deadline. */
static void members_scan(struct members *m, uint64_t now_ms, int64_t now_us)
{
	struct members_query *q, *next_q;
	struct members_wait *w, *next;
	uint64_t next_ms = UINT64_MAX;
	bool leave = false;

	for (w = TAILQ_FIRST(&m->error_waits); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (members_wait_overdue(w, now_ms, &next_ms))
			members_wait_ready(m, w, STATUS_DEADLINE_EXCEEDED,
				"the group had no error in this time", NULL, NULL);
	}
	for (q = TAILQ_FIRST(&m->queries); q; q = next_q) {
		next_q = TAILQ_NEXT(q, link);
		members_query_expire(m, q, now_ms, &next_ms);
	}
	TAILQ_FOREACH (w, &m->leave_waits, link)
		leave = members_wait_overdue(w, now_ms, &next_ms) || leave;
	if (leave)
		members_leave_overdue(m, now_us);
	m->deadline_ms = next_ms; /* at worst too early */
	m->deadline_known = true;
}

uint64_t members_expire(struct members *m, uint64_t now_ms, int64_t now_us)
{
	while (!m->deadline_known || (m->deadline_ms <= now_ms && m->deadline_ms != UINT64_MAX)) {
		members_scan(m, now_ms, now_us);
		members_drain(m);
	}
	return m->deadline_ms;
}
