/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/journal/private.h"

#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	RETRY_MS = 1000,	  /* between two tries to write */
	KEEP_BYTES = 1 << 20,	  /* of the buffer's memory that stays after a write */
	ALLOCATE_BYTES = 1 << 20, /* reserved in the file system at a time */
	SLACK_BYTES = 64 << 10,	  /* reserved besides, for results of tasks */
};

void journal_event(struct journal *j, const char *event, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (j->opt.event)
		j->opt.event(j->opt.arg, event, text);
}

const char *journal_worker(const struct journal *j, const struct queue_record *r)
{
	bool has = r->kind == QUEUE_REC_SUCCEED || r->kind == QUEUE_REC_FAIL ||
		   r->kind == QUEUE_REC_CANCEL || r->kind == QUEUE_REC_TRY ||
		   r->kind == QUEUE_REC_ERROR || r->kind == QUEUE_REC_LOSS;

	if (!has || r->error.worker < 0 || !j->opt.worker_name)
		return NULL;
	return j->opt.worker_name(j->opt.arg, r->error.worker);
}

void journal_wake(struct journal *j, uint64_t delay_ms)
{
	uint64_t due = loop_now_ms() + delay_ms;

	/* A timer that fires too early finds nothing to do and is armed again. */
	if (loop_timer_armed(j->timer) && j->wake_ms <= due)
		return;
	j->wake_ms = due;
	loop_timer_arm(j->timer, delay_ms);
}

/* --- writing --- */

/* How long a file may be: writing beyond it would cause SIGXFSZ. */
static void read_limit(struct journal *j)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_FSIZE, &rl) < 0 || rl.rlim_cur == RLIM_INFINITY)
		j->most = UINT64_MAX;
	else
		j->most = rl.rlim_cur;
}

/* Reads a limit that is too low again, since it may be higher by now. A limit that has become lower
 * shows in a write. */
static bool within_limit(struct journal *j, uint64_t size)
{
	if (size > j->most)
		read_limit(j);
	return size <= j->most;
}

int journal_write(
	struct journal *j, int fd, const struct journal_buffer *b, size_t *done, uint64_t *size)
{
	if (b->len > *done && !within_limit(j, *size + (b->len - *done)))
		return -EFBIG;
	while (*done < b->len) {
		ssize_t n = write(fd, b->data + *done, b->len - *done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFBIG)
			j->most = 0;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		*done += (size_t)n;
		*size += (uint64_t)n;
	}
	return 0;
}

static void clear_out(struct journal *j)
{
	if (j->out.room > KEEP_BYTES)
		journal_buffer_fini(&j->out);
	j->out.len = j->out_done = 0;
}

static void set_failing(struct journal *j, int error)
{
	if (error && !j->failing)
		journal_event(j, "journal-failed",
			"%s: %s: results stay in memory until the file can be written, and new "
			"tasks are refused",
			j->path, strerror(error));
	else if (!error && j->failing)
		journal_event(j, "journal-written", "%s can be written again", j->path);
	j->failing = error;
}

static void start_sync(struct journal *j)
{
	uint64_t now = loop_now_ms();

	if (!j->unsynced || j->sync.running)
		return;
	if (now < j->sync_next_ms) {
		journal_wake(j, j->sync_next_ms - now);
		return;
	}
	j->sync_next_ms = now + JOURNAL_SYNC_MS;
	if (journal_sync_start(&j->sync, j->fd, j->dir_unsynced ? j->dir_fd : -1) < 0) {
		journal_wake(j, JOURNAL_SYNC_MS);
		return;
	}
	j->unsynced = j->dir_unsynced = false;
}

void journal_commit(struct journal *j)
{
	uint64_t before = j->size;
	int r;

	if (j->out_done == j->out.len) {
		/* Records that could not be written are in the file that has replaced this one. */
		set_failing(j, 0);
		return;
	}
	r = journal_write(j, j->fd, &j->out, &j->out_done, &j->size);
	j->unsynced |= j->size > before;
	if (r == 0)
		clear_out(j);
	else
		journal_wake(j, RETRY_MS);
	set_failing(j, -r);
	start_sync(j);
	journal_rewrite_consider(j);
}

bool journal_written(const struct journal *j)
{
	return !j->lost && j->out_done == j->out.len;
}

void journal_add(struct journal *j, const struct queue_record *r)
{
	int k = journal_encode(&j->out, r, journal_worker(j, r));

	if (k == 0)
		return;
	log_error("%s: a record is missing: %s", j->path, strerror(-k));
	journal_lost(j, -k);
}

void journal_lost(struct journal *j, int error)
{
	/* A rewrite under way would lack the record, too. */
	journal_rewrite_stop(j);
	j->lost = error;
	journal_wake(j, 0);
}

void journal_stale(struct journal *j)
{
	j->stale = true;
	journal_wake(j, 0);
}

