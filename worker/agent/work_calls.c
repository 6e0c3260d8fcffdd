/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's place at the queue: a connection of its own, for as long as which it holds its lease.
 * An answer that a signal has kept from being read is read by the next call. In a child of fork()
 * the descriptor is its parent's: it begins anew there.
 */
#include "worker/agent/queue_calls.h"
#include "worker/base/private_agent.h"

#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum {
	LOOK_MS = 100, /* between questions where there is no board to say that there is news */
};

/* Whose answer has yet to be read. */
enum pending {
	PENDING_NOTHING,
	PENDING_WORK,	/* Work */
	PENDING_ANSWER, /* Finish and its like */
	PENDING_BOTH,	/* the same, with what comes next */
};

struct place {
	struct pool *pool; /* of the process that opened conn; NULL: none yet */
	struct conn *conn; /* NULL: none */
	enum pending pending;
	struct varlink_buffer call; /* that is pending, as it may not have gone as a whole; owned */
	struct taken_item taken;    /* refers to the connection's memory, or text */
	char *text;		    /* owned, as are the others */
	void *bytes;
	const char **needs;
	size_t needs_room;
	_Atomic uint64_t seen;	 /* the board's word when it was last looked at */
	_Atomic int64_t look_at; /* without a board: when to ask again */
};

int remote_work_open(struct elasticd_work *w)
{
	w->place = calloc(1, sizeof(struct place));
	return w->place ? 0 : fail_memory();
}

static void item_drop(struct place *p)
{
	free(p->text);
	free(p->bytes);
	p->text = NULL;
	p->bytes = NULL;
}

static void pending_set(struct place *p, enum pending what)
{
	p->pending = what;
	if (what == PENDING_NOTHING)
		varlink_buffer_fini(&p->call);
}

void remote_work_close(struct elasticd_work *w, bool ours)
{
	struct place *p = w->place;

	if (p->pool && ours && pool_is_ours(p->pool))
		conn_drop(p->pool, p->conn);
	else
		conn_abandon(p->conn);
	if (p->pool)
		pool_unref(p->pool);
	pending_set(p, PENDING_NOTHING);
	item_drop(p);
	free(p->needs);
	free(p);
}

void remote_work_renew(struct elasticd_work *w)
{
	struct place *p = w->place;

	conn_abandon(p->conn);
	p->conn = NULL;
	p->pool = NULL;
	pending_set(p, PENDING_NOTHING);
	item_drop(p);
}

/* --- items */

static const char *const kinds[] = {
	[ELASTICD_ITEM_TASK] = "task",
	[ELASTICD_ITEM_BUILD] = "build",
	[ELASTICD_ITEM_CALL] = "call",
	[ELASTICD_ITEM_INIT] = "init",
};

static int kind_of(const struct answer_text *t)
{
	for (int i = 0; t->at && i <= ELASTICD_ITEM_INIT; i++)
		if (strlen(kinds[i]) == t->len && memcmp(kinds[i], t->at, t->len) == 0)
			return i;
	return -1;
}

/* 0, -ENOMEM, -EBADMSG. */
static int needs_take(struct place *p, size_t *ret_n)
{
	char *at = p->taken.resources.at;
	struct answer_text one;
	size_t n = 0;

	while (at && answer_element(&at, &one)) {
		struct answer_text name = { one.at + 1, one.len - 2,
			memchr(one.at, '\\', one.len) };

		if (*one.at != '"')
			return -EBADMSG;
		if (list_grow((void **)&p->needs, &p->needs_room, n + 1, sizeof(char *)) < 0)
			return -ENOMEM;
		p->needs[n++] = answer_in_place(&name);
	}
	*ret_n = n;
	return 0;
}

static int payload_take(struct place *p, struct elasticd_item *item)
{
	struct taken_item *t = &p->taken;
	int r;

	if (t->payload.at) {
		item->payload = answer_in_place(&t->payload);
		item->len = t->payload.len;
		return 0;
	}
	r = bytes_take(&t->payload, &t->base64, &p->bytes, &item->len);
	item->payload = p->bytes ? p->bytes : "";
	return r;
}

