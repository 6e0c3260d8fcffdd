/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the journal share; nobody else includes this.
 *
 *   journal.c  life, what is appended, room for more, failures
 *   read.c     what an earlier agent left
 *   rewrite.c  a shorter file in the place of a long one
 *   sync.c     the thread that waits for the disk
 *   codec.c    records as bytes
 */

#include "agent/queue/journal/codec.h"
#include "agent/queue/journal/journal.h"

#include <pthread.h>

/* One fdatasync() at a time. */
struct journal_sync {
	struct loop_fd *watch;
	int event_fd;
	pthread_t thread;
	bool running;
	int fd, dir_fd; /* the thread's own; dir_fd -1: not that */
	int error;	/* errno of it */
	loop_fn fn;
	void *arg;
};

/* The file that is to take the place of the present one, while the disk is asked to keep it; fd -1:
 * there is none. */
struct journal_rewrite {
	int fd;
	uint64_t size;
	uint64_t from;		/* it lacks what came to the present one from here on */
	uint64_t not_before_ms; /* after a failure */
};

struct journal {
	struct journal_options opt;
	int dir_fd, fd;
	char *path;
	struct journal_buffer out;
	size_t out_done;    /* of out, that is in the file already */
	uint64_t size;	    /* of the file */
	uint64_t allocated; /* the file system has set so much aside for it */
	uint64_t look_at;   /* at this size it is seen whether most of it is garbage */
	uint64_t most;	    /* RLIMIT_FSIZE as it was last read; 0: it is to be read */
	int failing;	    /* errno of the last write; 0: all is well */
	int lost;   /* errno: why a record is missing in the file, which is to be rewritten; or 0 */
	bool stale; /* it tells of what is not to be kept */
	struct loop_timer *timer;
	uint64_t wake_ms;      /* when it fires, where it is armed */
	bool unsynced;	       /* something was written since the last sync began */
	bool dir_unsynced;     /* the file has taken the name of another one */
	uint64_t sync_next_ms; /* not before */
	struct journal_sync sync;
	struct journal_rewrite rewrite;
};

#define JOURNAL_FILE "queue.journal"
#define JOURNAL_NEW "queue.journal.new"
#define JOURNAL_BROKEN "queue.journal.broken"

/* journal.c */
__attribute__((format(printf, 3, 4))) void journal_tell(
	struct journal *j, const char *event, const char *fmt, ...);
/* The name of the worker that r speaks of, or NULL. */
const char *journal_worker(const struct journal *j, const struct queue_record *r);
/* Writes b from *done on where fd stands (it has size bytes). Returns 0 or a negative errno; *done
 * and *size count what was written in both cases. */
_must_check_ int journal_write(
	struct journal *j, int fd, const struct journal_buffer *b, size_t *done, uint64_t *size);
/* Has the timer fire within that time. */
void journal_wake(struct journal *j, uint64_t delay_ms);

/* read.c: opens or makes the file. 0 or a negative errno with err. */
_must_check_ int journal_read(struct journal *j, struct error *err);

/* rewrite.c */
/* Has the timer fire where the file is too long for what it tells. */
void journal_rewrite_consider(struct journal *j);
/* Rewrites it where that is due; from the timer and after a sync. */
void journal_rewrite_begin(struct journal *j);
/* The disk has the new file, or (error, an errno) has not. */
void journal_rewrite_synced(struct journal *j, int error);
/* All of it at once, before the first step of the machine. 0 or a negative errno, and then the file
 * is as before. */
_must_check_ int journal_rewrite_now(struct journal *j);
void journal_rewrite_stop(struct journal *j);

/* sync.c */
_must_check_ int journal_sync_init(
	struct journal_sync *s, struct loop *loop, loop_fn fn, void *arg);
/* Waits for the thread. */
void journal_sync_fini(struct journal_sync *s);
/* fn(arg) follows, with s->error; not while one is running. dir_fd -1: the file only. */
_must_check_ int journal_sync_start(struct journal_sync *s, int fd, int dir_fd);
