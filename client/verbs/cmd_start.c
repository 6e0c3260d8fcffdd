/* SPDX-License-Identifier: Apache-2.0 */
/* run and start: the same command line, in the foreground or under elasticd. */
#include "client/base/follow.h"
#include "client/base/job.h"
#include "client/launch/export.h"
#include "client/launch/launch.h"
#include "client/verbs/command_line.h"
#include "client/verbs/verbs.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/paths.h"
#include "common/spec/spec.h"
#include "common/text/duration.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

/* How long start waits for the workers to execute. */
enum { BEGIN_MS = 5000 };

/* Writes the specification to a file without a name; the agent inherits its descriptor. */
static int spec_fd(const json_t *spec)
{
	_cleanup_free_ char *text = json_dumps(spec, JSON_COMPACT);
	_cleanup_close_ int fd = -1;
	int r;

	if (!text)
		return -ENOMEM;
	fd = memfd_create("elasticd-spec", 0);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, text, strlen(text));
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Executes the agent in our place. Returns only on failure. */
static int become_agent(struct ctl *ctl, const json_t *spec)
{
	const char *error_file = getenv("TORCHELASTIC_ERROR_FILE");
	_cleanup_free_ char *program = NULL, *file_option = NULL;
	char fd_option[32];
	struct error err = { 0 };
	int fd;

	program = paths_agent_program(NULL, &err);
	if (!program)
		return ctl_error(ctl, CTL_FAILED, "%s", err.text);
	fd = spec_fd(spec);
	if (fd < 0)
		return ctl_error(
			ctl, CTL_FAILED, "cannot hand on the specification: %s", strerror(-fd));
	snprintf(fd_option, sizeof(fd_option), "--spec-fd=%d", fd);
	if (error_file && *error_file && asprintf(&file_option, "--error-file=%s", error_file) < 0)
		file_option = NULL;
	execl(program, "elastic-agent", fd_option, "--foreground", file_option, (char *)NULL);
	return ctl_error(ctl, CTL_FAILED, "cannot execute %s: %s", program, strerror(errno));
}

int cmd_run(struct ctl *ctl, struct args *args)
{
	struct launch launch = { 0 };
	int r = command_line_read(ctl, args, COMMAND_RUN, &launch);

	if (r != 0)
		return r < 0 ? 0 : r;
	if (ctl->timeout_ms >= 0)
		r = ctl_usage(ctl, "--timeout is not for run; --max-run-time limits a job's time");
	else
		r = become_agent(ctl, launch.spec);
	launch_fini(&launch);
	return r;
}

static int wait_run(struct ctl *ctl, const char *name, const char *run)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *verdict = NULL;
	json_t *job;
	int r;

	ctl_waiting(ctl, "%s to end", name);
	r = ctl_call(ctl, "Wait", ctl_job(run), &answer);
	if (r != 0)
		return r;
	job = json_object_get(answer, "job");
	if (ctl->json)
		ctl_print_json(job, false);
	verdict = job_verdict_text(job);
	ctl_say(ctl, "%s %s", name, verdict ? verdict : "ended");
	return job_exit_status(job);
}

/* How long others wait for a job to be ready; -1: without a limit. */
static int64_t ready_timeout(const json_t *spec)
{
	_cleanup_(spec_freep) struct spec *s = NULL;

	return spec_parse(spec, &s, NULL) < 0 ? -1 : s->ready.timeout_ms;
}

/* limit_ms (-1: none) began at since_ms. */
static int wait_ready(
	struct ctl *ctl, const char *name, const char *run, int64_t limit_ms, int64_t since_ms)
{
	int64_t left_ms = since_ms + limit_ms - (int64_t)monotonic_ms();
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL, *verdict = NULL;
	json_t *job, *p = ctl_with(ctl_job(run), "until", json_string("ready"));
	char took[DURATION_TEXT_MAX];
	struct error err = { 0 };
	int r;

	/* With --timeout the connection has a limit. */
	if (ctl->timeout_ms < 0 && limit_ms >= 0)
		p = ctl_with(p, "timeout_ms", json_integer(left_ms > 0 ? left_ms : 0));
	ctl_waiting(ctl, "%s to be ready", name);
	r = ctl_try(ctl, "Wait", p, &answer, &refusal, &err);
	if (refusal && !strcmp(refusal, "DeadlineExceeded"))
		return ctl_error(ctl, CTL_TIMED_OUT, "%s is not ready after %s, and goes on", name,
			duration_text(limit_ms, took));
	if (refusal)
		return ctl_error(ctl, r, "%s", err.text);
	if (r != 0)
		return r;
	job = json_object_get(answer, "job");
	if (!job_ended(job)) {
		ctl_say(ctl, "%s is ready", name);
		return 0;
	}
	verdict = job_verdict_text(job);
	return ctl_error(
		ctl, CTL_REFUSED, "%s is not ready: it %s", name, verdict ? verdict : "has ended");
}