static int item_take(struct place *p, struct elasticd_item *item)
{
	struct taken_item *t = &p->taken;
	int r;

	*item = (struct elasticd_item){
		.kind = kind_of(&t->kind),
		.lease = t->lease,
		.limit_ms = t->limit_ms,
		.index = (int)t->index,
		.incarnation = (int)t->incarnation,
		.attempt = (int)t->attempt,
	};
	if (item->kind < 0)
		return -EBADMSG;
	item->task = item->kind == ELASTICD_ITEM_TASK ? t->task : -1;
	r = needs_take(p, &item->n_resources);
	if (r == 0)
		r = payload_take(p, item);
	item->resources = p->needs;
	item->name = answer_in_place(&t->name);
	item->format = answer_in_place(&t->format);
	return r;
}

/* The item of an answer; it may have none. arg is the place. */
static int work_keep(void *to)
{
	struct taken_work *t = to;
	struct place *p = t->place;

	p->taken = (struct taken_item){ .lease = -1 };
	t->came = t->item.at != NULL;
	if (!t->came)
		return 0;
	return answer_object(t->item.at, item_members,
		       sizeof(item_members) / sizeof(item_members[0]), &p->taken) &&
			       p->taken.lease >= 0
		       ? 0
		       : -EBADMSG;
}

static const struct answer_member work_members[] = {
	ANSWER_MEMBER(struct taken_work, ANSWER_RAW, "item", item),
};

/* --- asking */

/* Leases of this process that were cancelled, ever. */
static uint64_t board_word(const struct elasticd_work *w)
{
	return atomic_load_explicit(&w->h->slot->cancels, memory_order_relaxed);
}

/* An item that cannot be taken goes back with the connection. */
static int came_badly(struct place *p, int r)
{
	if (p->conn)
		conn_drop(p->pool, p->conn);
	p->conn = NULL;
	return fail_taken(r);
}

/* The answer of a place's connection to its call; again: which was begun before. A status. */
static int place_ask(struct elasticd_work *w, bool again, struct wait wait, struct taken_work *got,
	bool *ret_closed, bool *ret_answered)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct taking t = { work_members, 1, got, sizeof(got->item), work_keep };
	const struct taker taker = { taking_take, &t };
	struct place *p = w->place;
	int r, e = 0;

	if (!p->pool && !(p->pool = pool_ref(w->h)))
		return fail_memory();
	*got = (struct taken_work){ .place = p };
	r = remote_call_on(w->h, p->pool, &p->conn, &p->call, again, wait, &taker, &in);
	*ret_answered = r == 0 || in.message;
	/* Nobody is left who could submit anything. */
	if (r == ELASTICD_FAILED_PRECONDITION && !*ret_answered && wait.endless) {
		*ret_closed = true;
		return 0;
	}
	/* Until then it may be what is sent again. */
	if (*ret_answered)
		item_drop(p);
	if (in.error && strcmp(in.error, "io.elasticd.Queue.Closed") == 0) {
		*ret_closed = true;
		return 0;
	}
	if (r == 0 && in.message)
		e = taking_again(in.parameters, &t, &p->text);
	if (e < 0)
		return came_badly(p, e);
	return r;
}

/* For what comes next. */
static struct wait wait_next(const struct elasticd_work *w, int timeout_ms)
{
	struct wait wait = WAIT_CALL(timeout_ms);

	wait.endless = w->h->alone && timeout_ms < 0;
	return wait;
}

/* What came, as the place's item. */
static int place_take(struct elasticd_work *w, const struct taken_work *got)
{
	struct place *p = w->place;
	int r;

	if (!got->came)
		return 0;
	r = item_take(p, &w->item);
	w->has = r == 0;
	return r < 0 ? came_badly(p, r) : 0;
}

/* Whether an idle connection had died unnoticed: worth another one. */
static bool place_stale(const struct place *p, bool had, int r, bool answered)
{
	return had && !p->conn && !answered && r == ELASTICD_UNAVAILABLE;
}

