/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/http.h"

#include "common/base/curl.h"

#include <errno.h>

#if HAVE_CURL

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

/*
 * libcurl's multi interface, driven by its sockets: it says which descriptors to watch and when its
 * next timer is due, and is called only for these. libcurl's callbacks only take notes; the
 * caller's fn runs from the loop, one at a time, since it may free everything.
 */

struct http_call {
	TAILQ_ENTRY(http_call) entry;
	struct http *owner;
	CURL *easy;
	struct curl_slist *headers;
	http_fn fn;
	void *arg;
	char *body;
	size_t len, room;
	bool too_large;
	CURLcode result;
	char error[CURL_ERROR_SIZE];
	bool done; /* in the list of done calls, and out of the multi handle */
};

TAILQ_HEAD(http_calls, http_call);

struct http {
	struct loop *loop;
	const struct curl_library *curl;
	CURLM *multi;
	struct loop_timer *timer;
	struct http_calls active, done;
};

static void http_on_done(void *arg);

static struct http_call *call_free(struct http_call *c)
{
	const struct curl_library *curl;

	if (!c)
		return NULL;
	curl = c->owner->curl;
	if (c->easy)
		curl->easy_cleanup(c->easy);
	curl->slist_free_all(c->headers);
	free(c->body);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(struct http_call *, call_free)

/* Moves calls that libcurl has finished to the list of done ones. */
static void http_collect(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = h->curl->multi_info_read(h->multi, &left))) {
		struct http_call *c;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		TAILQ_FOREACH (c, &h->active, entry)
			if (c->easy == m->easy_handle)
				break;
		if (!c)
			continue;
		h->curl->multi_remove_handle(h->multi, c->easy);
		c->result = result;
		c->done = true;
		TAILQ_REMOVE(&h->active, c, entry);
		TAILQ_INSERT_TAIL(&h->done, c, entry);
	}
	/* Without memory to defer: libcurl's timer comes anyway, and tries again. */
	if (!TAILQ_EMPTY(&h->done) && loop_defer(h->loop, http_on_done, h) < 0)
		loop_timer_arm(h->timer, 1);
}

static const char *call_error(struct http_call *c)
{
	if (c->too_large)
		return "the answer is larger than 64 KiB";
	return c->error[0] ? c->error : c->owner->curl->easy_strerror(c->result);
}

/* Runs fn of the first done call; the next turn has the others, if h still exists. */
static void http_on_done(void *arg)
{
	struct http *h = arg;
	const struct curl_library *curl = h->curl;
	struct http_call *c = TAILQ_FIRST(&h->done);
	struct http_answer answer = { .body = "" };
	long status = 0;

	if (!c)
		return;
	TAILQ_REMOVE(&h->done, c, entry);
	if (!TAILQ_EMPTY(&h->done) && loop_defer(h->loop, http_on_done, h) < 0)
		loop_timer_arm(h->timer, 1);
	if (c->result)
		answer.error = call_error(c);
	else if (!curl->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status) && status)
		answer.status = (int)status;
	else
		answer.error = "no status";
	if (!c->result && c->body) {
		answer.body = c->body;
		answer.len = c->len;
	}
	answer.easy = c->easy;
	c->fn(c->arg, &answer);
	/* fn may have freed h. */
	curl->easy_cleanup(c->easy);
	curl->slist_free_all(c->headers);
	free(c->body);
	free(c);
}

static void http_act(struct http *h, curl_socket_t fd, int what)
{
	int running;

	h->curl->multi_socket_action(h->multi, fd, what, &running);
	http_collect(h);
}

static void http_on_fd(int fd, int events, void *arg)
{
	http_act(arg, fd,
		(events & LOOP_READ ? CURL_CSELECT_IN : 0) |
			(events & LOOP_WRITE ? CURL_CSELECT_OUT : 0));
}

