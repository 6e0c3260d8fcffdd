/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline goes in pieces. All of a piece is written before an answer is read: it fits a socket,
 * so that it is taken even by an agent that waits for its answers to be read, and has no more calls
 * than the agent takes from a connection at once.
 */
#include "worker/agent/worker_calls.h"

#include "common/text/json.h"

enum { PIECE_CALLS = 64, PIECE_BYTES = 64 << 10 };

struct piece {
	struct elasticd_op *ops;
	size_t n, at;
	struct taken_entry entry; /* of the answer that is read */
};

static struct elasticd_op *op_next(struct piece *p)
{
	while (p->ops[p->at].done)
		p->at++;
	return &p->ops[p->at];
}

static struct taker op_taker(struct calls *calls)
{
	struct piece *p = calls->arg;

	p->entry = (struct taken_entry){ .value = NULL };
	switch (op_next(p)->op) {
	case ELASTICD_PUT:
		return (struct taker){ .take = answer_nothing };
	case ELASTICD_GET:
		return (struct taker){ answer_entry, &p->entry };
	default:
		return (struct taker){ .take = NULL };
	}
}

static void op_answered(struct calls *calls, int status, json_t *parameters)
{
	struct piece *p = calls->arg;
	struct elasticd_op *op = op_next(p);
	int r = 0;

	if (status == 0 && op->op == ELASTICD_DELETE) {
		op->ret_deleted = json_get_int(parameters, "deleted", 0);
	} else if (status == 0 && op->op == ELASTICD_GET && p->entry.value) {
		op->ret_value = p->entry.value;
		op->ret_len = p->entry.len;
	} else if (status == 0 && op->op == ELASTICD_GET) {
		r = value_take(json_object_get(parameters, "entry"), &op->ret_value, &op->ret_len);
	}
	op_end(op, r < 0 ? fail_taken(r) : status);
}

static int op_message(
	const struct elasticd_op *op, const char *key, int timeout_ms, struct varlink_buffer *ret)
{
	struct args a = ARGS_EMPTY;

	if (op->op == ELASTICD_PUT)
		args_put(&a, key, op->value ? op->value : "", op->len, op->flags);
	else if (op->op == ELASTICD_GET)
		args_get(&a, key, timeout_ms);
	else
		args_text(&a, "key", key);
	return args_message(&a,
		op->op == ELASTICD_PUT	 ? "Put"
		: op->op == ELASTICD_GET ? "Get"
					 : "Delete",
		false, ret);
}

/* Whether it is in the piece, or has failed; otherwise it is for the next one. */
static bool piece_add(struct calls *calls, struct elasticd_op *op, int timeout_ms)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	_cleanup_free_ char *key = NULL;
	size_t len;
	int r;

	if (!op_check(op, &key))
		return true;
	r = op_message(op, key, timeout_ms, &b);
	len = varlink_buffer_len(&b);
	if (r == 0 && calls->n && varlink_buffer_len(&calls->buffer) + len > PIECE_BYTES)
		return false;
	if (r == 0)
		r = varlink_buffer_append(&calls->buffer, b.data + b.begin, len);
	if (r < 0)
		op_end(op, fail_memory());
	else
		calls->n++;
	return true;
}

/* As many as go together. Returns whether one of them waits for others. */
static bool piece_fill(struct piece *p, struct calls *calls, int timeout_ms)
{
	bool waits = false;

	for (size_t i = p->at; i < p->n && calls->n < PIECE_CALLS; i++) {
		if (p->ops[i].done)
			continue;
		if (!piece_add(calls, &p->ops[i], timeout_ms))
			break;
		waits = waits || (p->ops[i].op == ELASTICD_GET && timeout_ms != 0);
	}
	return waits;
}

/* A status that is no answer's. */
static int piece_make(struct elasticd *h, struct piece *p, int timeout_ms, bool *ret_last)
{
	struct calls calls = {
		.who = p->ops, .answered = op_answered, .taker = op_taker, .arg = p
	};
	bool waits = piece_fill(p, &calls, timeout_ms);
	int r = 0;

	*ret_last = calls.n == 0;
	if (calls.n)
		r = remote_calls(h, &calls, waits ? WAIT_CALL(timeout_ms) : WAIT_PROMPT);
	varlink_buffer_fini(&calls.buffer);
	return r;
}

int remote_pipeline(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms)
{
	struct piece p = { .ops = ops, .n = n };
	int64_t end = clock_end(timeout_ms);
	bool last = false;
	int r = 0;

	while (r == 0 && !last)
		r = piece_make(h, &p, clock_left(end, timeout_ms), &last);
	if (r == ELASTICD_INTERRUPTED)
		return r;
	for (size_t i = 0; r && i < n; i++)
		if (!ops[i].done)
			op_end(&ops[i], r);
	return 0;
}