static int work_send(struct elasticd_work *w, int timeout_ms, bool *ret_closed)
{
	struct place *p = w->place;
	struct args a = ARGS_EMPTY;
	struct taken_work got;
	bool answered = false, had;
	int r;

	if (timeout_ms >= 0)
		args_int(&a, "timeout_ms", timeout_ms);
	if (args_message(&a, QUEUE_METHOD("Work"), false, &p->call) < 0)
		return fail_memory();
	/* What is cancelled after this is news, even if it is so before the answer was read. */
	atomic_store(&p->seen, board_word(w));
	do {
		had = p->conn != NULL;
		r = place_ask(w, false, wait_next(w, timeout_ms), &got, ret_closed, &answered);
	} while (place_stale(p, had, r, answered));
	pending_set(p, !answered && p->conn ? PENDING_WORK : PENDING_NOTHING);
	return r || *ret_closed ? r : place_take(w, &got);
}

/* --- how it went */

static bool is_kept(int r)
{
	return r == ELASTICD_RESOURCE_EXHAUSTED || r == ELASTICD_INVALID_ARGUMENT;
}

/* After an answer to Finish or Fail, or none: whether its item is over. */
static void answered_came(struct elasticd_work *w, int r, bool answered, bool next)
{
	struct place *p = w->place;

	if (!answered && p->conn) {
		pending_set(p, next ? PENDING_BOTH : PENDING_ANSWER);
		return;
	}
	pending_set(p, PENDING_NOTHING);
	/* Without a connection nothing is held any more. */
	if (!answered || !is_kept(r))
		w->has = false;
}

/* The rest of what was sent before. *ret_late: it waited for as long as it was to then. */
static int pending_read(struct elasticd_work *w, int timeout_ms, bool *ret_closed, bool *ret_late)
{
	struct wait wait = wait_next(w, timeout_ms);
	struct place *p = w->place;
	bool answered = false, both = p->pending == PENDING_BOTH;
	struct taken_work got = { .place = p };
	int r;

	if (p->pending == PENDING_ANSWER)
		wait = WAIT_PROMPT;
	r = place_ask(w, true, wait, &got, ret_closed, &answered);
	*ret_late = answered && r == ELASTICD_DEADLINE_EXCEEDED;
	if (p->pending == PENDING_WORK)
		pending_set(p, !answered && p->conn ? PENDING_WORK : PENDING_NOTHING);
	else
		answered_came(w, r, answered, both);
	return r || *ret_closed ? r : place_take(w, &got);
}

bool remote_work_under_way(const struct elasticd_work *w)
{
	const struct place *p = w->place;

	return p->pending == PENDING_BOTH;
}

static int work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed)
{
	struct place *p = w->place;
	int64_t end = clock_end(timeout_ms), left;
	bool late;
	int r;

	if (p->pending == PENDING_NOTHING)
		return work_send(w, timeout_ms, ret_closed);
	r = pending_read(w, timeout_ms, ret_closed, &late);
	if (!late)
		return r;
	left = end - clock_ms();
	if (timeout_ms >= 0 && left <= 0)
		return r;
	return work_send(w, timeout_ms < 0 ? -1 : (int)left, ret_closed);
}

/* At most max bytes of it. */
static void args_cut(struct args *a, const char *name, const char *text, size_t max)
{
	_cleanup_free_ char *cut = NULL;

	if (!text || strlen(text) <= max) {
		args_text(a, name, text);
		return;
	}
	cut = malloc(max + 1);
	if (!cut) {
		a->text.failed = true;
		return;
	}
	text_cut(cut, max + 1, text);
	args_text(a, name, cut);
}

static void args_failure(struct args *a, const struct elasticd_failure *f)
{
	args_text(a, "code", status_name((enum status)f->code));
	args_cut(a, "message", f->message, QUEUE_TEXT_MAX);
	args_cut(a, "details", f->details, QUEUE_DETAILS_MAX);
	args_true(a, "retryable", f->retryable);
	if (f->retryable)
		args_text(a, "blame", f->blame);
}

static const char *args_verdict(struct args *a, int64_t lease, const struct verdict *v)
{
	args_int(a, "lease", lease);
	if (v->back)
		return QUEUE_METHOD("PutBack");
	if (v->failure) {
		args_failure(a, v->failure);
		return QUEUE_METHOD("Fail");
	}
	if (v->value)
		args_bytes(a, "value", v->value->data ? v->value->data : "", v->value->len);
	if (*format_of(v->value))
		args_text(a, "format", v->value->format);
	return QUEUE_METHOD("Finish");
}

