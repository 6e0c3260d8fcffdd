/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a group of several hosts the agent that leads has the machine, for the workers of all hosts. A
 * notice on any host goes there; the boards of all hosts show what the machine publishes, and each
 * host says how far its workers are. The head decides what follows when all have left.
 */
#include "agent/preempt/private.h"

#include "common/base/log.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

/* --- the agent that leads --- */

void preempting_lead(struct supervisor *sv, const struct hosts_lead *lead)
{
	if (preempting_of(sv))
		preempting_of(sv)->commons = lead ? lead->commons : NULL;
}

/* A notice concerns one attempt: a host that has left on it is not in the next one. */
static void hosts_forget(struct preempting *p)
{
	struct preempt *fresh = preempt_new(&supervisor_spec(p->sv)->preemption,
		(uint64_t)supervisor_spec(p->sv)->stop.timeout_ms);

	if (!fresh) {
		log_error("out of memory: a notice of preemption is forgotten too late");
		return;
	}
	preempt_free(p->machine);
	p->machine = fresh;
	p->deadline_ms = p->deadline_us = SPEC_UNSET;
	p->why[0] = '\0';
}

void preempting_hosts_begin(struct supervisor *sv)
{
	preempting_of(sv)->hosts_up = false;
	hosts_forget(preempting_of(sv));
}

void preempting_hosts_stopping(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);

	preempting_steps_stop(p);
	if (!p->hosts_up || commons_state(p->commons).goal == GOAL_PREEMPT)
		return;
	preempt_cancel(p->machine);
	preempting_run(p);
	p->hosts_up = false;
}

void preempting_hosts_started(struct supervisor *sv, struct worker *w)
{
	preempting_add_worker(preempting_of(sv), w);
}

static bool sample_of(const struct preempting *p, const json_t *sample, struct preempt_sample *ret)
{
	const char *name = json_get_string(sample, "worker", NULL);

	*ret = (struct preempt_sample){
		.slot = name ? commons_slot_named(p->commons, name) : -1,
		.stepped = json_get_bool(sample, "stepped", false),
		.connected = json_get_bool(sample, "connected", false),
		.step = json_get_int(sample, "step", -1),
		.steps = (uint64_t)json_get_int(sample, "steps", 0),
	};
	return ret->slot >= 0;
}

static enum preempt_end end_of_report(const json_t *report)
{
	static const struct {
		const char *name;
		enum preempt_end end;
	} ends[] = { { "done", PREEMPT_END_DONE }, { "left", PREEMPT_END_LEFT },
		{ "signal", PREEMPT_END_SIGNAL } };
	const char *name = json_get_string(report, "left", "");

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(ends[i].name, name))
			return ends[i].end;
	return PREEMPT_END_OTHER;
}

void preempting_hosts_exited(struct supervisor *sv, struct worker *w, const json_t *report)
{
	struct preempting *p = preempting_of(sv);
	struct preempt_sample s;

	preempting_worker_exited(sv, w);
	if (sample_of(p, json_get_object(report, "sample"), &s) && s.slot == w->slot)
		preempt_add_sample(p->machine, &s, loop_now_ms());
	/* It was never started, so it has not failed. */
	(void)preempt_ended(p->machine, w->slot,
		w->exit.ended ? end_of_report(report) : PREEMPT_END_LEFT, loop_now_ms());
	preempting_run(p);
}

void preempting_hosts_notice(struct supervisor *sv, const char *source, const char *reason,
	int64_t grace_ms, int64_t deadline_us)
{
	const struct preempting_notice n = {
		.source = source, .reason = reason, .grace_ms = grace_ms, .deadline_us = deadline_us
	};

	preempting_take(preempting_of(sv), &n);
}

void preempting_hosts_sampled(struct supervisor *sv, const json_t *samples)
{
	struct preempting *p = preempting_of(sv);
	size_t n = 0, i;
	_cleanup_free_ struct preempt_sample *all =
		calloc(json_array_size(samples) + 1, sizeof(*all));
	const json_t *one;

	if (!all)
		log_error("out of memory: the steps of the workers are not read");
	json_array_foreach (samples, i, one)
		n += all && sample_of(p, one, &all[n]);
	preempt_read(p->machine, all, n, loop_now_ms());
	preempting_run(p);
}

/* --- any agent --- */

void preempting_hosts_board(struct supervisor *sv, uint64_t notice, int64_t save_at, bool error)
{
	bool up = notice & 1;

	if (up == supervisor_on_notice(sv))
		return;
	supervisor_set_notice(sv, up);
	if (up)
		preempting_call_off_all(sv);
}

static json_t *sample_json(const struct supervisor *sv, const struct worker *w)
{
	struct preempt_sample s;

	preempting_sample(sv, w, &s);
	return json_pack("{s:s, s:b, s:b, s:I, s:I}", "worker", worker_name(w), "stepped",
		s.stepped, "connected", s.connected, "step", (json_int_t)s.step, "steps",
		(json_int_t)(s.steps & INT64_MAX));
}

json_t *preempting_hosts_samples(struct supervisor *sv, bool barrier)
{
	json_t *list = json_array();

	if (barrier)
		preempting_barrier();
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		if (worker_alive(supervisor_worker(sv, i)))
			json_add(list, sample_json(sv, supervisor_worker(sv, i)));
	return list;
}

void preempting_hosts_describe_end(struct supervisor *sv, const struct worker *w, json_t *report)
{
	static const char *const names[] = { [PREEMPT_END_DONE] = "done",
		[PREEMPT_END_LEFT] = "left",
		[PREEMPT_END_SIGNAL] = "signal",
		[PREEMPT_END_OTHER] = "other" };

	json_put_string(report, "left", names[preempting_end_of(sv, w)]);
	if (supervisor_on_notice(sv))
		json_put(report, "sample", sample_json(sv, w));
}

void preempting_hosts_order(
	struct supervisor *sv, struct worker *w, const char *what, const char *why)
{
	if (strcmp(what, COMMONS_SIGNAL) != 0)
		return;
	w->signalled = true;
	preempting_send_signal(sv, w);
}
