/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/private.h"

#include "common/base/memstream.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- JSON --- */

/* The members that both JSON types share. */
static json_t *common_json(const struct preempting *p, const struct preempt_view *v)
{
	json_t *j = json_object();

	json_put(j, "source", json_text(p->source));
	json_put(j, "reason", json_text(p->reason));
	json_put_int(j, "time_us", p->time_us);
	if (p->deadline_us != SPEC_UNSET)
		json_put_int(j, "deadline_us", p->deadline_us);
	if (v->step >= 0)
		json_put_int(j, "step", v->step);
	json_put(j, "final", json_boolean(v->final));
	return j;
}

json_t *preempting_notice_json(const struct supervisor *sv)
{
	struct preempt_view v;

	if (!preempting_is_up(sv))
		return NULL;
	v = preempt_view(preempting_of(sv)->machine);
	return common_json(preempting_of(sv), &v);
}

json_t *preempting_json(const struct supervisor *sv)
{
	const struct preempting *p = preempting_of(sv);
	enum preempt_state state;
	struct preempt_view v;
	json_t *j;

	if (p && p->past)
		return json_incref(p->past);
	if (!preempting_is_up(sv) || (p->several && !p->commons))
		return NULL;
	v = preempt_view(p->machine);
	state = supervisor_decided(sv) || v.state == PREEMPT_NONE ? PREEMPT_OVER : v.state;
	j = common_json(p, &v);
	json_put(j, "state", json_string(preempt_state_name(state)));
	json_put_int(j, "participants", v.participants);
	json_put_int(j, "saved", v.saved);
	json_put_int(j, "notices", v.notices);
	return j;
}

/* Adds what w had saved before the agent was lost. */
static void past_worker_json(const struct preempting *p, const struct worker *w, json_t *worker)
{
	const json_t *saved = json_get_object(p->past_saved, worker_name(w));
	json_t *step = json_object_get(saved, "step"), *path = json_object_get(saved, "path");

	if (json_is_integer(step))
		json_put(worker, "saved_step", json_incref(step));
	if (json_is_string(path))
		json_put(worker, "saved_path", json_incref(path));
}

/* The slot of w in the machine; -1: the machine is another agent's. */
static int machine_slot(const struct preempting *p, const struct worker *w)
{
	if (!p->several)
		return w->slot;
	return p->commons ? commons_slot_named(p->commons, worker_name(w)) : -1;
}

void preempting_describe_worker(
	const struct supervisor *sv, const struct worker *w, json_t *worker, bool live)
{
	const struct preempting *p = preempting_of(sv);
	const struct preempting_worker *pw;
	int64_t step;
	int slot;

	if (!p)
		return;
	if (p->past) {
		past_worker_json(p, w, worker);
		return;
	}
	slot = machine_slot(p, w);
	pw = preempting_worker_of(sv, slot);
	step = pw ? preempt_saved_step(p->machine, slot) : -1;
	if (step < 0)
		return;
	json_put_int(worker, "saved_step", step);
	if (pw->path && pw->path_step == step)
		json_put(worker, "saved_path", json_text(pw->path));
}

/* --- texts --- */

void preempting_rest(const struct preempting *p, char *text, size_t size)
{
	int64_t rest = p->deadline_ms - (int64_t)loop_now_ms();
	char buf[DURATION_TEXT_MAX];

	snprintf(text, size, "; %s until the deadline", duration_text(rest > 0 ? rest : 0, buf));
}

/* "3 of 4 saved at step 41". */
static void saved_text(const struct preempt_view *v, char *text, size_t size)
{
	text[0] = '\0';
	if (!v->participants)
		return;
	if (v->step < 0)
		snprintf(text, size, "; no step was agreed");
	else if (v->saved == v->participants && v->participants == 1)
		snprintf(text, size, "; saved at step %" PRId64, v->step);
	else if (v->saved == v->participants)
		snprintf(text, size, "; all %d saved at step %" PRId64, v->saved, v->step);
	else
		snprintf(text, size, "; %d of %d saved at step %" PRId64, v->saved, v->participants,
			v->step);
}

