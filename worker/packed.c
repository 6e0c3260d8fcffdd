/* SPDX-License-Identifier: Apache-2.0 */
/* The store's calls as bindings make them: into memory that is there, many in one call. */
#include "worker/private.h"

#include <string.h>

int elasticd_read(struct elasticd *h, const char *key, int timeout_ms, void *buffer, size_t room,
	void **ret_value)
{
	void *value;
	size_t len;
	int r = elasticd_get(h, key, timeout_ms, &value, &len);

	if (r)
		return -r;
	if (len > room) {
		*ret_value = value;
	} else {
		memcpy(buffer, value, len);
		free(value);
	}
	return (int)len;
}

/* NULL without memory. */
static struct elasticd_op *unpack(size_t n, const unsigned char *kinds, const char *key,
	const char *value, const size_t *lens)
{
	struct elasticd_op *ops = calloc(n, sizeof(*ops));

	for (size_t i = 0; ops && i < n; i++) {
		ops[i].op = kinds[i] % ELASTICD_KIND_FLAGS;
		ops[i].flags = kinds[i] / ELASTICD_KIND_FLAGS;
		ops[i].key = key;
		key += strlen(key) + 1;
		if (!lens)
			continue;
		ops[i].value = value;
		ops[i].len = lens[i];
		value += lens[i];
	}
	return ops;
}

/* Whether all that was read is in the buffer. */
static bool pack(const struct elasticd_op *ops, size_t n, char *buffer, size_t room, int64_t *ret)
{
	for (size_t i = 0; i < n; i++) {
		ret[i] =
			ops[i].op == ELASTICD_DELETE ? ops[i].ret_deleted : (int64_t)ops[i].ret_len;
		if (ops[i].ret_len > room)
			return false;
		if (ops[i].ret_len)
			buffer = mempcpy(buffer, ops[i].ret_value, ops[i].ret_len);
		room -= ops[i].ret_len;
	}
	return true;
}

int elasticd_pipeline_packed(struct elasticd *h, size_t n, const unsigned char *kinds,
	const char *keys, const void *values, const size_t *lens, int timeout_ms,
	struct elasticd_op **ops, void *buffer, size_t room, int64_t *ret_said)
{
	int r;

	if (!*ops && n)
		*ops = unpack(n, kinds, keys, values, lens);
	if (!*ops)
		return n ? fail_memory() : 0;
	r = elasticd_pipeline(h, *ops, n, timeout_ms);
	if (r == 0 && pack(*ops, n, buffer, room, ret_said)) {
		elasticd_ops_free(*ops, n);
		*ops = NULL;
	}
	return r;
}

void elasticd_ops_free(struct elasticd_op *ops, size_t n)
{
	elasticd_ops_clear(ops, n);
	free(ops);
}

static int64_t outcome_kind(const struct elasticd_outcome *o)
{
	if (o->state != ELASTICD_SUCCEEDED)
		return ELASTICD_KIND_ERROR;
	if (strcmp(o->format, "json") == 0)
		return ELASTICD_KIND_JSON;
	return strcmp(o->format, "text") == 0 ? ELASTICD_KIND_TEXT : ELASTICD_KIND_BYTES;
}

size_t elasticd_outcomes_pack(const struct elasticd_outcome *outcomes, size_t n, void *buffer,
	size_t room, int64_t *ret_said)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		const struct elasticd_outcome *o = &outcomes[i];
		int64_t kind = outcome_kind(o);
		size_t len = kind == ELASTICD_KIND_ERROR || !o->value ? 0 : o->len;

		if (len && len <= room && total <= room - len)
			memcpy((char *)buffer + total, o->value, len);
		total += len;
		ret_said[2 * i] = o->task;
		ret_said[2 * i + 1] = (int64_t)len * ELASTICD_KINDS + kind;
	}
	return total;
}
