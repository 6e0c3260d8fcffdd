/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	err->field[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int error_field(struct error *err, int code, const char *field, const char *fmt, ...)
{
	va_list ap;
	char message[sizeof(err->text) - sizeof(err->field) - 2];

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	err->code = code;
	snprintf(err->field, sizeof(err->field), "%s", field ? field : "");
	snprintf(err->text, sizeof(err->text), "%s%s%s", err->field, err->field[0] ? ": " : "",
		message);
	return code;
}

int error_prefix(struct error *err, const char *fmt, ...)
{
	va_list ap;
	char text[sizeof(err->text)];
	size_t n;

	if (!err)
		return 0;
	memcpy(text, err->text, sizeof(text));
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", text);
	return err->code;
}

void error_append(struct error *err, const char *fmt, ...)
{
	size_t n = strlen(err->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text + n, sizeof(err->text) - n, fmt, ap);
	va_end(ap);
}
