/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Specifications written so that tests can be read. */

#include "common/spec/spec.h"

#include <check.h>
#include <string.h>

/* JSON with single quotes, so that tests can be read. */
static json_t *J(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_error_t why;
	json_t *value;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	value = json_loads(copy, JSON_DECODE_ANY, &why);
	if (!value)
		ck_abort_msg("%s: %s", copy, why.text);
	return value;
}

static struct spec *parse(const char *text)
{
	_cleanup_json_ json_t *doc = J(text);
	struct error err = { 0 };
	struct spec *s;

	if (spec_parse(doc, &s, &err) < 0)
		ck_abort_msg("%s: %s", text, err.text);
	return s;
}
