/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A quiet file is watched. Its first write adds a record of where and when it began, and turns the
 * watch off. A second later the size and the time of the last write become another record, and the
 * watch goes on again, so that the next write is the next record. So a worker that writes all the
 * time costs one inotify event a second. A line's time is right within a second; that of a line
 * written after a pause, within a tick of the kernel's clock.
 */
#include "agent/logs/time_index.h"

#include "agent/files/file_system.h"
#include "agent/files/inotify.h"
#include "agent/logs/disk_reserve.h"
#include "agent/logs/parts.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct log_index {
	struct log_indexes *set;
	struct log_index *next;
	struct log_watch *watch;
	char *path;
	int rank;
	off_t size;	   /* at the last check */
	off_t reserved;	   /* disk_reserve.h */
	uint64_t check_ms; /* 0: the file is watched */
	uint64_t began_us; /* time of the last record of a first write */
	bool full, vanished;
	bool own_clock; /* the file system has the clock of this host */
	dev_t dev;
	ino_t ino;
};

struct log_indexes {
	struct loop *loop;
	struct log_index_hooks hooks;
	struct loop_timer *timer;
	struct log_index *all;
};

void log_index_append(const char *path, off_t offset, uint64_t real_us)
{
	const uint64_t record[2] = { htole64(offset), htole64(real_us) };
	char name[PATH_MAX];

	if (log_parts_beside(path, "idx", 0, name))
		log_fs_append(name, record, sizeof(record), 0640);
}

/* False when the file is gone (reported once; nothing is left to index), or cannot be reached now.
 */
static bool index_file_exists(struct log_index *i, struct stat *ret)
{
	int r = i->vanished ? -ENOENT : log_fs_stat(i->path, ret);

	if (i->vanished || r == -ETIMEDOUT)
		return false;
	if (r == 0 && ret->st_dev == i->dev && ret->st_ino == i->ino)
		return true;
	i->vanished = true;
	i->check_ms = 0;
	i->watch = log_watch_free(i->watch);
	i->set->hooks.vanished(i->set->hooks.arg, i->rank, i->path);
	return false;
}

static void index_set_watch(struct log_index *i, bool on)
{
	_cleanup_log_fd_ int fd = log_fs_open(i->path, O_RDONLY, 0);

	if (fd < 0 || log_watch_set(i->watch, fd, LOG_WATCH_GONE | (on ? LOG_WATCH_MODIFY : 0)) < 0)
		i->watch = log_watch_free(i->watch);
}

static void indexes_arm(struct log_indexes *x)
{
	uint64_t now = loop_now_ms(), at = UINT64_MAX;

	for (struct log_index *i = x->all; i; i = i->next)
		if (i->check_ms && i->check_ms < at)
			at = i->check_ms;
	if (at == UINT64_MAX)
		loop_timer_disarm(x->timer);
	else
		loop_timer_arm(x->timer, at > now ? at - now : 0);
}

static void index_set_full(struct log_index *i, bool full)
{
	if (i->full == full)
		return;
	i->full = full;
	i->set->hooks.full(i->set->hooks.arg, i->rank, i->path, full);
}

/* Reserves room on the disk. Returns true when the disk is full, so that this must be done again
 * soon. */
static bool index_reserve(struct log_index *i)
{
	int r = log_disk_reserve(i->path, &i->reserved);

	if (r == -ENOSPC || r == -EDQUOT)
		index_set_full(i, true);
	else if (r == 0)
		index_set_full(i, false);
	return i->full;
}

static uint64_t modified_us(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
}

/* Whether the file was written within the last second, by the clock of this host. */
static bool is_fresh(const struct stat *st, uint64_t now)
{
	uint64_t us = modified_us(st);

	return us <= now && now - us < LOG_INDEX_EVERY_MS * 1000;
}

/* A write began. The file's modification time is that of the kernel's last tick, so not after the
 * write. A remote file system may have another clock: if its time is ahead, or a second old, now
 * replaces it. Where the clock is this host's, the agent may have been kept from checking. */
