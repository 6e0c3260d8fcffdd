/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/open_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_METRICS_FIRST = 16 << 10, NUMBER_TEXT_MAX = 32 };

static void put(struct open_metrics *m, const char *text, size_t len)
{
	size_t size = m->size ? m->size : OPEN_METRICS_FIRST;
	char *bigger;

	while (size - m->len <= len)
		size *= 2;
	if (size != m->size) {
		bigger = m->failed ? NULL : realloc(m->text, size);
		if (!bigger) {
			m->failed = true;
			return;
		}
		m->text = bigger;
		m->size = size;
	}
	memcpy(m->text + m->len, text, len);
	m->len += len;
}

static void put_string(struct open_metrics *m, const char *text)
{
	put(m, text, strlen(text));
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
	const char *const parts[] = { "# HELP ", m->family, " ", m->help, "\n# TYPE ", m->family,
		" ", m->type, "\n" };

	for (size_t i = 0; m->help && i < sizeof(parts) / sizeof(*parts); i++)
		put_string(m, parts[i]);
	m->help = NULL;
}

static void put_number(struct open_metrics *m, double number)
{
	char text[NUMBER_TEXT_MAX];
	char *at = text + sizeof(text);
	uint64_t rest;
	int n;

	if (!(fabs(number) < 1e15 && number == trunc(number))) {
		n = snprintf(text, sizeof(text), "%.15g", number);
		put(m, text, (size_t)n);
		return;
	}
	rest = (uint64_t)fabs(number);
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (number < 0)
		*--at = '-';
	put(m, at, (size_t)(text + sizeof(text) - at));
}

void open_metrics_sample(struct open_metrics *m, const char *labels, const char *name,
	const char *value, double number)
{
	bool some = labels && *labels;

	put_head(m);
	put_string(m, m->family);
	put_string(m, m->suffix);
	if (some || name)
		put_string(m, "{");
	if (some)
		put_string(m, labels);
	if (name) {
		const char *const parts[] = { some ? "," : "", name, "=\"", value, "\"" };

		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			put_string(m, parts[i]);
	}
	put_string(m, some || name ? "} " : " ");
	put_number(m, number);
	put_string(m, "\n");
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

	put(m, "# EOF\n", sizeof("# EOF\n"));
	text = m->text;
	*ret_len = m->len - 1;
	if (m->failed) {
		free(text);
		text = NULL;
	}
	memset(m, 0, sizeof(*m));
	return text;
}
