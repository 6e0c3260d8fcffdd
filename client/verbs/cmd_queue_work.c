/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task work: in a worker, runs a program for each task. Each slot has its own connection, because a
 * lease returns to the queue when its connection ends, and at most one program. One more connection
 * reports which leases are cancelled.
 */
#include "client/queue/client.h"
#include "client/queue/payload.h"
#include "client/queue/work_program.h"
#include "client/verbs/verbs.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

enum { SLOTS_MAX = 1024, EARLY_MAX = 64, ENTRY_MAX = 128 };

struct worker;

struct slot {
	struct worker *w;
	struct varlink_client *link;
	struct work_program *program; /* runs, or has ended and is about to be reported */
	int64_t lease;		      /* -1: it has none */
	bool cancelled;
	bool over; /* it takes no more tasks */
};

struct worker {
	struct ctl *ctl;
	struct queue_client q;
	struct loop *loop;
	struct slot *slots;
	int n_slots;
	char **argv;
	const char *format; /* format of the program's output, or NULL */
	struct varlink_client *cancels;
	int64_t early[EARLY_MAX]; /* leases that were cancelled before their task arrived */
	size_t n_early;
	bool leaving; /* returns its tasks and exits */
	int status;
	bool finished;
};

static void worker_finish(struct worker *w, int status)
{
	if (w->finished)
		return;
	w->finished = true;
	if (!w->status)
		w->status = status;
	loop_quit(w->loop, 0);
}

static void worker_fail(struct worker *w, int status, const char *text)
{
	ctl_error(w->ctl, status, "%s", text);
	worker_finish(w, status);
}

static void slot_over(struct slot *s)
{
	struct worker *w = s->w;

	s->over = true;
	for (int i = 0; i < w->n_slots; i++)
		if (!w->slots[i].over)
			return;
	worker_finish(w, 0);
}

static void slot_ask(struct slot *s);
static void on_answer(void *arg, const char *error, json_t *parameters, bool continues);

static void slot_call(struct slot *s, const char *method, json_t *p, varlink_answer_fn fn)
{
	if (!p || varlink_client_call(s->link, method, p, false, fn, s) < 0)
		worker_fail(s->w, CTL_FAILED, "out of memory");
}

/* --- the end of a task */

static void on_put_back(void *arg, const char *error, json_t *parameters, bool continues)
{
	slot_over(arg);
}

static json_t *with_lease(const struct slot *s)
{
	json_t *p = ctl_with(json_object(), "lease", json_integer(s->lease));

	return ctl_with(p, "next", json_true());
}

/* Reports a failure. errors: the program's standard error, or NULL. */
static void slot_send_failure(
	struct slot *s, const char *code, const char *message, bool retryable, bool errors)
{
	json_t *p = ctl_with(with_lease(s), "code", json_string(code));
	const char *text;
	size_t len;

	p = ctl_with(p, "message", json_string(message));
	if (errors && s->program) {
		text = work_program_errors(s->program, &len);
		/* It may begin or end within a UTF-8 sequence. */
		if (len > 0)
			p = ctl_with(p, "details", json_string_lossy(text, len));
	}
	if (retryable)
		p = ctl_with(p, "retryable", json_true());
	slot_call(s, QUEUE_METHOD("Fail"), p, on_answer);
}

static void slot_send_value(struct slot *s)
{
	const char *format = s->w->format, *data;
	struct error err = { 0 };
	char message[1400];
	size_t len;

	data = work_program_output(s->program, &len);
	if (format && !strcmp(format, "json") && payload_check_json(&data, &len, &err) < 0) {
		snprintf(message, sizeof(message), "%.256s printed no JSON: %s", s->w->argv[0],
			err.text);
		slot_send_failure(s, "InvalidArgument", message, false, true);
		return;
	}
	slot_call(s, QUEUE_METHOD("Finish"), payload_put(with_lease(s), "value", data, len, format),
		on_answer);
}

