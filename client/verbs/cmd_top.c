/* SPDX-License-Identifier: Apache-2.0 */
/* top: the jobs and their workers as they are now, on a terminal again and again. */
#include "client/base/job.h"
#include "client/top/gpus.h"
#include "client/top/run.h"
#include "client/top/terminal.h"
#include "client/verbs/verbs.h"
#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { TOP_GPUS_MS = 3000 };

/* The active jobs that are wanted, each with its workers and live figures, in ret (owned). */
static int top_fetch(struct ctl *ctl, const struct args *args, json_t **ret)
{
	_cleanup_json_ json_t *answer = NULL, *all = json_array();
	json_t *listed;
	size_t i;
	int r = ctl_call(ctl, "List", NULL, &answer);

	json_array_foreach (json_object_get(answer, "jobs"), i, listed) {
		json_t *job = NULL;

		if (r != 0 || !top_wants(listed, args->argv, args->argc))
			continue;
		r = job_status(ctl, get_text(listed, "run"), true, &job);
		if (r == 0 && json_array_append_new(all, job) < 0)
			r = ctl_error(ctl, CTL_FAILED, "out of memory");
	}
	if (r == 0)
		*ret = TAKE_PTR(all);
	return r;
}

/* Waits for the driver of the GPUs a limited time; it may need a second to begin. */
static void top_once_gpus(const struct ctl *ctl, struct top *t, struct gpus *g)
{
	int64_t left = ctl_left_ms(ctl);
	_cleanup_json_ json_t *answer = NULL;

	if (g && gpus_wait(g, left >= 0 && left < TOP_GPUS_MS ? (int)left : TOP_GPUS_MS, &answer) >
			 0)
		top_take_gpus(t, answer);
}

/* Prints the table once. */
static int top_once(struct ctl *ctl, const struct args *args, struct top *t)
{
	const struct table_style style = ctl_table_style(ctl);
	_cleanup_(gpus_freep) struct gpus *gpus = NULL;
	_cleanup_json_ json_t *jobs = NULL;
	_cleanup_free_ char *text = NULL;
	struct top_list *l = t->open_run ? &t->workers : &t->jobs;
	json_t *job;
	size_t i;
	int r;

	if (!ctl->json && !ctl->remote.host && gpus_new(&gpus) == 0)
		gpus_ask(gpus, (int64_t)monotonic_ms());
	r = t->open_run ? 0 : top_fetch(ctl, args, &jobs);
	if (r != 0)
		return r;
	top_time(t, (int64_t)monotonic_ms(), ctl_now_us());
	if (t->open_run) {
		jobs = json_array();
		json_array_append(jobs, t->open_job);
		top_take_open(t, t->open_job);
	} else {
		top_list_take(l, jobs, t->now_ms, t->now_us);
		json_array_foreach (jobs, i, job)
			top_list_take_live(l, job, t->now_ms, t->now_us);
	}
	if (ctl->json) {
		ctl_print_json(jobs, false);
		return 0;
	}
	if (l->n_shown == 0) {
		ctl_say(ctl, t->open_run ? "It has no workers." : "No jobs are active.");
		return 0;
	}
	top_once_gpus(ctl, t, gpus);
	text = top_list_text(l, &style);
	if (!text)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	fputs(text, stdout);
	return 0;
}

/* One job that is no pattern: its workers are shown. */
static int top_open_named(struct ctl *ctl, const struct args *args, struct top *t)
{
	json_t *job = NULL;
	int r;

	if (args->argc != 1 || strpbrk(args->argv[0], "*?["))
		return 0;
	r = job_status(ctl, args->argv[0], true, &job);
	if (r != 0)
		return r;
	top_open(t, args->argv[0], true);
	t->open_job = job;
	return 0;
}

int cmd_top(struct ctl *ctl, struct args *args)
{
	bool once = args_has(args, "once") || ctl->json || !isatty(STDIN_FILENO) ||
		    !isatty(STDOUT_FILENO);
	struct error err = { 0 };
	struct top t;
	int r;

	top_init(&t);
	t.color = ctl->color_out;
	t.utf8 = ctl->utf8;
	r = top_open_named(ctl, args, &t);
	if (r == 0 && !once && terminal_check(&err) < 0) {
		ctl_error(ctl, 0, "%s: this is what top would show", err.text);
		once = true;
	}
	if (r == 0)
		r = once ? top_once(ctl, args, &t) : top_run(ctl, &t, args->argv, args->argc);
	top_fini(&t);
	return r;
}
