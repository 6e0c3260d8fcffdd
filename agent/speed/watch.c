/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/private.h"

#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Looks at the steps of all workers by a timer, where speed.straggler or speed.pattern asks for it.
 * The times between two looks differ, so that they do not keep time with the steps.
 */

enum { WATCH_SHORTEST_MS = 20 };

bool speed_watches(const struct supervisor *sv)
{
	return supervisor_spec(sv)->speed.straggler != SPEC_UNSET ||
	       supervisor_spec(sv)->speed.pattern;
}

static uint64_t watch_window_ms(const struct speed *sp)
{
	return (uint64_t)supervisor_spec(sp->sv)->speed.window_ms;
}

/* Between a half and three halves of the mean time, by the golden ratio, whose multiples are spread
 * evenly. */
static uint64_t watch_delay(struct speed *sp)
{
	uint64_t mean = watch_window_ms(sp) / STEP_WINDOW_SHARE;
	double part = 0.618034 * ++sp->looks;

	mean = mean > WATCH_SHORTEST_MS ? mean : WATCH_SHORTEST_MS;
	return (uint64_t)((double)mean * (0.5 + part - (double)(unsigned)part));
}

/* --- logs --- */

/* Reads what w has written since the last look. */
static void watch_logs(struct speed_worker *s)
{
	progress_check(s->progress);
	if (!s->progress->matches)
		return;
	if (!s->logged.count)
		s->logged.first_us = (int64_t)loop_real_us();
	s->logged.count = s->progress->matches;
	s->logged.first = s->progress->first_number;
	s->logged.last = s->progress->last_number;
}

static void watch_follow(struct speed *sp, const struct worker *w, struct speed_worker *s)
{
	struct supervisor *sv = sp->sv;
	const char *logs[2] = { logs_worker_path(supervisor_logs(sv), w->local_rank, 0),
		logs_worker_path(supervisor_logs(sv), w->local_rank, 1) };

	if (!logs[0] && !logs[1]) {
		log_warning("%s has no log files: speed.pattern has no effect", worker_called(w));
		events_add(supervisor_events(sv), "log-not-watched", supervisor_attempt(sv),
			w->rank, NULL, "%s has no log files: speed.pattern has no effect",
			worker_called(w));
		return;
	}
	s->progress = malloc(sizeof(*s->progress));
	if (s->progress &&
		progress_init(s->progress, logs, NULL, &sp->pattern, w->start == 0) < 0) {
		free(s->progress);
		s->progress = NULL;
	}
	if (!s->progress)
		log_error("%s: out of memory: its steps are not seen", worker_called(w));
}

/* --- stragglers --- */

/* The figures of one role's workers that make steps, as one look found them. */
struct watch_role {
	const struct worker **workers;
	struct speed_worker **entries;
	int64_t *steps, *sorted;
	struct straggler_facts *facts;
	double *percent;
	bool *out;
	size_t n;
};

static int watch_role_new(struct watch_role *r, size_t n)
{
	*r = (struct watch_role){
		.workers = calloc(n, sizeof(*r->workers)),
		.entries = calloc(n, sizeof(*r->entries)),
		.steps = calloc(n, sizeof(*r->steps)),
		.sorted = calloc(n, sizeof(*r->sorted)),
		.facts = calloc(n, sizeof(*r->facts)),
		.percent = calloc(n, sizeof(*r->percent)),
		.out = calloc(n, sizeof(*r->out)),
	};
	return r->workers && r->entries && r->steps && r->sorted && r->facts && r->percent && r->out
		       ? 0
		       : -ENOMEM;
}

static void watch_role_fini(struct watch_role *r)
{
	free(r->workers);
	free(r->entries);
	free(r->steps);
	free(r->sorted);
	free(r->facts);
	free(r->percent);
	free(r->out);
}

static int watch_order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Whether two workers are more than one step from each other. Reads all a second time: between the
 * two readings each was somewhere between both. Steps without numbers do not say who is where. */
static bool watch_apart(struct speed *sp, const struct watch_role *r)
{
	int64_t first = INT64_MAX, last = r->sorted[r->n - 1];

	if (r->sorted[0] < 0)
		return true;
	if (last - r->sorted[0] <= 1)
		return false;
	for (size_t i = 0; i < r->n; i++) {
		struct speed_steps steps;

		if (speed_read(sp, r->workers[i], &steps) && steps.last >= 0 && steps.last < first)
			first = steps.last;
	}
	return last - first > 1;
}

/* Notes where each worker of the role is, and how far it is behind. */
static void watch_gather(struct speed *sp, const struct spec_role *role, struct watch_role *r)
{
	uint64_t now_ms = loop_now_ms();

	r->n = 0;
	for (int i = 0; i < supervisor_n_workers(sp->sv); i++) {
		const struct worker *w = supervisor_worker(sp->sv, i);
		struct speed_worker *s =
			w->role == role && w->state == WORKER_RUNNING ? speed_entry(sp, w) : NULL;
		struct speed_steps steps;

		if (!s || !speed_read(sp, w, &steps))
			continue;
		r->workers[r->n] = w;
		r->entries[r->n] = s;
		r->facts[r->n].made = steps.count;
		r->steps[r->n++] = steps.last;
	}
	memcpy(r->sorted, r->steps, r->n * sizeof(*r->sorted));
	qsort(r->sorted, r->n, sizeof(*r->sorted), watch_order);
	for (size_t i = 0; i < r->n; i++)
		step_window_look(&r->entries[i]->window, watch_window_ms(sp), now_ms,
			r->facts[i].made, straggler_lag(r->sorted, r->n, r->steps[i]));
}

