/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for the disk, which may take seconds, so that the loop does not. */
#include "agent/queue/journal/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10 };

/* The thread uses only this structure of the agent. */
static void *wait_for_disk(void *arg)
{
	struct journal_sync *s = arg;
	uint64_t one = 1;

	s->error = fdatasync(s->fd) < 0 ? errno : 0;
	if (!s->error && s->dir_fd >= 0 && fsync(s->dir_fd) < 0)
		s->error = errno;
	(void)!write(s->event_fd, &one, sizeof(one));
	return NULL;
}

static void sync_finish(struct journal_sync *s)
{
	uint64_t n;

	pthread_join(s->thread, NULL);
	(void)!read(s->event_fd, &n, sizeof(n));
	close(s->fd);
	close_fd(s->dir_fd);
	s->running = false;
}

static void on_event(int fd, int events, void *arg)
{
	struct journal_sync *s = arg;

	if (!s->running)
		return;
	sync_finish(s);
	s->fn(s->arg);
}

int journal_sync_init(struct journal_sync *s, struct loop *loop, loop_fn fn, void *arg)
{
	*s = (struct journal_sync){ .fn = fn, .arg = arg, .fd = -1, .dir_fd = -1 };
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0)
		return -errno;
	return loop_fd_new(loop, s->event_fd, LOOP_READ, on_event, s, &s->watch);
}

void journal_sync_fini(struct journal_sync *s)
{
	if (s->running)
		sync_finish(s);
	loop_fd_free(s->watch);
	close_fd(s->event_fd);
	s->watch = NULL;
	s->event_fd = -1;
}

/* Blocks signals in the thread: the main thread handles them. */
static int start_thread(struct journal_sync *s)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	sigfillset(&all);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&s->thread, &attr, wait_for_disk, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

int journal_sync_start(struct journal_sync *s, int fd, int dir_fd)
{
	int r;

	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		return -errno;
	s->dir_fd = dir_fd >= 0 ? fcntl(dir_fd, F_DUPFD_CLOEXEC, 3) : -1;
	r = dir_fd >= 0 && s->dir_fd < 0 ? -errno : start_thread(s);
	s->running = r == 0;
	if (r < 0) {
		close(s->fd);
		close_fd(s->dir_fd);
	}
	return r;
}
