/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/time_text.h"

#include "common/base/scan.h"
#include "common/text/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000)
/* The year 9999: the format has no room for later ones. */
#define TIME_MAX_US (INT64_C(253402300799) * SECOND)

const char *time_text_since(int64_t now_us, int64_t then_us, char buf[TIME_TEXT_MAX])
{
	char text[DURATION_TEXT_MAX];
	int64_t ms = now_us > then_us ? (now_us - then_us) / 1000 : 0;

	/* Tenths of a second are useful below ten seconds; above they only flicker. */
	if (ms >= 10000)
		ms -= ms % 1000;
	snprintf(buf, TIME_TEXT_MAX, "%s", duration_text(ms, text));
	return buf;
}

const char *time_text_ago(int64_t now_us, int64_t then_us, char buf[TIME_TEXT_MAX])
{
	char text[TIME_TEXT_MAX - 8];

	if (then_us > now_us) {
		time_text_since(then_us, now_us, buf);
		snprintf(text, sizeof(text), "%.80s", buf);
		snprintf(buf, TIME_TEXT_MAX, "in %s", text);
	} else if (now_us - then_us < 100 * 1000) {
		snprintf(buf, TIME_TEXT_MAX, "just now");
	} else {
		time_text_since(now_us, then_us, buf);
		snprintf(text, sizeof(text), "%.80s", buf);
		snprintf(buf, TIME_TEXT_MAX, "%s ago", text);
	}
	return buf;
}

static bool local_time(int64_t us, struct tm *ret)
{
	time_t seconds = us / SECOND;

	return us >= 0 && us <= TIME_MAX_US && localtime_r(&seconds, ret);
}

const char *time_text_timestamp(int64_t us, char buf[TIME_TEXT_MAX])
{
	struct tm tm;

	if (!local_time(us, &tm) ||
		strftime(buf, TIME_TEXT_MAX, "%a %Y-%m-%d %H:%M:%S %Z", &tm) == 0)
		snprintf(buf, TIME_TEXT_MAX, "?");
	return buf;
}

const char *time_text_iso(int64_t us, int digits, char buf[TIME_TEXT_MAX])
{
	struct tm tm;
	char date[32], fraction[8];
	long offset;

	if (!local_time(us, &tm)) {
		snprintf(buf, TIME_TEXT_MAX, "?");
		return buf;
	}
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	offset = labs(tm.tm_gmtoff) / 60;
	snprintf(fraction, sizeof(fraction), ".%06d", (int)(us % SECOND));
	snprintf(buf, TIME_TEXT_MAX, "%s%.*s%c%02ld:%02ld", date, digits > 0 ? digits + 1 : 0,
		fraction, tm.tm_gmtoff < 0 ? '-' : '+', offset / 60, offset % 60);
	return buf;
}

const char *time_text_clock(int64_t us, bool brief, char buf[TIME_TEXT_MAX])
{
	struct tm tm;
	size_t n;

	if (!local_time(us, &tm)) {
		snprintf(buf, TIME_TEXT_MAX, "?");
		return buf;
	}
	n = strftime(buf, TIME_TEXT_MAX, brief ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	if (!brief)
		snprintf(buf + n, TIME_TEXT_MAX - n, ".%03d", (int)(us % SECOND / 1000));
	return buf;
}

/* Exactly n digits at *p. */
static int parse_digits(const char **p, int n, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++) {
		if ((*p)[i] < '0' || (*p)[i] > '9')
			return -EINVAL;
		v = v * 10 + (*p)[i] - '0';
	}
	*p += n;
	*ret = v;
	return 0;
}

/* An optional ".digits" at *p as microseconds. */
static int parse_fraction(const char **p, int64_t *ret)
{
	int64_t unit = SECOND / 10;

	*ret = 0;
	if (**p != '.')
		return 0;
	(*p)++;
	if (**p < '0' || **p > '9')
		return -EINVAL;
	for (; **p >= '0' && **p <= '9'; (*p)++, unit /= 10)
		*ret += (**p - '0') * unit;
	return 0;
}

