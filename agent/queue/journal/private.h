/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by these files, and by no others:
 *
 *   journal.c  life, appending, room for more, failures
 *   read.c     reading the file of an earlier agent
 *   rewrite.c  replacing a long file by a shorter one
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
	int fd, dir_fd; /* the thread's own; dir_fd -1: no directory */
	int error;	/* its errno */
	loop_fn fn;
	void *arg;
};

/* The file that will replace the present one when the disk has it; fd -1: there is none. */
struct journal_rewrite {
	int fd;
	uint64_t size;
	uint64_t from;		/* it lacks the records of the present file from here on */
	uint64_t not_before_ms; /* after a failure */
};

struct journal {
	struct journal_options opt;
	int dir_fd, fd;
	char *path;
	struct journal_buffer out;
	size_t out_done;    /* how much of out is in the file already */
	uint64_t size;	    /* of the file */
	uint64_t allocated; /* the size up to which the file system has reserved room */
	uint64_t check_at;  /* the size at which it is checked for garbage */
	uint64_t most;	    /* RLIMIT_FSIZE as it was last read; 0: it must be read again */
	int failing;	    /* errno of the last write; 0: it succeeded */
	int lost;	    /* errno: why the file lacks a record and must be rewritten; or 0 */
	bool stale;	    /* it has records that must not stay */
	struct loop_timer *timer;
	uint64_t wake_ms;      /* when it fires, if it is armed */
	bool unsynced;	       /* it was written since the last sync began */
	bool dir_unsynced;     /* the file is new, or has replaced another one */
	uint64_t sync_next_ms; /* the next sync begins no earlier */
	struct journal_sync sync;
	struct journal_rewrite rewrite;
};

#define JOURNAL_FILE "queue.journal"
#define JOURNAL_NEW "queue.journal.new"
#define JOURNAL_BROKEN "queue.journal.broken"

/* journal.c */
__attribute__((format(printf, 3, 4))) void journal_event(
	struct journal *j, const char *event, const char *fmt, ...);
/* The name of the worker in r, or NULL. */
const char *journal_worker(const struct journal *j, const struct queue_record *r);
/* Writes b from *done on to the end of fd, which has *size bytes. Returns 0 or a negative errno;
 * *done and *size count the written bytes in both cases. */
_must_check_ int journal_write(
	struct journal *j, int fd, const struct journal_buffer *b, size_t *done, uint64_t *size);
/* Makes the timer fire within that time. */
void journal_wake(struct journal *j, uint64_t delay_ms);

/* read.c: opens or makes the file. 0 or a negative errno with err. */
_must_check_ int journal_read(struct journal *j, struct error *err);

/* rewrite.c */
/* Makes the timer fire if the file is mostly garbage. */
void journal_rewrite_consider(struct journal *j);
/* Rewrites the file if that is due; from the timer and after a sync. */
void journal_rewrite_begin(struct journal *j);
/* The disk has the new file, or could not write it (error, an errno). */
void journal_rewrite_synced(struct journal *j, int error);
/* Rewrites the file at once, before the first step of the machine. 0, or a negative errno with the
 * file as before. */
_must_check_ int journal_rewrite_now(struct journal *j);
void journal_rewrite_stop(struct journal *j);

/* sync.c */
_must_check_ int journal_sync_init(
	struct journal_sync *s, struct loop *loop, loop_fn fn, void *arg);
/* Waits for the thread. */
void journal_sync_fini(struct journal_sync *s);
/* Calls fn(arg) at the end, with s->error. Not while one is running. dir_fd -1: the file only. */
_must_check_ int journal_sync_start(struct journal_sync *s, int fd, int dir_fd);
