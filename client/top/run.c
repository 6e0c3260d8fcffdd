/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/run.h"

#include "client/base/answer.h"
#include "client/base/line_printer.h"
#include "client/output/plural.h"
#include "client/output/time_text.h"
#include "client/top/gpus.h"
#include "client/top/terminal.h"
#include "common/base/memstream.h"
#include "common/base/printable.h"
#include "common/loop/loop.h"
#include "common/varlink/client.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define METHOD(name) "io.elasticd.Manager." name

enum {
	TICK_MS = 1000,
	SILENT_MS = 3000,
	ASKED_MAX = 8,	 /* jobs whose live figures are asked for in a second */
	OPEN_SHARE = 20, /* a job that takes long to answer is asked less often */
	LINES_OF_ONE = 200,
	LINES_OF_MANY = 20,
};

static const int run_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };

enum { N_SIGNALS = sizeof(run_signals) / sizeof(run_signals[0]) };

struct run {
	struct ctl *ctl;
	struct top *top;
	char *const *names;
	int n_names;
	struct loop *loop;
	struct loop_timer *tick;
	struct loop_fd *keys;
	struct loop_signal *signals[N_SIGNALS];
	/* elasticd answers a connection's calls in order: the list must not wait for an agent. */
	struct varlink_client *list, *live, *logs, *act;
	struct line_printer printer; /* of logs */
	struct gpus *gpus;	     /* NULL: there are none */
	struct loop_fd *gpus_watch;
	int asked;	 /* live calls without an answer */
	int64_t list_ms; /* since when the list is awaited; 0: it is not */
	int64_t open_ms, open_took_ms, open_at_ms; /* the same for the open job; its last call */
	int64_t lost_us;			   /* since when there is no connection */
	bool dirty;
};

bool top_wants(const json_t *job, char *const *names, int n)
{
	const char *name = get_text(job, "name"), *run = get_text(job, "run");
	bool wanted = n == 0;

	for (int i = 0; i < n && !wanted && name && run; i++)
		wanted = !strcmp(names[i], run) || fnmatch(names[i], name, 0) == 0;
	return wanted;
}

static void run_time(struct run *r)
{
	top_time(r->top, (int64_t)loop_now_ms(), (int64_t)loop_real_us());
}

static void run_draw(struct run *r, bool all)
{
	struct top_frame frame;

	terminal_size(&r->top->rows, &r->top->columns);
	run_time(r);
	r->dirty = false;
	if (top_view(r->top, &frame) < 0)
		return;
	terminal_paint(&frame, all);
	top_frame_fini(&frame);
}

/* Once per turn, when all that came is known. */
static void on_dirty(void *arg)
{
	struct run *r = arg;

	if (r->dirty)
		run_draw(r, false);
}

static void run_dirty(struct run *r)
{
	r->dirty = true;
	(void)!loop_defer(r->loop, on_dirty, r);
}

/* Whether an answer can be used. Shows an error to the user if bad is set. */
static bool run_usable(
	struct run *r, const char *method, const char *error, const json_t *p, bool bad)
{
	struct error err = { 0 };

	if (!error && answer_check(method, p, &err) == 0)
		return true;
	if (bad && error && strcmp(error, "disconnected") != 0)
		ctl_explain(r->ctl, error, p, &err);
	if (bad && err.text[0])
		top_notify(r->top, true, "%s", err.text);
	run_dirty(r);
	return false;
}

/* --- the connection --- */

static void run_lose(struct run *r)
{
	r->list = varlink_client_free(r->list);
	r->live = varlink_client_free(r->live);
	r->asked = 0;
	r->list_ms = r->open_ms = 0;
	if (!r->lost_us)
		r->lost_us = (int64_t)loop_real_us();
}

static void run_say_lost(struct run *r, const char *why)
{
	char since[TIME_TEXT_MAX];

	snprintf(r->top->lost, sizeof(r->top->lost), "No elasticd for %s (%s); trying again",
		time_text_since((int64_t)loop_real_us(), r->lost_us, since), why);
	run_dirty(r);
}

static void on_lost(void *arg)
{
	struct run *r = arg;

	run_lose(r);
	run_say_lost(r, "the connection ended");
}

static int run_link(
	struct run *r, varlink_closed_fn closed, struct varlink_client **ret, struct error *err)
{
	int fd, code = ctl_open_fd(r->ctl, &fd, err);

	return code < 0 ? code : varlink_client_new_fd(r->loop, fd, closed, r, ret);
}

static void on_version(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;
	char up[TIME_TEXT_MAX];

	if (run_usable(r, METHOD("Version"), error, p, false))
		snprintf(r->top->daemon, sizeof(r->top->daemon), "%.24s, up %.32s",
			get_text(p, "version"),
			time_text_since((int64_t)loop_real_us(), get_int(p, "started_us"), up));
	run_dirty(r);
}

