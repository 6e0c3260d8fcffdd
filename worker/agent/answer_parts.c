/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/answer_parts.h"
#include "worker/base/failure.h"
#include "worker/base/message.h"
#include "worker/base/values.h"

#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/* --- the value of Get, read in place */

struct entry_text {
	struct answer_text value, base64;
};
static const struct answer_member entry_members[] = {
	ANSWER_MEMBER(struct entry_text, ANSWER_TEXT, "value", value),
	ANSWER_MEMBER(struct entry_text, ANSWER_TEXT, "base64", base64),
};
static const struct answer_member got_members[] = {
	ANSWER_MEMBER(struct got_value, ANSWER_RAW, "entry", entry),
};

static int got_value_keep(void *to)
{
	struct entry_text t = { .value = { .at = NULL } };
	struct got_value *got = to;
	int r;

	if (!got->entry.at ||
		!answer_object(got->entry.at, entry_members, ANSWER_N(entry_members), &t))
		return -EBADMSG;
	r = answer_bytes(&t.value, &t.base64, &got->value, &got->len);
	return r < 0 ? r : got->value ? 0 : -EBADMSG;
}

struct answer_reader got_value_reader(struct got_value *to)
{
	return (struct answer_reader){ got_members, ANSWER_N(got_members), to, sizeof(*to),
		got_value_keep };
}

/* --- entries, changes, errors */

/* 0, -ENOMEM, -EBADMSG; the caller frees what e has then. */
static int entry_take(const json_t *j, struct elasticd_entry *e)
{
	e->key = text_take(j, "key");
	if (!e->key)
		return -ENOMEM;
	e->revision = json_get_int(j, "revision", 0);
	return json_get_bool(j, "deleted", false) ? 0 : value_take(j, &e->value, &e->len);
}

enum elasticd_status entries_take(
	const json_t *list, size_t begin, size_t n, struct elasticd_entry **ret)
{
	struct elasticd_entry *entries = calloc(n ? n : 1, sizeof(*entries));

	if (!entries)
		return fail_memory();
	for (size_t i = 0; i < n; i++) {
		int r = entry_take(json_array_get(list, begin + i), &entries[i]);

		if (r < 0) {
			elasticd_entries_free(entries, n);
			return fail_reading(r);
		}
	}
	*ret = entries;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status error_take(const json_t *j, struct elasticd_error **ret)
{
	struct elasticd_error *e = calloc(1, sizeof(*e));

	if (!e)
		return fail_memory();
	e->code = error_code(json_get_string(j, "code", "Unknown"));
	e->reported = json_get_bool(j, "reported", false);
	e->message = text_take(j, "message");
	e->worker = text_take(j, "worker");
	if (!e->message || !e->worker) {
		elasticd_error_free(e);
		return fail_memory();
	}
	*ret = e;
	return ELASTICD_STATUS_OK;
}
