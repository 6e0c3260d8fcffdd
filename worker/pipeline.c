/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/private.h"

#include <string.h>

void op_end(struct elasticd_op *op, int status)
{
	op->done = 1;
	op->status = status;
	/* Without memory for its text it has its status. */
	if (status)
		op->text = strdup(elasticd_error_text());
}

bool op_check(struct elasticd_op *op, char **ret_key)
{
	_cleanup_free_ char *key = NULL;
	int r = check_key(op->key, false, &key);

	if (!r && op->op == ELASTICD_PUT)
		r = check_put(op->value, op->len, op->flags);
	else if (!r && op->op != ELASTICD_GET && op->op != ELASTICD_DELETE)
		r = fail(ELASTICD_INVALID_ARGUMENT, "op: %d is none of this version", op->op);
	if (r) {
		op_end(op, r);
		return false;
	}
	*ret_key = TAKE_PTR(key);
	return true;
}

static int one(struct elasticd *h, struct elasticd_op *op, const char *key, int timeout_ms)
{
	if (op->op == ELASTICD_PUT)
		return h->side->put(h, key, op->value ? op->value : "", op->len, op->flags);
	if (op->op == ELASTICD_DELETE)
		return h->side->delete (h, key, &op->ret_deleted);
	return h->side->get(h, key, timeout_ms, &op->ret_value, &op->ret_len);
}

int pipeline_singly(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms)
{
	int64_t end = clock_end(timeout_ms);

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *key = NULL;
		int r;

		if (ops[i].done || !op_check(&ops[i], &key))
			continue;
		r = one(h, &ops[i], key, clock_left(end, timeout_ms));
		if (r == ELASTICD_INTERRUPTED)
			return r;
		op_end(&ops[i], r);
	}
	return 0;
}

int elasticd_pipeline(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms)
{
	int r;

	if (n && !ops)
		return fail(ELASTICD_INVALID_ARGUMENT, "ops: expected %zu calls, got NULL", n);
	r = h->side->pipeline(h, ops, n, timeout_ms);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		if (ops[i].status)
			return fail(
				ops[i].status, "%s", ops[i].text ? ops[i].text : "out of memory");
	return 0;
}

void elasticd_ops_clear(struct elasticd_op *ops, size_t n)
{
	for (size_t i = 0; ops && i < n; i++) {
		free(ops[i].ret_value);
		free(ops[i].text);
		ops[i].ret_value = ops[i].text = NULL;
		ops[i].ret_len = 0;
		ops[i].done = ops[i].status = 0;
		ops[i].ret_deleted = 0;
	}
}