/* Connects, again if need be. False: there is no connection. */
static bool run_connect(struct run *r)
{
	struct error err = { 0 };
	int code;

	if (r->list)
		return true;
	code = run_link(r, on_lost, &r->list, &err);
	if (code == 0)
		code = run_link(r, on_lost, &r->live, &err);
	if (code < 0) {
		run_lose(r);
		run_say_lost(r,
			code == -ENOENT || code == -ECONNREFUSED ? "it does not listen" : err.text);
		return false;
	}
	if (r->lost_us)
		top_notify(r->top, false, "Connected to elasticd again.");
	r->lost_us = 0;
	r->top->lost[0] = '\0';
	return true;
}

/* --- figures --- */

static void on_list(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;
	_cleanup_json_ json_t *wanted = json_array();
	json_t *job;
	size_t i;

	r->list_ms = 0;
	if (!run_usable(r, METHOD("List"), error, p, true))
		return;
	json_array_foreach (json_object_get(p, "jobs"), i, job)
		if (top_wants(job, r->names, r->n_names) && json_array_append(wanted, job) < 0)
			return;
	r->top->lost[0] = '\0';
	run_time(r);
	top_list_take(&r->top->jobs, wanted, r->top->now_ms, r->top->now_us);
	top_find_gpus(r->top);
	if (r->asked == 0)
		run_dirty(r);
}

static void on_live(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;

	r->asked--;
	run_time(r);
	/* The list says in which state a job is that has no answer. */
	if (run_usable(r, METHOD("Status"), error, p, false))
		top_list_take_live(
			&r->top->jobs, json_object_get(p, "job"), r->top->now_ms, r->top->now_us);
	if (r->asked == 0)
		run_dirty(r);
}

static void on_open(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;
	const json_t *job = json_object_get(p, "job");
	const char *run = get_text(job, "run"), *name = get_text(job, "name");

	run_time(r);
	r->open_took_ms = r->top->now_ms - r->open_ms;
	r->open_ms = 0;
	if (!run_usable(r, METHOD("Status"), error, p, true))
		return;
	/* Another one may have been opened since. */
	if (r->top->open_run && run && name &&
		(!strcmp(r->top->open_run, run) || !strcmp(r->top->open_run, name)))
		top_take_open(r->top, job);
	top_find_gpus(r->top);
	run_dirty(r);
}

static bool run_call(struct run *r, struct varlink_client *client, const char *method, json_t *p,
	varlink_answer_fn fn)
{
	return varlink_client_call(client, method, p, false, fn, r) == 0;
}

static void run_ask_open(struct run *r)
{
	json_t *p = ctl_with(ctl_job(r->top->open_run), "live", json_true());

	if (r->open_ms || r->top->now_ms - r->open_at_ms < OPEN_SHARE * r->open_took_ms) {
		json_decref(p);
		return;
	}
	r->open_ms = r->open_at_ms = r->top->now_ms;
	if (!run_call(r, r->live, METHOD("Status"), p, on_open))
		r->open_ms = 0;
}

/* Of each job, the figures of its first worker say enough. */
static void run_ask_some(struct run *r)
{
	struct top_item *item;
	char rank[16];

	if (r->asked > 0)
		return; /* an agent takes its time */
	while (r->asked < ASKED_MAX &&
		(item = top_next_asked(r->top, r->top->now_ms - TICK_MS / 2))) {
		json_t *p = ctl_with(ctl_job(item->id), "live", json_true());

		snprintf(rank, sizeof(rank), "%d", item->rank);
		if (item->rank >= 0)
			p = ctl_with(p, "ranks", json_string(rank));
		item->asked_ms = r->top->now_ms;
		if (!run_call(r, r->live, METHOD("Status"), p, on_live))
			return;
		r->asked++;
	}
}

static void run_ask_live(struct run *r)
{
	bool of_open = r->top->open_run &&
		       (r->top->screen == TOP_WORKERS ||
			       (r->top->screen != TOP_JOBS && r->top->below == TOP_WORKERS));

	if (!r->live)
		return;
	if (of_open)
		run_ask_open(r);
	else if (r->top->screen == TOP_JOBS)
		run_ask_some(r);
}

static void run_ask_list(struct run *r)
{
	char since[TIME_TEXT_MAX];

	if (!r->list_ms) {
		if (run_call(r, r->list, METHOD("List"), NULL, on_list))
			r->list_ms = r->top->now_ms;
		(void)!run_call(r, r->list, METHOD("Version"), NULL, on_version);
	} else if (r->top->now_ms - r->list_ms >= SILENT_MS) {
		snprintf(r->top->lost, sizeof(r->top->lost), "elasticd has not answered for %s",
			time_text_since((r->top->now_ms - r->list_ms) * 1000, 0, since));
	}
}