static void slot_send_end(struct slot *s)
{
	int status = work_program_status(s->program), code = WEXITSTATUS(status);
	char message[256], name[SIGNALS_TEXT_MAX];

	if (s->w->leaving) {
		slot_call(s, QUEUE_METHOD("PutBack"),
			ctl_with(json_object(), "lease", json_integer(s->lease)), on_put_back);
	} else if (s->cancelled) {
		slot_send_failure(s, "Cancelled", "it was cancelled", false, false);
	} else if (work_program_too_much(s->program)) {
		snprintf(message, sizeof(message), "%s printed more than %d bytes", s->w->argv[0],
			WORK_OUTPUT_MAX);
		slot_send_failure(s, "ResourceExhausted", message, false, true);
	} else if (WIFSIGNALED(status)) {
		snprintf(message, sizeof(message), "%s was killed by %s", s->w->argv[0],
			signals_name(WTERMSIG(status), name));
		slot_send_failure(s, "Internal", message, false, true);
	} else if (code != 0) {
		snprintf(message, sizeof(message), "%s exited with code %d", s->w->argv[0], code);
		slot_send_failure(s, code == EX_TEMPFAIL ? "Unavailable" : "Internal", message,
			code == EX_TEMPFAIL, true);
	} else {
		slot_send_value(s);
	}
}

static void on_ended(void *arg)
{
	struct slot *s = arg;

	slot_send_end(s);
	s->program = work_program_free(s->program);
}

/* --- the beginning of a task */

static void slot_cancel(struct slot *s)
{
	s->cancelled = true;
	if (s->program)
		work_program_end(s->program);
}

static bool take_early_cancel(struct worker *w, int64_t lease)
{
	for (size_t i = 0; i < w->n_early; i++)
		if (w->early[i] == lease) {
			w->early[i] = w->early[--w->n_early];
			return true;
		}
	return false;
}

/* Makes the program's environment entries for the task, in room. */
static void describe_task(const json_t *item, char room[][ENTRY_MAX], char **env)
{
	static const char *const texts[][2] = { { "ELASTICD_ITEM", "kind" },
		{ "ELASTICD_TASK_FORMAT", "format" }, { "ELASTICD_RESOURCE", "name" } };
	size_t n = 0;

	for (size_t i = 0; i < 3; i++, n++)
		snprintf(room[n], ENTRY_MAX, "%s=%s", texts[i][0],
			get_text(item, texts[i][1]) ? get_text(item, texts[i][1]) : "");
	if (has_value(item, "task"))
		snprintf(room[n++], ENTRY_MAX, "ELASTICD_TASK=%" PRId64, get_int(item, "task"));
	snprintf(room[n++], ENTRY_MAX, "ELASTICD_TASK_TRY=%" PRId64, get_int(item, "tries"));
	for (size_t i = 0; i < n; i++)
		env[i] = room[i];
	env[n] = NULL;
}

/* The program cannot be executed: ends, since the next task would fail too. */
static void cannot_start(struct slot *s, int r, const struct error *err)
{
	worker_fail(s->w,
		r == -ENOENT			? 127
		: r == -EACCES || r == -ENOEXEC ? 126
						: CTL_REFUSED,
		err->text);
}

static void slot_begin(struct slot *s, const json_t *item)
{
	_cleanup_free_ char *payload = NULL;
	char room[5][ENTRY_MAX], *env[6];
	struct error err = { 0 };
	size_t len;
	int r;

	s->lease = get_int(item, "lease");
	s->cancelled = take_early_cancel(s->w, s->lease);
	if (s->cancelled) {
		slot_send_failure(s, "Cancelled", "it was cancelled", false, false);
		return;
	}
	if (payload_get(item, "payload", &payload, &len) < 0) {
		worker_fail(s->w, CTL_FAILED, "a payload is not understood");
		return;
	}
	describe_task(item, room, env);
	r = work_program_start(s->w->loop, s->w->argv, env, payload ? payload : "", len, on_ended,
		s, &s->program, &err);
	if (r < 0)
		cannot_start(s, r, &err);
}

/* Gets a task, from Work or from the answer to Finish and Fail. */
static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct slot *s = arg;
	const json_t *item = json_object_get(parameters, "item");
	const char *name = error ? ctl_error_name(error) : NULL;
	struct error err = { 0 };

	if (error && !strcmp(error, "disconnected"))
		return; /* reported once, for all calls */
	s->lease = -1;
	if (!error && s->w->leaving)
		slot_over(s); /* the task returns to the queue with the connection */
	else if (!error && json_is_object(item))
		slot_begin(s, item);
	else if (!error || !strcmp(name, "Aborted"))
		slot_ask(s);
	else if (!strcmp(name, "Closed") || !strcmp(name, "Cancelled"))
		slot_over(s);
	else
		worker_fail(s->w, ctl_explain(s->w->ctl, error, parameters, &err), err.text);
}

