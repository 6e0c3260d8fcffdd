/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A scripted coordinator or worker that uses the library's work queue: every argument is one step,
 * NAME or NAME:ARGUMENT, done in order; after the last one it exits 0. Each prints one line: its
 * name and what came, or its name, the status, and the text.
 *
 * job:NAME (first: as no task of it, by control.sock), queue:NAME (queue: own: one of its own);
 * submit:PAYLOAD, need:RESOURCE:PAYLOAD, limit:MS:PAYLOAD, many:N (payloads 0 to N-1), fetch:I (the
 * I-th that was submitted here), fetch-all (its count by state, and the sum of the values), any
 * (until all have come), join, done, cancel:I, cancel-all, close, await:N (until N tasks run),
 * create:NAME, drop:NAME, call:PAYLOAD, work, threads:N (of work), put:KEY=VALUE, get:KEY, kill.
 *
 * work does items until the queues are closed: what a task is to do is its payload: a number (its
 * value), fail:TEXT, retry:N (fails retryably for N tries), die (is killed, the first time), wait
 * (until it is cancelled), nest:PAYLOAD (submits that, and waits for it). A resource is built
 * unless its payload is "bad"; calls are answered with their payload and the worker's index.
 */

#include "worker/elasticd_queue.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct elasticd *h;
static struct elasticd_queue *q;
static int64_t numbers[1 << 16];
static size_t n_numbers;

/* Prints what a step came to; text only where it succeeded. */
static void say(const char *step, int r, const char *text)
{
	if (r)
		printf("%s %s: %s\n", step, elasticd_status_name(r), elasticd_error_text());
	else
		printf("%s %s\n", step, text);
	fflush(stdout);
}

/* The text behind the first separator, which becomes the end of the text before it. */
static char *split(char *text, char separator)
{
	char *at = strchr(text, separator);

	if (!at)
		return text + strlen(text);
	*at = '\0';
	return at + 1;
}

static struct elasticd_queue_bytes bytes(const char *text)
{
	return (struct elasticd_queue_bytes){ text, strlen(text), "text" };
}

/* --- a worker */

/* The value of a nested task, or the status that its submission or itself came to. */
static int do_nested(const char *payload, char *value, size_t size)
{
	const struct elasticd_queue_new_task t = { .payload = bytes(payload) };
	struct elasticd_queue_outcome *o = NULL;
	size_t n;
	int64_t task;
	int r = elasticd_queue_submit(q, &t, 1, -1, &task, &n);

	if (r == 0)
		r = elasticd_queue_fetch(q, &task, 1, ELASTICD_FETCH_RELEASE, -1, &o, &n);
	if (r)
		return r;
	snprintf(value, size, "%s", o->value ? (char *)o->value : "");
	r = o->code;
	elasticd_queue_outcomes_free(o, n);
	return r;
}

static int next_failed(struct elasticd_queue_work *w, int code, const char *text, int retryable,
	const struct elasticd_queue_item **ret)
{
	const struct elasticd_queue_failure f = {
		.code = code, .message = text, .details = "at line 1", .retryable = retryable
	};

	return elasticd_queue_work_fail_next(w, &f, -1, ret);
}

static int do_task(struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	const struct elasticd_queue_item *i = *item;
	const char *p = i->payload;
	struct elasticd_queue_bytes value = bytes(p);
	char text[256];
	int r;

	if (strncmp(p, "fail:", 5) == 0)
		return next_failed(w, ELASTICD_STATUS_OUT_OF_RANGE, p + 5, 0, item);
	if (strncmp(p, "retry:", 6) == 0 && i->tries < atoi(p + 6))
		return next_failed(w, ELASTICD_STATUS_UNAVAILABLE, "not yet", 1, item);
	if (strcmp(p, "die") == 0 && i->tries == 0)
		raise(SIGKILL);
	if (strcmp(p, "wait") == 0) {
		while (!elasticd_queue_work_cancelled(w))
			poll(NULL, 0, 1);
		say("told", 0, elasticd_error_text());
	}
	if (strncmp(p, "nest:", 5) == 0) {
		r = do_nested(p + 5, text, sizeof(text));
		if (r)
			return next_failed(w, r, "nested", 0, item);
		value = bytes(text);
	}
	return elasticd_queue_work_finish_next(w, &value, -1, item);
}

static int do_item(struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	const struct elasticd_queue_item *i = *item;
	struct elasticd_queue_bytes value;
	char text[256];

	switch (i->kind) {
	case ELASTICD_ITEM_TASK:
		return do_task(w, item);
	case ELASTICD_ITEM_BUILD:
		if (strcmp(i->payload, "bad") == 0)
			return next_failed(w, ELASTICD_STATUS_NOT_FOUND, "no such data", 0, item);
		return elasticd_queue_work_finish_next(w, NULL, -1, item);
	default:
		snprintf(text, sizeof(text), "%s %d", (const char *)i->payload, i->index);
		value = bytes(text);
		return elasticd_queue_work_finish_next(w, &value, -1, item);
	}
}

