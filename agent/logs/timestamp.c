/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/timestamp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void log_stamp_write(char out[LOG_STAMP_LEN], uint64_t real_us)
{
	const time_t sec = (time_t)(real_us / 1000000);
	char text[LOG_STAMP_LEN + 1];
	struct tm tm;
	size_t n;

	memcpy(out, "0000-00-00T00:00:00.000000Z ", LOG_STAMP_LEN);
	n = gmtime_r(&sec, &tm) ? strftime(text, sizeof(text), "%FT%T", &tm) : 0;
	if (n != strlen("0000-00-00T00:00:00")) /* a year beyond 9999 */
		return;
	snprintf(text + n, sizeof(text) - n, ".%06uZ ", (unsigned)(real_us % 1000000));
	memcpy(out, text, LOG_STAMP_LEN);
}

static bool get_digits(const char *p, int digits, int *ret)
{
	*ret = 0;
	for (int i = 0; i < digits; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		*ret = *ret * 10 + (p[i] - '0');
	}
	return true;
}

int log_stamp_read(const char *stamp, int64_t *ret_us)
{
	struct tm tm = { 0 };
	int us;

	if (stamp[4] != '-' || stamp[7] != '-' || stamp[10] != 'T' || stamp[13] != ':' ||
		stamp[16] != ':' || stamp[19] != '.' || stamp[26] != 'Z' || stamp[27] != ' ')
		return -EINVAL;
	if (!get_digits(stamp, 4, &tm.tm_year) || !get_digits(stamp + 5, 2, &tm.tm_mon) ||
		!get_digits(stamp + 8, 2, &tm.tm_mday) || !get_digits(stamp + 11, 2, &tm.tm_hour) ||
		!get_digits(stamp + 14, 2, &tm.tm_min) || !get_digits(stamp + 17, 2, &tm.tm_sec) ||
		!get_digits(stamp + 20, 6, &us))
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret_us = (int64_t)timegm(&tm) * 1000000 + us;
	return 0;
}
