/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/open_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_METRICS_FIRST = 16 << 10, NUMBER_TEXT_MAX = 32 };

/* Where n more bytes can be written; NULL without memory. */
static char *reserve_bytes(struct open_metrics *m, size_t n)
{
	size_t size = m->size ? m->size : OPEN_METRICS_FIRST;
	char *bigger;

	while (size - m->len <= n)
		size *= 2;
	if (size != m->size) {
		bigger = m->failed ? NULL : realloc(m->text, size);
		if (!bigger) {
			m->failed = true;
			return NULL;
		}
		m->text = bigger;
		m->size = size;
	}
	return m->text + m->len;
}

void open_metrics_family(
	struct open_metrics *m, const char *name, const char *type, const char *help)
{
	m->family = name;
	m->type = type;
	m->help = help;
	m->suffix = !strcmp(type, "counter") ? "_total" : !strcmp(type, "info") ? "_info" : "";
}

static void put_head(struct open_metrics *m)
{
	char *at = reserve_bytes(m, 2 * strlen(m->family) + strlen(m->help) + strlen(m->type) +
					    sizeof("# HELP  \n# TYPE  \n"));

	if (at)
		m->len += (size_t)sprintf(
			at, "# HELP %s %s\n# TYPE %s %s\n", m->family, m->help, m->family, m->type);
	m->help = NULL;
}

/* Takes size apart: it is ret_rest / 10^ret_decimals, to fifteen digits. */
static bool number_parts(double size, uint64_t *ret_rest, int *ret_decimals)
{
	double millionths = rint(size * 1e6);

	if (size < 1e15 && size == trunc(size)) {
		*ret_rest = (uint64_t)size;
		*ret_decimals = 0;
		return true;
	}
	*ret_decimals = 6;
	if (!(millionths < 1e16 && fabs(millionths / 1e6 - size) <= size * 1e-15))
		return false;
	*ret_rest = (uint64_t)millionths;
	return true;
}

/* Nearly all numbers of a page are written without printf(): it would take a third of the time of a
 * page. */
static char *number_text(char *at, double number)
{
	char digits[NUMBER_TEXT_MAX];
	char *end = digits + sizeof(digits), *first = end;
	uint64_t rest;
	int decimals;

	if (!number_parts(fabs(number), &rest, &decimals))
		return at + sprintf(at, "%.15g", number);
	for (; decimals && rest % 10 == 0; decimals--)
		rest /= 10;
	for (; decimals; decimals--, rest /= 10) {
		*--first = (char)('0' + rest % 10);
		if (decimals == 1)
			*--first = '.';
	}
	do
		*--first = (char)('0' + rest % 10);
	while (rest /= 10);
	if (number < 0)
		*--first = '-';
	return mempcpy(at, first, (size_t)(end - first));
}

void open_metrics_sample(struct open_metrics *m, const char *labels, const char *name,
	const char *value, double number)
{
	bool some = labels && *labels;
	size_t n = strlen(m->family) + strlen(m->suffix) + (some ? strlen(labels) : 0) +
		   (name ? strlen(name) + strlen(value) : 0) + sizeof("{,=\"\"} \n") +
		   NUMBER_TEXT_MAX;
	char *at;

	if (m->help)
		put_head(m);
	at = reserve_bytes(m, n);
	if (!at)
		return;
	at = stpcpy(stpcpy(at, m->family), m->suffix);
	if (some || name)
		*at++ = '{';
	if (some)
		at = stpcpy(at, labels);
	if (some && name)
		*at++ = ',';
	if (name)
		at = stpcpy(stpcpy(stpcpy(stpcpy(at, name), "=\""), value), "\"");
	if (some || name)
		*at++ = '}';
	*at++ = ' ';
	at = number_text(at, number);
	*at++ = '\n';
	m->len = (size_t)(at - m->text);
}

void open_metrics_label(char *text, size_t size, const char *name, const char *value)
{
	size_t len = strlen(text);
	int n = snprintf(text + len, size - len, "%s%s=\"", len ? "," : "", name);
	char *at = text + len + n;

	if (n < 0 || len + (size_t)n + 2 > size) {
		text[len] = '\0';
		return;
	}
	for (; *value && at + 4 < text + size; value++) {
		if (*value == '\n') {
			*at++ = '\\';
			*at++ = 'n';
			continue;
		}
		if (*value == '"' || *value == '\\')
			*at++ = '\\';
		*at++ = *value;
	}
	*at++ = '"';
	*at = '\0';
}

char *open_metrics_end(struct open_metrics *m, size_t *ret_len)
{
	char *text;

	text = reserve_bytes(m, sizeof("# EOF\n"));
	if (text)
		m->len = (size_t)(stpcpy(text, "# EOF\n") - m->text);
	text = m->text;
	*ret_len = m->len;
	if (m->failed) {
		free(text);
		text = NULL;
	}
	memset(m, 0, sizeof(*m));
	return text;
}