static void http_on_timer(void *arg)
{
	http_act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int http_timer_fn(CURLM *multi, long timeout_ms, void *arg)
{
	struct http *h = arg;

	if (timeout_ms < 0)
		loop_timer_disarm(h->timer);
	else
		loop_timer_arm(h->timer, (uint64_t)timeout_ms);
	return 0;
}

static int http_socket_fn(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct http *h = arg;
	struct loop_fd *f = socket_arg;
	int events =
		(what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
	int r;

	if (what == CURL_POLL_REMOVE) {
		loop_fd_free(f);
		h->curl->multi_assign(h->multi, fd, NULL);
		return 0;
	}
	if (f)
		return loop_fd_set(f, events) < 0 ? -1 : 0;
	r = loop_fd_new(h->loop, fd, events, http_on_fd, h, &f);
	if (r < 0)
		return -1;
	h->curl->multi_assign(h->multi, fd, f);
	return 0;
}

static curl_socket_t http_open_fn(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	return socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
}

static size_t http_write_fn(char *data, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;

	n *= size;
	if (n > HTTP_BODY_MAX - c->len) {
		c->too_large = true;
		return 0;
	}
	if (c->len + n + 1 > c->room) {
		size_t room = (c->len + n + 1) * 2;
		char *body = realloc(c->body, room);

		if (!body)
			return 0;
		c->body = body;
		c->room = room;
	}
	memcpy(c->body + c->len, data, n);
	c->len += n;
	c->body[c->len] = '\0';
	return n;
}

static size_t http_read_fn(char *data, size_t size, size_t n, void *arg)
{
	return 0;
}

int http_new(struct loop *loop, struct http **ret, struct error *err)
{
	_cleanup_(http_freep) struct http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	h->loop = loop;
	TAILQ_INIT(&h->active);
	TAILQ_INIT(&h->done);
	r = curl_library_load(&h->curl, err);
	if (r < 0)
		return r;
	h->multi = h->curl->multi_init();
	if (!h->multi || loop_timer_new(loop, http_on_timer, h, &h->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	/* libcurl has a pair of descriptors of its own, which older versions do not mark
	 * close-on-exec. All of ours are marked from birth. */
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	h->curl->multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, http_socket_fn);
	h->curl->multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	h->curl->multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, http_timer_fn);
	h->curl->multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	*ret = TAKE_PTR(h);
	return 0;
}

struct http *http_free(struct http *h)
{
	struct http_call *c;

	if (!h)
		return NULL;
	loop_cancel(h->loop, http_on_done, h);
	while ((c = TAILQ_FIRST(&h->active)) || (c = TAILQ_FIRST(&h->done)))
		http_cancel(c);
	/* Closes its connections, and with them the loop's watches. */
	if (h->multi)
		h->curl->multi_cleanup(h->multi);
	loop_timer_free(h->timer);
	free(h);
	return NULL;
}

static int call_headers(struct http_call *c, const struct http_request *request)
{
	const struct curl_library *curl = c->owner->curl;

	for (size_t i = 0; i < HTTP_HEADERS && request->headers[i]; i++) {
		struct curl_slist *longer = curl->slist_append(c->headers, request->headers[i]);

		if (!longer)
			return -ENOMEM;
		c->headers = longer;
	}
	return 0;
}

static int call_options(struct http_call *c, const struct http_request *request)
{
	const struct curl_library *curl = c->owner->curl;
	CURL *e = c->easy;
	int bad = 0;

#define SET(option, value) (bad |= curl->easy_setopt(e, CURLOPT_##option, value) != CURLE_OK)
	SET(URL, request->url);
	SET(PROTOCOLS_STR, "http");
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PROXY, "");
	SET(NOSIGNAL, 1L);
	SET(FOLLOWLOCATION, 0L);
	SET(USERAGENT, "elasticd/" VERSION);
	SET(HTTPHEADER, c->headers);
	SET(TIMEOUT_MS, (long)request->timeout_ms);
	SET(CONNECTTIMEOUT_MS, (long)request->connect_ms);
	SET(OPENSOCKETFUNCTION, http_open_fn);
	SET(WRITEFUNCTION, http_write_fn);
	SET(WRITEDATA, c);
	SET(ERRORBUFFER, c->error);
	if (request->put) {
		SET(UPLOAD, 1L);
		SET(INFILESIZE_LARGE, (curl_off_t)0);
		SET(READFUNCTION, http_read_fn);
	}
#undef SET
	return bad ? -EINVAL : 0;
}

int http_start(struct http *h, const struct http_request *request, http_fn fn, void *arg,
	struct http_call **ret)
{
	_cleanup_(call_freep) struct http_call *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->owner = h;
	c->fn = fn;
	c->arg = arg;
	c->easy = h->curl->easy_init();
	if (!c->easy)
		return -ENOMEM;
	r = call_headers(c, request);
	if (!r)
		r = call_options(c, request);
	if (r < 0)
		return r;
	if (h->curl->multi_add_handle(h->multi, c->easy))
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&h->active, c, entry);
	if (ret)
		*ret = c;
	TAKE_PTR(c);
	return 0;
}

struct http_call *http_cancel(struct http_call *c)
{
	if (!c)
		return NULL;
	if (c->done) {
		TAILQ_REMOVE(&c->owner->done, c, entry);
	} else {
		TAILQ_REMOVE(&c->owner->active, c, entry);
		c->owner->curl->multi_remove_handle(c->owner->multi, c->easy);
	}
	return call_free(c);
}

const char *http_header(const struct http_answer *answer, const char *name)
{
	const struct curl_library *curl;
	struct curl_header *header;

	if (!answer->easy || curl_library_load(&curl, NULL) < 0 ||
		curl->easy_header(answer->easy, name, 0, CURLH_HEADER, -1, &header))
		return NULL;
	return header->value;
}

#else

int http_new(struct loop *loop, struct http **ret, struct error *err)
{
	return error_set(err, -EOPNOTSUPP, "built without libcurl");
}

struct http *http_free(struct http *h)
{
	return NULL;
}

int http_start(struct http *h, const struct http_request *request, http_fn fn, void *arg,
	struct http_call **ret)
{
	return -EOPNOTSUPP;
}

struct http_call *http_cancel(struct http_call *c)
{
	return NULL;
}

const char *http_header(const struct http_answer *answer, const char *name)
{
	return NULL;
}

#endif