/* Leaves those of whom a whole window is known. */
static void watch_known(struct speed *sp, struct watch_role *r)
{
	uint64_t window_ms = watch_window_ms(sp);
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct step_span span = step_window_span(&r->entries[i]->window, window_ms);

		if (span.took_ms < window_ms - 2 * window_ms / STEP_WINDOW_SHARE)
			continue;
		r->workers[n] = r->workers[i];
		r->entries[n] = r->entries[i];
		r->facts[n++] = (struct straggler_facts){ .made = span.made, .lag = span.lag };
	}
	r->n = n;
}

static void watch_report(
	struct speed *sp, const struct worker *w, const struct speed_worker *s, const char *text)
{
	const char *event = s->straggler.slow ? "straggler" : "straggler-over";
	json_t *data = json_pack("{s:s, s:f}", "worker", worker_name(w), "percent",
		(double)(int64_t)s->straggler.percent);

	log_msg(s->straggler.slow ? LOG_WARNING : LOG_NOTICE, "%s %s", worker_called(w), text);
	events_add(supervisor_events(sp->sv), event, supervisor_attempt(sp->sv), w->rank, data,
		"%s %s", worker_called(w), text);
}

static void watch_compare(struct speed *sp, struct watch_role *r, bool together)
{
	double limit = supervisor_spec(sp->sv)->speed.straggler;
	char text[128];

	straggler_compare(r->facts, r->n, together, limit, r->percent, r->out);
	for (size_t i = 0; i < r->n; i++) {
		struct speed_worker *s = r->entries[i];

		s->together = together;
		switch (straggler_look(&s->straggler, r->percent[i], r->out[i], limit)) {
		case STRAGGLER_NO_NEWS:
			break;
		case STRAGGLER_BEGINS:
			speed_slow_text(sp, s, text, sizeof(text));
			watch_report(sp, r->workers[i], s, text);
			break;
		case STRAGGLER_IS_OVER:
			watch_report(
				sp, r->workers[i], s, "is not slower than the others any more");
			break;
		}
	}
}

static void watch_role(struct speed *sp, size_t role, struct watch_role *r)
{
	int attempt = supervisor_attempt(sp->sv);

	watch_gather(sp, &supervisor_spec(sp->sv)->roles[role], r);
	if (!r->n)
		return;
	if (sp->apart[role] != attempt && watch_apart(sp, r))
		sp->apart[role] = attempt;
	watch_known(sp, r);
	if (supervisor_spec(sp->sv)->speed.straggler != SPEC_UNSET && r->n &&
		!supervisor_on_notice(sp->sv))
		watch_compare(sp, r, sp->apart[role] != attempt);
}

/* --- the timer --- */

static void watch_look(void *arg)
{
	struct speed *sp = arg;
	struct supervisor *sv = sp->sv;
	size_t n = (size_t)supervisor_n_workers(sv);
	struct watch_role r = { 0 };
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct worker *w = supervisor_worker(sv, (int)i);
		struct speed_worker *s = worker_alive(w) ? speed_entry(sp, w) : NULL;

		any |= worker_alive(w);
		if (s && s->progress)
			watch_logs(s);
	}
	if (!any) /* the next start arms the timer */
		return;
	loop_timer_arm(sp->timer, watch_delay(sp));
	if (supervisor_group(sv)->state != GROUP_RUNNING)
		return;
	if (watch_role_new(&r, n) == 0)
		for (size_t i = 0; i < supervisor_spec(sv)->n_roles; i++)
			watch_role(sp, i, &r);
	watch_role_fini(&r);
}

void speed_watch_started(struct speed *sp, struct worker *w)
{
	struct speed_worker *s = speed_watches(sp->sv) ? speed_entry(sp, w) : NULL;

	if (!s)
		return;
	if (sp->has_pattern && !w->attached)
		watch_follow(sp, w, s);
	if (!loop_timer_armed(sp->timer))
		loop_timer_arm(sp->timer, watch_delay(sp));
}

void speed_watch_ended(struct speed *sp, const struct worker *w, struct speed_worker *s)
{
	if (s->progress)
		watch_logs(s);
	if (!s->straggler.slow)
		return;
	s->straggler.slow = false;
	watch_report(sp, w, s, "was slower than the others to its end");
}

int speed_watch_new(struct speed *sp, struct error *err)
{
	const char *pattern = supervisor_spec(sp->sv)->speed.pattern;

	size_t n = supervisor_spec(sp->sv)->n_roles;

	sp->apart = malloc(n * sizeof(*sp->apart));
	for (size_t i = 0; sp->apart && i < n; i++)
		sp->apart[i] = -1;
	if (!sp->apart || loop_timer_new(supervisor_loop(sp->sv), watch_look, sp, &sp->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (pattern && regcomp(&sp->pattern, pattern, REG_EXTENDED))
		return error_field(err, -EINVAL, "speed.pattern",
			"expected an extended regular expression, got \"%s\"", pattern);
	sp->has_pattern = pattern != NULL;
	return 0;
}

void speed_watch_free(struct speed *sp)
{
	if (sp->has_pattern)
		regfree(&sp->pattern);
	loop_timer_free(sp->timer);
	free(sp->apart);
}
