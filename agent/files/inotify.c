/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel keeps one watch per inode and inotify descriptor, so watches of the same file share a
 * number, and its mask is the union of their events. A callback may free any watch: an event first
 * marks all watches of its number, then each call clears one mark. Calls come in the order of the
 * events, which is that of the writes.
 */
#include "agent/files/inotify.h"

#include "agent/files/file_system.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#define FALLBACK_MS 250

struct log_watch {
	struct log_watch *next;
	int wd;	     /* -1: not known to the kernel */
	bool polled; /* the kernel had no room for it */
	int events;
	int due;	     /* events to report in this round */
	unsigned long since; /* place of the first event that set due */
	log_watch_fn fn;
	void *arg;
};

/* The only one of the process; it exists while there are watches or references. */
static struct watcher {
	struct loop *loop;
	int fd; /* -1: without inotify */
	struct loop_fd *readable;
	struct loop_timer *timer;
	struct log_watch *all;
} * watcher;

static int watcher_refs;

static uint32_t watch_mask(int events)
{
	return (events & LOG_WATCH_MODIFY ? IN_MODIFY : 0) |
	       (events & LOG_WATCH_GONE ? IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF : 0) |
	       (events & LOG_WATCH_NAMES ? IN_CREATE | IN_MOVED_TO : 0);
}

static int watch_events(uint32_t mask)
{
	return (mask & IN_MODIFY ? LOG_WATCH_MODIFY : 0) |
	       (mask & (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT)
			       ? LOG_WATCH_GONE
			       : 0) |
	       (mask & (IN_CREATE | IN_MOVED_TO) ? LOG_WATCH_NAMES : 0);
}

static struct log_watch *watcher_first_due(void)
{
	struct log_watch *first = NULL;

	for (struct log_watch *w = watcher ? watcher->all : NULL; w; w = w->next) {
		w->due &= w->events;
		if (w->due && (!first || w->since < first->since))
			first = w;
	}
	return first;
}

/* Calls the callbacks of all watches that are due. A callback may free watches and, with the last
 * one, the watcher. */
static void watcher_call_due(void)
{
	struct log_watch *w;

	while ((w = watcher_first_due())) {
		int events = w->due;

		w->due = 0;
		w->fn(w->arg, events);
	}
}

static void watch_set_due(struct log_watch *w, int events)
{
	static unsigned long place;

	if (!w->due)
		w->since = place++;
	w->due |= events;
}

static void watcher_mark(const struct inotify_event *ev)
{
	for (struct log_watch *w = watcher->all; w; w = w->next) {
		if (ev->mask & IN_Q_OVERFLOW)
			watch_set_due(w, ~0);
		else if (w->wd == ev->wd)
			watch_set_due(w, watch_events(ev->mask));
		/* The inode is gone; the kernel may give this number to another. */
		if ((ev->mask & IN_IGNORED) && w->wd == ev->wd)
			w->wd = -1;
	}
}

static void watcher_readable(int fd, int events, void *arg)
{
	char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(fd, buf, sizeof(buf));

	for (char *p = buf; n > 0 && p < buf + n;) {
		const struct inotify_event *ev = (const struct inotify_event *)p;

		watcher_mark(ev);
		p += sizeof(*ev) + ev->len;
	}
	watcher_call_due();
}

static void watcher_fallback(void *arg)
{
	bool must = false;

	for (struct log_watch *w = watcher->all; w; w = w->next)
		if (w->polled && (w->events & LOG_WATCH_MUST)) {
			must = true;
			watch_set_due(w, ~0);
		}
	if (must)
		loop_timer_arm(watcher->timer, FALLBACK_MS);
	watcher_call_due();
}

static void watcher_free(void)
{
	loop_fd_free(watcher->readable);
	loop_timer_free(watcher->timer);
	close_fd(watcher->fd);
	free(watcher);
	watcher = NULL;
}

static void watcher_done(void)
{
	if (watcher && !watcher->all && !watcher_refs)
		watcher_free();
}

static int watcher_new(struct loop *loop)
{
	int r;

	watcher = calloc(1, sizeof(*watcher));
	if (!watcher)
		return -ENOMEM;
	watcher->loop = loop;
	watcher->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (watcher->fd < 0) {
		log_warning("no inotify (%m%s): looking at log files four times a second",
			errno == EMFILE ? ", see fs.inotify.max_user_instances" : "");
		r = 0;
	} else {
		r = loop_fd_new(
			loop, watcher->fd, LOOP_READ, watcher_readable, NULL, &watcher->readable);
	}
	if (r == 0)
		r = loop_timer_new(loop, watcher_fallback, NULL, &watcher->timer);
	if (r < 0)
		watcher_free();
	return r;
}

void log_watcher_ref(void)
{
	watcher_refs++;
}

void log_watcher_unref(void)
{
	watcher_refs--;
	watcher_done();
}

/* Without a kernel watch: LOG_WATCH_MUST is called at intervals, others not at all. */
static int watch_poll_instead(struct log_watch *w)
{
	w->polled = true;
	if ((w->events & LOG_WATCH_MUST) && !loop_timer_armed(watcher->timer))
		loop_timer_arm(watcher->timer, FALLBACK_MS);
	return 0;
}

/* Tells the kernel the union of the events of all watches of the inode. */
static int watch_update_kernel(struct log_watch *w, int fd)
{
	uint32_t mask = watch_mask(w->events);
	char path[32];
	int wd;

	if (watcher->fd < 0)
		return watch_poll_instead(w);
	if (!mask && w->wd < 0)
		return 0;
	for (struct log_watch *o = watcher->all; o; o = o->next)
		if (o != w && o->wd >= 0 && o->wd == w->wd)
			mask |= watch_mask(o->events);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!mask) {
		inotify_rm_watch(watcher->fd, w->wd);
		w->wd = -1;
		return 0;
	}
	/* A new watch does not know its number yet, so its events are added to those of others. */
	wd = log_fs_watch(watcher->fd, path, mask | (w->wd < 0 ? IN_MASK_ADD : 0));
	if (wd == -ENOSPC || wd == -ENOMEM)
		return watch_poll_instead(w);
	if (wd < 0)
		return wd;
	w->wd = wd;
	w->polled = false;
	return 0;
}

int log_watch_new(
	struct loop *loop, int fd, int events, log_watch_fn fn, void *arg, struct log_watch **ret)
{
	struct log_watch *w;
	int r;

	if (!watcher) {
		r = watcher_new(loop);
		if (r < 0)
			return r;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		watcher_done();
		return -ENOMEM;
	}
	*w = (struct log_watch){ .wd = -1, .fn = fn, .arg = arg, .events = events };
	w->next = watcher->all;
	watcher->all = w;
	r = watch_update_kernel(w, fd);
	if (r < 0) {
		log_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct log_watch *log_watch_free(struct log_watch *w)
{
	struct log_watch **p;
	bool shared = false;

	if (!w)
		return NULL;
	for (p = &watcher->all; *p != w; p = &(*p)->next)
		;
	*p = w->next;
	for (struct log_watch *o = watcher->all; o; o = o->next)
		shared |= o->wd == w->wd;
	/* A shared mask stays as it is; events that nothing asks for are ignored. */
	if (w->wd >= 0 && !shared)
		inotify_rm_watch(watcher->fd, w->wd);
	free(w);
	watcher_done();
	return NULL;
}

int log_watch_set(struct log_watch *w, int fd, int events)
{
	if (events == w->events)
		return 0;
	w->events = events;
	w->due &= events;
	return watch_update_kernel(w, fd);
}