static int answer_send(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	struct taken_work *got, bool *ret_closed)
{
	struct place *p = w->place;
	struct args a = ARGS_EMPTY;
	const char *method = args_verdict(&a, w->item.lease, v);
	bool answered = false;
	int r;

	args_true(&a, "next", next);
	if (next && timeout_ms >= 0)
		args_int(&a, "timeout_ms", timeout_ms);
	if (args_message(&a, method, false, &p->call) < 0)
		return fail_memory();
	if (next)
		atomic_store(&p->seen, board_word(w));
	r = place_ask(w, false, next ? wait_next(w, timeout_ms) : WAIT_PROMPT, got, ret_closed,
		&answered);
	answered_came(w, r, answered, next);
	return r;
}

static int work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed)
{
	struct place *p = w->place;
	struct taken_work got = { .came = false };
	bool late;
	int r;

	if (p->pending == PENDING_ANSWER) {
		r = pending_read(w, -1, ret_closed, &late);
		return r || !next ? r : work_next(w, timeout_ms, ret_closed);
	}
	r = answer_send(w, v, next, timeout_ms, &got, ret_closed);
	return r || *ret_closed ? r : place_take(w, &got);
}

/* --- outside elasticd, where nobody else is, what is not there by now never comes */

static bool is_last(const struct elasticd_work *w, int timeout_ms)
{
	return w->h->alone && timeout_ms < 0 && alone_single();
}

static int last_came(int r, bool last, bool *ret_closed)
{
	if (!last || r != ELASTICD_DEADLINE_EXCEEDED)
		return r;
	*ret_closed = true;
	return 0;
}

int remote_work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed)
{
	bool last = is_last(w, timeout_ms);
	int r = work_next(w, last ? 0 : timeout_ms, ret_closed);

	return last_came(r, last, ret_closed);
}

int remote_work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed)
{
	bool last = next && is_last(w, timeout_ms);
	int r = work_answer(w, v, next, last ? 0 : timeout_ms, ret_closed);

	return last_came(r, last, ret_closed);
}

/* --- cancellation */

struct taken_look {
	struct answer_text reason;
	bool cancelled;
};
static const struct answer_member look_members[] = {
	ANSWER_MEMBER(struct taken_look, ANSWER_BOOL, "cancelled", cancelled),
	ANSWER_MEMBER(struct taken_look, ANSWER_TEXT, "reason", reason),
};

static int look_keep(void *to)
{
	struct taken_look *t = to;
	char *reason;

	if (!t->cancelled)
		return 0;
	if (answer_copy(&t->reason, &reason, NULL) < 0)
		return -ENOMEM;
	fail(ELASTICD_CANCELLED, "%s", *reason ? reason : "the task was cancelled");
	free(reason);
	return 0;
}

/* Asks, on any connection: leases are the process's. Any thread may. */
static bool look(struct elasticd_work *w, int64_t lease)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	struct taken_look got = { .cancelled = false };
	struct taking t = { look_members, 2, &got, sizeof(got), look_keep };
	const struct taker taker = { taking_take, &t };
	struct args a = ARGS_EMPTY;
	int r;

	args_int(&a, "lease", lease);
	r = remote_ask(w->h, QUEUE_METHOD("Look"), &a, WAIT_PROMPT, &taker, &answer);
	if (r == 0 && answer && taking_again(answer, &t, &text) < 0)
		return false;
	return r == 0 ? got.cancelled : r == ELASTICD_NOT_FOUND || r == ELASTICD_CANCELLED;
}

/* Whether something may have happened since it was last asked about. */
static bool is_news(struct elasticd_work *w, uint64_t *ret_word)
{
	struct place *p = w->place;
	int64_t now;

	*ret_word = board_word(w);
	if (w->h->board_mapped || w->h->alone)
		return *ret_word != atomic_load(&p->seen);
	now = clock_ms();
	if (now < atomic_load(&p->look_at))
		return false;
	atomic_store(&p->look_at, now + LOOK_MS);
	return true;
}

bool remote_work_cancelled(struct elasticd_work *w)
{
	int64_t lease = atomic_load(&w->lease);
	struct place *p = w->place;
	uint64_t word;

	if (lease < 0 || !is_news(w, &word))
		return false;
	if (look(w, lease)) {
		atomic_store(&p->look_at, 0);
		return true;
	}
	atomic_store(&p->seen, word);
	return false;
}