/* --- GPUs --- */

static void run_without_gpus(struct run *r)
{
	loop_fd_free(r->gpus_watch);
	r->gpus_watch = NULL;
	r->gpus = gpus_free(r->gpus);
}

static void on_gpus(int fd, int events, void *arg)
{
	struct run *r = arg;
	_cleanup_json_ json_t *answer = NULL;
	int code = gpus_read(r->gpus, &answer);

	if (code < 0)
		run_without_gpus(r);
	if (code != 0)
		top_take_gpus(r->top, answer);
	if (code != 0)
		run_dirty(r);
}

/* The driver of this host knows nothing of another one. */
static void run_with_gpus(struct run *r)
{
	if (r->ctl->remote.host || gpus_new(&r->gpus) < 0)
		return;
	if (loop_fd_new(r->loop, gpus_fd(r->gpus), LOOP_READ, on_gpus, r, &r->gpus_watch) < 0)
		run_without_gpus(r);
}

static void run_ask_gpus(struct run *r)
{
	if (!r->gpus)
		return;
	if (gpus_awaited_ms(r->gpus) && r->top->gpus &&
		r->top->now_ms - gpus_awaited_ms(r->gpus) >= SILENT_MS)
		top_take_gpus(r->top, NULL);
	gpus_ask(r->gpus, r->top->now_ms);
}

static void on_tick(void *arg)
{
	struct run *r = arg;

	loop_timer_arm(r->tick, TICK_MS);
	run_time(r);
	if (ctl_left_ms(r->ctl) == 0) {
		loop_quit(r->loop, CTL_TIMED_OUT);
		return;
	}
	if (run_connect(r)) {
		run_ask_list(r);
		run_ask_live(r);
		run_ask_gpus(r);
	}
	/* The clock goes on also where no answer comes. */
	if (r->list_ms == 0 || r->top->lost[0])
		run_dirty(r);
}

/* --- logs --- */

static void run_unlogs(struct run *r)
{
	line_printer_end(&r->printer);
	r->logs = varlink_client_free(r->logs);
}

static void run_add_lines(struct run *r, const json_t *lines)
{
	_cleanup_free_ char *whole = NULL;
	char *text = NULL, *rest, *line;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	r->printer.out = r->printer.err = f;
	line_printer_print(&r->printer, lines);
	whole = memstream_end(f, &text);
	/* Nothing is written between answers; line_printer_end() only flushes. */
	r->printer.out = r->printer.err = stderr;
	rest = whole;
	while (rest && (line = strsep(&rest, "\n")) && rest) {
		_cleanup_free_ char *shown = printable_dup(line);

		if (shown)
			top_add_line(r->top, shown);
	}
}

static void on_lines(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;

	run_dirty(r);
	if (!run_usable(r, METHOD("Logs"), error, p, true))
		return;
	if (get_int(p, "missed") > 0)
		top_notify(r->top, true, "%lld lines came too fast, and were left out.",
			(long long)get_int(p, "missed"));
	if (has_value(p, "note"))
		top_notify(r->top, true, "%s", get_text(p, "note"));
	run_add_lines(r, json_object_get(p, "lines"));
	if (!continues)
		top_notify(r->top, false, "These were the last lines: the run has ended.");
}

static void on_logs_closed(void *arg)
{
	struct run *r = arg;

	r->logs = varlink_client_free(r->logs);
	top_notify(r->top, true, "The connection ended: no more lines come.");
	run_dirty(r);
}

static void run_logs(struct run *r)
{
	const struct top_target *of = &r->top->target;
	json_t *p = ctl_with(ctl_job(of->run), "follow", json_true());
	struct error err = { 0 };
	char rank[16];

	snprintf(rank, sizeof(rank), "%d", of->rank);
	if (of->rank >= 0)
		p = ctl_with(p, "ranks", json_string(rank));
	p = ctl_with(p, "lines", json_integer(of->rank < 0 ? LINES_OF_MANY : LINES_OF_ONE));
	run_unlogs(r);
	r->printer = (struct line_printer){ .out = stderr, .err = stderr, .prefix = of->rank < 0 };
	if (run_link(r, on_logs_closed, &r->logs, &err) < 0) {
		json_decref(p);
		top_notify(r->top, true, "%s", err.text[0] ? err.text : "elasticd is not there");
	} else if (varlink_client_call(r->logs, METHOD("Logs"), p, true, on_lines, r) < 0) {
		top_notify(r->top, true, "out of memory");
	}
}

/* --- signals to workers --- */

