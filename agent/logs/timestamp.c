/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/timestamp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static void put(char *p, int digits, unsigned value)
{
	while (digits-- > 0) {
		p[digits] = '0' + value % 10;
		value /= 10;
	}
}

void log_stamp_write(char out[LOG_STAMP_LEN], uint64_t real_us)
{
	time_t sec = real_us / 1000000;
	struct tm tm;

	memcpy(out, "0000-00-00T00:00:00.000000Z ", LOG_STAMP_LEN);
	if (!gmtime_r(&sec, &tm))
		return;
	put(out, 4, tm.tm_year + 1900);
	put(out + 5, 2, tm.tm_mon + 1);
	put(out + 8, 2, tm.tm_mday);
	put(out + 11, 2, tm.tm_hour);
	put(out + 14, 2, tm.tm_min);
	put(out + 17, 2, tm.tm_sec);
	put(out + 20, 6, real_us % 1000000);
}

static bool get(const char *p, int digits, int *ret)
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
	if (!get(stamp, 4, &tm.tm_year) || !get(stamp + 5, 2, &tm.tm_mon) ||
		!get(stamp + 8, 2, &tm.tm_mday) || !get(stamp + 11, 2, &tm.tm_hour) ||
		!get(stamp + 14, 2, &tm.tm_min) || !get(stamp + 17, 2, &tm.tm_sec) ||
		!get(stamp + 20, 6, &us))
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret_us = (int64_t)timegm(&tm) * 1000000 + us;
	return 0;
}
