/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the file of an earlier agent into the machine. A broken record is skipped if a valid one
 * follows it; an end that cannot be read is removed.
 */
#include "agent/queue/journal/private.h"
#include "common/base/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	RECORD_MAX = JOURNAL_FRAME_BYTES + JOURNAL_CONTENT_MAX,
	WINDOW_BYTES = 2 * RECORD_MAX, /* a broken record, and the one behind it */
};

struct reading {
	struct journal *j;
	char *window;
	size_t begin, end; /* the part of it that is not decoded yet */
	uint64_t offset;   /* of begin in the file */
	struct journal_decoded record;
	uint64_t good; /* the file is valid up to here, except for skipped records */
	size_t passed; /* skipped records: broken, or of an unknown kind */
	bool cut;      /* the last record is incomplete */
};

/* Reads until the window has two whole records, or up to the end of the file. */
static int reading_fill(struct reading *r)
{
	while (r->end - r->begin < WINDOW_BYTES) {
		ssize_t n;

		if (r->begin) {
			memmove(r->window, r->window + r->begin, r->end - r->begin);
			r->end -= r->begin;
			r->begin = 0;
		}
		n = read(r->j->fd, r->window + r->end, WINDOW_BYTES - r->end);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		r->end += (size_t)n;
	}
	return 0;
}

static int reading_restore(struct reading *r)
{
	struct journal *j = r->j;
	struct journal_decoded *d = &r->record;
	int k;

	if (*d->worker && j->opt.worker_number)
		d->record.error.worker = j->opt.worker_number(j->opt.arg, d->worker);
	k = queue_restore(j->opt.q, &d->record);
	/* After a rewrite the file may repeat what the machine knows already. */
	return k == -EINVAL ? 0 : k;
}

/* The length of a broken record, if a valid one follows it; else 0. */
static size_t broken_length(struct reading *r)
{
	const char *at = r->window + r->begin;
	size_t left = r->end - r->begin, n, next;

	if (left < JOURNAL_FRAME_BYTES)
		return 0;
	n = journal_content_length(at);
	if (n > JOURNAL_CONTENT_MAX || n + JOURNAL_FRAME_BYTES > left) {
		/* The end of the file is shorter than this record: it was cut off. */
		r->cut = n >= 2 && n <= JOURNAL_CONTENT_MAX;
		return 0;
	}
	n += JOURNAL_FRAME_BYTES;
	if (n == left || journal_decode(at + n, left - n, &r->record, &next) > 0)
		return n;
	return 0;
}

/* 1: more may follow, 0: this was the end, or a negative errno. */
static int read_one(struct reading *r)
{
	int64_t k;
	size_t n;
	int e;

	if (r->end - r->begin < RECORD_MAX) {
		e = reading_fill(r);
		if (e < 0)
			return e;
	}
	k = journal_decode(r->window + r->begin, r->end - r->begin, &r->record, &n);
	if (k == 0 || k == -ENOMEM)
		return (int)k;
	if (k > 0) {
		e = reading_restore(r);
		if (e < 0)
			return e;
	} else {
		if (k == -EBADMSG) {
			e = reading_fill(r);
			if (e < 0)
				return e;
			n = broken_length(r);
			r->cut |= r->end - r->begin < JOURNAL_FRAME_BYTES;
		}
		if (!n)
			return 0;
		r->passed++;
	}
	r->begin += n;
	r->offset += n;
	r->good = r->offset;
	return 1;
}

static int read_all(struct reading *r)
{
	int k = reading_fill(r);

	if (k < 0)
		return k;
	if (r->end < JOURNAL_MAGIC_BYTES) {
		r->cut = memcmp(r->window, journal_magic, r->end) == 0;
		return 0;
	}
	if (memcmp(r->window, journal_magic, JOURNAL_MAGIC_BYTES) != 0)
		return 0;
	r->begin = JOURNAL_MAGIC_BYTES;
	r->offset = r->good = JOURNAL_MAGIC_BYTES;
	do
		k = read_one(r);
	while (k > 0);
	return k;
}

