/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

static int return_value(json_t *value, json_t **ret)
{
	*ret = value;
	return value ? 0 : -ENOMEM;
}

static bool one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(text, *words))
			return true;
	return false;
}

static bool is_null(const char *text)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL", NULL };

	return one_of(text, words);
}

/* 1, 0, or -1 if text is not a boolean. */
static int parse_boolean(const char *text)
{
	static const char *const yes[] = { "true", "True", "TRUE", NULL };
	static const char *const no[] = { "false", "False", "FALSE", NULL };

	return one_of(text, yes) ? 1 : one_of(text, no) ? 0 : -1;
}

/* The base of [-+]?[0-9]+, 0o[0-7]+ or 0x[0-9a-fA-F]+; 0 for other text. */
static int integer_base(const char *text)
{
	if (text[0] == '0' && text[1] == 'o' && text[2] &&
		strspn(text + 2, "01234567") == strlen(text + 2))
		return 8;
	if (text[0] == '0' && text[1] == 'x' && text[2] &&
		strspn(text + 2, DIGITS "abcdefABCDEF") == strlen(text + 2))
		return 16;
	if (*text == '-' || *text == '+')
		text++;
	return *text && strspn(text, DIGITS) == strlen(text) ? 10 : 0;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_float(const char *text)
{
	size_t whole, decimals = 0;

	if (*text == '-' || *text == '+')
		text++;
	whole = strspn(text, DIGITS);
	text += whole;
	if (*text == '.') {
		decimals = strspn(++text, DIGITS);
		text += decimals;
	}
	if (!whole && !decimals)
		return false;
	if (*text == 'e' || *text == 'E') {
		text++;
		if (*text == '-' || *text == '+')
			text++;
		if (!*text)
			return false;
		text += strspn(text, DIGITS);
	}
	return !*text;
}

static bool is_infinite(const char *text)
{
	static const char *const words[] = { ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL };

	if (*text == '-' || *text == '+')
		return one_of(text + 1, words) && tolower((unsigned char)text[2]) == 'i';
	return one_of(text, words);
}

static int parse_integer(const char *text, int base, json_t **ret, struct yaml_scalar_why *why)
{
	long long value;

	errno = 0;
	value = strtoll(base == 10 ? text : text + 2, NULL, base);
	if (errno == ERANGE) {
		why->text = "the number does not fit 64 bits";
		return -EINVAL;
	}
	return return_value(json_integer(value), ret);
}

static int parse_real(const char *text, json_t **ret, struct yaml_scalar_why *why)
{
	double value = strtod(text, NULL);

	if (!isfinite(value)) {
		why->text = "the number is too large";
		return -EINVAL;
	}
	return return_value(json_real(value), ret);
}

static int of_type(const char *text, const char *tag, json_t **ret, struct yaml_scalar_why *why)
{
	int base = integer_base(text), b = parse_boolean(text);

	if (!strcmp(tag, "null") && is_null(text))
		return return_value(json_null(), ret);
	if (!strcmp(tag, "bool") && b >= 0)
		return return_value(json_boolean(b), ret);
	if (!strcmp(tag, "int") && base)
		return parse_integer(text, base, ret, why);
	if (!strcmp(tag, "float") && (is_float(text) || base == 10))
		return parse_real(text, ret, why);
	why->text = "the value does not have the type that its tag names";
	return -EINVAL;
}

int yaml_scalar(
	const char *text, size_t len, const char *tag, json_t **ret, struct yaml_scalar_why *why)
{
	int base, b;

	why->text = NULL;
	if (strlen(text) != len || (tag && !strcmp(tag, "str")))
		return return_value(json_stringn(text, len), ret);
	if (tag)
		return of_type(text, tag, ret, why);
	base = integer_base(text);
	b = parse_boolean(text);
	if (is_null(text))
		return return_value(json_null(), ret);
	if (b >= 0)
		return return_value(json_boolean(b), ret);
	if (base)
		return parse_integer(text, base, ret, why);
	if (is_float(text))
		return parse_real(text, ret, why);
	if (is_infinite(text)) {
		why->text = "a number has to be finite";
		return -EINVAL;
	}
	return return_value(json_stringn(text, len), ret);
}
