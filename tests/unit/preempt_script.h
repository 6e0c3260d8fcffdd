/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The caller of agent/preempt/machine.h in tests: a board, a clock, and the machine's orders as
 * one line of words: "announce read publish:41 answer:0:save signal:2 stop clear". READ is answered
 * at once from the board, unless `slow` is set. The texts of REPORT are in `reports`, one a line.
 */

#include "agent/preempt/machine.h"
#include "tests/unit/child.h"

#include <stdarg.h>
#include <stdio.h>

enum { SCRIPT_WORKERS = 8, STOP_MS = 30000 };

static struct spec_preemption spec;
static struct preempt *p;
static struct preempt_sample board[SCRIPT_WORKERS];
static bool runs[SCRIPT_WORKERS];
static uint64_t now;
static bool slow;
static char reports[8192], why[256];

static void setup(void)
{
	spec = (struct spec_preemption){ .grace_ms = SPEC_UNSET, .timeout_ms = 600000 };
	p = preempt_new(&spec, STOP_MS);
	ck_assert_ptr_nonnull(p);
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < SCRIPT_WORKERS; i++)
		board[i] = (struct preempt_sample){ .slot = i };
	now = 1000000;
	slow = false;
	reports[0] = why[0] = '\0';
}

static void teardown(void)
{
	p = preempt_free(p);
}

/* Starts a worker that has reported step; a negative step: none. */
static void start(int slot, int64_t step)
{
	char name[16];

	snprintf(name, sizeof(name), "worker:%d", slot);
	ck_assert_int_eq(preempt_started(p, slot, name), 0);
	runs[slot] = true;
	board[slot].stepped = board[slot].connected = step >= 0;
	board[slot].step = step;
	board[slot].steps = step >= 0 ? (uint64_t)step + 1 : 0;
}

static void look(void)
{
	struct preempt_sample s[SCRIPT_WORKERS];
	size_t n = 0;

	for (int i = 0; i < SCRIPT_WORKERS; i++)
		if (runs[i])
			s[n++] = board[i];
	preempt_read(p, s, n, now);
}

static void say(char *line, size_t size, const char *fmt, ...)
{
	size_t used = strlen(line);
	va_list ap;

	if (used && used + 1 < size)
		line[used++] = ' ';
	va_start(ap, fmt);
	vsnprintf(line + used, size - used, fmt, ap);
	va_end(ap);
}

static void number(char *text, size_t size, int64_t n)
{
	if (n == INT64_MAX || n == INT64_MIN)
		snprintf(text, size, "%s", n > 0 ? "max" : "min");
	else
		snprintf(text, size, "%lld", (long long)n);
}

static void say_one(const struct preempt_do *d, char *line, size_t size)
{
	static const char *const orders[] = { "continue", "save", "save_exit", "exit" };
	char n[32];

	number(n, sizeof(n), d->step);
	switch (d->what) {
	case PREEMPT_ANNOUNCE:
		say(line, size, "announce");
		break;
	case PREEMPT_READ:
		say(line, size, "read");
		if (!slow)
			look();
		break;
	case PREEMPT_PUBLISH:
		say(line, size, "publish:%s", n);
		break;
	case PREEMPT_ANSWER:
		say(line, size, "%d:%s@%s", d->worker, orders[d->order], n);
		break;
	case PREEMPT_SIGNAL:
		say(line, size, "signal:%d", d->worker);
		break;
	case PREEMPT_REPORT:
		snprintf(reports + strlen(reports), sizeof(reports) - strlen(reports), "%s\n",
			d->text);
		break;
	case PREEMPT_STOP:
		say(line, size, "stop");
		snprintf(why, sizeof(why), "%s", d->text);
		break;
	case PREEMPT_CLEAR:
		say(line, size, "clear");
		break;
	case PREEMPT_NOTHING:
		break;
	}
}

/* All orders of the machine. */
static const char *says(void)
{
	static char line[4096];
	struct preempt_do d;

	line[0] = '\0';
	for (int i = 0; preempt_next(p, &d) != PREEMPT_NOTHING; i++) {
		say_one(&d, line, sizeof(line));
		ck_assert_int_lt(i, 1000);
	}
	return line;
}

#define expect(text) ck_assert_str_eq(says(), text)

static void notice(bool grace, int64_t ms)
{
	struct preempt_notice n = { now, ms < 0 ? SPEC_UNSET : (int64_t)now + ms, "operator",
		"maintenance" };

	preempt_notice(p, &n, grace);
}

/* slot begins step and asks, as the board requires. */
static void ask(int slot, int64_t step)
{
	board[slot].stepped = board[slot].connected = true;
	board[slot].step = step;
	board[slot].steps++;
	preempt_add_question(p, slot, step, now);
}

/* slot begins step and has no reason to ask. */
static void begin(int slot, int64_t step)
{
	board[slot].stepped = board[slot].connected = true;
	board[slot].step = step;
	board[slot].steps++;
}

static enum preempt_meaning end(int slot, enum preempt_end how)
{
	runs[slot] = false;
	preempt_add_sample(p, &board[slot], now);
	return preempt_ended(p, slot, how, now);
}

#define saved(slot, step) ck_assert_int_eq(preempt_saved(p, slot, step, now), 0)
#define saved_again(slot, step) ck_assert_int_eq(preempt_saved(p, slot, step, now), 1)
#define state_is(name) ck_assert_str_eq(preempt_state_name(preempt_view(p).state), name)

static const char *missing(void)
{
	static char text[1024];

	preempt_missing(p, text, sizeof(text));
	return text;
}
