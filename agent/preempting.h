/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's part around preempt.h: takes notices from wherever they come, keeps the board's
 * words, signals, answers workers, and ends the job as preempted. The files preempting*.c; the
 * workers' calls come from worker_preempt.c.
 */

#include "agent/agent.h"
#include "agent/preempt.h"

enum { PREEMPTING_EXIT_CODE = 42 }; /* where neither the specification nor the host has another */

#define PREEMPTING_REFUSES "a notice of preemption is up: nothing is started again"

struct preempting_notice {
	const char *source;  /* of NOTICE_SOURCES */
	const char *reason;  /* for people, or NULL */
	int64_t grace_ms;    /* SPEC_UNSET: not said */
	int64_t deadline_us; /* real time; SPEC_UNSET: not said. Platforms name it */
};

_must_check_ int preempting_new(struct agent *a, struct error *err);
void preempting_free(struct agent *a);

/* 0, or -ESHUTDOWN with err where the job is at its end anyway. */
_must_check_ int preempting_notice(
	struct agent *a, const struct preempting_notice *n, struct error *err);
bool preempting_is_up(const struct agent *a);

void preempting_task_started(struct agent *a, struct task *t);
/* What the end of t means while a notice is up; to be asked before the end is judged. text: how it
 * left, where it did ("left after saving step 41"), else "". */
enum preempt_meaning preempting_task_ended(
	struct agent *a, struct task *t, char *text, size_t size);
/* judge.c: nobody is left, and not all had succeeded. */
void preempting_all_left(struct agent *a);
/* The job is stopped or ended for another reason. */
void preempting_cancel(struct agent *a);
/* signals.c: whether signo, which the agent got, was taken as a notice. */
bool preempting_signal(struct agent *a, int signo);
/* resume.c: an event of an agent that was lost; whether it was lost with a notice up, which then
 * ends the job, for the reason that is set. */
void preempting_past_note(struct agent *a, const json_t *event);
bool preempting_past(struct agent *a);

/* worker_preempt.c: t begins step. answer runs when it is known, perhaps within the call. error:
 * the group has an error, and the caller answers with that instead. */
typedef void (*preempting_answer_fn)(void *arg, enum preempt_order order, int64_t at);
void preempting_ask(
	struct agent *a, struct task *t, int64_t step, preempting_answer_fn answer, void *arg);
void preempting_forget(struct agent *a, struct task *t);
/* path: NULL: not told. -ERANGE where it was not asked to save there, -ENOENT without a notice. */
_must_check_ int preempting_saved(
	struct agent *a, struct task *t, int64_t step, const char *path, struct error *err);
/* The group has, or no longer has, an error that tasks are to hear of: for the board. */
void preempting_error(struct agent *a, bool up);

/* io.elasticd.Worker.Notice and io.elasticd.Manager.Preemption, owned; NULL without a notice. */
json_t *preempting_notice_json(const struct agent *a);
json_t *preempting_json(const struct agent *a);
/* The code with which workers leave, and `run`. */
int preempting_exit_code(const struct agent *a);
/* Lines for people about the notice, "" without one; owned, NULL without memory. */
char *preempting_why_text(const struct agent *a);
/* Adds saved_step and saved_path to t's JSON. 0 or -ENOMEM. */
_must_check_ int preempting_task_json(const struct agent *a, const struct task *t, json_t *task);