static void do_work(const char *step, char *arg)
{
	const struct elasticd_queue_item *item = NULL;
	struct elasticd_queue_work *w = NULL;
	int r = elasticd_queue_work_open(h, &w);

	if (r == 0)
		r = elasticd_queue_work_next(w, -1, &item);
	while ((r == 0 && item) || r == ELASTICD_STATUS_ABORTED) {
		if (r == 0)
			r = do_item(w, &item);
		if (r == ELASTICD_STATUS_ABORTED)
			r = elasticd_queue_work_next(w, -1, &item);
	}
	elasticd_queue_work_close(w);
	say(step, r, "closed");
}

static void *work_main(void *arg)
{
	do_work("work", NULL);
	return NULL;
}

static void do_threads(const char *step, char *arg)
{
	pthread_t t[64];
	int n = atoi(arg);

	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, work_main, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* --- a coordinator */

static void do_job(const char *step, char *arg)
{
	int r;

	elasticd_queue_close(q);
	elasticd_close(h);
	h = NULL;
	q = NULL;
	r = elasticd_queue_connect(arg, NULL, &h);
	if (r == 0)
		r = elasticd_queue_open(h, "", &q);
	say(step, r, arg);
	if (r)
		exit(1);
}

static void do_queue(const char *step, char *arg)
{
	elasticd_queue_close(q);
	q = NULL;
	say(step, elasticd_queue_open(h, strcmp(arg, "own") == 0 ? NULL : arg, &q), arg);
}

static void submit(const char *step, const struct elasticd_queue_new_task *tasks, size_t n)
{
	size_t accepted;
	int r = elasticd_queue_submit(q, tasks, n, -1, numbers + n_numbers, &accepted);
	char text[32];

	n_numbers += accepted;
	snprintf(text, sizeof(text), "%zu", accepted);
	say(step, r, text);
}

static void do_submit(const char *step, char *arg)
{
	struct elasticd_queue_new_task t = { .limit_ms = 0 };
	char *payload = *step == 's' ? arg : split(arg, ':');
	const char *const needs[] = { arg };

	t.payload = bytes(payload);
	if (*step == 'n') {
		t.resources = needs;
		t.n_resources = 1;
	}
	if (*step == 'l')
		t.limit_ms = atoll(arg);
	submit(step, &t, 1);
}

static void do_many(const char *step, char *arg)
{
	size_t n = (size_t)atoi(arg);
	struct elasticd_queue_new_task *t = calloc(n, sizeof(*t));
	char(*text)[24] = calloc(n, sizeof(*text));

	for (size_t i = 0; i < n; i++) {
		snprintf(text[i], sizeof(text[i]), "%zu", i);
		t[i].payload = bytes(text[i]);
	}
	submit(step, t, n);
	free(t);
	free(text);
}

static const char *const states[] = { "queued", "running", "succeeded", "failed", "cancelled" };

static void do_fetch(const char *step, char *arg)
{
	struct elasticd_queue_outcome *o = NULL;
	char text[512] = "";
	size_t n = 0;
	int r = elasticd_queue_fetch(q, &numbers[atoi(arg)], 1, 0, -1, &o, &n);

	if (r == 0)
		snprintf(text, sizeof(text), "%s %s tries %d", states[o->state],
			o->code ? o->message : (char *)o->value, o->tries);
	say(step, r, text);
	elasticd_queue_outcomes_free(o, n);
}

static void do_fetch_all(const char *step, char *arg)
{
	struct elasticd_queue_outcome *o = NULL;
	long long sum = 0;
	char text[128];
	int count = 0;
	size_t n = 0;
	int r = elasticd_queue_fetch(q, numbers, n_numbers, ELASTICD_FETCH_RELEASE, -1, &o, &n);

	for (size_t i = 0; i < n; i++) {
		count += o[i].state == ELASTICD_TASK_SUCCEEDED && o[i].task == numbers[i];
		sum += o[i].value ? atoll(o[i].value) : 0;
	}
	snprintf(text, sizeof(text), "%d of %zu sum %lld", count, n_numbers, sum);
	say(step, r, text);
	elasticd_queue_outcomes_free(o, n);
	n_numbers = 0;
}

static void do_any(const char *step, char *arg)
{
	size_t all = n_numbers, n;
	char text[64];
	int r = 0;

	while (r == 0 && n_numbers) {
		struct elasticd_queue_outcome *o = NULL;

		r = elasticd_queue_fetch(q, numbers, n_numbers,
			ELASTICD_FETCH_ANY | ELASTICD_FETCH_RELEASE, -1, &o, &n);
		for (size_t i = 0; r == 0 && i < n; i++)
			for (size_t j = 0; j < n_numbers; j++)
				if (numbers[j] == o[i].task)
					numbers[j] = numbers[--n_numbers];
		elasticd_queue_outcomes_free(o, r ? 0 : n);
	}
	snprintf(text, sizeof(text), "%zu", all);
	say(step, r, text);
}

static void do_join(const char *step, char *arg)
{
	int r = elasticd_queue_join(q, -1);

	if (r)
		printf("error %lld %d %s %s\n", (long long)elasticd_queue_error_task(),
			elasticd_queue_error_exit_code(), elasticd_queue_error_worker(),
			elasticd_queue_error_details());
	say(step, r, "ok");
}

static void do_done(const char *step, char *arg)
{
	bool done = false;
	int r = elasticd_queue_done(q, &done);

	say(step, r, done ? "yes" : "no");
}

static void do_cancel(const char *step, char *arg)
{
	size_t n = 0;
	char text[32];
	int r = elasticd_queue_cancel(
		q, *arg ? &numbers[atoi(arg)] : NULL, *arg ? 1 : 0, "enough", -1, &n);

	snprintf(text, sizeof(text), "%zu", n);
	say(step, r, text);
}

static void do_await(const char *step, char *arg)
{
	struct elasticd_queue_stats s = { .running = 0 };
	int r;

	while ((r = elasticd_queue_stats(h, q, &s)) == 0 && s.running != atoll(arg))
		poll(NULL, 0, 1);
	say(step, r, arg);
}

static void do_close(const char *step, char *arg)
{
	say(step, elasticd_queue_close_all(h), "ok");
}

static void do_create(const char *step, char *arg)
{
	char *payload = split(arg, ':');
	const struct elasticd_queue_bytes b = bytes(payload);

	say(step, elasticd_queue_resource_create(h, arg, &b), arg);
}

static void do_drop(const char *step, char *arg)
{
	say(step, elasticd_queue_resource_drop(h, arg), arg);
}

static void do_call(const char *step, char *arg)
{
	const struct elasticd_queue_bytes b = bytes(arg);
	struct elasticd_queue_answer *a = NULL;
	char text[1024] = "";
	size_t n = 0, len = 0;
	int r = elasticd_queue_call(h, NULL, 0, &b, -1, -1, &a, &n);

	for (size_t i = 0; r == 0 && i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%s", i ? ", " : "",
			a[i].worker, a[i].code ? a[i].message : (char *)a[i].value);
	say(step, r, text);
	elasticd_queue_answers_free(a, n);
}

static void do_put(const char *step, char *arg)
{
	char *value = split(arg, '=');

	say(step, elasticd_put(h, arg, value, strlen(value), 0), arg);
}

static void do_get(const char *step, char *arg)
{
	void *value = NULL;
	int r = elasticd_get(h, arg, -1, &value, NULL);

	say(step, r, value);
	free(value);
}

static void do_kill(const char *step, char *arg)
{
	raise(SIGKILL);
}

static const struct {
	const char *name;
	void (*fn)(const char *step, char *arg);
} steps[] = {
	{ "job", do_job },
	{ "queue", do_queue },
	{ "submit", do_submit },
	{ "need", do_submit },
	{ "limit", do_submit },
	{ "many", do_many },
	{ "fetch", do_fetch },
	{ "fetch-all", do_fetch_all },
	{ "any", do_any },
	{ "join", do_join },
	{ "done", do_done },
	{ "cancel", do_cancel },
	{ "cancel-all", do_cancel },
	{ "await", do_await },
	{ "close", do_close },
	{ "create", do_create },
	{ "drop", do_drop },
	{ "call", do_call },
	{ "work", do_work },
	{ "threads", do_threads },
	{ "put", do_put },
	{ "get", do_get },
	{ "kill", do_kill },
};

static void run_step(const char *step)
{
	size_t len = strcspn(step, ":");

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strlen(steps[i].name) == len && strncmp(steps[i].name, step, len) == 0) {
			char *arg = strdup(step[len] ? step + len + 1 : "");

			steps[i].fn(steps[i].name, arg);
			free(arg);
			return;
		}
	}
	fprintf(stderr, "queueworker: no step \"%s\"\n", step);
	exit(97);
}

int main(int argc, char *argv[])
{
	int r = elasticd_open(&h);

	if (r == 0)
		r = elasticd_queue_open(h, "", &q);
	if (r) {
		say("open", r, "");
		return 96;
	}
	for (int i = 1; i < argc; i++)
		run_step(argv[i]);
	elasticd_queue_close(q);
	elasticd_close(h);
	return 0;
}
