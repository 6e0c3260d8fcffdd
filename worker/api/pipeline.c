/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/handle.h"

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