/* "HH:MM[:SS[.FRACTION]]" at *p. */
static int parse_clock(const char **p, struct tm *tm, int64_t *ret_fraction)
{
	*ret_fraction = 0;
	if (parse_digits(p, 2, &tm->tm_hour) < 0 || *(*p)++ != ':' ||
		parse_digits(p, 2, &tm->tm_min) < 0)
		return -EINVAL;
	if (**p == ':') {
		(*p)++;
		if (parse_digits(p, 2, &tm->tm_sec) < 0 || parse_fraction(p, ret_fraction) < 0)
			return -EINVAL;
	}
	return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 61 ? 0 : -EINVAL;
}

/* "Z", "+HH:MM", "+HHMM" or nothing at p. Returns 1 for a zone, 0 for none. */
static int parse_zone(const char *p, long *ret_offset)
{
	int h, m, sign = *p == '-' ? -1 : 1;

	if (!*p)
		return 0;
	*ret_offset = 0;
	if ((*p == 'Z' || *p == 'z') && !p[1])
		return 1;
	if (*p != '+' && *p != '-')
		return -EINVAL;
	p++;
	if (parse_digits(&p, 2, &h) < 0)
		return -EINVAL;
	if (*p == ':')
		p++;
	if (parse_digits(&p, 2, &m) < 0 || *p || h > 23 || m > 59)
		return -EINVAL;
	*ret_offset = sign * (h * 3600L + m * 60L);
	return 1;
}

static int parse_calendar(const char *p, int64_t now_us, int64_t *ret_us)
{
	time_t now = now_us / SECOND, t;
	int64_t frac = 0;
	long offset = 0;
	struct tm tm;
	int zone;

	if (!localtime_r(&now, &tm))
		return -EINVAL;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_isdst = -1;
	if (strlen(p) >= 3 && p[2] == ':') {
		if (parse_clock(&p, &tm, &frac) < 0)
			return -EINVAL;
	} else {
		if (parse_digits(&p, 4, &tm.tm_year) < 0 || *p++ != '-' ||
			parse_digits(&p, 2, &tm.tm_mon) < 0 || *p++ != '-' ||
			parse_digits(&p, 2, &tm.tm_mday) < 0 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
			tm.tm_mday < 1 || tm.tm_mday > 31)
			return -EINVAL;
		tm.tm_year -= 1900;
		tm.tm_mon -= 1;
		if (*p == ' ' || *p == 'T' || *p == 't') {
			p++;
			if (parse_clock(&p, &tm, &frac) < 0)
				return -EINVAL;
		}
	}
	zone = parse_zone(p, &offset);
	if (zone < 0)
		return -EINVAL;
	t = zone ? timegm(&tm) - offset : mktime(&tm);
	*ret_us = (int64_t)t * SECOND + frac;
	return 0;
}

static int time_of_midnight(int64_t now_us, int days_before, int64_t *ret_us)
{
	time_t now = now_us / SECOND;
	struct tm tm;

	if (!localtime_r(&now, &tm))
		return -EINVAL;
	tm.tm_mday -= days_before;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_isdst = -1;
	*ret_us = (int64_t)mktime(&tm) * SECOND;
	return 0;
}

static int parse_epoch(const char *p, int64_t *ret_us)
{
	uint64_t seconds;
	int64_t frac;

	if (scan_u64(&p, &seconds) < 0 || parse_fraction(&p, &frac) < 0 || *p ||
		seconds > (uint64_t)(TIME_MAX_US / SECOND))
		return -EINVAL;
	*ret_us = (int64_t)seconds * SECOND + frac;
	return 0;
}

int time_text_parse(
	const char *text, int64_t now_us, const char *option, int64_t *ret_us, struct error *err)
{
	int64_t ms;
	int r;

	if (!strcmp(text, "now")) {
		*ret_us = now_us;
		return 0;
	}
	if (!strcmp(text, "today"))
		r = time_of_midnight(now_us, 0, ret_us);
	else if (!strcmp(text, "yesterday"))
		r = time_of_midnight(now_us, 1, ret_us);
	else if (*text == '@')
		r = parse_epoch(text + 1, ret_us);
	else
		r = parse_calendar(text, now_us, ret_us);
	if (r == 0)
		return 0;
	if (duration_parse(text + (*text == '-'), option, &ms, NULL) == 0) {
		*ret_us = now_us - ms * 1000;
		return 0;
	}
	return error_field(err, -EINVAL, option,
		"expected a duration before now (10m), HH:MM, YYYY-MM-DD HH:MM:SS, @seconds, now, today "
		"or yesterday, got \"%.64s\"",
		text);
}
