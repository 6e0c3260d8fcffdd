/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/values.h"

#include "common/varlink/queue_limits.h"

#include <string.h>

enum elasticd_status check_text(const char *what, const char *text, size_t max)
{
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return fail(
			ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected a text, got NULL", what);
	if (len > max)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"%s: expected at most %zu bytes, got %zu", what, max, len);
	if (!text_valid(text, len))
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected UTF-8", what);
	return ELASTICD_STATUS_OK;
}

enum elasticd_status check_names(const char *what, const char *const *names, size_t n)
{
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (n && !names)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected %zu names, got NULL",
			what, n);
	if (!n && names)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"%s: expected at least 1 name (leave the list out to mean all)", what);
	for (size_t i = 0; i < n && !status; i++)
		status = check_text(what, names[i], WORKER_KEY_MAX);
	return status;
}

enum elasticd_status check_key(const char *key, bool empty, char **ret_key)
{
	_cleanup_free_ char *normal = NULL;
	enum elasticd_status status;

	if (!key)
		return check_text("key", key, 0);
	normal = key_normalise(key);
	if (!normal)
		return fail_memory();
	status = check_text("key", normal, WORKER_KEY_MAX);
	if (!status && !*normal && !empty)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"key: expected at least 1 byte, got \"%.64s\"", key);
	if (!status)
		*ret_key = TAKE_PTR(normal);
	return status;
}

enum elasticd_status check_value(const void *value, size_t len)
{
	if (!value && len)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "value: expected %zu bytes, got NULL",
			len);
	if (len > WORKER_VALUE_MAX)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"value: expected at most %d bytes, got %zu", WORKER_VALUE_MAX, len);
	return ELASTICD_STATUS_OK;
}

enum elasticd_status check_flags(int flags, int known)
{
	return flags & ~known ? fail(ELASTICD_STATUS_INVALID_ARGUMENT, "flags: unknown bits 0x%x",
					(unsigned)(flags & ~known))
			      : ELASTICD_STATUS_OK;
}

enum elasticd_status check_put(const void *value, size_t len, int flags)
{
	enum elasticd_status status = check_flags(
		flags, ELASTICD_PUT_OVERWRITE | ELASTICD_PUT_PERSISTENT | ELASTICD_PUT_NOWAIT);

	if (status)
		return status;
	if (flags & ELASTICD_PUT_NOWAIT && !(flags & ELASTICD_PUT_OVERWRITE))
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"flags: expected OVERWRITE beside NOWAIT, since a write that may find the "
			"key there has to wait");
	return check_value(value, len);
}

enum elasticd_status check_code(enum elasticd_status code)
{
	if (code > ELASTICD_STATUS_OK && code <= ELASTICD_STATUS_UNAUTHENTICATED)
		return ELASTICD_STATUS_OK;
	return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "code: expected 1 to %d, got %d",
		ELASTICD_STATUS_UNAUTHENTICATED, code);
}

enum elasticd_status check_bytes(const char *what, const struct elasticd_queue_bytes *b)
{
	if (!b)
		return ELASTICD_STATUS_OK;
	if (!b->data && b->len)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected %zu bytes, got NULL",
			what, b->len);
	if (b->len > QUEUE_VALUE_MAX)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"%s: expected at most %d bytes, got %zu", what, QUEUE_VALUE_MAX, b->len);
	return b->format ? check_text("format", b->format, QUEUE_FORMAT_MAX) : ELASTICD_STATUS_OK;
}