/* --- room --- */

/* Reserves room up to this size in the file system, if it can. 0 or a negative errno. */
static int allocate(struct journal *j, uint64_t need)
{
	uint64_t more = need - j->size;
	int r;

	if (!within_limit(j, need))
		return -EFBIG;
	if (need <= j->allocated)
		return 0;
	if (more < ALLOCATE_BYTES)
		more = ALLOCATE_BYTES;
	if (more > j->most - j->size)
		more = j->most - j->size;
	r = fallocate(j->fd, FALLOC_FL_KEEP_SIZE, (off_t)j->size, (off_t)more);
	if (r < 0 && errno == ENOSPC && need - j->size < more) {
		more = need - j->size;
		r = fallocate(j->fd, FALLOC_FL_KEEP_SIZE, (off_t)j->size, (off_t)more);
	}
	if (r == 0)
		j->allocated = j->size + more;
	else if (errno == EOPNOTSUPP || errno == ENOSYS)
		j->allocated = UINT64_MAX; /* a full disk shows in a write */
	else if (errno != EINTR)
		return -errno;
	return 0;
}

enum status journal_room(struct journal *j, size_t bytes, struct error *err)
{
	int r;

	if (j->failing)
		journal_commit(j);
	r = j->lost	 ? -j->lost
	    : j->failing ? -j->failing
			 : allocate(j, j->size + (j->out.len - j->out_done) + bytes + SLACK_BYTES);
	if (r == 0)
		return STATUS_OK;
	error_set(
		err, r, "the queue is durable and %s cannot be written: %s", j->path, strerror(-r));
	return STATUS_RESOURCE_EXHAUSTED;
}

/* --- life --- */

static void on_timer(void *arg)
{
	struct journal *j = arg;

	if (j->failing)
		journal_commit(j);
	journal_rewrite_begin(j);
	start_sync(j);
}

/* The kernel does not write a failed page again, so everything is written to another file. */
static void on_synced(void *arg)
{
	struct journal *j = arg;

	if (j->sync.error)
		journal_event(j, "journal-failed", "%s: the disk could not write it: %s", j->path,
			strerror(j->sync.error));
	journal_rewrite_synced(j, j->sync.error);
	if (j->sync.error)
		journal_lost(j, j->sync.error);
	journal_rewrite_begin(j);
	start_sync(j);
}

int journal_new(const struct journal_options *opt, struct journal **ret, struct error *err)
{
	_cleanup_(journal_freep) struct journal *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return error_set(err, -ENOMEM, "out of memory");
	j->opt = *opt;
	j->fd = j->rewrite.fd = -1;
	j->sync.event_fd = -1;
	j->dir_fd = open(opt->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dir_fd < 0)
		return error_set(err, -errno, "%s: %s", opt->dir, strerror(errno));
	if (asprintf(&j->path, "%s/" JOURNAL_FILE, opt->dir) < 0) {
		j->path = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	r = loop_timer_new(opt->loop, on_timer, j, &j->timer);
	if (r == 0)
		r = journal_sync_init(&j->sync, opt->loop, on_synced, j);
	if (r < 0)
		return error_set(err, r, "%s: %s", j->path, strerror(-r));
	r = journal_read(j, err);
	if (r < 0)
		return r;
	journal_rewrite_consider(j);
	*ret = TAKE_PTR(j);
	return 0;
}

struct journal *journal_free(struct journal *j)
{
	if (!j)
		return NULL;
	if (j->timer) {
		journal_sync_fini(&j->sync);
		journal_rewrite_stop(j);
		if (j->fd >= 0 && journal_write(j, j->fd, &j->out, &j->out_done, &j->size) < 0)
			log_error("%s: %zu bytes could not be written", j->path,
				j->out.len - j->out_done);
		/* Frees the reserved room. */
		if (j->allocated && j->fd >= 0)
			(void)!ftruncate(j->fd, (off_t)j->size);
	}
	loop_timer_free(j->timer);
	journal_buffer_fini(&j->out);
	close_fd(j->fd);
	close_fd(j->dir_fd);
	free(j->path);
	free(j);
	return NULL;
}

uint64_t journal_size(const struct journal *j)
{
	return j->size + (j->out.len - j->out_done);
}

int journal_bytes(struct journal *j, uint64_t offset, void *data, size_t len)
{
	char *to = data;

	while (len && offset < j->size) {
		size_t most = j->size - offset < len ? (size_t)(j->size - offset) : len;
		ssize_t n = pread(j->fd, to, most, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		to += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	if (len)
		memcpy(to, j->out.data + j->out_done + (offset - j->size), len);
	return 0;
}

void journal_discard(struct journal *j)
{
	journal_rewrite_stop(j);
	unlinkat(j->dir_fd, JOURNAL_FILE, 0);
}
