/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parts of answers that several calls have. The caller owns the results. */

#include "worker/base/answer_json.h"
#include "worker/elasticd.h"

#include <jansson.h>

/* The value of an answer to Get. */
struct got_value {
	struct answer_text entry;
	void *value; /* owned, with a NUL behind it */
	size_t len;
};
struct answer_reader got_value_reader(struct got_value *to);

/* n entries or changes of list, from begin on, for elasticd_entries_free(). */
enum elasticd_status entries_take(
	const json_t *list, size_t begin, size_t n, struct elasticd_entry **ret);
/* A GroupError, for elasticd_error_free(). */
enum elasticd_status error_take(const json_t *j, struct elasticd_error **ret);
