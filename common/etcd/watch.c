/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/private.h"
#include "common/etcd/split.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/*
 * Each watch has a stream of its own: a request whose answer does not end. When the stream breaks,
 * or the client leaves its endpoint, the watch asks for changes from the revision after the last
 * one that it has reported.
 */

enum {
	RETRY_MIN_MS = 50,
	RETRY_MAX_MS = 2000,
	BEHIND_MAX = 5, /* tries at a member that has not reached the watch's revision yet */
};

struct etcd_watch {
	TAILQ_ENTRY(etcd_watch) entry;
	struct etcd *owner; /* NULL: it is over, or its client is gone */
	char *key, *end;
	int64_t next;	  /* the first revision that it has not reported */
	uint64_t cluster; /* of that revision; 0: not known */
	struct json_writer body;
	struct etcd_request *request; /* NULL: the timer opens it */
	struct etcd_split split;
	struct loop_timer *timer;
	uint64_t retry_ms;
	int behind;
	bool down; /* ETCD_WATCH_DOWN was reported, and not ETCD_WATCH_UP since */
	enum status down_status;
	bool reading; /* messages: the watch is freed after that, */
	bool freed;   /* ... if a callback frees it */
	etcd_watch_fn fn;
	void *arg;
};

static void watch_on_done(void *arg, const struct etcd_failure *failure);
static void watch_on_more(void *arg);

static int watch_open(struct etcd_watch *w)
{
	struct etcd_question q = {
		.path = "/v3/watch",
		.has_leader = true,
		.events = { .done = watch_on_done, .more = watch_on_more },
		.arg = w,
	};
	int r;

	w->body.len = 0;
	w->split = (struct etcd_split){ 0 };
	r = etcd_encode_watch(&w->body, w->key, w->end, w->next);
	if (r < 0)
		return r;
	if (w->body.failed) {
		json_writer_fini(&w->body);
		return -ENOMEM;
	}
	q.body = w->body.data;
	q.len = w->body.len;
	return etcd_request_new(w->owner, &q, &w->request);
}

static void watch_retry(struct etcd_watch *w)
{
	w->request = etcd_request_free(w->request);
	loop_timer_arm(w->timer, w->retry_ms);
	w->retry_ms = w->retry_ms ? w->retry_ms * 2 : RETRY_MIN_MS;
	if (w->retry_ms > RETRY_MAX_MS)
		w->retry_ms = RETRY_MAX_MS;
}

static void watch_on_timer(void *arg)
{
	struct etcd_watch *w = arg;

	if (!w->request && watch_open(w) < 0)
		watch_retry(w);
}

/* The watch is over, or its client is gone. */
static void watch_end(struct etcd_watch *w)
{
	w->request = etcd_request_free(w->request);
	w->timer = loop_timer_free(w->timer);
	if (w->owner)
		TAILQ_REMOVE(&w->owner->watches, w, entry);
	w->owner = NULL;
}

/* The functions from here to watch_on_more() call back, and the callback may free w: their callers
 * use w no more. */

static void watch_gap(struct etcd_watch *w, const char *text)
{
	struct etcd_news news = { .kind = ETCD_WATCH_GAP, .text = text };

	watch_end(w);
	w->fn(w->arg, &news);
}

static void watch_down(struct etcd_watch *w, const struct etcd_failure *f)
{
	struct etcd *e = w->owner;
	struct etcd_news news = { .kind = ETCD_WATCH_DOWN, .status = f->status };
	size_t endpoint = etcd_request_endpoint(w->request);
	char text[ENDPOINT_TEXT_MAX + sizeof(f->text) + 2];

	snprintf(text, sizeof(text), "%s: %s", e->endpoints[endpoint].name, f->text);
	/* A message that is too large would be so again. */
	if (f->status == STATUS_RESOURCE_EXHAUSTED) {
		watch_gap(w, text);
		return;
	}
	news.text = text;
	if (f->user)
		etcd_forget_token(e, etcd_request_token(w->request));
	watch_retry(w);
	if (f->elsewhere)
		etcd_leave(e, endpoint);
	if (w->down && w->down_status == f->status)
		return;
	w->down = true;
	w->down_status = f->status;
	w->fn(w->arg, &news);
}

static void watch_down_text(struct etcd_watch *w, const char *text)
{
	struct etcd_failure f = { .status = STATUS_UNAVAILABLE, .elsewhere = true };

	snprintf(f.text, sizeof(f.text), "%s", text);
	watch_down(w, &f);
}

