/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One of many workers that do what tasks of the work queue say, and write down what they did:
 * drudge DIRECTORY SLOTS. With 0 slots it takes none: DIRECTORY/chief.INDEX says how one that it
 * is may be greeted ("SOCKET TOKEN"), and it ends when DIRECTORY/over is there.
 *
 * A payload is WORD ID [NUMBER]: do, slow (for so many ms), fail, retry and back and die (fails
 * retryably, puts back, is killed in its first NUMBER tries), hang (until it is cancelled), deaf
 * (for ever), spawn (submits "do ID.child" where there is room; a third word is the queue).
 *
 * DIRECTORY/ledger.INDEX.PID gets a line for each thing it does, by one write() each, with the
 * time of the monotonic clock in ns: "begin TIME TASK LEASE ATTEMPT ID" before anything is done of
 * it, "end TIME TASK LEASE HOW VALUE" before that is said, "spawn TIME TASK ID" where one was
 * accepted.
 *
 * Of a resource the payload is a number: ranks that it divides cannot build it; 0 divides none. The
 * ledger has "build TIME LEASE NAME", and "built TIME LEASE NAME ok|failed" before that is said. A
 * call's payload is its name, and so is the answer, with /RANK/PID; "call TIME LEASE NAME", and
 * "called TIME LEASE NAME" before that is said.
 */

#include "worker/elasticd_queue.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct order {
	char word[16], id[64], queue[32];
	int number;
};

static struct elasticd *h;
static const char *directory;
static int ledger;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void check(int status)
{
	if (status == ELASTICD_STATUS_OK)
		return;
	dprintf(2, "%s: %s\n", elasticd_status_name(status), elasticd_error_text());
	exit(3);
}

/* A line of the ledger: whole, or the end. */
__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(line) || write(ledger, line, (size_t)n) != n) {
		perror("the ledger");
		_exit(97);
	}
}

static int is(const struct order *o, const char *word)
{
	return strcmp(o->word, word) == 0;
}

static struct elasticd_queue_bytes bytes(const char *text)
{
	return (struct elasticd_queue_bytes){ text, strlen(text), "text" };
}

/* A file that is full, or has failed, does without. */
static void spawn(const struct order *o)
{
	struct elasticd_queue *q = NULL;
	char payload[96];
	struct elasticd_queue_new_task t = { .limit_ms = 0 };
	int64_t task;
	size_t n;

	snprintf(payload, sizeof(payload), "do %s.child", o->id);
	t.payload = bytes(payload);
	if (elasticd_queue_open(h, o->queue, &q) != ELASTICD_STATUS_OK)
		return;
	if (elasticd_queue_submit(q, &t, 1, 0, &task, &n) == ELASTICD_STATUS_OK)
		note("spawn %" PRId64 " %" PRId64 " %s.child\n", now_ns(), task, o->id);
	elasticd_queue_close(q);
}

static void end(const struct elasticd_queue_item *i, const char *how, const char *value)
{
	note("end %" PRId64 " %" PRId64 " %" PRId64 " %s %s\n", now_ns(), i->task, i->lease, how,
		value);
}

static enum elasticd_status failed(struct elasticd_queue_work *w, const struct order *o,
	const struct elasticd_queue_item **item)
{
	struct elasticd_queue_failure f = { .code = ELASTICD_STATUS_OUT_OF_RANGE,
		.message = o->id };

	f.retryable = is(o, "retry");
	end(*item, o->word, o->id);
	return elasticd_queue_work_fail_next(w, &f, -1, item);
}

static enum elasticd_status put_back(
	struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	enum elasticd_status r;

	end(*item, "back", "-");
	r = elasticd_queue_work_put_back(w);
	return r == ELASTICD_STATUS_OK ? elasticd_queue_work_next(w, -1, item) : r;
}

static enum elasticd_status build(
	struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	struct elasticd_queue_failure f = { .code = ELASTICD_STATUS_DATA_LOSS,
		.message = "there is none" };
	const struct elasticd_queue_item *i = *item;
	struct elasticd_queue_bytes nothing = { .data = NULL };
	int divisor = atoi(i->payload);
	int bad = divisor && elasticd_rank(h) % divisor == 0;

	note("build %" PRId64 " %" PRId64 " %s\n", now_ns(), i->lease, i->name);
	poll(NULL, 0, 1);
	note("built %" PRId64 " %" PRId64 " %s %s\n", now_ns(), i->lease, i->name,
		bad ? "failed" : "ok");
	return bad ? elasticd_queue_work_fail_next(w, &f, -1, item)
		   : elasticd_queue_work_finish_next(w, &nothing, -1, item);
}

