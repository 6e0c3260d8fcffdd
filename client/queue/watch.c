/* SPDX-License-Identifier: Apache-2.0 */
/* task submit: the progress line on standard error. */
#include "client/output/screen.h"
#include "client/queue/submit.h"

#include <stdio.h>
enum { REDRAW_MS = 200, FIRST_LOOK_MS = 1000 };

struct watch {
	struct submit *s;
	struct varlink_client *link; /* NULL once it broke: other connections report that */
	struct loop_timer *timer, *first;
	struct progress progress;
	/* As of the request for the present counts. Tasks accepted after it are not in its answer,
	 * but are not done either. */
	int64_t accepted;
	bool exhausted;
	bool looked; /* the counts before the first task are known, or will never be */
	bool terminal, drawn;
};

void watch_clear(struct watch *w)
{
	if (w->drawn && w->terminal)
		screen_redraw("");
	w->drawn = false;
}

static void draw(struct watch *w, const json_t *stats)
{
	struct progress_counts c = { .accepted = w->accepted,
		.queued = get_int(stats, "queued"),
		.running = get_int(stats, "running"),
		.all = w->exhausted };
	char line[256];

	progress_update(&w->progress, &c, loop_now_ms());
	progress_line(&w->progress, &c, line, sizeof(line));
	if (w->terminal)
		screen_redraw(line);
	else
		fprintf(stderr, "%s\n", line);
	fflush(stderr);
	w->drawn = true;
}

static void look_over(struct watch *w)
{
	if (w->looked)
		return;
	w->looked = true;
	submit_pump(w->s);
}

static void on_stats(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct watch *w = arg;

	if (!error)
		draw(w, json_object_get(parameters, "stats"));
	if (w->link)
		loop_timer_arm(w->timer, REDRAW_MS);
	look_over(w);
}

static void on_timer(void *arg)
{
	struct watch *w = arg;
	json_t *p = queue_parameters(&w->s->q);

	w->accepted = w->s->accepted;
	w->exhausted = w->s->exhausted;
	p = ctl_with(p, "queue", queue_text(w->s->q.queue ? w->s->q.queue : ""));
	if (!w->link ||
		varlink_client_call(w->link, QUEUE_METHOD("Stats"), p, false, on_stats, w) < 0) {
		loop_timer_disarm(w->timer);
		look_over(w);
	}
}

static void on_disconnected(void *arg)
{
	struct watch *w = arg;

	w->link = varlink_client_free(w->link);
	loop_timer_disarm(w->timer);
	look_over(w);
}

static void on_first_late(void *arg)
{
	look_over(arg);
}

bool watch_begins(const struct watch *w)
{
	return !w->looked;
}

int watch_new(struct submit *s, struct watch **ret)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return ctl_error(s->ctl, CTL_FAILED, "out of memory");
	w->s = s;
	w->terminal = isatty(STDERR_FILENO);
	progress_begin(&w->progress);
	r = queue_connect(&s->q, s->loop, on_disconnected, w, &w->link);
	if (r == 0 && (loop_timer_new(s->loop, on_timer, w, &w->timer) < 0 ||
			      loop_timer_new(s->loop, on_first_late, w, &w->first) < 0))
		r = ctl_error(s->ctl, CTL_FAILED, "out of memory");
	if (r != 0) {
		watch_free(w);
		return r;
	}
	loop_timer_arm(w->timer, 0);
	loop_timer_arm(w->first, FIRST_LOOK_MS);
	*ret = w;
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	watch_clear(w);
	loop_timer_free(w->timer);
	loop_timer_free(w->first);
	varlink_client_free(w->link);
	free(w);
	return NULL;
}
