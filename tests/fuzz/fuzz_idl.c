/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface texts, and values against their types. The part behind a NUL byte is a JSON value,
 * which is checked against each member of the interface.
 */
#include "common/text/json.h"
#include "common/varlink/validate.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct varlink_type *type, const json_t *value)
{
	struct error err = { 0 };
	int r = varlink_validate(type, value, "parameters", &err);

	if ((r < 0) != (err.code < 0) || (r < 0 && strncmp(err.field, "parameters", 10)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	_cleanup_(varlink_idl_freep) struct varlink_idl *idl = NULL;
	_cleanup_json_ json_t *value = NULL;
	struct error err = { 0 };
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return 0;
	if (varlink_idl_parse(text, &idl, &err) < 0) {
		if (strncmp(err.text, "line ", 5))
			abort();
		return 0;
	}
	if (len == size || json_parse((const char *)data + len + 1, size - len - 1, &value, &err))
		value = json_object();
	for (size_t i = 0; i < idl->n_members; i++) {
		check(&idl->members[i].type, value);
		check(&idl->members[i].out, value);
	}
	return 0;
}
