/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include "common/base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2304 };

static const char *log_name = "elastic";
static const char *log_context;
static int log_max = LOG_INFO;
static log_sink_fn log_sink;
static int log_sink_exclusive;

void log_init(const char *name, int max_level)
{
	log_name = name;
	log_max = max_level;
}

void log_set_level(int max_level)
{
	log_max = max_level;
}

void log_set_context(const char *context)
{
	log_context = context;
}

void log_set_sink(log_sink_fn fn, int exclusive)
{
	log_sink = fn;
	log_sink_exclusive = fn && exclusive;
}

int log_level_from_string(const char *s)
{
	static const char *const names[] = {
		[LOG_EMERG] = "emerg",
		[LOG_ALERT] = "alert",
		[LOG_CRIT] = "crit",
		[LOG_ERR] = "err",
		[LOG_WARNING] = "warning",
		[LOG_NOTICE] = "notice",
		[LOG_INFO] = "info",
		[LOG_DEBUG] = "debug",
	};

	if (s[0] >= '0' && s[0] <= '7' && !s[1])
		return s[0] - '0';
	for (int i = 0; i <= LOG_DEBUG; i++)
		if (!strcasecmp(s, names[i]))
			return i;
	if (!strcasecmp(s, "error"))
		return LOG_ERR;
	return -EINVAL;
}

void log_format(int level, const char *text, char *buf, size_t size)
{
	char line[LINE_MAX_BYTES];

	snprintf(line, sizeof(line), "%s: %s%s%s%s", log_name, log_context ? log_context : "",
		log_context ? ": " : "",
		level <= LOG_ERR       ? "error: "
		: level == LOG_WARNING ? "warning: "
				       : "",
		text);
	printable_copy(buf, size, line);
}

static void log_emit(int level, const struct log_field *fields, const char *fmt, va_list ap)
{
	char text[2048];
	char line[2 * LINE_MAX_BYTES];
	int saved = errno;
	size_t n;

	vsnprintf(text, sizeof(text), fmt, ap);
	if (log_sink)
		log_sink(level, text, fields);
	if (!log_sink_exclusive) {
		log_format(level, text, line, sizeof(line) - 1);
		n = strlen(line);
		line[n++] = '\n';
		/* One write, so that lines of several processes do not mix. */
		if (write(STDERR_FILENO, line, n) < 0) {
			/* There is no other place to report it. */
		}
	}
	errno = saved;
}

void log_msg(int level, const char *fmt, ...)
{
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	log_emit(level, NULL, fmt, ap);
	va_end(ap);
}

void log_fields(int level, const struct log_field *fields, const char *fmt, ...)
{
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	log_emit(level, fields, fmt, ap);
	va_end(ap);
}
