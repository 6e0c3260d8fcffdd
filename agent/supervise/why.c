/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/why.h"

#include "agent/supervise/feature.h"
#include "common/base/memstream.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WHY_KEPT = 16 };

/* --- decisions --- */

static void why_add(struct agent *a, int64_t time_us, int attempt, const char *text)
{
	json_t *entry = json_object();

	if (!a->history)
		a->history = json_array();
	json_put_int(entry, "time_us", time_us);
	json_put_int(entry, "attempt", attempt);
	json_put(entry, "text", json_text(text));
	json_add(a->history, entry);
	if (json_array_size(a->history) > WHY_KEPT)
		json_array_remove(a->history, 0);
}

void why_note(struct agent *a, const char *text)
{
	why_add(a, (int64_t)loop_real_us(), a->attempt, text);
}

void why_correct(struct agent *a, const char *text)
{
	size_t n = json_array_size(a->history);

	if (n)
		json_put(json_array_get(a->history, n - 1), "text", json_text(text));
}

void why_replay(struct agent *a, const json_t *event)
{
	static const char *const decisions[] = { "restart", "no-restart", "task-restart",
		"task-no-restart" };
	const char *name = json_get_string(event, "event", "");
	const char *text = json_get_string(event, "text", "");

	if (!strcmp(name, "root-cause"))
		why_correct(a, text);
	for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++)
		if (!strcmp(name, decisions[i]))
			why_add(a, json_get_int(event, "time_us", 0),
				(int)json_get_int(event, "attempt", 0), text);
}

json_t *why_save(const struct agent *a)
{
	return a->history ? json_incref(a->history) : json_array();
}

void why_load(struct agent *a, const json_t *saved)
{
	json_t *entry;
	size_t i;

	json_array_foreach (saved, i, entry)
		why_add(a, json_get_int(entry, "time_us", 0),
			(int)json_get_int(entry, "attempt", 0), json_get_string(entry, "text", ""));
}

/* --- text --- */

static void why_head(FILE *f, const char *state, const char *reason)
{
	fprintf(f, "%s%s%s\n", state, *reason ? ": " : "", reason);
}

static void why_history(const json_t *history, FILE *f)
{
	json_t *entry;
	size_t i;

	if (json_array_size(history))
		fputs("decisions:\n", f);
	json_array_foreach (history, i, entry) {
		time_t seconds = (time_t)(json_get_int(entry, "time_us", 0) / 1000000);
		char when[32] = "?";
		struct tm tm;

		if (localtime_r(&seconds, &tm))
			strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
		fprintf(f, "  %s attempt %d: %s\n", when, (int)json_get_int(entry, "attempt", 0),
			json_get_string(entry, "text", ""));
	}
}

/* It is started again by itself, and has a budget of its own once it has failed. */
static bool why_is_alone(const struct agent *a, const struct task *t)
{
	return t->role && spec_scope_task(a->spec, t->role);
}

static bool why_any_alone(const struct agent *a)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (why_is_alone(a, &a->tasks[i]))
			return true;
	return false;
}

static void why_counts(const struct agent *a, FILE *f)
{
	char window[DURATION_TEXT_MAX];
	const struct spec_restart *p = &a->spec->restart;
	int left = restart_left(p, &a->budget, loop_now_ms());
	bool alone = why_any_alone(a), none = alone && p->max == 0 && !a->budget.used;

	if (alone)
		fputs("the group: ", f);
	if (none)
		fputs("no restarts allowed", f);
	else if (p->max != SPEC_UNSET)
		fprintf(f, "%d of %d restarts used", a->budget.used, p->max);
	else
		fprintf(f, "%d restarts used, no limit over the job's life", a->budget.used);
	if (p->window_ms != SPEC_UNSET)
		fprintf(f, "; %d of %d within the last %s",
			restart_window_used(p, &a->budget, loop_now_ms()), p->window_max,
			duration_format(p->window_ms, window));
	if (left >= 0 && !none)
		fprintf(f, "; %d left", left);
	fprintf(f, "; %d not counted\n", a->budget.free);
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (a->budget.by_cause[i])
			fprintf(f, "  %d by %s\n", a->budget.by_cause[i], restart_cause_name(i));
}

/* Of tasks that are started again alone, each has a budget of its own. */
static void why_task(const struct task *t, const struct spec_restart *p, FILE *f)
{
	int left = restart_left(p, t->budget, loop_now_ms());

	fprintf(f, "  %s: %d", agent_task_name(t), t->budget->used);
	if (p->max != SPEC_UNSET)
		fprintf(f, " of %d", p->max);
	fprintf(f, " restarts used");
	if (left >= 0)
		fprintf(f, "; %d left", left);
	fprintf(f, "; %d not counted", t->budget->free);
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (t->budget->by_cause[i])
			fprintf(f, "; %d by %s", t->budget->by_cause[i], restart_cause_name(i));
	if (t->next_start_us) {
		int64_t wait_us = t->next_start_us - (int64_t)loop_real_us();

		fprintf(f, "; next start in %.1f s", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	fputc('\n', f);
}

static void why_tasks(const struct agent *a, FILE *f)
{
	bool any = false;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (!t->budget)
			continue;
		if (!any)
			fprintf(f, "workers by themselves:\n");
		any = true;
		why_task(t, spec_restart_of(a->spec, t->role), f);
	}
	if (!any && why_any_alone(a))
		fprintf(f, "workers by themselves: no restarts used\n");
}

char *why_tasks_text(const struct agent *a)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	why_tasks(a, f);
	return memstream_end(f, &text);
}

char *why_text(const struct agent *a)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	why_head(f, group_state_name(a->group.state), a->reason);
	why_counts(a, f);
	FEATURES_CALL(a, explain, a, f);
	why_tasks(a, f);
	why_history(a->history, f);
	FEATURES_CALL(a, explain_last, a, f);
	if (a->next_try_us) {
		int64_t wait_us = a->next_try_us - (int64_t)loop_real_us();

		fprintf(f, "next try in %.1f s\n", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	return memstream_end(f, &text);
}

/* --- a run that has ended --- */

static void why_saved_counts(const json_t *why, bool alone, FILE *f)
{
	int64_t used = json_get_int(why, "used", 0), max = json_get_int(why, "max", 0);
	const char *cause;
	json_t *n;

	if (alone)
		fputs("the group: ", f);
	if (alone && !max && !used)
		fputs("no restarts allowed", f);
	else if (max >= 0)
		fprintf(f, "%lld of %lld restarts used", (long long)used, (long long)max);
	else
		fprintf(f, "%lld restarts used", (long long)used);
	fprintf(f, "; %lld not counted\n", (long long)json_get_int(why, "free", 0));
	json_object_foreach (json_get_object(why, "by_cause"), cause, n)
		fprintf(f, "  %lld by %s\n", (long long)json_integer_value(n), cause);
}

char *why_saved_text(const json_t *state, const json_t *verdict)
{
	const json_t *job = json_get_object(state, "job");
	const char *alone = json_get_string(state, "why_tasks", "");
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	/* An agent that was lost leaves the state of the moment before. */
	if (verdict && strcmp(json_get_string(verdict, "result", ""), "succeeded"))
		why_head(f, json_get_string(verdict, "result", "?"),
			json_get_string(verdict, "message", ""));
	else
		why_head(f, json_get_string(job, "state", "?"), json_get_string(job, "reason", ""));
	if (state)
		why_saved_counts(json_get_object(state, "why"), *alone, f);
	fputs(alone, f);
	why_history(json_get_array(state, "decisions"), f);
	return memstream_end(f, &text);
}
