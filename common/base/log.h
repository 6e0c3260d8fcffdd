/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The programs' own messages: one line each, to standard error, to a sink (the journal), or
 * both. Levels are syslog's (LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG).
 * common/ itself logs nothing above LOG_DEBUG: it returns errors, and the caller that decides logs.
 */

#include <stddef.h>
#include <syslog.h>

/* Extra fields of a structured message; names are upper case. Ends with a NULL name. */
struct log_field {
	const char *name;
	const char *value;
};

/* "program: context: warning: text" as it stands on standard error, without a newline, in buf of
 * size bytes. */
void log_format(int level, const char *text, char *buf, size_t size);

/* Receives each message that passes the level; fields may be NULL. */
typedef void (*log_sink_fn)(int level, const char *text, const struct log_field *fields);

/* name is printed before each line on standard error ("elasticd: ..."). */
void log_init(const char *name, int max_level);
void log_set_level(int max_level);

/* Text printed in front of each line, after the program's name (a job's name); NULL for none. */
void log_set_context(const char *context);

/* Messages go to fn too; with exclusive set, no longer to standard error. NULL removes it. */
void log_set_sink(log_sink_fn fn, int exclusive);

/* Parses err|warning|notice|info|debug or 0..7. Returns the level or -EINVAL. */
int log_level_from_string(const char *s);

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_fields(int level, const struct log_field *fields, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)
