/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/duration.h"

#include "common/base/quote.h"
#include "common/base/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPECTED "expected a duration such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or 0, got %s"

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
	{ "d", 24 * 3600 * 1000 },
	{ "h", 3600 * 1000 },
	{ "m", 60 * 1000 },
	{ "s", 1000 },
	{ "ms", 1 },
};
enum { N_UNITS = sizeof(units) / sizeof(units[0]) };

static int too_long(const char *text, const char *field, struct error *err)
{
	char q[QUOTE_MAX];

	return error_field(err, -EINVAL, field, "expected a duration of at most %dd, got %s",
		(int)(DURATION_MAX_MS / units[0].ms), quote_text(text, q));
}

static int error_malformed(const char *text, const char *field, struct error *err)
{
	char q[QUOTE_MAX];

	return error_field(err, -EINVAL, field, EXPECTED, quote_text(text, q));
}

/* The index of the unit at *p, which is moved behind it, or -1. */
static int take_unit(const char **p)
{
	size_t n = strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (int i = 0; i < N_UNITS; i++) {
		if (strlen(units[i].name) == n && !memcmp(*p, units[i].name, n)) {
			*p += n;
			return i;
		}
	}
	return -1;
}

int duration_parse(const char *text, const char *field, int64_t *ret_ms, struct error *err)
{
	const char *p = text;
	int64_t total = 0;
	int last = -1;

	if (!strcmp(text, "0")) {
		*ret_ms = 0;
		return 0;
	}
	do {
		uint64_t value;
		int64_t part;
		int unit, r = scan_u64(&p, &value);

		if (r == -ERANGE)
			return too_long(text, field, err);
		if (r < 0)
			return error_malformed(text, field, err);
		unit = take_unit(&p);
		/* Units must descend: "30m1h" and "1h1h" are mostly typing errors. */
		if (unit <= last)
			return error_malformed(text, field, err);
		last = unit;
		if (value > DURATION_MAX_MS ||
			__builtin_mul_overflow((int64_t)value, units[unit].ms, &part) ||
			__builtin_add_overflow(total, part, &total) || total > DURATION_MAX_MS)
			return too_long(text, field, err);
	} while (*p);
	*ret_ms = total;
	return 0;
}

int duration_parse_seconds(const char *text, const char *field, int64_t *ret_ms, struct error *err)
{
	const char *p = text;
	uint64_t seconds, ms = 0;
	int r = scan_u64(&p, &seconds);

	if (*p && *p != '.')
		return duration_parse(text, field, ret_ms, err);
	if (r == -EINVAL)
		return error_malformed(text, field, err);
	if (r < 0 || seconds > DURATION_MAX_MS / 1000)
		return too_long(text, field, err);
	if (*p == '.') {
		const char *decimals = ++p;

		if (scan_u64(&p, &ms) < 0 || *p || p - decimals > 3)
			return error_malformed(text, field, err);
		for (long n = p - decimals; n < 3; n++)
			ms *= 10;
	}
	if (seconds * 1000 + ms > DURATION_MAX_MS)
		return too_long(text, field, err);
	*ret_ms = (int64_t)(seconds * 1000 + ms);
	return 0;
}

const char *duration_format(int64_t ms, char buf[DURATION_TEXT_MAX])
{
	char single[DURATION_TEXT_MAX];
	size_t n = 0;
	bool have_single = false;
	int64_t rest = ms;

	if (ms <= 0)
		return strcpy(buf, "0");
	buf[0] = '\0';
	for (int i = 0; i < N_UNITS; i++) {
		if (!have_single && ms % units[i].ms == 0) {
			snprintf(single, sizeof(single), "%" PRId64 "%s", ms / units[i].ms,
				units[i].name);
			have_single = true;
		}
		if (rest >= units[i].ms)
			n += snprintf(buf + n, DURATION_TEXT_MAX - n, "%" PRId64 "%s",
				rest / units[i].ms, units[i].name);
		rest %= units[i].ms;
	}
	return strlen(single) <= n ? strcpy(buf, single) : buf;
}

const char *duration_text(int64_t ms, char buf[DURATION_TEXT_MAX])
{
	int64_t s = ms / 1000;

	if (ms < 0)
		snprintf(buf, DURATION_TEXT_MAX, "0ms");
	else if (ms < 1000)
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "ms", ms);
	else if (s < 60 && ms % 1000 / 100)
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 ".%ds", s, (int)(ms % 1000 / 100));
	else if (s < 60)
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "s", s);
	else if (s < 3600)
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "m %ds", s / 60, (int)(s % 60));
	else if (s < 24 * 3600)
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "h %dm", s / 3600, (int)(s / 60 % 60));
	else
		snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "d %dh", s / (24 * 3600),
			(int)(s / 3600 % 24));
	return buf;
}
