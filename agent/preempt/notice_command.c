/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/notice_command.h"

#include "agent/supervise/side_program.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/duration.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
	COMMAND_LIMIT_MS = 10000,
	COMMAND_LINE = 400,
	COMMAND_SHORTER_MS = 2000, /* "30s", and "29s" a second later, is the same notice */
};

struct notice_command {
	struct supervisor *sv;
	notice_command_fn fn;
	void *arg;
	struct loop_timer *timer;     /* for the next run */
	struct side_program *program; /* NULL: none runs */
	uint64_t started_ms;
	bool ended;
	struct notice_command_result last;
};

/* Takes the word "grace=30s" out of the text. False when it is no duration. */
static bool command_grace(char *text, int64_t *ret_ms)
{
	for (char *p = text; (p = strstr(p, "grace=")); p++) {
		size_t n = strcspn(p, " \t");
		char word[64];

		if (p > text && p[-1] != ' ' && p[-1] != '\t')
			continue;
		snprintf(word, sizeof(word), "%.*s", n < sizeof(word) ? (int)n : 63, p);
		if (duration_parse(word + strlen("grace="), NULL, ret_ms, NULL) < 0)
			return false;
		memmove(p, p + n, strlen(p + n) + 1);
		break;
	}
	for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
		text[n - 1] = '\0';
	memmove(text, text + strspn(text, " "), strlen(text + strspn(text, " ")) + 1);
	return true;
}

void notice_command_evaluate(
	int code, int status, const char *out, const char *err, struct notice_command_result *ret)
{
	const char *said = *err ? err : out;
	char name[SIGNALS_TEXT_MAX];

	*ret = (struct notice_command_result){ .grace_ms = SPEC_UNSET };
	if (code == CLD_EXITED && status == 1)
		return;
	if (code == CLD_EXITED && status == 0) {
		ret->what = NOTICE_COMMAND_NOTICE;
		snprintf(ret->text, sizeof(ret->text), "%.*s", COMMAND_LINE, out);
		if (command_grace(ret->text, &ret->grace_ms))
			return;
		/* A notice with a mistake is still a notice. */
		ret->grace_ms = SPEC_UNSET;
		return;
	}
	ret->what = NOTICE_COMMAND_BROKEN;
	if (code == CLD_EXITED)
		snprintf(ret->text, sizeof(ret->text),
			"it exited with %d, expected 0 (a notice) or 1 (none)%s%.*s", status,
			*said ? ": " : "", COMMAND_LINE, said);
	else
		snprintf(ret->text, sizeof(ret->text), "it was ended by %s%s%.*s",
			signals_name(status, name), *said ? ": " : "", COMMAND_LINE, said);
}

bool notice_command_is_news(
	const struct notice_command_result *last, const struct notice_command_result *r)
{
	if (r->what != NOTICE_COMMAND_NOTICE)
		return false;
	if (last->what != NOTICE_COMMAND_NOTICE)
		return true;
	if (last->grace_ms == SPEC_UNSET || r->grace_ms == SPEC_UNSET)
		return last->grace_ms != r->grace_ms;
	return (int64_t)r->time_ms + r->grace_ms + COMMAND_SHORTER_MS <
	       (int64_t)last->time_ms + last->grace_ms;
}

static int64_t command_limit_ms(const struct notice_command *c)
{
	int64_t poll = supervisor_spec(c->sv)->preemption.poll_ms;

	return poll > COMMAND_LIMIT_MS ? poll : COMMAND_LIMIT_MS;
}

static void command_report(void *arg)
{
	struct notice_command *c = arg;

	c->fn(c->arg, &c->last);
}

/* Logs a result that differs from the last. Reports a notice on a later turn, since more workers
 * may have ended in this one. */
static void command_result(struct notice_command *c, const struct notice_command_result *r)
{
	struct supervisor *sv = c->sv;
	bool news = notice_command_is_news(&c->last, r);
	bool was_broken = c->last.what == NOTICE_COMMAND_BROKEN;

	if (r->what == c->last.what && !news)
		return;
	c->last = *r;
	if (r->what == NOTICE_COMMAND_BROKEN) {
		supervisor_report(sv, LOG_WARNING, "notice-source", -1, NULL,
			"preemption.command is broken: %s", r->text);
	} else if (was_broken) {
		supervisor_report(sv, LOG_NOTICE, "notice-source", -1, NULL,
			"preemption.command works again");
	}
	if (news && loop_defer(supervisor_loop(sv), command_report, c) < 0)
		c->last.what = NOTICE_COMMAND_NONE; /* without memory: the next run reports it */
}

/* Starts the next run once poll has passed since the start of the last one, at once if that took
 * longer. */
static void command_again(struct notice_command *c)
{
	uint64_t poll = (uint64_t)supervisor_spec(c->sv)->preemption.poll_ms;
	uint64_t took = loop_now_ms() - c->started_ms;

	if (!c->ended)
		loop_timer_arm(c->timer, took < poll ? poll - took : 0);
}

static void command_on_end(void *arg, const struct side_program_end *end)
{
	struct notice_command *c = arg;
	struct notice_command_result r = { NOTICE_COMMAND_BROKEN, SPEC_UNSET, 0, "" };

	if (end->late)
		side_program_fault(end, r.text, sizeof(r.text));
	else
		notice_command_evaluate(end->code, end->status, end->out, end->err, &r);
	c->program = side_program_free(c->program);
	if (c->ended)
		return;
	r.time_ms = loop_now_ms();
	command_again(c);
	command_result(c, &r);
}

static void command_start(void *arg)
{
	struct notice_command *c = arg;
	struct notice_command_result r = { NOTICE_COMMAND_BROKEN, SPEC_UNSET, 0, "" };
	const struct side_program_request req = {
		.argv = supervisor_spec(c->sv)->preemption.command,
		.envp = environ,
		.limit_ms = (uint64_t)command_limit_ms(c),
	};
	struct error err = { 0 };

	c->started_ms = loop_now_ms();
	if (side_program_new(c->sv, &req, command_on_end, c, &c->program, &err) == 0)
		return;
	snprintf(r.text, sizeof(r.text), "%.500s", err.text);
	command_again(c);
	command_result(c, &r);
}

int notice_command_new(
	struct supervisor *sv, notice_command_fn fn, void *arg, struct notice_command **ret)
{
	struct notice_command *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct notice_command){ .sv = sv, .fn = fn, .arg = arg };
	if (loop_timer_new(supervisor_loop(sv), command_start, c, &c->timer) < 0) {
		free(c);
		return -ENOMEM;
	}
	loop_timer_arm(c->timer, 0);
	*ret = c;
	return 0;
}

struct notice_command *notice_command_free(struct notice_command *c)
{
	if (!c)
		return NULL;
	loop_cancel(supervisor_loop(c->sv), command_report, c);
	side_program_free(c->program);
	loop_timer_free(c->timer);
	free(c);
	return NULL;
}

void notice_command_end(struct notice_command *c)
{
	c->ended = true;
	loop_timer_disarm(c->timer);
	loop_cancel(supervisor_loop(c->sv), command_report, c);
	if (c->program)
		side_program_kill(c->program);
}

bool notice_command_exited(struct notice_command *c, const siginfo_t *si)
{
	return side_program_exited(c->program, si);
}

pid_t notice_command_pid(const struct notice_command *c)
{
	return side_program_pid(c->program);
}
