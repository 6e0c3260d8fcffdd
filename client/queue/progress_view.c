/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line on standard error. */
#include "client/output/screen.h"
#include "client/queue/submit.h"

#include <stdio.h>

enum { REDRAW_MS = 200, FIRST_LOOK_MS = 1000 };

struct progress_view {
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

void progress_view_clear(struct progress_view *v)
{
	if (v->drawn && v->terminal)
		screen_redraw("");
	v->drawn = false;
}

static void view_draw(struct progress_view *v, const json_t *stats)
{
	struct progress_counts c = { .accepted = v->accepted,
		.queued = get_int(stats, "queued"),
		.running = get_int(stats, "running"),
		.all = v->exhausted };
	char line[256];

	progress_update(&v->progress, &c, loop_now_ms());
	progress_line(&v->progress, &c, line, sizeof(line));
	if (v->terminal)
		screen_redraw(line);
	else
		fprintf(stderr, "%s\n", line);
	fflush(stderr);
	v->drawn = true;
}

static void end_first_look(struct progress_view *v)
{
	if (v->looked)
		return;
	v->looked = true;
	submit_pump(v->s);
}

static void on_stats(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct progress_view *v = arg;

	if (!error)
		view_draw(v, json_object_get(parameters, "stats"));
	if (v->link)
		loop_timer_arm(v->timer, REDRAW_MS);
	end_first_look(v);
}

static void on_timer(void *arg)
{
	struct progress_view *v = arg;
	json_t *p = queue_parameters(&v->s->q);

	v->accepted = v->s->accepted;
	v->exhausted = v->s->exhausted;
	p = ctl_with(p, "queue", queue_text(v->s->q.queue ? v->s->q.queue : ""));
	if (varlink_client_call(v->link, QUEUE_METHOD("Stats"), p, false, on_stats, v) < 0) {
		loop_timer_disarm(v->timer);
		end_first_look(v);
	}
}

static void on_disconnected(void *arg)
{
	struct progress_view *v = arg;

	v->link = varlink_client_free(v->link);
	loop_timer_disarm(v->timer);
	end_first_look(v);
}

static void on_first_late(void *arg)
{
	end_first_look(arg);
}

bool progress_view_begins(const struct progress_view *v)
{
	return !v->looked;
}

int progress_view_new(struct submit *s, struct progress_view **ret)
{
	struct progress_view *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return ctl_error(s->ctl, CTL_FAILED, "out of memory");
	v->s = s;
	v->terminal = isatty(STDERR_FILENO);
	progress_begin(&v->progress);
	r = queue_connect(&s->q, s->loop, on_disconnected, v, &v->link);
	if (r == 0 && (loop_timer_new(s->loop, on_timer, v, &v->timer) < 0 ||
			      loop_timer_new(s->loop, on_first_late, v, &v->first) < 0))
		r = ctl_error(s->ctl, CTL_FAILED, "out of memory");
	if (r != 0) {
		progress_view_free(v);
		return r;
	}
	loop_timer_arm(v->timer, 0);
	loop_timer_arm(v->first, FIRST_LOOK_MS);
	*ret = v;
	return 0;
}

struct progress_view *progress_view_free(struct progress_view *v)
{
	if (!v)
		return NULL;
	progress_view_clear(v);
	loop_timer_free(v->timer);
	loop_timer_free(v->first);
	varlink_client_free(v->link);
	free(v);
	return NULL;
}
