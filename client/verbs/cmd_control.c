/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that change a job: stop, restart, scale, kill. They wait for the effect and report it.
 */
#include "client/base/address.h"
#include "client/base/job.h"
#include "client/base/job_names.h"
#include "client/output/plural.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"
#include "client/verbs/workers.h"
#include "common/base/scan.h"
#include "common/base/signals.h"
#include "common/spec/spec.h"

#include <string.h>

/* Without waiting only whole jobs can be named. */
static int check_names(struct ctl *ctl, const struct args *args, const struct job_names *names)
{
	for (int i = 0; i < names->n; i++)
		if (args_has(args, "no-wait") && workers_text(names->names[i]))
			return ctl_usage(
				ctl, "--no-wait is for whole jobs, got \"%s\"", names->names[i]);
	return 0;
}

static int first_failure(int a, int b)
{
	return a ? a : b;
}

static int stop_job(struct ctl *ctl, const char *name, int64_t grace_ms)
{
	json_t *p = ctl_job(name);

	if (grace_ms >= 0)
		p = ctl_with(p, "timeout_ms", json_integer(grace_ms));
	return ctl_call(ctl, "Stop", p, NULL);
}

static int wait_stopped(struct ctl *ctl, const char *name, int64_t began_us, json_t *report)
{
	_cleanup_json_ json_t *job = NULL;
	int r = job_wait_end(ctl, name, name, "stopped", began_us, &job);

	if (r == 0)
		json_array_append(report, job);
	return r;
}

/* Returns the first status that is not 0. */
static int stop_names(struct ctl *ctl, const struct args *args, const struct job_names *names,
	int64_t grace_ms, json_t *report)
{
	_cleanup_free_ int *status = calloc(names->n + 1, sizeof(*status));
	int64_t began_us = ctl_now_us();
	int result = 0;

	if (!status)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	/* Asks all jobs first, so that they stop at the same time. */
	for (int i = 0; i < names->n; i++)
		if (!workers_text(names->names[i]))
			status[i] = stop_job(ctl, names->names[i], grace_ms);
	for (int i = 0; i < names->n; i++) {
		const char *name = names->names[i];

		if (workers_text(name))
			status[i] = workers_stop(ctl, name, grace_ms, false, report);
		else if (status[i] == 0 && args_has(args, "no-wait"))
			ctl_say(ctl, "%s is stopping", name);
		else if (status[i] == 0)
			status[i] = wait_stopped(ctl, name, began_us, report);
		result = first_failure(result, status[i]);
	}
	return result;
}