static const json_t *root_cause(const json_t *job)
{
	return json_object_get(json_object_get(job, "verdict"), "root_cause");
}

/* Whether the workers of a job that ended quickly were ever executed. */
static bool was_executed(const json_t *job)
{
	json_t *worker;
	size_t i;

	json_array_foreach (json_object_get(job, "workers"), i, worker)
		if (has_value(worker, "pid"))
			return !has_value(json_object_get(root_cause(job), "exit"), "error");
	return false;
}

/*
 * Waits until the workers execute and reports that they were started, or that they never were.
 * Stops waiting for a job that takes longer than limit_ms. ret_job: its last state (owned), or NULL
 * if unknown.
 */
static int wait_begun(
	struct ctl *ctl, const char *name, const char *run, int64_t limit_ms, json_t **ret_job)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	json_t *job, *p = ctl_with(ctl_job(run), "until", json_string("running"));
	struct error err = { 0 };
	int r = ctl_try(ctl, "Wait", ctl_with(p, "timeout_ms", json_integer(limit_ms)), &answer,
		&refusal, &err);

	*ret_job = NULL;
	if (r != 0) {
		if (refusal && !strcmp(refusal, "DeadlineExceeded"))
			ctl_say(ctl,
				"%s is starting (run %s), and does not run yet; \"elasticctl status "
				"%s\" tells more",
				name, run, name);
		return refusal ? 0 : r;
	}
	job = json_object_get(answer, "job");
	if (!job_ended(job) || was_executed(job))
		ctl_say(ctl, "started %s (run %s)", name, run);
	fflush(stdout);
	*ret_job = json_incref(job);
	return 0;
}

/* Reports how the job began, for a start without --follow: a command that cannot be executed, or
 * fails at once, is an error. */
static int report_begin(struct ctl *ctl, const char *name, const json_t *job)
{
	_cleanup_free_ char *verdict = NULL;

	if (!job || !job_ended(job) || job_exit_status(job) == 0)
		return 0;
	verdict = job_verdict_text(job);
	if (!has_value(json_object_get(job, "verdict"), "root_cause"))
		return ctl_error(ctl, CTL_REFUSED, "%s %s", name, verdict ? verdict : "failed");
	return ctl_error(ctl, CTL_REFUSED, "%s %s; \"elasticctl errors %s\" tells more", name,
		verdict ? verdict : "failed", name);
}

static int start_job(struct ctl *ctl, struct args *args, json_t *spec)
{
	_cleanup_json_ json_t *answer = NULL, *begun = NULL;
	bool follow = args_has(args, "follow"), wait = args_has(args, "wait");
	bool ready = args_has(args, "wait-ready");
	struct error err = { 0 };
	int64_t limit_ms = ready ? ready_timeout(spec) : -1, since_ms;
	const char *job, *run;
	json_t *p;
	int r;

	if (ready && (follow || wait || args_has(args, "no-wait")))
		return ctl_usage(ctl, "--wait-ready goes without --follow, --wait and --no-wait");
	if (export_env(spec, args_get(args, "export"), environ, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	p = ctl_with(json_object(), "spec", json_incref(spec));
	r = ctl_call(ctl, "Start", p, &answer);
	if (r != 0)
		return r;
	job = get_text(answer, "job");
	run = get_text(answer, "run");
	if (!job || !run)
		return ctl_error(ctl, CTL_FAILED, "elasticd's answer lacks the job");
	if (ctl->json && !wait)
		ctl_print_json(answer, follow);
	if (args_has(args, "no-wait") && !follow && !wait) {
		ctl_say(ctl, "%s is starting (run %s)", job, run);
		return 0;
	}
	since_ms = (int64_t)monotonic_ms();
	r = wait_begun(
		ctl, job, run, limit_ms >= 0 && limit_ms < BEGIN_MS ? limit_ms : BEGIN_MS, &begun);
	if (r != 0)
		return r;
	if (follow)
		return follow_run(ctl, job, run);
	if (wait)
		return wait_run(ctl, job, run);
	if (ready)
		return wait_ready(ctl, job, run, limit_ms, since_ms);
	return report_begin(ctl, job, begun);
}

int cmd_start(struct ctl *ctl, struct args *args)
{
	struct launch launch = { 0 };
	int r;

	signal(SIGPIPE, SIG_DFL);
	r = command_line_read(ctl, args, COMMAND_START, &launch);
	if (r != 0)
		return r < 0 ? 0 : r;
	ctl->verdict_status = args_has(args, "follow") || args_has(args, "wait");
	r = start_job(ctl, args, launch.spec);
	launch_fini(&launch);
	return r;
}
