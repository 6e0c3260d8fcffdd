/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * preemption.command: run again and again, one at a time, each with a limit at which its session is
 * killed. What it says is in its exit status and the first line that it writes. Owned and driven by
 * notices.c.
 */

#include "agent/agent.h"

struct notice_command;

/* What one run came to: a notice, none, or that the command is broken; text is for people, and
 * grace_ms SPEC_UNSET where the line names none. Pure. code and status are waitid()'s. */
enum notice_command_what { NOTICE_COMMAND_NONE, NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_BROKEN };

struct notice_command_result {
	enum notice_command_what what;
	int64_t grace_ms;
	uint64_t time_ms; /* when it said so; the caller's */
	char text[512];
};

/* out, err: the first lines of its streams. */
void notice_command_judge(
	int code, int status, const char *out, const char *err, struct notice_command_result *ret);

/* Whether r, which came after last, is another notice: not where only its text is another ("29 s
 * left", "28 s left"), nor where it leaves as much time as last said, or more. Pure. */
bool notice_command_is_news(
	const struct notice_command_result *last, const struct notice_command_result *r);

/* Begins at once. fn runs for each new notice, never within a call. */
typedef void (*notice_command_fn)(void *arg, const struct notice_command_result *r);
_must_check_ int notice_command_new(
	struct agent *a, notice_command_fn fn, void *arg, struct notice_command **ret);
/* Kills what runs; a child that is left is the caller's guard's. */
struct notice_command *notice_command_free(struct notice_command *c);
/* No further run, and the present one is killed: its end is still to be told. */
void notice_command_end(struct notice_command *c);
/* Whether the child was its. */
bool notice_command_exited(struct notice_command *c, pid_t pid, int code, int status);
/* Of the present run; 0: there is none. */
pid_t notice_command_pid(const struct notice_command *c);
