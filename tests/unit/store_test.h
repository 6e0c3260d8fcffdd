/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tests of the store share these: answers and changes as one line of text, and waiting for them. */

#include "agent/store/store.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct loop *loop;
static char trace[8192];

static inline void trace_clear(void)
{
	trace[0] = '\0';
}

__attribute__((format(printf, 1, 2))) static inline void trace_add(const char *fmt, ...)
{
	size_t n = strlen(trace);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(trace + n, sizeof(trace) - n, fmt, ap);
	va_end(ap);
}

/* Everything that was posted has been done, also by those who were answered. */
static inline void settle(void)
{
	for (int i = 0; i < 8; i++)
		loop_run_once(loop, false);
}

/* " tag:OK a=1 b=2" */
static inline void on_traced(void *arg, const struct store_answer *a)
{
	trace_add(" %s:%s", (const char *)arg, status_name(a->status));
	for (size_t i = 0; i < a->n && i < 20; i++)
		trace_add(" %s=%.*s", a->entries[i].key, (int)a->entries[i].len,
			(const char *)a->entries[i].value);
	if (a->deleted)
		trace_add(" -%lld", (long long)a->deleted);
}

/* " tag+a=1", " tag-a" */
static inline void on_traced_change(void *arg, const struct store_entry *entry, bool gap)
{
	if (gap)
		trace_add(" %s!gap", (const char *)arg);
	else if (entry->value)
		trace_add(" %s+%s=%.*s", (const char *)arg, entry->key, (int)entry->len,
			(const char *)entry->value);
	else
		trace_add(" %s-%s", (const char *)arg, entry->key);
}

static inline void *tag(const char *name)
{
	return (void *)(uintptr_t)name;
}
