/* SPDX-License-Identifier: Apache-2.0 */
/* __bridge: the other side of --host, which ssh starts. */
#include "client/base/ctl.h"
#include "client/verbs/verbs.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

/* One direction: bytes that were read from one descriptor and not yet written to the other. */
struct way {
	int from, to;
	size_t begin, end;
	char data[65536];
};

static bool way_empty(const struct way *w)
{
	return w->begin == w->end;
}

/* Returns whether there may be more to read. */
static bool way_read(struct way *w)
{
	ssize_t n = read(w->from, w->data, sizeof(w->data));

	w->begin = 0;
	w->end = n > 0 ? (size_t)n : 0;
	return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Writes what goes without waiting, so that a reader who is slow holds up only its own direction.
 * Returns whether the reader is still there. */
static bool way_write(struct way *w)
{
	size_t left = w->end - w->begin;
	ssize_t n = send(w->to, w->data + w->begin, left, MSG_DONTWAIT | MSG_NOSIGNAL);

	/* A pipe that poll() finds ready takes so many bytes at once. */
	if (n < 0 && errno == ENOTSOCK)
		n = write(w->to, w->data + w->begin, left < PIPE_BUF ? left : PIPE_BUF);
	if (n > 0)
		w->begin += (size_t)n;
	return n >= 0 || errno == EINTR || errno == EAGAIN;
}

/* elasticd may refuse a caller, and close, before it has read: its answer is still handed on. */
static void stop_calls(struct way *calls)
{
	calls->from = -1;
	calls->begin = calls->end;
}

/* Hands bytes on until elasticd or the caller ends. The caller waits for no answers then. */
static void copy_both_ways(struct way *calls, struct way *answers)
{
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = way_empty(calls) ? calls->from : -1, .events = POLLIN },
			{ .fd = way_empty(calls) ? -1 : calls->to, .events = POLLOUT },
			{ .fd = way_empty(answers) ? answers->from : -1, .events = POLLIN },
			/* Without events poll() still finds that the reader has gone. */
			{ .fd = answers->to, .events = way_empty(answers) ? 0 : POLLOUT },
		};

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[1].revents && !way_write(calls))
			stop_calls(calls);
		if ((fds[0].revents && !way_read(calls)) ||
			(fds[2].revents && !way_read(answers)) ||
			(fds[3].revents & POLLOUT ? !way_write(answers) : fds[3].revents))
			return;
	}
}

int cmd_bridge(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	struct way calls = { .from = STDIN_FILENO }, answers = { .to = STDOUT_FILENO };
	struct error err = { 0 };
	int r = ctl_open(ctl, &link, &err);

	if (r < 0)
		return ctl_cannot_connect(ctl, r, &err);
	calls.to = answers.from = varlink_sync_fd(link);
	copy_both_ways(&calls, &answers);
	return 0;
}