static void report_tasks(struct journal *j)
{
	struct queue_stats s;
	size_t open, over;

	queue_stats(j->opt.q, NULL, &s);
	open = s.n[QUEUE_QUEUED] + s.n[QUEUE_RUNNING];
	over = s.n[QUEUE_SUCCEEDED] + s.n[QUEUE_FAILED] + s.n[QUEUE_CANCELLED];
	journal_event(j, "journal-read",
		"%s: %zu tasks are queued again, the results of %zu are kept", j->path, open, over);
}

/* Keeps the broken file for people. The machine has the records that could be read. */
static void keep_broken(struct journal *j, const struct reading *r, uint64_t size)
{
	bool kept;

	unlinkat(j->dir_fd, JOURNAL_BROKEN, 0);
	kept = linkat(j->dir_fd, JOURNAL_FILE, j->dir_fd, JOURNAL_BROKEN, 0) == 0;
	journal_event(j, "journal-broken",
		"%s: %zu records could not be read, and none from byte %" PRIu64 " of %" PRIu64
		" on; the file was %s",
		j->path, r->passed, r->good, size, kept ? "kept as " JOURNAL_BROKEN : "not kept");
}

/* Removes an end that cannot be read, so that later records do not follow it. */
static int reading_repair(struct journal *j, struct reading *r, uint64_t size, struct error *err)
{
	bool whole = r->good == size, broken = (!whole && !r->cut) || r->passed;
	int k;

	if (broken)
		keep_broken(j, r, size);
	/* Write a new file: the broken one, which is kept, is the same as the present one. */
	if (broken && journal_rewrite_now(j) == 0)
		return 0;
	if (!whole && ftruncate(j->fd, (off_t)r->good) < 0)
		return error_set(err, -errno, "%s: %s", j->path, strerror(errno));
	if (!whole && !broken && size)
		journal_event(j, "journal-cut",
			"%s: its last %" PRIu64 " bytes are an incomplete record", j->path,
			size - r->good);
	j->size = r->good;
	if (j->size)
		return 0;
	j->out = (struct journal_buffer){ .data = malloc(JOURNAL_MAGIC_BYTES),
		.len = JOURNAL_MAGIC_BYTES,
		.room = JOURNAL_MAGIC_BYTES };
	if (!j->out.data)
		return error_set(err, -ENOMEM, "out of memory");
	memcpy(j->out.data, journal_magic, JOURNAL_MAGIC_BYTES);
	k = journal_write(j, j->fd, &j->out, &j->out_done, &j->size);
	if (k < 0)
		return error_set(err, k, "%s: %s", j->path, strerror(-k));
	j->out.len = j->out_done = 0;
	j->unsynced = j->dir_unsynced = true;
	return 0;
}

int journal_read(struct journal *j, struct error *err)
{
	struct reading r = { .j = j };
	struct stat st;
	int k;

	unlinkat(j->dir_fd, JOURNAL_NEW, 0); /* an agent may have been lost during a rewrite */
	k = safe_open(j->dir_fd, JOURNAL_FILE, O_RDWR | O_CREAT | O_APPEND, 0640);
	if (k < 0)
		return error_set(err, k, "%s: %s", j->path, safe_open_text(k));
	j->fd = k;
	if (fstat(j->fd, &st) < 0)
		return error_set(err, -errno, "%s: %s", j->path, strerror(errno));
	r.window = malloc(WINDOW_BYTES);
	if (!r.window)
		return error_set(err, -ENOMEM, "out of memory");
	k = read_all(&r);
	free(r.window);
	journal_decoded_fini(&r.record);
	if (k < 0)
		return error_set(err, k, "%s: %s", j->path, strerror(-k));
	k = reading_repair(j, &r, (uint64_t)st.st_size, err);
	if (k == 0 && st.st_size)
		report_tasks(j);
	return k;
}
