/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A feature whose hooks write into the record of supervisor_world.h, with the worker's rank:
 * "worker_started:0". A new state of the group is written as "[running]".
 */

#include "tests/unit/supervisor_world.h"

/* The hooks' results, which a test may set. */
static struct {
	int init, environment, exit_status;
	bool holds, takes_signal, signals_worker, past_ends_job;
	const char *left;
} says;

static int on_init(struct supervisor *sv, struct error *err)
{
	note("init");
	return says.init ? error_set(err, says.init, "no") : 0;
}

static int on_ready(struct supervisor *sv, struct error *err)
{
	note("ready");
	return 0;
}

static void on_hang_up(struct supervisor *sv)
{
	note("hang_up");
}

static void on_fini(struct supervisor *sv)
{
	note("fini");
}

static void on_attempt_begins(struct supervisor *sv)
{
	note("attempt_begins");
}

static void on_group_changed(struct supervisor *sv)
{
	note("[%s]", group_state_name(sv->group.state));
}

static void on_group_running(struct supervisor *sv)
{
	note("group_running");
}

static void on_group_stopping(struct supervisor *sv, const char *why)
{
	note("group_stopping");
}

static void on_all_left(struct supervisor *sv)
{
	note("all_left");
	supervisor_post(sv, GROUP_EV_PREEMPT);
}

static void on_job_ended(struct supervisor *sv)
{
	note("job_ended");
}

static bool on_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	note("last_answers");
	fn(arg);
	return true;
}

static int on_worker_environment(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	note("worker_environment:%d", w->rank);
	return says.environment ? says.environment : env_put(e, "OF_THE_FEATURE=1");
}

#define ON_WORKER(hook)                                                \
	static void on_##hook(struct supervisor *sv, struct worker *w) \
	{                                                              \
		note(#hook ":%d", w->rank);                            \
	}
ON_WORKER(worker_starting)
ON_WORKER(worker_not_started)
ON_WORKER(worker_started)
ON_WORKER(worker_stopped)
ON_WORKER(worker_over)

static void on_worker_stopping(struct supervisor *sv, struct worker *w, const char *why)
{
	note("worker_stopping:%d", w->rank);
}

static void on_before_reap(struct supervisor *sv)
{
	note("before_reap");
}

static void on_worker_left(struct supervisor *sv, struct worker *w, char *text, size_t size)
{
	note("worker_left:%d", w->rank);
	if (says.left)
		snprintf(text, size, "%s", says.left);
}

/* The core has set the worker's state before it calls the hook. */
static void on_worker_exited(struct supervisor *sv, struct worker *w)
{
	ck_assert(w->exit.ended && !worker_alive(w));
	note("worker_exited:%d(%s)", w->rank, worker_state_name(w->state));
}

static void on_flush(struct supervisor *sv)
{
	note("flush");
}

static void on_worker_end_reported(struct supervisor *sv, struct worker *w, const char *left)
{
	note("worker_end_reported:%d", w->rank);
	ck_assert_str_eq(left, says.left ? says.left : "");
}

static bool on_delays_decision(struct supervisor *sv)
{
	if (says.holds)
		note("delays_decision");
	return says.holds;
}

static int on_exit_status(const struct supervisor *sv, const struct worker *w)
{
	return says.exit_status;
}

static bool on_takes_signal(struct supervisor *sv, int signo)
{
	char name[SIGNALS_TEXT_MAX];

	note("takes_signal(%s)", signals_short(signo, name));
	return says.takes_signal;
}

static bool on_signals_worker(struct supervisor *sv, struct worker *w, int signo)
{
	note("signals_worker:%d", w->rank);
	return says.signals_worker;
}

static void on_kill_workers(struct supervisor *sv)
{
	note("kill_workers");
}

static bool on_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	note("child_exited");
	return true;
}

static void on_past_event(struct supervisor *sv, const json_t *event)
{
	const json_t *data = json_object_get(event, "data");

	if (!strcmp(json_string_value(json_object_get(event, "event")), "state"))
		note("past_event[%s]", json_string_value(json_object_get(data, "to")));
}

static bool on_past_ends_job(struct supervisor *sv)
{
	note("past_ends_job");
	if (says.past_ends_job)
		supervisor_set_reason(sv, "a notice was up");
	return says.past_ends_job;
}

static const struct feature recording = {
	.name = "recording",
	.init = on_init,
	.ready = on_ready,
	.hang_up = on_hang_up,
	.fini = on_fini,
	.attempt_begins = on_attempt_begins,
	.group_changed = on_group_changed,
	.group_running = on_group_running,
	.group_stopping = on_group_stopping,
	.all_left = on_all_left,
	.job_ended = on_job_ended,
	.last_answers = on_last_answers,
	.worker_environment = on_worker_environment,
	.worker_starting = on_worker_starting,
	.worker_not_started = on_worker_not_started,
	.worker_started = on_worker_started,
	.worker_stopping = on_worker_stopping,
	.worker_stopped = on_worker_stopped,
	.before_reap = on_before_reap,
	.worker_left = on_worker_left,
	.worker_exited = on_worker_exited,
	.worker_end_reported = on_worker_end_reported,
	.worker_over = on_worker_over,
	.flush = on_flush,
	.delays_decision = on_delays_decision,
	.exit_status = on_exit_status,
	.takes_signal = on_takes_signal,
	.signals_worker = on_signals_worker,
	.kill_workers = on_kill_workers,
	.child_exited = on_child_exited,
	.past_event = on_past_event,
	.past_ends_job = on_past_ends_job,
};
static const struct feature *const features[] = { &recording, NULL };

/* The hooks of a beginning, of one worker's start and end, and of the job's end. */
#define BEGINS "init ready [rendezvous] [starting] attempt_begins "
#define STARTS(rank, process)                                                    \
	"worker_starting:" #rank " worker_environment:" #rank " spawn:" #process \
	" worker_started:" #rank
#define RUNS " [running] group_running"
#define ENDS(rank, state) \
	"worker_left:" #rank " worker_exited:" #rank "(" #state ") flush worker_end_reported:" #rank
#define ENDS_ALONE(rank, state) "before_reap " ENDS(rank, state) " flush"
#define OVER " job_ended last_answers"