static int answer(struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	const struct elasticd_queue_item *i = *item;
	struct elasticd_queue_bytes value;
	char name[64], text[128];

	if (sscanf(i->payload, "%63s", name) < 1)
		check(ELASTICD_STATUS_INVALID_ARGUMENT);
	note("call %" PRId64 " %" PRId64 " %s\n", now_ns(), i->lease, name);
	snprintf(text, sizeof(text), "%s/%d/%d", name, elasticd_rank(h), getpid());
	value = bytes(text);
	note("called %" PRId64 " %" PRId64 " %s\n", now_ns(), i->lease, name);
	return elasticd_queue_work_finish_next(w, &value, -1, item);
}

static enum elasticd_status do_item(
	struct elasticd_queue_work *w, const struct elasticd_queue_item **item)
{
	const struct elasticd_queue_item *i = *item;
	struct order o = { .word = "" };
	struct elasticd_queue_bytes value;
	char text[160];

	if (i->kind == ELASTICD_ITEM_BUILD)
		return build(w, item);
	if (i->kind == ELASTICD_ITEM_CALL)
		return answer(w, item);
	if (sscanf(i->payload, "%15s %63s %d %31s", o.word, o.id, &o.number, o.queue) < 2)
		check(ELASTICD_STATUS_INVALID_ARGUMENT);
	note("begin %" PRId64 " %" PRId64 " %" PRId64 " %d %s\n", now_ns(), i->task, i->lease,
		i->tries, o.id);
	if (is(&o, "slow"))
		poll(NULL, 0, o.number);
	if (is(&o, "spawn"))
		spawn(&o);
	if (is(&o, "die") && i->tries < o.number)
		raise(SIGKILL);
	while (is(&o, "deaf"))
		pause();
	while (is(&o, "hang") && !elasticd_queue_work_cancelled(w))
		poll(NULL, 0, 2);
	if (is(&o, "fail") || (is(&o, "retry") && i->tries < o.number))
		return failed(w, &o, item);
	if (is(&o, "back") && i->tries < o.number)
		return put_back(w, item);
	snprintf(text, sizeof(text), "%s/%d/%" PRId64, o.id, getpid(), now_ns());
	value = bytes(text);
	end(i, o.word, text);
	return elasticd_queue_work_finish_next(w, &value, -1, item);
}

static void *work(void *arg)
{
	const struct elasticd_queue_item *item = NULL;
	struct elasticd_queue_work *w = NULL;
	enum elasticd_status r;

	check(elasticd_queue_work_open(h, &w));
	r = elasticd_queue_work_next(w, -1, &item);
	while (r == ELASTICD_STATUS_ABORTED || (r == ELASTICD_STATUS_OK && item))
		r = r ? elasticd_queue_work_next(w, -1, &item) : do_item(w, &item);
	check(r);
	elasticd_queue_work_close(w);
	return NULL;
}

static void be_greeted(void)
{
	char path[4096], draft[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/chief.%d", directory, elasticd_rank(h));
	snprintf(draft, sizeof(draft), "%s.%d", path, getpid());
	f = fopen(draft, "we");
	if (!f)
		exit(98);
	fprintf(f, "%s %s\n", getenv("ELASTICD_WORKER_SOCKET"), getenv("ELASTICD_TOKEN"));
	fclose(f);
	rename(draft, path);
	snprintf(path, sizeof(path), "%s/over", directory);
	while (access(path, F_OK) < 0)
		poll(NULL, 0, 20);
}

int main(int argc, char *argv[])
{
	pthread_t threads[64];
	int slots = argc > 2 ? atoi(argv[2]) : 1;
	char path[4096];

	directory = argc > 1 ? argv[1] : ".";
	check(elasticd_open(&h));
	snprintf(path, sizeof(path), "%s/ledger.%d.%d", directory, elasticd_rank(h), getpid());
	ledger = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (slots == 0)
		be_greeted();
	for (int i = 0; i < slots; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < slots; i++)
		pthread_join(threads[i], NULL);
	elasticd_close(h);
	return 0;
}
