/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/axis.h"

#include "common/text/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

int64_t axis_step(int64_t length_us, int max)
{
	static const int64_t steps[] = { SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND,
		30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
		HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY,
		20 * DAY, 50 * DAY, 100 * DAY };
	static const int decimal[] = { 2, 5, 10 };
	int64_t unit = 1;

	for (; unit < SECOND; unit *= 10)
		for (int i = -1; i < 2; i++)
			if (length_us <= max * unit * (i < 0 ? 1 : decimal[i]))
				return unit * (i < 0 ? 1 : decimal[i]);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (length_us <= max * steps[i])
			return steps[i];
	return (length_us / max / (100 * DAY) + 1) * 100 * DAY;
}

const char *axis_elapsed(int64_t us, char buf[TIME_TEXT_MAX])
{
	char text[DURATION_TEXT_MAX], *end;

	if (us > 0 && us < 10 * SECOND && us % (SECOND / 10)) {
		/* duration_text() rounds what is longer than a second to tenths of it. */
		snprintf(buf, TIME_TEXT_MAX, "%.6f", (double)us / (us < SECOND ? 1e3 : 1e6));
		buf[strspn(buf, "0123456789.")] = '\0';
		while (buf[strlen(buf) - 1] == '0')
			buf[strlen(buf) - 1] = '\0';
		if (buf[strlen(buf) - 1] == '.')
			buf[strlen(buf) - 1] = '\0';
		strcat(buf, us < SECOND ? "ms" : "s");
		return buf;
	}
	snprintf(buf, TIME_TEXT_MAX, "%s", us ? duration_text(us / 1000, text) : "0");
	end = strchr(buf, ' ');
	if (end && end[1] == '0') /* "12h 0m" */
		*end = '\0';
	return buf;
}

const char *axis_clock(int64_t us, int64_t zone_us, int64_t step_us, char buf[TIME_TEXT_MAX])
{
	time_t seconds = (us + zone_us) / SECOND;
	int fraction = (int)((us + zone_us) % SECOND);
	char digits[8] = "";
	struct tm tm;
	size_t n;

	if (us < 0 || !gmtime_r(&seconds, &tm))
		return strcpy(buf, "?");
	if (step_us >= DAY || (!fraction && !tm.tm_sec && !tm.tm_min && !tm.tm_hour)) {
		char month[16];

		strftime(month, sizeof(month), "%b", &tm);
		snprintf(buf, TIME_TEXT_MAX, "%d %s", tm.tm_mday, month);
		return buf;
	}
	n = strftime(buf, TIME_TEXT_MAX, step_us < MINUTE ? "%H:%M:%S" : "%H:%M", &tm);
	if (step_us < SECOND) {
		int places = 6;

		for (int64_t s = step_us; s % 10 == 0; s /= 10)
			places--;
		snprintf(digits, sizeof(digits), "%06d", fraction);
		snprintf(buf + n, TIME_TEXT_MAX - n, ".%.*s", places, digits);
	}
	return buf;
}

int64_t axis_zone(int64_t us)
{
	time_t seconds = us / SECOND;
	struct tm tm;

	return localtime_r(&seconds, &tm) ? tm.tm_gmtoff * SECOND : 0;
}
