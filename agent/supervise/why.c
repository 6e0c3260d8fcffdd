/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/why.h"

#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/memstream.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WHY_KEPT = 16 };

/* --- decisions --- */

static void why_add(struct supervisor *sv, int64_t time_us, int attempt, const char *text)
{
	json_t *entry = json_object();

	if (!sv->history)
		sv->history = json_array();
	json_put_int(entry, "time_us", time_us);
	json_put_int(entry, "attempt", attempt);
	json_put_string(entry, "text", text);
	json_add(sv->history, entry);
	if (json_array_size(sv->history) > WHY_KEPT)
		json_array_remove(sv->history, 0);
}

void why_note(struct supervisor *sv, const char *text)
{
	why_add(sv, (int64_t)loop_real_us(), sv->attempt, text);
}

void why_correct(struct supervisor *sv, const char *text)
{
	size_t n = json_array_size(sv->history);

	if (n)
		json_put_string(json_array_get(sv->history, n - 1), "text", text);
}

void why_replay(struct supervisor *sv, const json_t *event)
{
	static const char *const decisions[] = { "restart", "no-restart", "worker-restart",
		"worker-no-restart" };
	const char *name = json_get_string(event, "event", "");
	const char *text = json_get_string(event, "text", "");

	if (!strcmp(name, "root-cause"))
		why_correct(sv, text);
	for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++)
		if (!strcmp(name, decisions[i]))
			why_add(sv, json_get_int(event, "time_us", 0),
				(int)json_get_int(event, "attempt", 0), text);
}

json_t *why_save(const struct supervisor *sv)
{
	return sv->history ? json_incref(sv->history) : json_array();
}

void why_load(struct supervisor *sv, const json_t *saved)
{
	json_t *entry;
	size_t i;

	json_array_foreach (saved, i, entry)
		why_add(sv, json_get_int(entry, "time_us", 0),
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

/* Whether a worker is started again alone, from a budget of its own. */
static bool why_any_alone(const struct supervisor *sv)
{
	for (int i = 0; i < sv->n_workers; i++)
		if (spec_scope_worker(sv->spec, sv->workers[i].role))
			return true;
	return false;
}

/* The limit that a cause has of its own; max -1: none. */
static void why_limit(FILE *f, int64_t counted, int64_t max)
{
	if (max >= 0)
		fprintf(f, " (%lld of %lld used)", (long long)counted, (long long)max);
}

/* The counts of the group, from job_json_budget(). alone: workers have budgets of their own, too.
 * live: the run has not ended, so it also says what is left. */
static void why_counts(const json_t *why, bool alone, bool live, FILE *f)
{
	int64_t used = json_get_int(why, "used", 0), max = json_get_int(why, "max", 0);
	int64_t left = json_get_int(why, "left", -1), window_ms = json_get_int(why, "window_ms", 0);
	bool none = alone && !max && !used;
	char window[DURATION_TEXT_MAX];
	const char *cause;
	json_t *n;

	if (alone)
		fputs("the group: ", f);
	if (none)
		fputs("no restarts allowed", f);
	else if (max >= 0)
		fprintf(f, "%lld of %lld restarts used", (long long)used, (long long)max);
	else
		fprintf(f, "%lld restarts used%s", (long long)used,
			live ? ", no limit over the job's life" : "");
	if (live && window_ms)
		fprintf(f, "; %lld of %lld within the last %s",
			(long long)json_get_int(why, "window_used", 0),
			(long long)json_get_int(why, "window_max", 0),
			duration_format(window_ms, window));
	if (live && left >= 0 && !none)
		fprintf(f, "; %lld left", (long long)left);
	fprintf(f, "; %lld not counted\n", (long long)json_get_int(why, "free", 0));
	json_object_foreach (json_get_object(why, "by_cause"), cause, n) {
		fprintf(f, "  %lld by %s", (long long)json_integer_value(n), cause);
		why_limit(f, json_get_int(json_get_object(why, "counted_by_cause"), cause, 0),
			json_get_int(json_get_object(why, "max_by_cause"), cause, -1));
		fputc('\n', f);
	}
}

/* One line about the budget of a worker of scope worker. */
static void why_worker(const struct worker *w, const struct spec_restart *p, FILE *f)
{
	int left = restart_left(p, w->budget, loop_now_ms());

	fprintf(f, "  %s: %d", worker_name(w), w->budget->used);
	if (p->max != SPEC_UNSET)
		fprintf(f, " of %d", p->max);
	fprintf(f, " restarts used");
	if (left >= 0)
		fprintf(f, "; %d left", left);
	fprintf(f, "; %d not counted", w->budget->free);
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (w->budget->by_cause[i]) {
			fprintf(f, "; %d by %s", w->budget->by_cause[i], restart_cause_name(i));
			why_limit(f, w->budget->counted_by_cause[i], restart_max_of(p, i));
		}
	if (w->next_start_us) {
		int64_t wait_us = w->next_start_us - (int64_t)loop_real_us();

		fprintf(f, "; next start in %.1f s", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	fputc('\n', f);
}

static void why_workers(const struct supervisor *sv, FILE *f)
{
	bool any = false;

	for (int i = 0; i < sv->n_workers; i++) {
		const struct worker *w = &sv->workers[i];

		if (!w->budget)
			continue;
		if (!any)
			fprintf(f, "workers by themselves:\n");
		any = true;
		why_worker(w, spec_restart_of(sv->spec, w->role), f);
	}
	if (!any && why_any_alone(sv))
		fprintf(f, "workers by themselves: no restarts used\n");
}

char *why_workers_text(const struct supervisor *sv)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	why_workers(sv, f);
	return memstream_end(f, &text);
}

char *why_text(const struct supervisor *sv)
{
	_cleanup_json_ json_t *budget = job_json_budget(sv);
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	why_head(f, group_state_name(sv->group.state), sv->reason);
	why_counts(budget, why_any_alone(sv), true, f);
	FEATURES_CALL(sv, explain, sv, f);
	why_workers(sv, f);
	why_history(sv->history, f);
	FEATURES_CALL(sv, explain_last, sv, f);
	if (sv->next_try_us) {
		int64_t wait_us = sv->next_try_us - (int64_t)loop_real_us();

		fprintf(f, "next try in %.1f s\n", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	return memstream_end(f, &text);
}

/* --- a run that has ended --- */

char *why_saved_text(const json_t *state, const json_t *verdict)
{
	const json_t *job = json_get_object(state, "job");
	const char *alone = json_get_string(state, "why_workers", "");
	char *text = NULL;
	size_t size;
	const char *result = json_get_string(verdict, "result", "");
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	/* The message names the time limit, or says that the agent was lost. */
	if (!strcmp(result, "timeout") || !strcmp(result, "agent_lost"))
		result = "failed";
	/* The state that a lost agent has left is not the last one: use the verdict's. */
	if (verdict && strcmp(result, "succeeded"))
		why_head(f, *result ? result : "?", json_get_string(verdict, "message", ""));
	else
		why_head(f, json_get_string(job, "state", "?"), json_get_string(job, "reason", ""));
	if (state)
		why_counts(json_get_object(state, "why"), *alone, false, f);
	fputs(alone, f);
	why_history(json_get_array(state, "decisions"), f);
	return memstream_end(f, &text);
}
