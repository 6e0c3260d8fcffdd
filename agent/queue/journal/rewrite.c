/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces a long file by a shorter one. It writes everything that the machine knows to a new file
 * at once, between two turns of the loop. While a thread waits for the disk, records still go to
 * the present file; afterwards they are copied to the new one, which then replaces the present
 * file. So each record is written to one file only, and at each moment one file has them all.
 */
#include "agent/queue/journal/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	LEAST_BYTES = 1 << 20,	 /* a shorter file stays as it is */
	CHECK_BYTES = 256 << 10, /* by which it grows, at least, between two checks */
	CHUNK_BYTES = 256 << 10,
	TASK_BYTES = 96,  /* of a task's records without payload and value */
	RETRY_MS = 30000, /* after a failure */
};

static uint64_t live_bytes(const struct journal *j)
{
	struct queue_stats s;
	uint64_t n = 0;

	queue_stats(j->opt.q, NULL, &s);
	for (int i = 0; i < QUEUE_N_STATES; i++)
		n += s.n[i];
	return s.bytes + n * TASK_BYTES;
}

static bool is_garbage(struct journal *j)
{
	/* If the file cannot be written, a shorter one may help. */
	if (j->size < LEAST_BYTES || (j->size < j->check_at && !j->failing))
		return false;
	j->check_at = j->size + CHECK_BYTES + j->size / 16;
	return j->size > 2 * live_bytes(j);
}

void journal_rewrite_stop(struct journal *j)
{
	if (j->rewrite.fd < 0)
		return;
	unlinkat(j->dir_fd, JOURNAL_NEW, 0);
	close_fd(j->rewrite.fd);
	j->rewrite.fd = -1;
}

/* Ends this rewrite: records still go to the present file, and the next try is RETRY_MS later. */
static void rewrite_later(struct journal *j)
{
	journal_rewrite_stop(j);
	j->stale = true;
	j->rewrite.not_before_ms = loop_now_ms() + RETRY_MS;
	journal_wake(j, RETRY_MS);
}

static void rewrite_failed(struct journal *j, int error)
{
	rewrite_later(j);
	if (j->lost)
		journal_event(j, "journal-failed", "%s cannot be rewritten: %s", j->path,
			strerror(error));
}

static int rewrite_write(struct journal *j, struct journal_buffer *out)
{
	struct journal_rewrite *n = &j->rewrite;
	size_t done = 0;
	int r = journal_write(j, n->fd, out, &done, &n->size);

	out->len = 0;
	return r;
}

static int chunk_new(struct journal_buffer *ret)
{
	*ret = (struct journal_buffer){ .data = malloc(CHUNK_BYTES), .room = CHUNK_BYTES };
	return ret->data ? 0 : -ENOMEM;
}

/* Writes everything that the machine knows. 0 or a negative errno. */
static int rewrite_all(struct journal *j)
{
	_cleanup_(journal_buffer_fini) struct journal_buffer out = { .data = NULL };
	struct queue_record rec;
	uint64_t cursor = 0;
	int r = chunk_new(&out);

	if (r < 0)
		return r;
	memcpy(out.data, journal_magic, JOURNAL_MAGIC_BYTES);
	out.len = JOURNAL_MAGIC_BYTES;
	while (r == 0 && queue_dump(j->opt.q, &cursor, &rec)) {
		r = journal_encode(&out, &rec, journal_worker(j, &rec));
		if (r == 0 && out.len >= CHUNK_BYTES / 2)
			r = rewrite_write(j, &out);
	}
	return r < 0 ? r : rewrite_write(j, &out);
}

static int rewrite_new_file(struct journal *j)
{
	struct journal_rewrite *n = &j->rewrite;

	unlinkat(j->dir_fd, JOURNAL_NEW, 0); /* an agent may have been lost during a rewrite */
	n->fd = openat(
		j->dir_fd, JOURNAL_NEW, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
	if (n->fd < 0)
		return -errno;
	n->size = 0;
	n->from = j->size + (j->out.len - j->out_done);
	j->stale = false;
	return rewrite_all(j);
}

/* Copies the records that the present file got since. 0 or a negative errno. */
static int rewrite_copy_rest(struct journal *j)
{
	_cleanup_(journal_buffer_fini) struct journal_buffer out = { .data = NULL };
	struct journal_rewrite *n = &j->rewrite;
	int r = chunk_new(&out);

	while (r == 0 && n->from < j->size) {
		uint64_t left = j->size - n->from;
		ssize_t got = pread(
			j->fd, out.data, left < CHUNK_BYTES ? left : CHUNK_BYTES, (off_t)n->from);

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		out.len = (size_t)got;
		n->from += out.len;
		r = rewrite_write(j, &out);
	}
	return r;
}

static int rewrite_replace(struct journal *j)
{
	struct journal_rewrite *n = &j->rewrite;
	int r = rewrite_copy_rest(j);

	if (r < 0)
		return r;
	if (renameat(j->dir_fd, JOURNAL_NEW, j->dir_fd, JOURNAL_FILE) < 0)
		return -errno;
	/* The new file has records that were not written to the present one. */
	if (n->from > j->size)
		j->out_done += n->from - j->size;
	close_fd(j->fd);
	j->fd = n->fd;
	n->fd = -1;
	j->size = n->size;
	j->allocated = 0;
	j->check_at = j->size * 2 > LEAST_BYTES ? j->size * 2 : LEAST_BYTES;
	j->lost = 0;
	j->unsynced = j->dir_unsynced = true;
	if (j->opt.replaced)
		j->opt.replaced(j->opt.arg);
	return 0;
}

/* When the rewrite begins. UINT64_MAX: there is none, or another operation must end first. */
static uint64_t rewrite_due_in_ms(const struct journal *j)
{
	uint64_t now = loop_now_ms(), then = j->rewrite.not_before_ms;

	if (j->rewrite.fd >= 0 || j->sync.running || !(j->lost || j->stale))
		return UINT64_MAX;
	return now < then ? then - now : 0;
}

void journal_rewrite_consider(struct journal *j)
{
	uint64_t ms;

	j->stale |= is_garbage(j);
	ms = rewrite_due_in_ms(j);
	if (ms < UINT64_MAX)
		journal_wake(j, ms);
}

void journal_rewrite_begin(struct journal *j)
{
	uint64_t ms = rewrite_due_in_ms(j);
	int r;

	if (ms) {
		journal_rewrite_consider(j);
		return;
	}
	r = rewrite_new_file(j);
	if (r == 0)
		r = journal_sync_start(&j->sync, j->rewrite.fd, -1);
	if (r < 0)
		rewrite_failed(j, -r);
}

void journal_rewrite_synced(struct journal *j, int error)
{
	int r;

	if (j->rewrite.fd < 0)
		return;
	if (error) {
		rewrite_later(j);
		return;
	}
	r = rewrite_replace(j);
	if (r < 0)
		rewrite_failed(j, -r);
	else
		journal_commit(j);
}

int journal_rewrite_now(struct journal *j)
{
	int r = rewrite_new_file(j);

	if (r == 0 && fdatasync(j->rewrite.fd) < 0)
		r = -errno;
	if (r == 0)
		r = rewrite_replace(j);
	if (r < 0)
		journal_rewrite_stop(j);
	else
		journal_wake(j, 0);
	return r;
}
