/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal over a machine that knows no more than tasks and what it was told, and over a disk
 * that may refuse to keep what it has got. For one test program: it defines the machine's
 * functions, fdatasync() and fsync().
 */

#include "agent/queue/journal/journal.h"

#include "agent/queue/journal/private.h"
#include "common/base/file.h"
#include "tests/unit/quiet.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the machine --- */

enum { TASKS = 6000 };

static struct {
	bool there, over;
	size_t len;
} tasks[TASKS];
static char told[1 << 16]; /* of small machines: what they were told, a line each */
static size_t told_len, live, n_there, n_over;
static int nomem_at;

static void tell_it(const struct queue_record *r)
{
	told_len += (size_t)snprintf(told + told_len, sizeof(told) - told_len,
		"%d %lld %lld %lld '%s' '%.*s' '%s'", (int)r->kind, (long long)r->task,
		(long long)r->limit_ms, (long long)r->number, r->queue, (int)r->payload.len,
		(const char *)r->payload.data, r->payload.format);
	for (size_t i = 0; i < r->n_needs; i++)
		told_len += (size_t)snprintf(
			told + told_len, sizeof(told) - told_len, " +%s", r->needs[i]);
	told_len += (size_t)snprintf(told + told_len, sizeof(told) - told_len,
		" %s '%s' '%s' %d %lld %d\n", status_name(r->error.code), r->error.message,
		r->error.details, r->error.worker, (long long)r->error.task, r->flag);
	ck_assert_uint_lt(told_len, sizeof(told));
}

int queue_restore(struct queues *q, const struct queue_record *r)
{
	size_t i = (size_t)r->task;

	if (nomem_at && --nomem_at == 0)
		return -ENOMEM;
	if (r->payload.len < 1000 && told_len < sizeof(told) / 2)
		tell_it(r);
	if (r->kind == QUEUE_REC_CLOSE || r->kind == QUEUE_REC_RESOURCE)
		return 0;
	if (i >= TASKS || tasks[i].there != (r->kind != QUEUE_REC_SUBMIT))
		return -EINVAL;
	if (r->kind == QUEUE_REC_SUBMIT) {
		tasks[i].there = true;
		tasks[i].over = false;
		tasks[i].len = r->payload.len;
		live += r->payload.len;
		n_there++;
	} else if (r->kind == QUEUE_REC_RELEASE) {
		tasks[i].there = false;
		live -= tasks[i].len;
		n_there--;
		n_over -= tasks[i].over;
	} else {
		n_over += !tasks[i].over;
		tasks[i].over = true;
	}
	return 0;
}

static char big[QUEUE_VALUE_MAX + 1];

bool queue_dump(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	for (; *cursor < 2 * TASKS; ++*cursor) {
		size_t i = *cursor / 2;
		bool submit = *cursor % 2 == 0;

		if (!tasks[i].there || (!submit && !tasks[i].over))
			continue;
		*ret = (struct queue_record){ .kind = submit ? QUEUE_REC_SUBMIT : QUEUE_REC_SUCCEED,
			.task = (int64_t)i,
			.queue = "",
			.payload = { big, submit ? tasks[i].len : 0, "" },
			.error = { .worker = -1, .task = -1 } };
		++*cursor;
		return true;
	}
	return false;
}

void queue_stats(const struct queues *q, const char *queue, struct queue_stats *ret)
{
	*ret = (struct queue_stats){ .bytes = live };
	ret->n[QUEUE_SUCCEEDED] = n_over;
	ret->n[QUEUE_QUEUED] = n_there - n_over;
}

static void forget(void)
{
	memset(tasks, 0, sizeof(tasks));
	told_len = live = n_there = n_over = 0;
	told[0] = '\0';
}

/* --- the disk --- */

static atomic_int sync_error, n_syncs;
static atomic_bool new_held; /* for a new file it takes its time, until disk_go() */
static sem_t disk_goes;

/* In the place of libc's, which would have the tests wait for a real one. */
int fdatasync(int fd)
{
	char link[64], name[256] = "";

	atomic_fetch_add(&n_syncs, 1);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, ".new") &&
		atomic_exchange(&new_held, false))
		sem_wait(&disk_goes);
	errno = atomic_load(&sync_error);
	return errno ? -1 : 0;
}

int fsync(int fd)
{
	return 0;
}

static void disk_go(void)
{
	sem_post(&disk_goes);
}

/* --- the journal --- */

static struct loop *loop;
static char dir[] = "/tmp/test-journal-XXXXXX", path[64];
static struct journal *j;
static struct error err;
static char events[4096];

static const char *name_of(void *arg, int worker)
{
	return worker == 3 ? "worker:3" : worker == 4 ? "ps:0" : NULL;
}

static int number_of(void *arg, const char *name)
{
	return !strcmp(name, "worker:3") ? 3 : !strcmp(name, "ps:0") ? 14 : -1;
}

static void on_event(void *arg, const char *event, const char *text)
{
	size_t n = strlen(events);

	ck_assert_ptr_nonnull(strstr(text, "queue.journal"));
	snprintf(events + n, sizeof(events) - n, "%s ", event);
}

static int n_replaced;

static void on_replaced(void *arg)
{
	n_replaced++;
}

static int reopen(void)
{
	const struct journal_options opt = { .loop = loop,
		.dir = dir,
		.worker_name = name_of,
		.worker_number = number_of,
		.event = on_event,
		.replaced = on_replaced };

	j = journal_free(j);
	forget();
	events[0] = '\0';
	return journal_new(&opt, &j, &err);
}

static void must_reopen(void)
{
	ck_assert_msg(reopen() == 0, "%s", err.text);
}

static void setup(void)
{
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/queue.journal", dir);
	memset(big, 'b', sizeof(big));
	must_reopen();
}

static void teardown(void)
{
	j = journal_free(j);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static struct queue_record record(enum queue_record_kind kind, int64_t task)
{
	return (struct queue_record){ .kind = kind,
		.task = task,
		.queue = "",
		.payload = { "", 0, "" },
		.error = { .message = "", .details = "", .worker = -1, .task = -1 } };
}

/* Each change of the machine goes into the journal. */
static void happen(enum queue_record_kind kind, int64_t task, size_t len)
{
	struct queue_record r = record(kind, task);

	r.payload.data = big;
	r.payload.len = len;
	ck_assert_int_eq(queue_restore(NULL, &r), 0);
	journal_add(j, &r);
}

static off_t size_of(const char *file)
{
	struct stat st;

	return stat(file, &st) < 0 ? -1 : st.st_size;
}
