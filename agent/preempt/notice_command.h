/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * preemption.command: runs it again and again, one run at a time, each with a time limit after
 * which its session is killed. The command answers with its exit status and its first line of
 * output. Owned by notice_sources.c.
 */

#include "agent/supervise/supervisor.h"

struct notice_command;

/* The result of one run: a notice, no notice, or a broken command. text is for people; grace_ms is
 * SPEC_UNSET when the line names none. Pure. code and status are waitid()'s. */
enum notice_command_what { NOTICE_COMMAND_NONE, NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_BROKEN };

struct notice_command_result {
	enum notice_command_what what;
	int64_t grace_ms;
	uint64_t time_ms; /* when it ended; set by the caller */
	char text[512];
};

/* out, err: the first lines of its streams. */
void notice_command_evaluate(
	int code, int status, const char *out, const char *err, struct notice_command_result *ret);

/* True when r, which came after last, is a new notice. False when only the text differs ("29 s
 * left", "28 s left"), or when r leaves as much time as last, or more. Pure. */
bool notice_command_is_news(
	const struct notice_command_result *last, const struct notice_command_result *r);

/* Starts the first run at once. fn runs for each new notice, never from inside a call. */
typedef void (*notice_command_fn)(void *arg, const struct notice_command_result *r);
_must_check_ int notice_command_new(
	struct supervisor *sv, notice_command_fn fn, void *arg, struct notice_command **ret);
/* Kills the present run; the agent's guard reaps it. */
struct notice_command *notice_command_free(struct notice_command *c);
/* Starts no further run, and kills the present one, whose end is still reported. */
void notice_command_end(struct notice_command *c);
/* True when that was the command's process. */
bool notice_command_exited(struct notice_command *c, const siginfo_t *si);
/* The process of the present run; 0: none. */
pid_t notice_command_pid(const struct notice_command *c);
