/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline goes in pieces, each of which is written as a whole before its answers are read. A
 * piece fits into the buffer of a socket, so writing it never waits for an agent that waits until
 * its answers are read; and it has no more calls than the agent handles at once on a connection.
 */
#include "worker/agent/answer_parts.h"
#include "worker/agent/worker_calls.h"
#include "worker/base/calls.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/waiting.h"

#include "common/text/json.h"

#include <string.h>

enum { PIECE_CALLS = 64, PIECE_BYTES = 64 << 10 };

struct piece {
	struct elasticd_op *ops;
	size_t n, at;
	/* The answer that is read: */
	struct got_value got;
	struct got_deleted {
		int64_t n;
	} deleted;
};
static const struct answer_member deleted_members[] = {
	ANSWER_MEMBER(struct got_deleted, ANSWER_INT, "deleted", n),
};

static void op_end(struct elasticd_op *op, enum elasticd_status status)
{
	op->done = true;
	op->status = status;
	/* Without memory for the text the op still has its status. */
	if (status)
		op->text = strdup(elasticd_error_text());
}

/* Whether it can be made; otherwise it has ended. ret_key is owned. */
static bool op_check(struct elasticd_op *op, char **ret_key)
{
	_cleanup_free_ char *key = NULL;
	enum elasticd_status status = check_key(op->key, false, &key);

	if (!status && op->kind == ELASTICD_OP_PUT)
		status = check_put(op->value, op->len, op->flags);
	else if (!status && op->kind != ELASTICD_OP_GET && op->kind != ELASTICD_OP_DELETE)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"kind: expected PUT (1), GET (2) or DELETE (3), got %d", (int)op->kind);
	if (status) {
		op_end(op, status);
		return false;
	}
	*ret_key = TAKE_PTR(key);
	return true;
}

static struct elasticd_op *op_next(struct piece *p)
{
	while (p->ops[p->at].done)
		p->at++;
	return &p->ops[p->at];
}

static struct answer_reader op_reader(struct calls *calls)
{
	struct piece *p = calls->arg;

	p->got = (struct got_value){ .value = NULL };
	switch (op_next(p)->kind) {
	case ELASTICD_OP_GET:
		return got_value_reader(&p->got);
	case ELASTICD_OP_DELETE:
		return (struct answer_reader){ deleted_members, ANSWER_N(deleted_members),
			&p->deleted, sizeof(p->deleted), NULL };
	case ELASTICD_OP_PUT:
		break;
	}
	return answer_nothing;
}

static void op_answered(struct calls *calls, enum elasticd_status status)
{
	struct piece *p = calls->arg;
	struct elasticd_op *op = op_next(p);

	if (!status && op->kind == ELASTICD_OP_DELETE) {
		op->ret_deleted = p->deleted.n;
	} else if (!status && op->kind == ELASTICD_OP_GET) {
		op->ret_value = p->got.value;
		op->ret_len = p->got.len;
	}
	op_end(op, status);
}

static int op_message(
	const struct elasticd_op *op, const char *key, int timeout_ms, struct varlink_buffer *ret)
{
	struct params a = PARAMS_EMPTY;
	const char *method = "Delete";

	if (op->kind == ELASTICD_OP_PUT) {
		params_put(&a, key, op->value ? op->value : "", op->len, op->flags);
		method = "Put";
	} else if (op->kind == ELASTICD_OP_GET) {
		params_get(&a, key, timeout_ms);
		method = "Get";
	} else {
		params_text(&a, "key", key);
	}
	return params_message(&a, method, false, ret);
}

/* Adds an op to the piece, or ends it with its error. False where the piece is full. */
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

/* Adds as many ops as fit. Returns whether one of them waits for other workers. */
static bool piece_fill(struct piece *p, struct calls *calls, int timeout_ms)
{
	bool waits = false;

	for (size_t i = p->at; i < p->n && calls->n < PIECE_CALLS; i++) {
		if (p->ops[i].done)
			continue;
		if (!piece_add(calls, &p->ops[i], timeout_ms))
			break;
		waits = waits || (p->ops[i].kind == ELASTICD_OP_GET && timeout_ms != 0);
	}
	return waits;
}

/* A status that is not OK is of no answer. */
static enum elasticd_status piece_make(
	struct elasticd *h, struct piece *p, int timeout_ms, bool *ret_last)
{
	struct calls calls = {
		.owner = p->ops, .reader = op_reader, .answered = op_answered, .arg = p
	};
	bool waits = piece_fill(p, &calls, timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_OK;

	*ret_last = calls.n == 0;
	if (calls.n)
		status = call_many(h, &calls, waits ? WAIT_CALL(timeout_ms) : WAIT_PROMPT);
	varlink_buffer_fini(&calls.buffer);
	return status;
}

enum elasticd_status call_pipeline(
	struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms)
{
	struct piece p = { .ops = ops, .n = n };
	int64_t end = clock_end(timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_OK;
	bool last = false;

	while (!status && !last)
		status = piece_make(h, &p, clock_left_of_wait(end, timeout_ms), &last);
	if (status == ELASTICD_STATUS_INTERRUPTED)
		return status;
	for (size_t i = 0; status && i < n; i++)
		if (!ops[i].done)
			op_end(&ops[i], status);
	return ELASTICD_STATUS_OK;
}
