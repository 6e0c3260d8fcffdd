/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs about elasticd itself, and rm. */
#include "client/base/job.h"
#include "client/base/job_names.h"
#include "client/output/plural.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { PING_RETRY_MS = 20 };

/* Waits until elasticd listens, as long as --timeout allows. */
static void wait_for_daemon(struct ctl *ctl)
{
	const struct timespec pause = { .tv_nsec = PING_RETRY_MS * 1000000 };

	while (ctl->deadline_ms >= 0 && ctl_left_ms(ctl) > 0) {
		struct varlink_sync *v = NULL;
		int r = ctl_open(ctl, &v, &(struct error){ 0 });

		varlink_sync_free(v);
		if (r != -ENOENT && r != -ECONNREFUSED)
			return;
		nanosleep(&pause, NULL);
	}
}

int cmd_ping(struct ctl *ctl, struct args *args)
{
	int64_t began, took;
	int r;

	wait_for_daemon(ctl);
	began = ctl_now_us();
	r = ctl_call(ctl, "Ping", NULL, NULL);
	if (r != 0)
		return r;
	took = ctl_now_us() - began;
	ctl_say(ctl, "elasticd answers after %.1f ms", took / 1000.0);
	if (ctl->json)
		printf("{\"microseconds\": %lld}\n", (long long)took);
	return 0;
}

int cmd_version(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_json_ json_t *daemon = NULL, *both = NULL;
	char since[TIME_TEXT_MAX];
	struct error err = { 0 };
	const char *number;
	int r;

	r = ctl_open(ctl, &link, &err);
	if (r == 0) {
		ctl->link = TAKE_PTR(link);
		r = ctl_call(ctl, "Version", NULL, &daemon);
	} else {
		/* Without a daemon only the client's own version is shown. */
		r = r == -EPERM ? ctl_cannot_connect(ctl, r, &err) : 0;
	}
	if (r != 0)
		return r;
	if (ctl->json) {
		both = ctl_with(json_object(), "client", json_string(VERSION));
		both = ctl_with(both, "daemon", daemon ? json_incref(daemon) : json_null());
		ctl_print_json(both, false);
		return 0;
	}
	printf("elasticctl %s\n", VERSION);
	if (!daemon) {
		printf("elasticd is not running on %s\n", ctl->socket);
		return 0;
	}
	number = get_text(daemon, "version");
	printf("elasticd %s (pid %d, up %s, %d job%s, %s)\n", number ? number : "?",
		(int)get_int(daemon, "pid"),
		time_text_since(ctl_now_us(), get_int(daemon, "started_us"), since),
		(int)get_int(daemon, "jobs"), plural(get_int(daemon, "jobs")), ctl->socket);
	return 0;
}

static int remove_one(struct ctl *ctl, const char *name, bool logs, int *ret_removed)
{
	_cleanup_json_ json_t *answer = NULL;
	json_t *p = ctl_job(name);
	int r;

	if (logs)
		p = ctl_with(p, "logs", json_true());
	r = ctl_call(ctl, "Remove", p, &answer);
	*ret_removed = r ? 0 : (int)get_int(answer, "removed");
	return r;
}

static int choose_runs(struct ctl *ctl, const struct args *args, struct job_names *ret)
{
	struct error err = { 0 };
	int64_t older_ms;

	if (!args_has(args, "older-than"))
		return job_names_get(ctl, args, JOB_NAMES_ENDED, ret);
	if (args->argc > 0)
		return ctl_usage(ctl, "--older-than means all runs: expected no jobs beside it");
	if (args_duration(args, "older-than", &older_ms, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	return job_names_older(ctl, older_ms, ret);
}

int cmd_rm(struct ctl *ctl, struct args *args)
{
	bool logs = args_has(args, "logs");
	_cleanup_(job_names_fini) struct job_names names = { 0 };
	int total = 0, result = choose_runs(ctl, args, &names);

	if (result != 0)
		return result;
	for (int i = 0; i < names.n; i++) {
		int n, r;

		ctl_waiting(ctl, "%s to be removed, %d of %d", names.names[i], i + 1, names.n);
		r = remove_one(ctl, names.names[i], logs, &n);
		if (result == 0)
			result = r;
		total += n;
		if (r == 0 && !names.chosen)
			ctl_say(ctl, "removed %d run%s of %s%s", n, plural(n), names.names[i],
				logs ? " and its logs" : "");
	}
	if (names.chosen && names.n > 0)
		ctl_say(ctl, "removed %d run%s%s", total, plural(total),
			!logs	     ? ""
			: total == 1 ? " and its logs"
				     : " and their logs");
	if (ctl->json)
		printf("{\"removed\": %d}\n", total);
	return result;
}

int cmd_shutdown(struct ctl *ctl, struct args *args)
{
	bool stop = args_has(args, "stop-jobs");
	json_t *p = stop ? ctl_with(json_object(), "stop_jobs", json_true()) : NULL;
	int64_t left;
	int r;

	ctl_waiting(ctl, "elasticd%s", stop ? " to stop all jobs" : "");
	r = ctl_call(ctl, "Shutdown", p, NULL);
	if (r != 0)
		return r;
	/* Waits for the end of the connection, which is the end of elasticd. */
	do {
		left = ctl_left_ms(ctl);
		r = varlink_sync_wait(ctl->link, (int)left);
	} while (r == -EINTR);
	if (r == 0)
		return ctl_error(ctl, CTL_TIMED_OUT, "elasticd has not ended after %g s",
			ctl->timeout_ms / 1000.0);
	ctl_say(ctl, "elasticd has ended; %s",
		stop ? "active jobs were stopped" : "active jobs go on");
	if (ctl->json)
		puts("{}");
	return 0;
}
