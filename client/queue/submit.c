/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tasks from arguments or lines. One SubmitMany is open at a time, so that tasks keep the
 * order of their lines, and the next one is prepared meanwhile. A call waits for room no longer
 * than WAIT_MS and is then repeated: so an interrupt ends with the exact number of accepted tasks,
 * unless the service does not answer for long. While there is little room, calls carry fewer tasks,
 * so that collect.c learns their numbers early.
 */
#include "client/queue/submit.h"

#include "client/output/plural.h"
#include "client/queue/payload.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

enum {
	WAIT_MS = 1000,
	BATCH_FIRST = 16,
	BATCH_MAX = 512,
	BATCH_BYTES = 128 * 1024, /* of payloads; escaped they still fit into a message */
	QUICK_MS = 100,
};

static void submit_message(struct submit *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints a message, with the progress line out of the way. */
static void submit_message(struct submit *s, const char *fmt, ...)
{
	char text[1400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->view)
		progress_view_clear(s->view);
	ctl_error(s->ctl, 0, "%s", text);
}

/* Submits no more, but still prints results of accepted tasks. The first reason sets the exit
 * status. */
static void drop_input(struct submit *s)
{
	s->exhausted = true;
	json_array_clear(s->next);
	s->next_bytes = 0;
}

void submit_end(struct submit *s, int status)
{
	if (!s->status)
		s->status = status;
	if (s->finished)
		return;
	s->finished = true;
	loop_quit(s->loop, 0);
}

static const char *were(int64_t n)
{
	return n == 1 ? "was" : "were";
}

static const char *their_results_are(int64_t n)
{
	return n == 1 ? "its result is" : "their results are";
}

/* Describes how to get what was not printed: results with --fetch, else task numbers. */
static void describe_rest(const struct submit *s, bool unwritten, bool lost, char *buf, size_t size)
{
	const char *option = s->q.queue ? " --queue=" : "", *name = s->q.queue ? s->q.queue : "";
	const char *job = s->q.job ? " " : "", *job_name = s->q.job ? s->q.job : "";
	size_t left = s->collect ? collect_left(s->collect) : 0;

	*buf = '\0';
	/* Results that could not be written are kept in the queue, since they were not released. */
	unwritten |= !stdout_buffer_empty(s->out);
	if (s->collect && unwritten)
		left += collect_unreleased(s->collect);
	if (left > 0)
		snprintf(buf, size,
			"; %zu result%s not fetched%s: elasticctl task fetch --all%s%s%s%s", left,
			left == 1 ? " was" : "s were", lost ? "; if the job goes on" : "", option,
			name, job, job_name);
	else if (!s->collect && unwritten && (s->accepted || s->flight))
		snprintf(buf, size, "; %s: elasticctl task list%s%s%s%s",
			s->accepted ? "their numbers" : "numbers of accepted tasks", option, name,
			job, job_name);
}

/* Reports, after reason, how many tasks were accepted, since these stay in the queue. */
static void report_some(struct submit *s, const char *reason, const char *rest)
{
	s->reported = s->accepted;
	submit_message(s, "%s%s%s%" PRId64 " task%s %s accepted%s", reason, *reason ? ": " : "",
		s->flight ? "at least " : "", s->accepted, plural(s->accepted), were(s->accepted),
		rest);
}

/* Reports reason and rest where, as far as is known, no task was accepted. */
static void report_none(struct submit *s, const char *reason, const char *rest)
{
	s->reported = 0;
	if (*reason)
		submit_message(
			s, "%s%s%s", reason, s->flight ? ": the queue has not answered" : "", rest);
	else if (*rest)
		submit_message(s, "%s", rest + strspn(rest, "; "));
}

static void report_tasks(struct submit *s, const char *reason, const char *rest)
{
	if (s->accepted)
		report_some(s, reason, rest);
	else
		report_none(s, reason, rest);
}

static void report_count(struct submit *s, const char *reason, bool unwritten)
{
	char rest[512];

	describe_rest(s, unwritten, false, rest, sizeof(rest));
	report_tasks(s, reason, rest);
}

static void report_accepted(struct submit *s)
{
	report_count(s, "", false);
}

void submit_fail(struct submit *s, int status, const char *text)
{
	if (s->finished)
		return;
	submit_message(s, "%s", text);
	report_accepted(s);
	submit_end(s, status);
}

void submit_refused(struct submit *s, const char *error, const json_t *parameters, bool ends)
{
	struct error err = { 0 };
	char rest[640] = "";
	int status = ctl_explain(s->ctl, error, parameters, &err), len = 0;
	int64_t forgotten = get_int(parameters, "forgotten");
	/* The agent is gone, or is stopping its group: tasks may be lost. */
	bool lost = !strcmp(ctl_error_name(error), "Unavailable") ||
		    !strcmp(ctl_error_name(error), "Cancelled");

	if (s->view)
		progress_view_clear(s->view);
	ctl_refused(s->ctl, status, parameters, &err);
	/* forgotten: tasks of a call that waited for room when the queue failed. */
	if (forgotten > 0 && s->accepted)
		len = snprintf(rest, sizeof(rest), "; %" PRId64 " more %s, and %s lost", forgotten,
			were(forgotten), their_results_are(forgotten));
	else if (forgotten > 0)
		len = snprintf(rest, sizeof(rest), "%" PRId64 " task%s %s accepted, and %s lost",
			forgotten, plural(forgotten), were(forgotten),
			their_results_are(forgotten));
	if (ends)
		describe_rest(s, false, lost, rest + len, sizeof(rest) - (size_t)len);
	report_tasks(s, "", rest);
	if (!s->status)
		s->status = status;
}

void submit_lost(struct submit *s)
{
	struct error err;

	ctl_explain_break(s->ctl, NULL, &err);
	submit_fail(s, CTL_NO_DAEMON, err.text);
}

static void no_memory(struct submit *s)
{
	submit_fail(s, CTL_FAILED, "out of memory");
}

/* --- from lines to tasks */

/* "line 7" or "argument 3". */
static void name_source(const struct submit *s, char *buf, size_t size)
{
	if (s->lines)
		snprintf(buf, size, "line %" PRIu64, line_reader_number(s->lines));
	else
		snprintf(buf, size, "argument %d", s->at_argument);
}

static void stop_input(struct submit *s)
{
	s->exhausted = s->refused = true;
	s->status = CTL_REFUSED;
}

/* Reports a bad line: those before it are still submitted. */
static void refuse_input(struct submit *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void refuse_input(struct submit *s, const char *fmt, ...)
{
	char where[48], text[512];
	va_list ap;

	name_source(s, where, sizeof(where));
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	submit_message(s, "%s: %s", where, text);
	stop_input(s);
}

static void cannot_read(struct submit *s, int error)
{
	submit_message(s, "cannot read %s: %s", strcmp(s->file, "-") ? s->file : "standard input",
		strerror(-error));
	stop_input(s);
}

static bool add_task(struct submit *s, const char *data, size_t len)
{
	json_t *task = payload_put(json_object(), "payload", data, len, s->format);

	if (s->resources)
		task = ctl_with(task, "resources", json_incref(s->resources));
	if (s->limit_ms >= 0)
		task = ctl_with(task, "limit_ms", json_integer(s->limit_ms));
	if (s->alone)
		task = ctl_with(task, "alone", json_true());
	if (!task || json_array_append_new(s->next, task) < 0)
		return false;
	s->next_bytes += len;
	return true;
}

/* Adds a task for one line or argument. False if that ends everything. */
static bool take_payload(struct submit *s, const char *data, size_t len)
{
	struct error err = { 0 };
	int r = s->check_json ? payload_check_json(&data, &len, &err) : 0;

	if (r == -ENODATA && s->lines)
		return true;
	if (r < 0)
		refuse_input(s, "%s", err.text);
	else if (len > QUEUE_PAYLOAD_MAX)
		refuse_input(s, "expected at most %d bytes, got %zu", QUEUE_PAYLOAD_MAX, len);
	else if (!add_task(s, data, len))
		return no_memory(s), false;
	return true;
}

/* Returns the next line or argument: 1, 0 if there is none yet, -ENODATA at the end. */
static int next_payload(struct submit *s, const char **data, size_t *len)
{
	if (s->lines)
		return line_reader_next(s->lines, data, len);
	if (s->at_argument == s->n_arguments)
		return -ENODATA;
	*data = s->arguments[s->at_argument++];
	*len = strlen(*data);
	return 1;
}

/* Prepares the next call. False if everything has ended. */
static bool fill_next(struct submit *s)
{
	while (!s->exhausted && json_array_size(s->next) < s->batch &&
		s->next_bytes < BATCH_BYTES) {
		const char *data;
		size_t len;
		int r = next_payload(s, &data, &len);

		if (r == 0)
			return true;
		if (r == -ENODATA)
			s->exhausted = true;
		else if (r == -EMSGSIZE)
			refuse_input(s, "longer than %d bytes", QUEUE_PAYLOAD_MAX);
		else if (r < 0)
			cannot_read(s, r);
		else if (!take_payload(s, data, len))
			return false;
	}
	return true;
}

/* --- from tasks to the queue */

/* Puts tasks that were not accepted in front of the next call. */
static bool put_back(struct submit *s, size_t accepted)
{
	json_t *rest = json_array();
	size_t i, n = json_array_size(s->flight);

	for (i = accepted; rest && i < n; i++)
		if (json_array_append(rest, json_array_get(s->flight, i)) < 0)
			break;
	if (!rest || i < n || json_array_extend(rest, s->next) < 0) {
		json_decref(rest);
		return false;
	}
	json_decref(s->next);
	s->next = rest;
	return true;
}

static bool print_numbers(struct submit *s, int64_t first, size_t n)
{
	char text[32];

	if (s->collect)
		return collect_add(s->collect, first, n) == 0;
	if (s->view && s->ctl->columns > 0)
		progress_view_clear(s->view);
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(text, sizeof(text), "%" PRId64 "\n", first + (int64_t)i);

		if (stdout_buffer_write(s->out, text, (size_t)len) < 0)
			return false;
	}
	return true;
}

static void accept_tasks(struct submit *s, const json_t *answer)
{
	size_t sent = json_array_size(s->flight), n = (size_t)get_int(answer, "accepted");

	if (n > sent)
		n = sent;
	s->accepted += (int64_t)n;
	if (!print_numbers(s, get_int(answer, "first"), n) || (n < sent && !put_back(s, n))) {
		no_memory(s);
		return;
	}
	if (n < sent)
		s->batch = s->batch > 1 ? s->batch / 2 : 1;
	else if (loop_now_ms() - s->sent_ms < QUICK_MS && s->batch < BATCH_MAX)
		s->batch *= 2;
}

/* Whether the service only reports that no room was free in time. */
static bool is_only_full(struct submit *s, const char *error)
{
	const char *name = ctl_error_name(error);

	if (s->no_wait ||
		(strcmp(name, "ResourceExhausted") != 0 && strcmp(name, "DeadlineExceeded") != 0))
		return false;
	if (loop_now_ms() + 20 - s->sent_ms >= s->wait_ms)
		return true;
	/* If the queue is full of results, releasing ours makes room. */
	if (!s->collect)
		return false;
	s->must_release = collect_freed(s->collect) == s->sent_freed;
	return !s->must_release || collect_busy(s->collect);
}

/* If the service refused, no task of the call was accepted; if the agent is gone, some may have
 * been, but cannot be fetched. */
static void end_refused(struct submit *s, const char *error, const json_t *parameters)
{
	bool lost = !strcmp(ctl_error_name(error), "Unavailable");

	if (!lost) {
		json_decref(s->flight);
		s->flight = NULL;
	}
	submit_refused(s, error, parameters, lost);
	drop_input(s);
	if (lost && s->collect)
		submit_end(s, s->status);
}

static void on_submitted(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct submit *s = arg;

	if (s->finished)
		return;
	if (!error) {
		accept_tasks(s, parameters);
	} else if (is_only_full(s, error)) {
		s->batch = 1;
		if (!put_back(s, 0))
			no_memory(s);
	} else if (!strcmp(error, "disconnected")) {
		return; /* on_disconnected() reports it once, for all calls */
	} else {
		end_refused(s, error, parameters);
	}
	json_decref(s->flight);
	s->flight = NULL;
	submit_pump(s);
}

static bool send_batch(struct submit *s)
{
	int64_t left = ctl_left_ms(s->ctl), wait_ms = WAIT_MS;
	json_t *p;

	if (s->no_wait)
		wait_ms = 0;
	else if (left >= 0 && left < wait_ms)
		wait_ms = left;
	s->flight = s->next;
	s->next = json_array();
	s->next_bytes = 0;
	s->sent_ms = loop_now_ms();
	s->wait_ms = (uint64_t)wait_ms;
	s->sent_freed = s->collect ? collect_freed(s->collect) : 0;
	p = ctl_with(queue_named(&s->q), "tasks", json_incref(s->flight));
	p = ctl_with(p, "wait_ms", json_integer(wait_ms));
	if (s->next && p &&
		varlink_client_call(
			s->link, QUEUE_METHOD("SubmitMany"), p, false, on_submitted, s) == 0)
		return true;
	json_decref(s->flight); /* it was not sent */
	s->flight = NULL;
	no_memory(s);
	return false;
}

static bool has_room(const struct submit *s)
{
	return !s->must_release && !stdout_buffer_full(s->out) &&
	       !(s->collect && collect_full(s->collect)) &&
	       !(s->view && progress_view_begins(s->view));
}

static void end_interrupted(struct submit *s)
{
	report_count(s, "interrupted", false);
	submit_end(s, s->status);
}

static void end_done(struct submit *s)
{
	size_t failed = s->collect ? collect_failed(s->collect) : 0;

	if (s->refused && s->reported != s->accepted)
		report_accepted(s);
	if (failed)
		submit_message(s, "%zu of %" PRId64 " task%s did not succeed", failed, s->accepted,
			plural(s->accepted));
	submit_end(s, failed ? CTL_REFUSED : 0);
}

void submit_pump(struct submit *s)
{
	if (s->finished)
		return;
	if (s->interrupted) {
		if (!s->flight)
			end_interrupted(s);
		return;
	}
	if (has_room(s) && !fill_next(s))
		return;
	if (!s->flight && json_array_size(s->next) > 0 && has_room(s) && !send_batch(s))
		return;
	if (s->collect)
		collect_pump(s->collect);
	if (s->exhausted && !s->flight && json_array_size(s->next) == 0 &&
		stdout_buffer_empty(s->out) && (!s->collect || collect_left(s->collect) == 0))
		end_done(s);
}

/* --- interrupts and errors */

static void on_pump(void *arg)
{
	submit_pump(arg);
}

static void on_gone(void *arg, int error)
{
	struct submit *s = arg;

	if (s->finished)
		return;
	/* The numbers of further tasks could not be printed. */
	if (error == -EPIPE) {
		report_count(s, "standard output was closed", true);
	} else {
		submit_message(s, "cannot write to standard output: %s", strerror(-error));
		report_count(s, "", true);
	}
	submit_end(s, error == -EPIPE ? 128 + SIGPIPE : CTL_REFUSED);
}

static void on_disconnected(void *arg)
{
	submit_lost(arg);
}

/* Ends all but the open call, which has a limit for its own wait. */
static void interrupt(struct submit *s, int status)
{
	s->interrupted = true;
	s->status = status;
	loop_timer_arm(s->patience, WAIT_MS + QUEUE_PATIENCE_MS);
	submit_pump(s);
}

static void on_signal(int signo, void *arg)
{
	struct submit *s = arg;

	/* A second interrupt: does not even wait for the open call. */
	if (s->interrupted && s->flight) {
		end_interrupted(s);
		return;
	}
	interrupt(s, 128 + signo);
}

static void on_deadline(void *arg)
{
	struct submit *s = arg;

	if (s->view)
		progress_view_clear(s->view);
	ctl_timed_out(s->ctl);
	if (!s->interrupted)
		interrupt(s, CTL_TIMED_OUT);
}

/* The open call is long overdue: the service does not answer. */
static void on_overdue(void *arg)
{
	struct submit *s = arg;

	if (!s->finished)
		end_interrupted(s);
}

struct handles {
	struct loop_signal *signals[2];
	struct loop_timer *deadline;
};

static int start_listening(struct submit *s, struct handles *h)
{
	int r = loop_signal_new(s->loop, SIGINT, on_signal, s, &h->signals[0]);

	if (r == 0)
		r = loop_signal_new(s->loop, SIGTERM, on_signal, s, &h->signals[1]);
	if (r == 0)
		r = loop_timer_new(s->loop, on_deadline, s, &h->deadline);
	if (r == 0)
		r = loop_timer_new(s->loop, on_overdue, s, &s->patience);
	if (r == 0 && s->ctl->deadline_ms >= 0)
		loop_timer_arm(h->deadline, (uint64_t)ctl_left_ms(s->ctl));
	if (r == 0)
		r = stdout_buffer_new(s->loop, STDOUT_FILENO, on_pump, on_gone, s, &s->out);
	if (r < 0)
		return ctl_error(s->ctl, CTL_FAILED, "cannot start: %s", strerror(-r));
	return 0;
}

int submit_run(struct submit *s, int in)
{
	struct handles h = { .deadline = NULL };
	int r, e = 0;

	s->batch = BATCH_FIRST;
	s->reported = -1;
	s->next = json_array();
	if (!s->next || loop_new(&s->loop) < 0)
		r = ctl_error(s->ctl, CTL_FAILED, "out of memory");
	else
		r = start_listening(s, &h);
	if (r == 0 && in >= 0)
		e = line_reader_new(s->loop, in, QUEUE_PAYLOAD_MAX, on_pump, s, &s->lines);
	if (e < 0)
		r = ctl_error(s->ctl, CTL_FAILED, "cannot read %s: %s", s->file, strerror(-e));
	if (r == 0)
		r = queue_connect(&s->q, s->loop, on_disconnected, s, &s->link);
	if (r == 0 && s->fetch)
		r = collect_new(s, s->ordered, &s->collect);
	if (r == 0 && s->progress)
		r = progress_view_new(s, &s->view);
	if (r == 0) {
		submit_pump(s);
		e = s->finished ? 0 : loop_run(s->loop);
		r = s->status ? s->status : e < 0 ? CTL_FAILED : 0;
	}
	s->view = progress_view_free(s->view);
	s->collect = collect_free(s->collect);
	s->link = varlink_client_free(s->link);
	s->lines = line_reader_free(s->lines);
	s->out = stdout_buffer_free(s->out);
	loop_timer_free(h.deadline);
	loop_timer_free(s->patience);
	loop_signal_free(h.signals[0]);
	loop_signal_free(h.signals[1]);
	loop_free(s->loop);
	json_decref(s->next);
	json_decref(s->flight);
	return r;
}
