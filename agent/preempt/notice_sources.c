/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/notice_sources.h"

#include "agent/preempt/notice_command.h"
#include "agent/preempt/private.h"
#include "common/base/log.h"
#include "common/notice/noticer.h"

#include <errno.h>
#include <stdlib.h>

struct notice_sources {
	struct supervisor *sv;
	struct notice_command *command;
	struct noticer *noticer;
};

static struct notice_sources *notice_sources_of(const struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);

	return p ? p->notices : NULL;
}

static void notice_sources_take(struct notice_sources *n, const struct preempting_notice *notice)
{
	struct error err = { 0 };

	if (preempting_notice(n->sv, notice, &err) < 0)
		log_debug("a notice of %s changes nothing: %s", notice->source, err.text);
}

static void notice_sources_on_command(void *arg, const struct notice_command_result *r)
{
	const struct preempting_notice notice = {
		.source = "command",
		.reason = r->text[0] ? r->text : NULL,
		.grace_ms = r->grace_ms,
		.deadline_us = SPEC_UNSET,
	};

	notice_sources_take(arg, &notice);
}

static void notice_sources_on_cloud(void *arg, const struct notice *cloud)
{
	const struct preempting_notice notice = {
		.source = cloud->source,
		.reason = cloud->reason,
		.grace_ms = SPEC_UNSET,
		.deadline_us = cloud->deadline_us,
	};

	notice_sources_take(arg, &notice);
}

static void notice_sources_on_said(void *arg, int level, const char *source, const char *text)
{
	struct notice_sources *n = arg;

	supervisor_report(n->sv, level, "notice-source", -1, NULL, "%s: %s", source, text);
}

static int notice_sources_watch(struct notice_sources *n, unsigned sources)
{
	const struct noticer_options opt = {
		.poll_ms = supervisor_spec(n->sv)->preemption.poll_ms,
		.message = notice_sources_on_said,
	};
	int r = noticer_new(supervisor_loop(n->sv), &opt, notice_sources_on_cloud, n, &n->noticer);

	if (!r)
		noticer_want(n->noticer, sources);
	return r;
}

int notice_sources_new(struct supervisor *sv, struct error *err)
{
	const struct spec_preemption *p = &supervisor_spec(sv)->preemption;
	bool command = (p->notices & SPEC_NOTICE_COMMAND) && p->command;
	unsigned cloud = supervisor_options(sv)->foreground ? p->notices & NOTICER_SOURCES : 0;
	struct notice_sources *n;
	int r = 0;

	if (supervisor_options(sv)->foreground && (p->notices & SPEC_NOTICE_LOGIND))
		log_notice("preemption.notices: logind is not watched: only elasticd does that");
	if (!command && !cloud)
		return 0;
	preempting_of(sv)->notices = n = calloc(1, sizeof(*n));
	if (!n)
		return error_set(err, -ENOMEM, "out of memory");
	n->sv = sv;
	if (command)
		r = notice_command_new(sv, notice_sources_on_command, n, &n->command);
	if (!r && cloud)
		r = notice_sources_watch(n, cloud);
	return r < 0 ? error_set(err, r, "cannot watch for notices: out of memory") : 0;
}

void notice_sources_free(struct supervisor *sv)
{
	struct notice_sources *n = notice_sources_of(sv);

	if (!n)
		return;
	notice_command_free(n->command);
	noticer_free(n->noticer);
	free(n);
	preempting_of(sv)->notices = NULL;
}

void notice_sources_stop(struct supervisor *sv)
{
	struct notice_sources *n = notice_sources_of(sv);

	if (!n)
		return;
	if (n->command)
		notice_command_end(n->command);
	n->noticer = noticer_free(n->noticer);
}

bool notice_sources_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	struct notice_sources *n = notice_sources_of(sv);

	return n && n->command && notice_command_exited(n->command, si);
}

size_t notice_sources_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	struct notice_sources *n = notice_sources_of(sv);
	pid_t pid = n && n->command ? notice_command_pid(n->command) : 0;

	if (pid <= 0 || !max)
		return 0;
	pids[0] = pid;
	return 1;
}