int cmd_stop(struct ctl *ctl, struct args *args)
{
	_cleanup_(job_names_fini) struct job_names names = { 0 };
	_cleanup_json_ json_t *report = json_array();
	int64_t grace_ms = -1;
	struct error err = { 0 };
	int r;

	if (args_duration(args, "grace", &grace_ms, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	r = job_names_get(ctl, args, JOB_NAMES_ACTIVE, &names);
	if (r == 0)
		r = check_names(ctl, args, &names);
	if (r != 0)
		return r;
	r = stop_names(ctl, args, &names, grace_ms, report);
	if (ctl->json)
		ctl_print_json(report, false);
	return r;
}

struct next {
	const char *run;
	int64_t attempt;
	int64_t began_us; /* when the caller asked */
	const char *role;
	int replicas; /* -1: any number */
};

/* Whether an attempt after the one in arg runs. */
static bool runs_next_attempt(const json_t *job, void *arg)
{
	const struct next *n = arg;
	const char *run = get_text(job, "run");

	if (!job_in(job, "running"))
		return false;
	if (n->replicas >= 0 && job_workers(job, n->role) != n->replicas)
		return false;
	return get_int(job, "attempt") > n->attempt || (run && n->run && strcmp(run, n->run) != 0);
}

/* Waits for the next attempt and reports it. verb: "restarted". */
static int wait_next_attempt(struct ctl *ctl, const char *name, const char *run, const char *verb,
	struct next *n, json_t *report)
{
	_cleanup_json_ json_t *job = NULL;
	_cleanup_free_ char *verdict = NULL;
	char took[TIME_TEXT_MAX];
	int workers;
	int r = job_wait(ctl, run, runs_next_attempt, n, &job);

	if (r != 0)
		return r;
	json_array_append(report, job);
	if (job_ended(job)) {
		verdict = job_verdict_text(job);
		if (job_exit_status(job) != 0)
			return ctl_error(ctl, CTL_REFUSED, "%s %s, but it ended: %s", name, verb,
				verdict ? verdict : "?");
		ctl_say(ctl, "%s %s, and has ended: %s", name, verb, verdict ? verdict : "?");
		return 0;
	}
	workers = job_workers(job, NULL);
	time_text_since(ctl_now_us(), n->began_us, took);
	ctl_say(ctl, "%s %s: attempt %d runs with %d worker%s after %s (run %s)", name, verb,
		(int)get_int(job, "attempt"), workers, plural(workers), took,
		get_text(job, "run") ? get_text(job, "run") : run);
	return 0;
}

/* One restart. */
struct again {
	json_t *before; /* the job before */
	char *run;	/* NULL: only some workers restart, or the service refused */
	int64_t began_us;
	int status;
};

static int restart_job(struct ctl *ctl, const char *name, struct again *a)
{
	_cleanup_json_ json_t *answer = NULL;
	const char *run;
	int r = job_status(ctl, name, false, &a->before);

	a->began_us = ctl_now_us();
	if (r == 0)
		r = ctl_call(ctl, "Restart", ctl_job(name), &answer);
	if (r != 0)
		return r;
	run = get_text(answer, "run");
	a->run = strdup(run ? run : name);
	return a->run ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

static int wait_restarted(struct ctl *ctl, const char *name, struct again *a, json_t *report)
{
	struct next n = { .run = get_text(a->before, "run"),
		.attempt = get_int(a->before, "attempt"),
		.began_us = a->began_us,
		.replicas = -1 };

	return wait_next_attempt(ctl, name, a->run, "restarted", &n, report);
}

/* Returns the first status that is not 0. */
static int restart_names(struct ctl *ctl, const struct job_names *names, bool wait, json_t *report)
{
	_cleanup_free_ struct again *again = calloc(names->n + 1, sizeof(*again));
	int result = 0;

	if (!again)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	/* Asks all jobs first, so that they restart at the same time. */
	for (int i = 0; i < names->n; i++)
		if (!workers_text(names->names[i]))
			again[i].status = restart_job(ctl, names->names[i], &again[i]);
	for (int i = 0; i < names->n; i++) {
		const char *name = names->names[i];
		int r = again[i].status;

		if (workers_text(name))
			r = workers_stop(ctl, name, -1, true, report);
		else if (r == 0 && wait)
			r = wait_restarted(ctl, name, &again[i], report);
		else if (r == 0)
			ctl_say(ctl, "%s is restarting (run %s)", name, again[i].run);
		result = first_failure(result, r);
		json_decref(again[i].before);
		free(again[i].run);
	}
	return result;
}

int cmd_restart(struct ctl *ctl, struct args *args)
{
	_cleanup_(job_names_fini) struct job_names names = { 0 };
	_cleanup_json_ json_t *report = json_array();
	int r = job_names_get(ctl, args, JOB_NAMES_ACTIVE, &names);

	if (r == 0)
		r = check_names(ctl, args, &names);
	if (r != 0)
		return r;
	r = restart_names(ctl, &names, !args_has(args, "no-wait"), report);
	if (ctl->json)
		ctl_print_json(report, false);
	return r;
}

int cmd_scale(struct ctl *ctl, struct args *args)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *before = NULL, *report = json_array();
	struct next n = { 0 };
	struct error err = { 0 };
	uint64_t replicas;
	json_t *p;
	int r;

	if (address_parse(args->argv[0], &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (a.ranks || a.indexes)
		return ctl_usage(ctl, "expected JOB or JOB/ROLE, got \"%s\"", args->argv[0]);
	if (scan_whole(args->argv[1], SPEC_REPLICAS_MAX, &replicas) < 0 || replicas == 0)
		return ctl_usage(ctl, "REPLICAS: expected an integer from 1 to %d, got \"%s\"",
			SPEC_REPLICAS_MAX, args->argv[1]);
	r = job_status(ctl, a.job, false, &before);
	if (r != 0)
		return r;
	p = ctl_with(ctl_job(a.job), "replicas", json_integer((json_int_t)replicas));
	if (a.role)
		p = ctl_with(p, "role", json_string(a.role));
	r = ctl_call(ctl, "Scale", p, NULL);
	if (r != 0)
		return r;
	n = (struct next){ get_text(before, "run"), get_int(before, "attempt"), ctl_now_us(),
		a.role, (int)replicas };
	if (job_workers(before, a.role) == n.replicas) {
		ctl_say(ctl, "%s has %d worker%s already", args->argv[0], n.replicas,
			plural(n.replicas));
		json_array_append(report, before);
	} else if (args_has(args, "no-wait")) {
		ctl_say(ctl, "%s is being scaled to %d worker%s", args->argv[0], n.replicas,
			plural(n.replicas));
	} else {
		r = wait_next_attempt(
			ctl, args->argv[0], n.run ? n.run : a.job, "scaled", &n, report);
	}
	if (ctl->json && r == 0)
		ctl_print_json(report, false);
	return r;
}

int cmd_kill(struct ctl *ctl, struct args *args)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_free_ char *ranks = NULL;
	_cleanup_json_ json_t *answer = NULL;
	const char *sig = args_get(args, "signal"), *whom = args_get(args, "whom");
	const char *rank = args_get(args, "rank");
	char name[SIGNALS_TEXT_MAX];
	struct error err = { 0 };
	json_t *p;
	int n, r;

	if (address_parse(args->argv[0], &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (whom && strcmp(whom, "group") != 0 && strcmp(whom, "main") != 0 &&
		strcmp(whom, "all") != 0)
		return ctl_usage(ctl, "--whom: expected group, main or all, got \"%s\"", whom);
	sig = sig ? sig : "TERM";
	if (signals_from_string(sig) < 0)
		return ctl_usage(ctl, "--signal: there is no signal named \"%s\"", sig);
	r = job_ranks(ctl, &a, rank, &ranks);
	if (r != 0)
		return r;
	p = ctl_with(ctl_job(a.job), "signal", json_string(sig));
	if (ranks)
		p = ctl_with(p, "ranks", json_string(ranks));
	if (whom)
		p = ctl_with(p, "whom", json_string(whom));
	r = ctl_call(ctl, "Kill", p, &answer);
	if (r != 0)
		return r;
	n = (int)get_int(answer, "signalled");
	if (ctl->json)
		ctl_print_json(answer, false);
	if (n == 0)
		return ctl_error(ctl, CTL_REFUSED, "%s%s%s has no process that could get %s",
			args->argv[0], rank ? "/" : "", rank ? rank : "",
			signals_name(signals_from_string(sig), name));
	ctl_say(ctl, "sent %s to %d worker%s of %s", signals_name(signals_from_string(sig), name),
		n, plural(n), a.job);
	return 0;
}