static void index_open_second(struct log_index *i, const struct stat *st)
{
	uint64_t now = loop_real_us(), us = modified_us(st);

	i->began_us = us <= now && (i->own_clock || is_fresh(st, now)) ? us : now;
	log_index_append(i->path, i->size, i->began_us);
}

static void on_watch(void *arg, int events)
{
	struct log_index *i = arg;
	struct stat st;

	if (!index_file_exists(i, &st) || !(events & LOG_WATCH_MODIFY))
		return;
	index_open_second(i, &st);
	index_set_watch(i, false);
	i->check_ms = loop_now_ms() + LOG_INDEX_EVERY_MS;
	index_reserve(i);
	indexes_arm(i->set);
}

/* Records when the last write of the present second was. */
static void index_close_second(struct log_index *i, const struct stat *st)
{
	uint64_t now = loop_real_us(), us = modified_us(st) + LOG_INDEX_TICK_US;

	log_index_append(i->path, st->st_size, us > i->began_us && us < now ? us : now);
}

static void index_check(struct log_index *i, uint64_t now)
{
	struct stat st, again;
	off_t before;

	if (!index_file_exists(i, &st)) {
		i->check_ms = i->vanished ? 0 : now + LOG_INDEX_RETRY_MS;
		return;
	}
	i->check_ms = index_reserve(i) ? now + LOG_INDEX_RETRY_MS : 0;
	before = i->size;
	i->size = st.st_size;
	if (!i->watch || (i->full && i->size == before))
		return;
	index_set_watch(i, true);
	/* Bytes that came just before the watch was on belong to the present second, too. */
	if (log_fs_stat(i->path, &again) == 0 && again.st_size != st.st_size)
		st = again;
	i->size = st.st_size;
	if (i->size > before)
		index_close_second(i, &st);
}

static void on_timer(void *arg)
{
	struct log_indexes *x = arg;
	uint64_t now = loop_now_ms();

	for (struct log_index *i = x->all; i; i = i->next)
		if (i->check_ms && i->check_ms <= now)
			index_check(i, now);
	indexes_arm(x);
}

int log_indexes_new(
	struct loop *loop, const struct log_index_hooks *hooks, struct log_indexes **ret)
{
	struct log_indexes *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	*x = (struct log_indexes){ .loop = loop, .hooks = *hooks };
	r = loop_timer_new(loop, on_timer, x, &x->timer);
	if (r < 0) {
		free(x);
		return r;
	}
	*ret = x;
	return 0;
}

struct log_indexes *log_indexes_free(struct log_indexes *x)
{
	if (!x)
		return NULL;
	while (x->all)
		log_index_free(x->all);
	loop_timer_free(x->timer);
	free(x);
	return NULL;
}

int log_index_add(struct log_indexes *x, const char *path, int rank, struct log_index **ret)
{
	_cleanup_log_fd_ int fd = log_fs_open(path, O_RDONLY, 0);
	struct log_index *i;
	struct stat st;
	int r = fd < 0 ? fd : log_fs_fstat(fd, &st);

	if (r < 0)
		return r;
	i = calloc(1, sizeof(*i));
	if (!i)
		return -ENOMEM;
	*i = (struct log_index){ .set = x,
		.rank = rank,
		.size = st.st_size,
		.own_clock = is_fresh(&st, loop_real_us()), /* the file is new */
		.next = x->all,
		.dev = st.st_dev,
		.ino = st.st_ino };
	x->all = i;
	i->path = strdup(path);
	r = i->path ? log_disk_reserve(path, &i->reserved) : -ENOMEM;
	if (r == 0)
		r = log_watch_new(
			x->loop, fd, LOG_WATCH_MODIFY | LOG_WATCH_GONE, on_watch, i, &i->watch);
	if (r < 0) {
		log_index_free(i);
		return r;
	}
	*ret = i;
	return 0;
}