static void on_killed(void *arg, const char *error, json_t *p, bool continues)
{
	struct run *r = arg;
	int n = (int)get_int(p, "signalled");

	if (run_usable(r, METHOD("Kill"), error, p, true)) {
		if (n == 0)
			top_notify(r->top, true, "%s has no process that could get %s.",
				r->top->target.name, r->top->signal);
		else if (r->top->target.rank < 0)
			top_notify(r->top, false, "Sent %s to %d worker%s of %s.", r->top->signal,
				n, plural(n), r->top->target.name);
		else
			top_notify(r->top, false, "Sent %s to %s.", r->top->signal,
				r->top->target.name);
	}
	r->act = varlink_client_free(r->act);
	run_dirty(r);
}

static void on_act_closed(void *arg)
{
	struct run *r = arg;

	r->act = varlink_client_free(r->act);
}

static void run_kill(struct run *r)
{
	const struct top_target *of = &r->top->target;
	json_t *p = ctl_with(ctl_job(of->run), "signal", json_string(r->top->signal));
	struct error err = { 0 };
	char rank[16];

	snprintf(rank, sizeof(rank), "%d", of->rank);
	if (of->rank >= 0)
		p = ctl_with(p, "ranks", json_string(rank));
	r->act = varlink_client_free(r->act);
	if (run_link(r, on_act_closed, &r->act, &err) < 0) {
		json_decref(p);
		top_notify(r->top, true, "%s", err.text[0] ? err.text : "elasticd is not there");
	} else if (!run_call(r, r->act, METHOD("Kill"), p, on_killed)) {
		top_notify(r->top, true, "out of memory");
	}
}

/* --- the user --- */

static void run_do(struct run *r, enum top_do what)
{
	switch (what) {
	case TOP_DO_QUIT:
		loop_quit(r->loop, 0);
		break;
	case TOP_DO_OPEN:
		r->open_took_ms = 0;
		run_ask_live(r);
		break;
	case TOP_DO_LOGS:
		run_logs(r);
		break;
	case TOP_DO_UNLOGS:
		run_unlogs(r);
		break;
	case TOP_DO_KILL:
		run_kill(r);
		break;
	case TOP_DO_REDRAW:
		run_draw(r, true);
		break;
	case TOP_DO_NOTHING:
		break;
	}
}

static void on_keys(int fd, int events, void *arg)
{
	struct run *r = arg;
	int waiting = 0, key;

	/* Readable, but there is nothing to read: the terminal is gone. */
	if (ioctl(fd, FIONREAD, &waiting) < 0 || waiting == 0) {
		loop_quit(r->loop, 0);
		return;
	}
	run_time(r);
	while ((key = terminal_key()) != 0)
		run_do(r, top_key(r->top, key));
	run_dirty(r);
}

static void on_signal(int signo, void *arg)
{
	struct run *r = arg;

	if (signo == SIGWINCH)
		run_draw(r, true);
	else
		loop_quit(r->loop, 128 + signo);
}

static int run_begin(struct run *r)
{
	int code = loop_new(&r->loop);

	if (code == 0)
		code = loop_timer_new(r->loop, on_tick, r, &r->tick);
	if (code == 0)
		code = loop_fd_new(r->loop, STDIN_FILENO, LOOP_READ, on_keys, r, &r->keys);
	for (int i = 0; i < N_SIGNALS && code == 0; i++)
		code = loop_signal_new(r->loop, run_signals[i], on_signal, r, &r->signals[i]);
	if (code == 0) {
		run_with_gpus(r);
		loop_timer_arm(r->tick, 0);
	}
	return code;
}

static void run_fini(struct run *r)
{
	if (!r->loop)
		return;
	run_unlogs(r);
	run_without_gpus(r);
	varlink_client_free(r->act);
	varlink_client_free(r->list);
	varlink_client_free(r->live);
	for (int i = 0; i < N_SIGNALS; i++)
		loop_signal_free(r->signals[i]);
	loop_fd_free(r->keys);
	loop_timer_free(r->tick);
	loop_cancel(r->loop, on_dirty, r);
	loop_free(r->loop);
}

int top_run(struct ctl *ctl, struct top *t, char *const *names, int n_names)
{
	struct run r = { .ctl = ctl,
		.top = t,
		.names = names,
		.n_names = n_names,
		.printer = { .out = stderr, .err = stderr } };
	struct error err = { 0 };
	int code = run_begin(&r);

	if (code == 0)
		code = terminal_open(ctl->color_out, &err);
	if (code == 0)
		code = loop_run(r.loop);
	terminal_close();
	run_fini(&r);
	if (code < 0)
		return ctl_error(ctl, CTL_FAILED, "%s", err.text[0] ? err.text : strerror(-code));
	if (code == CTL_TIMED_OUT)
		return ctl_timed_out(ctl);
	return code;
}