void preempting_reason(const struct preempting *p, char *text, size_t size)
{
	struct preempt_view v = preempt_view(p->machine);
	const char *no_second = preempt_no_second_text(p->machine);
	char saved[96], missing[320];

	saved_text(&v, saved, sizeof(saved));
	preempt_missing(p->machine, missing, sizeof(missing));
	snprintf(text, size, "notice from %s%s%.120s%s%s%s%s%.*s%s%s", p->source,
		p->reason[0] ? ": " : "", p->reason, saved, *no_second ? "; no second save: " : "",
		no_second, p->why[0] ? "; " : "", (int)strcspn(p->why, ":"), p->why,
		missing[0] ? "; " : "", missing);
}

static void why_lines(const struct preempting *p, FILE *f)
{
	struct preempt_view v = preempt_view(p->machine);
	int64_t ago = ((int64_t)loop_real_us() - p->time_us) / 1000;
	char buf[DURATION_TEXT_MAX], saved[96], text[512];

	fprintf(f, "notice of preemption from %s%s%s, %s ago", p->source, p->reason[0] ? ": " : "",
		p->reason, duration_text(ago > 0 ? ago : 0, buf));
	if (v.notices > 1)
		fprintf(f, ", and %d more", v.notices - 1);
	if (p->deadline_ms != SPEC_UNSET) {
		preempting_rest(p, text, sizeof(text));
		fputs(text, f);
	}
	fputc('\n', f);
	saved_text(&v, saved, sizeof(saved));
	fprintf(f, "  %s%s\n", preempt_state_name(v.state), saved);
	preempt_missing(p->machine, text, sizeof(text));
	if (text[0])
		fprintf(f, "  %s\n", text);
	if (!supervisor_decided(p->sv))
		fputs("  no worker is started again while the notice is up\n", f);
}

void preempting_explain(const struct supervisor *sv, FILE *f)
{
	if (preempting_is_up(sv) && preempting_of(sv)->commons)
		why_lines(preempting_of(sv), f);
}

void preempting_describe_job(const struct supervisor *sv, json_t *job, bool live)
{
	json_t *preemption = preempting_json(sv);

	if (preemption)
		json_put(job, "preemption", preemption);
}

void preempting_describe_verdict(const struct supervisor *sv, json_t *verdict)
{
	if (supervisor_group(sv)->state == GROUP_PREEMPTED)
		json_put(verdict, "preemption", preempting_json(sv));
}

/* --- an agent that was lost --- */

/* Notes the step in an event of a worker; the last one counts. */
static void past_note_saved(struct preempting *p, json_t *data)
{
	const char *worker = json_get_string(data, "worker", NULL);

	if (!p->past_saved)
		p->past_saved = json_object();
	if (worker)
		json_put(p->past_saved, worker, json_incref(data));
}

/* The number of workers that had saved in the last round. */
static int past_saved_count(const struct preempting *p)
{
	int64_t step = json_get_int(p->past_notice, "step", 0);
	const char *name;
	json_t *saved;
	int n = 0;

	json_object_foreach (p->past_saved, name, saved)
		n += json_get_int(saved, "step", -1) >= step;
	return n;
}

void preempting_past_note(struct supervisor *sv, const json_t *event)
{
	json_t *data = json_get_object(event, "data");
	struct preempting *p = preempting_make(sv);

	if (!p)
		return;
	if (!strcmp(json_get_string(event, "event", ""), "saved"))
		past_note_saved(p, data);
	/* Each event of a notice has the whole Preemption of its time. */
	if (!json_get_string(data, "source", NULL) || !json_get_string(data, "state", NULL) ||
		!json_is_integer(json_object_get(data, "participants")))
		return;
	json_decref(p->past_notice);
	p->past_notice = json_incref(data);
}

bool preempting_past(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);
	json_t *past = p->past_notice;
	const char *reason = json_get_string(past, "reason", "");
	char was[32];

	if (!past)
		return false;
	snprintf(was, sizeof(was), "%s", json_get_string(past, "state", ""));
	supervisor_set_reason(sv, "notice from %.40s%s%.300s; the agent was lost (%s)",
		json_get_string(past, "source", ""), *reason ? ": " : "", reason, was);
	json_put(past, "state", json_string(preempt_state_name(PREEMPT_OVER)));
	json_put_int(past, "saved", past_saved_count(p));
	p->past = past;
	p->past_notice = NULL;
	return true;
}