struct log_index *log_index_free(struct log_index *i)
{
	struct log_index **p;
	struct stat st;

	if (!i)
		return NULL;
	if (i->path && index_file_exists(i, &st) && st.st_size > i->size) {
		/* The worker's end may be seen before its last write. */
		if (!i->check_ms)
			index_open_second(i, &st);
		index_close_second(i, &st);
	}
	for (p = &i->set->all; *p != i; p = &(*p)->next)
		;
	*p = i->next;
	if (i->path)
		log_disk_release(i->path);
	log_watch_free(i->watch);
	free(i->path);
	free(i);
	return NULL;
}

static void table_add(struct log_index_table *t, int64_t offset, int64_t time_us)
{
	/* The file was truncated: entries of earlier bytes are no longer true. */
	if (t->n > 0 && offset < t->entries[t->n - 1].offset)
		t->n = 0;
	/* The clock went back, but the file's order is certain: keep times ascending. */
	if (t->n > 0 && time_us < t->entries[t->n - 1].time_us)
		time_us = t->entries[t->n - 1].time_us;
	t->entries[t->n++] = (struct log_index_entry){ .offset = offset, .time_us = time_us };
}

void log_index_load(const char *path, int number, struct log_index_table *ret)
{
	struct log_index_entry *e;
	char name[PATH_MAX], *data;
	size_t len;

	*ret = (struct log_index_table){ 0 };
	if (!log_parts_beside(path, "idx", number, name) || log_fs_read(name, 0, &data, &len) < 0)
		return;
	ret->entries = e = (void *)data;
	for (size_t i = 0; i < len / sizeof(*e); i++)
		table_add(ret, (int64_t)le64toh((uint64_t)e[i].offset),
			(int64_t)le64toh((uint64_t)e[i].time_us));
}

void log_index_table_fini(struct log_index_table *t)
{
	free(t->entries);
	*t = (struct log_index_table){ 0 };
}

/* Number of entries before the first for which the field is greater. */
static size_t table_upper_bound(const struct log_index_table *t, int64_t value, bool by_time)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int64_t v = by_time ? t->entries[mid].time_us : t->entries[mid].offset;

		if (v <= value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int64_t log_index_since(const struct log_index_table *t, int64_t time_us)
{
	size_t i = table_upper_bound(t, time_us, true);

	/* time_us may lie beyond the last second of the index: nothing that new is in the file. */
	if (i > 0 && i == t->n && time_us >= t->entries[i - 1].time_us + LOG_INDEX_EVERY_MS * 1000)
		return INT64_MAX;
	return i > 0 ? t->entries[i - 1].offset : 0;
}

int64_t log_index_time(const struct log_index_table *t, int64_t offset, int64_t *ret_range_us)
{
	size_t i = table_upper_bound(t, offset, false);

	*ret_range_us = 0;
	if (i == 0)
		return -1;
	*ret_range_us = i < t->n ? t->entries[i].time_us - t->entries[i - 1].time_us
				 : LOG_INDEX_EVERY_MS * 1000;
	return t->entries[i - 1].time_us;
}

int64_t log_index_next(const struct log_index_table *t, int64_t offset)
{
	size_t i = table_upper_bound(t, offset, false);

	return i < t->n ? t->entries[i].offset : INT64_MAX;
}

int64_t log_index_order(const struct log_index_table *t, int64_t offset)
{
	size_t i = table_upper_bound(t, offset, false);
	const struct log_index_entry *from = i > 0 ? &t->entries[i - 1] : NULL;
	const struct log_index_entry *to = i < t->n ? &t->entries[i] : NULL;

	if (!from || !to || to->time_us - from->time_us < LOG_INDEX_BURST_US)
		return from ? from->time_us : -1;
	return from->time_us +
	       (int64_t)((double)(to->time_us - from->time_us) * (double)(offset - from->offset) /
			 (double)(to->offset - from->offset));
}
