/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the journal anew. The machine is dumped a bit at a time, and what happens meanwhile is
 * appended to both files, in order with the bits. So the new one may tell of a task before it tells
 * that it was submitted, or tell the same twice; what cannot be is passed over when it is read, and
 * what follows from the whole is right, because each bit is the truth at the time of its writing.
 * Only when the disk has it all does it take the place of the old one.
 */
#include "agent/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	LEAST_BYTES = 1 << 20,	/* a file that is shorter stays as it is */
	LOOK_BYTES = 256 << 10, /* that it grows between two looks */
	BIT_BYTES = 256 << 10,	/* in one turn of the loop */
	BIT_RECORDS = 1024,
	TASK_BYTES = 96,  /* of a task's records beside what it carries */
	LATER_MS = 30000, /* after a failure */
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
	/* Where it cannot be written, a shorter one may be. */
	if (j->size < LEAST_BYTES || (j->size < j->look_at && !j->failing))
		return false;
	j->look_at = j->size + LOOK_BYTES + j->size / 16;
	return j->size > 2 * live_bytes(j);
}

static int begin(struct journal *j)
{
	struct journal_anew *n = &j->anew;

	unlinkat(j->dir_fd, JOURNAL_NEW, 0); /* of an agent that was lost meanwhile */
	n->fd = openat(
		j->dir_fd, JOURNAL_NEW, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
	if (n->fd < 0)
		return -errno;
	n->cursor = n->size = 0;
	n->dumped = n->synced = false;
	n->out.data = malloc(BIT_BYTES);
	if (!n->out.data)
		return -ENOMEM;
	n->out.room = BIT_BYTES;
	memcpy(n->out.data, journal_magic, JOURNAL_MAGIC_BYTES);
	n->out.len = JOURNAL_MAGIC_BYTES;
	return 0;
}

void journal_anew_stop(struct journal *j)
{
	if (j->anew.fd < 0)
		return;
	unlinkat(j->dir_fd, JOURNAL_NEW, 0);
	close_fd(j->anew.fd);
	j->anew.fd = -1;
	journal_buffer_fini(&j->anew.out);
}

void journal_anew_later(struct journal *j)
{
	j->stale |= j->anew.was_stale;
	journal_anew_stop(j);
	j->anew.not_before_ms = loop_now_ms() + LATER_MS;
	journal_wake(j, LATER_MS);
}

static void give_up(struct journal *j, int error)
{
	journal_anew_later(j);
	if (j->lost)
		journal_tell(j, "journal-failed", "%s cannot be written anew: %s", j->path,
			strerror(error));
}

void journal_anew_consider(struct journal *j)
{
	uint64_t now = loop_now_ms();
	int r;

	if (j->anew.fd >= 0)
		return;
	if (now < j->anew.not_before_ms) {
		if (j->lost || j->stale || j->failing)
			journal_wake(j, j->anew.not_before_ms - now);
		return;
	}
	if (!j->lost && !j->stale && !is_garbage(j))
		return;
	r = begin(j);
	if (r < 0) {
		give_up(j, -r);
		return;
	}
	j->anew.was_stale = j->stale;
	j->stale = false;
	journal_wake(j, 0);
}

static int write_out(struct journal *j)
{
	struct journal_anew *n = &j->anew;
	size_t done = 0;
	int r = journal_write(j, n->fd, &n->out, &done, &n->size);

	n->out.len = 0;
	return r;
}

void journal_anew_add(struct journal *j, const struct queue_record *r)
{
	int k = journal_encode(&j->anew.out, r, journal_worker(j, r));

	if (k < 0)
		give_up(j, -k);
}

void journal_anew_commit(struct journal *j)
{
	int r = j->anew.out.len ? write_out(j) : 0;

	if (r < 0)
		give_up(j, -r);
}

/* The next bit of the machine. 0 or a negative errno. */
static int dump(struct journal *j, size_t bytes, int records)
{
	struct journal_anew *n = &j->anew;
	struct queue_record r;
	int k;

	for (int i = 0; i < records && n->out.len < bytes; i++) {
		if (!queue_dump(j->opt.q, &n->cursor, &r)) {
			n->dumped = true;
			break;
		}
		k = journal_encode(&n->out, &r, journal_worker(j, &r));
		if (k < 0)
			return k;
	}
	return write_out(j);
}

static int take_place(struct journal *j)
{
	struct journal_anew *n = &j->anew;
	int r = n->out.len ? write_out(j) : 0;

	if (r < 0)
		return r;
	if (renameat(j->dir_fd, JOURNAL_NEW, j->dir_fd, JOURNAL_FILE) < 0)
		return -errno;
	close_fd(j->fd);
	j->fd = n->fd;
	n->fd = -1;
	j->size = n->size;
	j->allocated = 0;
	j->look_at = j->size * 2 > LEAST_BYTES ? j->size * 2 : LEAST_BYTES;
	j->lost = 0;
	/* What waits to be written is in the new one. */
	journal_buffer_fini(&j->out);
	j->out_done = 0;
	journal_buffer_fini(&n->out);
	j->unsynced = j->dir_unsynced = true;
	return 0;
}

static int advance(struct journal *j)
{
	struct journal_anew *n = &j->anew;
	int r;

	if (!n->dumped) {
		r = dump(j, BIT_BYTES / 2, BIT_RECORDS);
		journal_wake(j, 0);
		return r;
	}
	if (n->synced)
		return take_place(j);
	if (j->sync.running)
		return 0; /* its end comes here again */
	r = journal_sync_start(&j->sync, n->fd, -1);
	n->synced = r == 0;
	return r;
}

void journal_anew_step(struct journal *j)
{
	int r = 0;

	/* synced: the sync that was begun for it has ended, or is running still. */
	if (j->anew.fd < 0 || (j->anew.synced && j->sync.running))
		return;
	r = advance(j);
	if (r < 0)
		give_up(j, -r);
	else if (j->anew.fd < 0)
		journal_commit(j);
}

int journal_anew_now(struct journal *j)
{
	int r = begin(j);

	while (r == 0 && !j->anew.dumped)
		r = dump(j, BIT_BYTES / 2, BIT_RECORDS);
	if (r == 0 && fdatasync(j->anew.fd) < 0)
		r = -errno;
	if (r == 0)
		r = take_place(j);
	if (r < 0)
		journal_anew_stop(j);
	else
		journal_wake(j, 0);
	return r;
}
