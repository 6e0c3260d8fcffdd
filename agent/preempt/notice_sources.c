/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/notice_sources.h"

#include "agent/preempt/notice_command.h"
#include "agent/preempt/service.h"
#include "common/base/log.h"
#include "common/notice/noticer.h"

#include <errno.h>
#include <stdlib.h>

struct notices {
	struct agent *agent;
	struct notice_command *command;
	struct noticer *noticer;
};

static void notices_tell(struct notices *n, const struct preempting_notice *notice)
{
	struct error err = { 0 };

	if (preempting_notice(n->agent, notice, &err) < 0)
		log_debug("a notice of %s changes nothing: %s", notice->source, err.text);
}

static void notices_on_command(void *arg, const struct notice_command_result *r)
{
	const struct preempting_notice notice = {
		.source = "command",
		.reason = r->text[0] ? r->text : NULL,
		.grace_ms = r->grace_ms,
		.deadline_us = SPEC_UNSET,
	};

	notices_tell(arg, &notice);
}

static void notices_on_cloud(void *arg, const struct notice *cloud)
{
	const struct preempting_notice notice = {
		.source = cloud->source,
		.reason = cloud->reason,
		.grace_ms = SPEC_UNSET,
		.deadline_us = cloud->deadline_us,
	};

	notices_tell(arg, &notice);
}

static void notices_on_said(void *arg, int level, const char *source, const char *text)
{
	struct notices *n = arg;
	struct agent *a = n->agent;

	log_msg(level, "%s: %s", source, text);
	events_add(a->events, "notice-source", a->attempt, -1, NULL, "%s: %s", source, text);
}

static int notices_watch(struct notices *n, unsigned sources)
{
	const struct noticer_options opt = {
		.poll_ms = n->agent->spec->preemption.poll_ms,
		.said = notices_on_said,
	};
	int r = noticer_new(n->agent->loop, &opt, notices_on_cloud, n, &n->noticer);

	if (!r)
		noticer_want(n->noticer, sources);
	return r;
}

int notices_new(struct agent *a, struct error *err)
{
	const struct spec_preemption *p = &a->spec->preemption;
	bool command = (p->notices & SPEC_NOTICE_COMMAND) && p->command;
	unsigned cloud = a->opt.foreground ? p->notices & NOTICER_SOURCES : 0;
	struct notices *n;
	int r = 0;

	if (a->opt.foreground && (p->notices & SPEC_NOTICE_LOGIND))
		log_notice("preemption.notices: logind is not watched: only elasticd does that");
	if (!command && !cloud)
		return 0;
	a->notices = n = calloc(1, sizeof(*n));
	if (!n)
		return error_set(err, -ENOMEM, "out of memory");
	n->agent = a;
	if (command)
		r = notice_command_new(a, notices_on_command, n, &n->command);
	if (!r && cloud)
		r = notices_watch(n, cloud);
	return r < 0 ? error_set(err, r, "cannot look for notices: out of memory") : 0;
}

void notices_free(struct agent *a)
{
	if (!a->notices)
		return;
	notice_command_free(a->notices->command);
	noticer_free(a->notices->noticer);
	free(a->notices);
	a->notices = NULL;
}

void notices_end(struct agent *a)
{
	if (!a->notices)
		return;
	if (a->notices->command)
		notice_command_end(a->notices->command);
	a->notices->noticer = noticer_free(a->notices->noticer);
}

bool notices_child_exited(struct agent *a, const siginfo_t *si)
{
	return a->notices && a->notices->command &&
	       notice_command_exited(a->notices->command, si->si_pid, si->si_code, si->si_status);
}

size_t notices_helpers(struct agent *a, pid_t *pids, size_t max)
{
	pid_t pid = a->notices && a->notices->command ? notice_command_pid(a->notices->command) : 0;

	if (pid <= 0 || !max)
		return 0;
	pids[0] = pid;
	return 1;
}
