/* SPDX-License-Identifier: Apache-2.0 */
/* How long a run may take to end after it was asked to, and its agent to leave afterwards. */
#include "common/base/log.h"
#include "daemon/jobs/job.h"

#include <stdio.h>
#include <string.h>

enum {
	OVERDUE_MS = 60000, /* beyond the workers' time: for dumps, slow deaths, logs */
	LINGER_MS = 600000, /* after the verdict: for slow readers of the last lines */
	REST_MS = 30000,    /* the same while a caller waits for the agent's end */
};

static void on_limit(void *arg)
{
	struct job *j = arg;
	bool over = job_is_over(j);
	char why[96];

	/* The end may have arrived while elasticd itself had no time to read it. */
	job_catch_up(j);
	if (job_is_over(j) != over || j->life == LIFE_ENDED)
		return;
	/* In two steps: if this host stood still for a while, the agent lost that time too. */
	if (j->limit_rest_ms) {
		loop_timer_arm(j->limit, (uint64_t)j->limit_rest_ms);
		j->limit_rest_ms = 0;
		return;
	}
	snprintf(why, sizeof(why), "had not ended the run %lld s after it was asked to",
		(long long)(j->limit_ms + OVERDUE_MS) / 1000);
	job_condemn(j, over ? "has not left, though the run is over" : why);
}

static void arm_limit(struct job *j, int64_t ms, int64_t rest_ms)
{
	int r = j->limit ? 0 : loop_timer_new(j->host->loop, on_limit, j, &j->limit);

	if (r < 0) {
		log_warning("job %s: no limit for its end: %s", j->rec.name, strerror(-r));
		return;
	}
	j->limit_ms = ms;
	j->limit_rest_ms = rest_ms;
	loop_timer_arm(j->limit, (uint64_t)ms);
}

static bool limit_runs(const struct job *j)
{
	return j->limit && loop_timer_armed(j->limit);
}

/* Records the agent's time to stop, which the next elasticd cannot know otherwise. */
static void keep_grace(struct job *j, int64_t grace_ms)
{
	struct error err = { 0 };

	j->rec.grace_ms = grace_ms;
	if (job_record_update(j->host->store, &j->rec, NULL, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
}

void job_end_within(struct job *j, int64_t timeout_ms)
{
	int64_t longest = j->rec.grace_ms > j->rec.stop_ms ? j->rec.grace_ms : j->rec.stop_ms;

	if (job_is_over(j)) {
		if (!limit_runs(j) || j->limit_ms > REST_MS)
			arm_limit(j, REST_MS, 0);
		return;
	}
	if (timeout_ms > longest)
		keep_grace(j, timeout_ms);
	if (timeout_ms != SPEC_UNSET)
		arm_limit(j, timeout_ms, OVERDUE_MS);
	else if (!limit_runs(j))
		arm_limit(j, longest, OVERDUE_MS);
}

void job_limit_guard(struct job *j)
{
	arm_limit(j, LINGER_MS, 0);
}
