/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/private.h"

#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Looks at the steps of all workers by a timer, where speed.straggler or speed.pattern asks for it:
 * at the moments of pace.h, by the clock of this host, or of the group's head, which compares the
 * workers of all hosts (speed_hosts.c).
 */

bool speed_watches(const struct supervisor *sv)
{
	return supervisor_spec(sv)->speed.straggler != SPEC_UNSET ||
	       supervisor_spec(sv)->speed.pattern;
}

uint64_t speed_window_ms(const struct speed *sp)
{
	return (uint64_t)supervisor_spec(sp->sv)->speed.window_ms;
}

/* Arms the timer for the next moment. */
static void watch_arm(struct speed *sp)
{
	uint64_t now_us, moment;
	int64_t offset_us;

	sp->moment_common = speed_hosts_offset_us(sp, &offset_us);
	now_us = (uint64_t)((int64_t)loop_real_us() + offset_us);
	moment = pace_next(now_us, speed_window_ms(sp));
	sp->moment = moment + (moment == sp->moment); /* the timer was early */
	loop_timer_arm(
		sp->timer, (pace_moment_us(sp->moment, speed_window_ms(sp)) - now_us + 999) / 1000);
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
		supervisor_report(sv, LOG_WARNING, "log-not-watched", w->rank, NULL,
			"%s has no log files: speed.pattern has no effect", worker_name(w));
		return;
	}
	s->progress = malloc(sizeof(*s->progress));
	if (s->progress &&
		progress_init(s->progress, logs, NULL, &sp->pattern, w->start == 0) < 0) {
		free(s->progress);
		s->progress = NULL;
	}
	if (!s->progress)
		log_error("%s: out of memory: its steps are not seen", worker_name(w));
}

/* --- stragglers --- */

/* The workers of one role that make steps, as one look found them. */
struct watch_role {
	struct pace_worker *all;
	size_t n;
};

/* True when two workers are more than one step apart, or steps have no numbers. Reads all workers a
 * second time, because a reading takes time: in between, each was at a step between its two. */
static bool watch_apart(struct speed *sp, const struct watch_role *r)
{
	int64_t first = INT64_MAX, last = -1;

	if (pace_behind(r->all, r->n) < 0)
		return true;
	for (size_t i = 0; i < r->n; i++)
		last = r->all[i].last > last ? r->all[i].last : last;
	for (size_t i = 0; i < r->n; i++) {
		struct speed_steps steps;

		if (speed_read(sp, r->all[i].of, &steps) && steps.last >= 0 && steps.last < first)
			first = steps.last;
	}
	return last - first > 1;
}

/* Notes where each worker of the role is, and how far it is behind. */
static void watch_collect_role(struct speed *sp, const struct spec_role *role, struct watch_role *r)
{
	r->n = 0;
	for (int i = 0; i < supervisor_n_workers(sp->sv); i++) {
		const struct worker *w = supervisor_worker(sp->sv, i);
		struct speed_worker *s =
			w->role == role && w->state == WORKER_RUNNING ? speed_entry(sp, w) : NULL;
		struct speed_steps steps;

		if (s && speed_read(sp, w, &steps))
			r->all[r->n++] = (struct pace_worker){
				.pace = &s->pace, .of = w, .count = steps.count, .last = steps.last
			};
	}
	pace_add_looks(r->all, r->n, loop_now_ms());
}

static void watch_report(
	struct speed *sp, const struct worker *w, const struct pace *p, const char *text)
{
	const char *event = p->straggler.slow ? "straggler" : "straggler-over";
	json_t *data =
		json_pack("{s:s, s:i}", "worker", worker_name(w), "percent", p->straggler.percent);

	supervisor_report(sp->sv, p->straggler.slow ? LOG_WARNING : LOG_NOTICE, event, w->rank,
		data, "%s %s", worker_name(w), text);
}

static void watch_name_stragglers(struct speed *sp, struct watch_role *r, bool together)
{
	char text[128];

	pace_compare(r->all, r->n, together, supervisor_spec(sp->sv)->speed.straggler,
		speed_window_ms(sp));
	for (size_t i = 0; i < r->n; i++) {
		const struct pace_worker *p = &r->all[i];

		pace_text(p->pace, speed_window_ms(sp), text, sizeof(text));
		if (p->slow || p->over)
			watch_report(sp, p->of, p->pace,
				p->slow ? text : "is not slower than the others any more");
	}
}

static void watch_compare_role(struct speed *sp, size_t role, struct watch_role *r)
{
	int attempt = supervisor_attempt(sp->sv);

	watch_collect_role(sp, &supervisor_spec(sp->sv)->roles[role], r);
	if (!r->n)
		return;
	if (sp->apart[role] != attempt && watch_apart(sp, r))
		sp->apart[role] = attempt;
	r->n = pace_known(r->all, r->n, speed_window_ms(sp));
	if (supervisor_spec(sp->sv)->speed.straggler != SPEC_UNSET && r->n &&
		!supervisor_on_notice(sp->sv))
		watch_name_stragglers(sp, r, sp->apart[role] != attempt);
}

/* --- the timer --- */

static void watch_on_timer(void *arg)
{
	struct speed *sp = arg;
	struct supervisor *sv = sp->sv;
	size_t n = (size_t)supervisor_n_workers(sv);
	struct watch_role r = { 0 };
	uint64_t moment = sp->moment;
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
	watch_arm(sp);
	if (supervisor_group(sv)->state != GROUP_RUNNING || speed_hosts_send_looks(sp, moment))
		return;
	r.all = calloc(n, sizeof(*r.all));
	for (size_t i = 0; r.all && i < supervisor_spec(sv)->n_roles; i++)
		watch_compare_role(sp, i, &r);
	free(r.all);
}

void speed_watch_started(struct speed *sp, struct worker *w)
{
	struct speed_worker *s = speed_watches(sp->sv) ? speed_entry(sp, w) : NULL;

	if (!s)
		return;
	if (sp->has_pattern && !w->attached)
		watch_follow(sp, w, s);
	if (!loop_timer_armed(sp->timer))
		watch_arm(sp);
}

void speed_watch_ended(struct speed *sp, const struct worker *w, struct speed_worker *s)
{
	if (s->progress)
		watch_logs(s);
	speed_hosts_ended(sp, w);
	if (!s->pace.straggler.slow)
		return;
	s->pace.straggler.slow = false;
	watch_report(sp, w, &s->pace, "was slower than the others to its end");
}

int speed_watch_new(struct speed *sp, struct error *err)
{
	const char *pattern = supervisor_spec(sp->sv)->speed.pattern;
	size_t n = supervisor_spec(sp->sv)->n_roles;

	sp->apart = malloc(n * sizeof(*sp->apart));
	for (size_t i = 0; sp->apart && i < n; i++)
		sp->apart[i] = -1;
	if (!sp->apart ||
		loop_timer_new(supervisor_loop(sp->sv), watch_on_timer, sp, &sp->timer) < 0)
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
