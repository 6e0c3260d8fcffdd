/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/http.h"

#include "common/loop/curl_loop.h"

#include <errno.h>

#if HAVE_CURL

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

struct http_call {
	struct curl_transfer transfer;
	TAILQ_ENTRY(http_call) entry;
	struct http *owner; /* until fn runs, which may free it */
	const struct curl_library *curl;
	struct curl_slist *headers;
	http_fn fn;
	void *arg;
	char *body;
	size_t len, room;
	bool too_large;
	char error[CURL_ERROR_SIZE];
};

TAILQ_HEAD(http_calls, http_call);

struct http {
	const struct curl_library *curl;
	struct curl_loop *transfers;
	struct http_calls calls;
};

static struct http_call *call_free(struct http_call *c)
{
	if (!c)
		return NULL;
	if (c->transfer.easy)
		c->curl->easy_cleanup(c->transfer.easy);
	c->curl->slist_free_all(c->headers);
	free(c->body);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(struct http_call *, call_free)

static const char *call_error(const struct http_call *c, CURLcode result)
{
	if (c->too_large)
		return "the answer is larger than 64 KiB";
	return c->error[0] ? c->error : c->curl->easy_strerror(result);
}

static void http_on_done(void *arg, CURLcode result)
{
	struct http_call *c = arg;
	const struct curl_library *curl = c->curl;
	struct http_answer answer = { .body = "", .easy = c->transfer.easy };
	long status = 0;

	TAILQ_REMOVE(&c->owner->calls, c, entry);
	if (result)
		answer.error = call_error(c, result);
	else if (!curl->easy_getinfo(c->transfer.easy, CURLINFO_RESPONSE_CODE, &status) && status)
		answer.status = (int)status;
	else
		answer.error = "no status";
	if (!result && c->body) {
		answer.body = c->body;
		answer.len = c->len;
	}
	c->fn(c->arg, &answer);
	call_free(c);
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
	TAILQ_INIT(&h->calls);
	r = curl_loop_new(loop, &h->transfers, err);
	if (r < 0)
		return r;
	h->curl = curl_loop_library(h->transfers);
	*ret = TAKE_PTR(h);
	return 0;
}

struct http *http_free(struct http *h)
{
	struct http_call *c;

	if (!h)
		return NULL;
	while ((c = TAILQ_FIRST(&h->calls)))
		http_cancel(c);
	curl_loop_free(h->transfers);
	free(h);
	return NULL;
}

static int call_headers(struct http_call *c, const struct http_request *request)
{
	const struct curl_library *curl = c->curl;

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
	const struct curl_library *curl = c->curl;
	CURL *e = c->transfer.easy;
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
	c->curl = h->curl;
	c->fn = fn;
	c->arg = arg;
	c->transfer.fn = http_on_done;
	c->transfer.arg = c;
	c->transfer.easy = h->curl->easy_init();
	if (!c->transfer.easy)
		return -ENOMEM;
	r = call_headers(c, request);
	if (!r)
		r = call_options(c, request);
	if (r < 0)
		return r;
	r = curl_loop_add(h->transfers, &c->transfer);
	if (r < 0)
		return r;
	TAILQ_INSERT_TAIL(&h->calls, c, entry);
	if (ret)
		*ret = c;
	TAKE_PTR(c);
	return 0;
}

struct http_call *http_cancel(struct http_call *c)
{
	if (!c)
		return NULL;
	curl_loop_remove(&c->transfer);
	TAILQ_REMOVE(&c->owner->calls, c, entry);
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
