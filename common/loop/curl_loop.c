/* SPDX-License-Identifier: Apache-2.0 */
#include "common/loop/curl_loop.h"

#if HAVE_CURL

#include <errno.h>
#include <sys/socket.h>

/* libcurl's callbacks only take notes; a transfer's fn runs from the loop, one at a time, since it
 * may free everything. */

TAILQ_HEAD(curl_transfers, curl_transfer);

struct curl_loop {
	struct loop *loop;
	const struct curl_library *curl;
	CURLM *multi;
	struct loop_timer *timer;
	struct curl_transfers active, done;
	bool failed; /* a descriptor is not watched as it should be */
};

static void curl_loop_on_done(void *arg);

static void curl_loop_announce(struct curl_loop *c)
{
	/* Without memory to defer: libcurl's timer comes anyway, and tries again. */
	if (!TAILQ_EMPTY(&c->done) && loop_defer(c->loop, curl_loop_on_done, c) < 0)
		loop_timer_arm(c->timer, 1);
}

static void curl_loop_end(struct curl_loop *c, struct curl_transfer *t, CURLcode result)
{
	c->curl->multi_remove_handle(c->multi, t->easy);
	t->result = result;
	t->done = true;
	TAILQ_REMOVE(&c->active, t, entry);
	TAILQ_INSERT_TAIL(&c->done, t, entry);
}

/* One of them would wait for ever, and libcurl does not say which. */
static void curl_loop_fail(struct curl_loop *c)
{
	struct curl_transfer *t;

	c->failed = false;
	while ((t = TAILQ_FIRST(&c->active)))
		curl_loop_end(c, t, CURLE_OUT_OF_MEMORY);
}

/* Moves transfers that libcurl has finished to the list of done ones. */
static void curl_loop_collect(struct curl_loop *c)
{
	CURLMsg *m;
	int left;

	while ((m = c->curl->multi_info_read(c->multi, &left))) {
		struct curl_transfer *t;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		TAILQ_FOREACH (t, &c->active, entry)
			if (t->easy == m->easy_handle)
				break;
		if (t)
			curl_loop_end(c, t, result);
	}
	if (c->failed)
		curl_loop_fail(c);
	curl_loop_announce(c);
}

/* Runs fn of the first one that is done; the next turn has the others, if c still exists. */
static void curl_loop_on_done(void *arg)
{
	struct curl_loop *c = arg;
	struct curl_transfer *t = TAILQ_FIRST(&c->done);

	if (!t)
		return;
	TAILQ_REMOVE(&c->done, t, entry);
	t->owner = NULL;
	curl_loop_announce(c);
	t->fn(t->arg, t->result);
}

static void curl_loop_act(struct curl_loop *c, curl_socket_t fd, int events)
{
	int running;

	c->curl->multi_socket_action(c->multi, fd, events, &running);
	curl_loop_collect(c);
}

static void curl_loop_on_fd(int fd, int events, void *arg)
{
	curl_loop_act(arg, fd,
		(events & LOOP_READ ? CURL_CSELECT_IN : 0) |
			(events & LOOP_WRITE ? CURL_CSELECT_OUT : 0));
}

static void curl_loop_on_timer(void *arg)
{
	curl_loop_act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int curl_loop_timer_fn(CURLM *multi, long timeout_ms, void *arg)
{
	struct curl_loop *c = arg;

	if (timeout_ms < 0)
		loop_timer_disarm(c->timer);
	else
		loop_timer_arm(c->timer, (uint64_t)timeout_ms);
	return 0;
}

static int curl_loop_socket_fn(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct curl_loop *c = arg;
	struct loop_fd *f = socket_arg;
	int events =
		(what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);

	if (what == CURL_POLL_REMOVE) {
		loop_fd_free(f);
		c->curl->multi_assign(c->multi, fd, NULL);
		return 0;
	}
	if (f)
		c->failed |= loop_fd_set(f, events) < 0;
	else if (loop_fd_new(c->loop, fd, events, curl_loop_on_fd, c, &f) < 0)
		c->failed = true;
	else
		c->curl->multi_assign(c->multi, fd, f);
	/* After an error here libcurl's memory of its sockets is not to be trusted. */
	return 0;
}

static curl_socket_t curl_loop_open_fn(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	return socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
}

int curl_loop_new(struct loop *loop, struct curl_loop **ret, struct error *err)
{
	_cleanup_(curl_loop_freep) struct curl_loop *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	c->loop = loop;
	TAILQ_INIT(&c->active);
	TAILQ_INIT(&c->done);
	r = curl_library_load(&c->curl, err);
	if (r < 0)
		return r;
	c->multi = c->curl->multi_init();
	if (!c->multi || loop_timer_new(loop, curl_loop_on_timer, c, &c->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	/* libcurl has a pair of descriptors of its own, which older versions do not mark
	 * close-on-exec. All of ours are marked from birth. */
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	c->curl->multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, curl_loop_socket_fn);
	c->curl->multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	c->curl->multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, curl_loop_timer_fn);
	c->curl->multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	*ret = TAKE_PTR(c);
	return 0;
}

struct curl_loop *curl_loop_free(struct curl_loop *c)
{
	if (!c)
		return NULL;
	loop_cancel(c->loop, curl_loop_on_done, c);
	/* Closes its connections, and with them the loop's watches. */
	if (c->multi)
		c->curl->multi_cleanup(c->multi);
	loop_timer_free(c->timer);
	free(c);
	return NULL;
}

const struct curl_library *curl_loop_library(const struct curl_loop *c)
{
	return c->curl;
}

int curl_loop_add(struct curl_loop *c, struct curl_transfer *t)
{
	if (c->curl->easy_setopt(t->easy, CURLOPT_OPENSOCKETFUNCTION, curl_loop_open_fn) ||
		c->curl->multi_add_handle(c->multi, t->easy))
		return -ENOMEM;
	t->owner = c;
	t->done = false;
	TAILQ_INSERT_TAIL(&c->active, t, entry);
	return 0;
}

void curl_loop_remove(struct curl_transfer *t)
{
	struct curl_loop *c = t->owner;

	if (!c)
		return;
	if (t->done) {
		TAILQ_REMOVE(&c->done, t, entry);
	} else {
		TAILQ_REMOVE(&c->active, t, entry);
		c->curl->multi_remove_handle(c->multi, t->easy);
	}
	t->owner = NULL;
}

#endif
