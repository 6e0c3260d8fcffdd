/* SPDX-License-Identifier: Apache-2.0 */
/* list: the table of jobs. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/listing.h"
#include "client/verbs/verbs.h"

/* The verdict's text if the job ended badly, else the reason for its state. */
static const char *reason_of(const json_t *job)
{
	const json_t *verdict = json_object_get(job, "verdict");
	const char *message = get_text(verdict, "message");

	if (json_is_object(verdict) && job_exit_status(job) != 0 && message && *message)
		return message;
	return get_text(job, "reason");
}

static void restarts_cell(struct table *t, int used, int max)
{
	if (max < 0)
		table_cellf(t, COLOR_NONE, "%d", used);
	else
		table_cellf(t, COLOR_NONE, "%d/%d", used, max);
}

void listing_print(const struct ctl *ctl, const json_t *jobs)
{
	static const struct table_column columns[] = { { "JOB", TABLE_SHRINK }, { "STATE", 0 },
		{ "RANKS", TABLE_RIGHT | TABLE_DROP(2) },
		{ "RESTARTS", TABLE_RIGHT | TABLE_DROP(3) }, { "SINCE", TABLE_RIGHT },
		{ "RUN", TABLE_DROP(4) }, { "REASON", 0 }, { NULL, 0 } };
	_cleanup_(table_freep) struct table *t = table_new(columns);
	struct table_style style = ctl_table_style(ctl);
	char buf[TIME_TEXT_MAX];
	json_t *job;
	size_t i;

	if (!t)
		return;
	json_array_foreach (jobs, i, job) {
		const char *state = get_text(job, "state");
		int workers = job_workers(job, NULL);

		table_cell(t, COLOR_BOLD, get_text(job, "name"));
		table_cellf(t, color_state(state), "%s%s", state ? state : "?",
			job_unready(job) ? ", not ready" : "");
		if (workers >= 0)
			table_cellf(t, COLOR_NONE, "%d", workers);
		else
			table_cell(t, COLOR_DIM, "-");
		restarts_cell(t, (int)get_int(job, "restarts"), (int)get_int(job, "max_restarts"));
		table_cell(t, COLOR_NONE, time_text_ago(ctl_now_us(), job_since_us(job), buf));
		table_cell(t, COLOR_NONE, get_text(job, "run"));
		if (get_int(job, "agent_silent_since_us"))
			table_cellf(t, COLOR_RED, "its agent has not answered for %s",
				time_text_since(
					ctl_now_us(), get_int(job, "agent_silent_since_us"), buf));
		else
			table_cell(t, COLOR_NONE, reason_of(job));
	}
	table_print(t, stdout, &style);
}

int cmd_list(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	bool all = args_has(args, "all");
	json_t *p = all ? ctl_with(json_object(), "ended", json_true()) : NULL;
	json_t *jobs;
	int r = ctl_call(ctl, "List", p, &answer);

	if (r != 0)
		return r;
	jobs = json_object_get(answer, "jobs");
	if (ctl->json)
		ctl_print_json(jobs, false);
	else if (json_array_size(jobs) > 0)
		listing_print(ctl, jobs);
	else if (!ctl->quiet)
		puts(all ? "There are no jobs."
			 : "No jobs are active. 'elasticctl list -a' also shows those that ended.");
	return 0;
}
