/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/job.h"

#include "client/output/time_text.h"
#include "common/text/json.h"
#include "common/text/ranks.h"

#include <inttypes.h>
#include <string.h>

bool job_in(const json_t *job, const char *state)
{
	const char *s = get_text(job, "state");

	return s && !strcmp(s, state);
}

bool job_ended(const json_t *job)
{
	return job_in(job, "succeeded") || job_in(job, "failed") || job_in(job, "stopped") ||
	       job_in(job, "preempted");
}

bool job_unready(const json_t *job)
{
	return job_in(job, "running") && !json_get_bool(job, "ready", true);
}

int64_t job_since_us(const json_t *job)
{
	if (job_ended(job) && has_value(job, "ended_us"))
		return get_int(job, "ended_us");
	if (has_value(job, "started_us"))
		return get_int(job, "started_us");
	return get_int(job, "created_us");
}

int job_workers(const json_t *job, const char *role)
{
	const json_t *workers = json_object_get(job, "workers");
	json_t *worker;
	size_t i;
	int n = 0;

	if (!role && json_array_size(workers) == 0)
		return has_value(job, "worker_count") ? (int)get_int(job, "worker_count") : -1;
	json_array_foreach (workers, i, worker) {
		const char *name = get_text(worker, "role");

		n += !role || (name && !strcmp(name, role));
	}
	return n;
}

int job_exit_status(const json_t *job)
{
	const json_t *verdict = json_object_get(job, "verdict");
	int64_t status = json_is_object(verdict) ? get_int(verdict, "exit_status") : CTL_FAILED;

	/* A shell sees the last eight bits alone, which may be 0 in a greater number. */
	return status >= 0 && status <= UINT8_MAX ? (int)status : CTL_FAILED;
}

/* A verdict's result as words; the verdict's message has the details. */
static const char *result_words(const char *result)
{
	return !strcmp(result, "timeout") || !strcmp(result, "agent_lost") ? "ended" : result;
}

char *job_verdict_text(const json_t *job)
{
	const json_t *verdict = json_object_get(job, "verdict");
	const char *result = get_text(verdict, "result"), *message = get_text(verdict, "message");
	int status = job_exit_status(job);
	char *text = NULL;

	if (!result)
		return strdup("no verdict");
	if (status == 0)
		return strdup(result);
	if (asprintf(&text, "%s with exit status %d%s%s", result_words(result), status,
		    message && *message ? ": " : "", message ? message : "") < 0)
		return NULL;
	return text;
}

const char *job_exit_short(const json_t *ex, char buf[32])
{
	const char *name = get_text(ex, "signal_name");

	buf[0] = '\0';
	if (has_value(ex, "signal")) {
		if (json_is_true(json_object_get(ex, "out_of_memory")))
			snprintf(buf, 32, "out of memory");
		else if (name && *name)
			snprintf(buf, 32, "%.31s", name);
		else
			snprintf(buf, 32, "signal %d", (int)get_int(ex, "signal"));
	} else if (has_value(ex, "error") || has_value(ex, "errno")) {
		const char *e = strerrorname_np((int)get_int(ex, "errno"));

		snprintf(buf, 32, "%s", e && has_value(ex, "errno") ? e : "error");
	} else if (has_value(ex, "code")) {
		snprintf(buf, 32, "%" JSON_INTEGER_FORMAT, (json_int_t)get_int(ex, "code"));
	}
	return buf;
}

/* Takes the member job out of an answer. */
static int take_job(struct ctl *ctl, const json_t *answer, json_t **ret)
{
	json_t *job = json_object_get(answer, "job");

	if (!json_is_object(job))
		return ctl_error(ctl, CTL_FAILED, "elasticd's answer lacks the job");
	json_decref(*ret);
	*ret = json_incref(job);
	return 0;
}

int job_status(struct ctl *ctl, const char *name, bool live, json_t **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	json_t *p = ctl_job(name);
	int r;

	if (live)
		p = ctl_with(p, "live", json_true());
	r = ctl_call(ctl, "Status", p, &answer);
	*ret = NULL;
	return r ? r : take_job(ctl, answer, ret);
}

/* Says how far a job has got: "digits: stopping, 3 of 8 workers are left". */
static void show_waiting(struct ctl *ctl, const json_t *job)
{
	const char *name = json_get_string(job, "name", "?"),
		   *state = json_get_string(job, "state", "?");
	const char *reason = get_text(job, "reason");
	const json_t *workers = json_object_get(job, "workers");
	json_t *worker;
	size_t i;
	int left = 0;

	json_array_foreach (workers, i, worker)
		left += has_value(worker, "pid") && !has_value(worker, "ended_us");
	if (job_in(job, "stopping"))
		ctl_waiting(ctl, "%s: stopping, %d of %zu workers are left", name, left,
			json_array_size(workers));
	else
		ctl_waiting(
			ctl, "%s: %s%s%s", name, state, reason ? ", " : "", reason ? reason : "");
}

int job_wait(struct ctl *ctl, const char *name, job_test_fn test, void *arg, json_t **ret)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	bool more = true;
	int r;

	*ret = NULL;
	r = ctl_stream(ctl, "Watch", ctl_job(name), &link);
	while (r == 0 && more) {
		_cleanup_json_ json_t *answer = NULL;

		r = ctl_next(ctl, link, &answer, &more);
		if (r == 0)
			r = take_job(ctl, answer, ret);
		if (r == 0 && (job_ended(*ret) || (test && test(*ret, arg))))
			return 0;
		if (r == 0)
			show_waiting(ctl, *ret);
	}
	if (r != 0) {
		json_decref(*ret);
		*ret = NULL;
	}
	return r;
}

int job_wait_end(struct ctl *ctl, const char *name, const char *shown, const char *stopped,
	int64_t began_us, json_t **ret)
{
	_cleanup_free_ char *verdict = NULL;
	char took[TIME_TEXT_MAX];
	int r = job_wait(ctl, name, NULL, NULL, ret);

	if (r != 0)
		return r;
	verdict = job_verdict_text(*ret);
	shown = shown ? shown : json_get_string(*ret, "name", name);
	time_text_since(ctl_now_us(), began_us, took);
	if (stopped && job_in(*ret, "stopped"))
		ctl_say(ctl, "%s %s after %s", shown, stopped, took);
	else
		ctl_say(ctl, "%s ended after %s: %s", shown, took, verdict ? verdict : "?");
	return 0;
}

int job_ranks(struct ctl *ctl, const struct address *a, const char *rank, char **ret)
{
	_cleanup_json_ json_t *job = NULL;
	struct error err = { 0 };
	struct ranks set = { 0 };
	int r = 0;

	*ret = NULL;
	if (rank && (a->ranks || a->role))
		return ctl_usage(ctl, "--rank and \"%s/...\" cannot be used together", a->job);
	if (rank) {
		if (ranks_parse(&set, rank, "--rank", &err) < 0)
			return ctl_usage(ctl, "%s", err.text);
		*ret = ranks_to_string(&set);
		ranks_fini(&set);
		return *ret ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
	}
	if (a->role)
		r = job_status(ctl, a->job, false, &job);
	if (r == 0 && address_ranks(a, job, ret, &err) < 0)
		r = ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	return r;
}