static void watch_created(struct etcd_watch *w, const struct etcd_answer *a)
{
	struct etcd_news news = { .kind = ETCD_WATCH_UP };

	if (w->cluster && a->cluster != w->cluster) {
		watch_gap(w, "it is another etcd cluster than before");
		return;
	}
	w->cluster = a->cluster;
	if (!w->behind) /* etcd answers, so the next try need not wait */
		w->retry_ms = 0;
	/* A member may lag behind the others, but not for long. */
	if (a->revision < w->next - 1 && w->behind++ < BEHIND_MAX) {
		watch_down_text(w, "this member of etcd lags behind");
		return;
	}
	if (a->revision < w->next - 1) {
		watch_gap(w, "etcd's revision is lower than it was: it has lost changes");
		return;
	}
	w->behind = 0;
	w->retry_ms = 0;
	w->down = false;
	w->fn(w->arg, &news);
}

static void watch_events(struct etcd_watch *w, const struct etcd_change *c)
{
	struct etcd_news news = { .kind = ETCD_WATCH_EVENTS };
	size_t first = 0;

	while (first < c->n && c->events[first].entry.mod_revision < w->next)
		first++;
	if (first == c->n)
		return;
	w->next = c->events[c->n - 1].entry.mod_revision + 1;
	news.events = c->events + first;
	news.n = c->n - first;
	w->fn(w->arg, &news);
}

static void watch_message(struct etcd_watch *w, const char *text, size_t len)
{
	_cleanup_(etcd_decoded_fini) struct etcd_decoded d = { 0 };
	const struct etcd_change *c = &d.change;
	struct etcd_failure f;
	char compacted[96];
	int r = etcd_decode_change(text, len, &d);

	etcd_request_consume(w->request, len);
	if (r < 0) {
		etcd_failure_of_decoder(r, &f);
		watch_down(w, &f);
	} else if (c->refused) {
		etcd_failure_of_refusal(&c->refusal, w->owner->user, &f);
		watch_down(w, &f);
	} else if (c->canceled) {
		snprintf(compacted, sizeof(compacted),
			"etcd has compacted all changes before revision %" PRId64,
			c->compact_revision);
		watch_gap(w, compacted);
	} else if (c->created) {
		watch_created(w, &d.answer);
	} else {
		watch_events(w, c);
	}
}

/* Reads all messages that are there; a callback may free the watch, end it, or close its stream. */
static void watch_on_more(void *arg)
{
	struct etcd_watch *w = arg;
	ssize_t n = 1;

	w->reading = true;
	while (n > 0 && w->request) {
		size_t len;
		const char *text = etcd_request_body(w->request, &len);

		n = etcd_split(&w->split, text, len);
		if (n > 0)
			watch_message(w, text, (size_t)n);
		else if (n < 0)
			watch_down_text(w, "the answer is not one of etcd's gateway");
	}
	w->reading = false;
	if (w->freed)
		etcd_watch_free(w);
}

static void watch_on_done(void *arg, const struct etcd_failure *failure)
{
	struct etcd_watch *w = arg;

	if (failure)
		watch_down(w, failure);
	else
		watch_down_text(w, "etcd ended the stream");
}

/* --- Watches --- */

static struct etcd_watch *watch_new(struct etcd *e, const char *key, const char *end)
{
	struct etcd_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->key = strdup(key);
	w->end = end ? strdup(end) : NULL;
	if (!w->key || (end && !w->end) ||
		loop_timer_new(e->loop, watch_on_timer, w, &w->timer) < 0)
		return etcd_watch_free(w);
	return w;
}

int etcd_watch_new(struct etcd *e, const char *key, const char *end, int64_t revision,
	etcd_watch_fn fn, void *arg, struct etcd_watch **ret)
{
	struct etcd_watch *w = watch_new(e, key, end);
	int r;

	if (!w)
		return -ENOMEM;
	w->owner = e;
	w->next = revision;
	w->cluster = e->cluster;
	w->fn = fn;
	w->arg = arg;
	TAILQ_INSERT_TAIL(&e->watches, w, entry);
	r = watch_open(w);
	if (r < 0) {
		etcd_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct etcd_watch *etcd_watch_free(struct etcd_watch *w)
{
	if (!w)
		return NULL;
	watch_end(w);
	w->freed = true;
	if (w->reading)
		return NULL;
	json_writer_fini(&w->body);
	free(w->key);
	free(w->end);
	free(w);
	return NULL;
}

void etcd_watches_fini(struct etcd *e)
{
	struct etcd_watch *w;

	while ((w = TAILQ_FIRST(&e->watches)))
		watch_end(w);
}

void etcd_watches_leave(struct etcd *e, size_t endpoint)
{
	struct etcd_watch *w;

	TAILQ_FOREACH (w, &e->watches, entry)
		if (w->request && etcd_request_endpoint(w->request) == endpoint) {
			w->request = etcd_request_free(w->request);
			loop_timer_arm(w->timer, 0);
		}
}