static void slot_ask(struct slot *s)
{
	s->lease = -1;
	slot_call(s, QUEUE_METHOD("Work"), json_object(), on_answer);
}

/* --- cancelled leases, signals and errors */

static void on_cancelled(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct worker *w = arg;
	int64_t lease = get_int(parameters, "lease");
	struct error err = { 0 };

	if (error && strcmp(error, "disconnected") != 0)
		worker_fail(w, ctl_explain(w->ctl, error, parameters, &err), err.text);
	if (error || !has_value(parameters, "lease"))
		return;
	for (int i = 0; i < w->n_slots; i++)
		if (w->slots[i].lease == lease) {
			slot_cancel(&w->slots[i]);
			return;
		}
	if (w->n_early == EARLY_MAX)
		memmove(w->early, w->early + 1, --w->n_early * sizeof(w->early[0]));
	w->early[w->n_early++] = lease;
}

static void on_disconnected(void *arg)
{
	worker_fail(arg, CTL_NO_DAEMON, "the connection to the job's agent broke");
}

static void on_slot_disconnected(void *arg)
{
	struct slot *s = arg;

	if (!s->over)
		on_disconnected(s->w);
}

static void on_signal(int signo, void *arg)
{
	struct worker *w = arg;
	bool again = w->leaving;

	w->leaving = true;
	w->status = 128 + signo;
	for (int i = 0; i < w->n_slots && !w->finished; i++) {
		struct slot *s = &w->slots[i];

		if (s->program && again)
			work_program_kill(s->program);
		else if (s->program)
			work_program_end(s->program);
		else if (!s->over && s->lease < 0)
			slot_over(s);
	}
}

/* --- the verb */

static int open_links(struct worker *w)
{
	int r = queue_connect(&w->q, w->loop, on_disconnected, w, &w->cancels);

	if (r == 0 && varlink_client_call(
			      w->cancels, QUEUE_METHOD("Cancels"), NULL, true, on_cancelled, w) < 0)
		r = ctl_error(w->ctl, CTL_FAILED, "out of memory");
	for (int i = 0; r == 0 && i < w->n_slots; i++) {
		struct slot *s = &w->slots[i];

		s->w = w;
		s->lease = -1;
		r = queue_connect(&w->q, w->loop, on_slot_disconnected, s, &s->link);
	}
	return r;
}

static int run_loop(struct worker *w)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	struct loop_signal *handles[3] = { NULL };
	int r = 0;

	for (int i = 0; r == 0 && i < 3; i++)
		r = loop_signal_new(w->loop, signals[i], on_signal, w, &handles[i]);
	if (r < 0)
		r = ctl_error(w->ctl, CTL_FAILED, "out of memory");
	if (r == 0)
		r = open_links(w);
	for (int i = 0; r == 0 && i < w->n_slots && !w->finished; i++)
		slot_ask(&w->slots[i]);
	if (r == 0) {
		if (!w->finished && loop_run(w->loop) < 0)
			w->status = CTL_FAILED;
		r = w->status;
	}
	for (int i = 0; i < w->n_slots; i++) {
		work_program_free(w->slots[i].program);
		varlink_client_free(w->slots[i].link);
	}
	varlink_client_free(w->cancels);
	for (int i = 0; i < 3; i++)
		loop_signal_free(handles[i]);
	return r;
}

int cmd_task_work(struct ctl *ctl, struct args *args)
{
	struct worker w = { .ctl = ctl, .argv = args->argv, .format = args_get(args, "format") };
	struct error err = { 0 };
	int64_t n = 1;
	int r;

	if (args_int(args, "slots", 1, &n, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (n > SLOTS_MAX)
		return ctl_usage(ctl, "--slots: expected at most %d", SLOTS_MAX);
	r = queue_format(ctl, w.format);
	if (r == 0)
		r = queue_begin_worker(ctl, &w.q);
	if (r != 0)
		return r;
	signal(SIGPIPE, SIG_IGN);
	w.n_slots = (int)n;
	w.slots = calloc((size_t)n, sizeof(*w.slots));
	if (!w.slots || loop_new(&w.loop) < 0)
		r = ctl_error(ctl, CTL_FAILED, "out of memory");
	else
		r = run_loop(&w);
	loop_free(w.loop);
	free(w.slots);
	return r;
}
