/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first answer of a watch has the store's revision; every later change follows. While the
 * reader is slow, the watch drops the store's watch; when there is room again it opens a new one at
 * the last revision that the reader got. So changes wait in the store's history alone, which has a
 * limit.
 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>

enum { BATCH_BYTES = 1 << 20 };

struct sharing_watch {
	LIST_ENTRY(sharing_watch) link;
	struct commons *c;
	struct varlink_call *call;
	char *key;		 /* normalised */
	struct kv_watch *watch;	 /* NULL while it waits for its reader */
	struct json_writer text; /* changes to be sent in this turn */
	int64_t sent, newest;	 /* revisions: of the last change sent; of the last one in text */
	bool held;		 /* the reader is slow: only the rest of this revision may follow */
	bool paused;		 /* ... and the store had more */
	enum status over;	 /* not OK: the store has ended it */
};

static void watch_flush(void *arg);
static void watch_resume(void *arg);

static void watch_free(struct sharing_watch *x)
{
	struct loop *loop = x->c->loop;

	LIST_REMOVE(x, link);
	loop_cancel(loop, watch_flush, x);
	kv_watch_free(x->watch);
	json_writer_fini(&x->text);
	free(x->key);
	free(x);
}

static void watch_gone(void *arg)
{
	watch_free(arg);
}

static void watch_fail(struct sharing_watch *x, enum status status)
{
	struct varlink_call *call = x->call;
	const char *why = x->c->why;

	if (status == STATUS_OUT_OF_RANGE)
		sharing_fail(call, status,
			"%s: what was changed after revision %" PRId64 " is no longer remembered",
			x->key, x->sent);
	else
		sharing_fail(call, status, "%s",
			status == STATUS_CANCELLED && why ? why : "the watch has ended");
	watch_free(x);
}

/* Sends all changes so far in one answer. Returns false where the call has ended. */
static bool watch_notify(struct sharing_watch *x, int64_t revision)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };

	json_write(&t, "{\"changes\":[", 12);
	json_write(&t, x->text.data ? x->text.data : "", x->text.len);
	json_write_format(&t, "],\"revision\":%" PRId64 "}", revision);
	if (t.failed || x->text.failed) {
		watch_fail(x, STATUS_RESOURCE_EXHAUSTED);
		return false;
	}
	x->sent = x->newest;
	json_writer_fini(&x->text);
	(void)varlink_notify_text(x->call, t.data, t.len);
	return true;
}

static void watch_flush(void *arg)
{
	struct sharing_watch *x = arg;

	if ((x->text.len || x->text.failed) && !watch_notify(x, x->newest))
		return;
	if (x->over != STATUS_OK) {
		watch_fail(x, x->over);
		return;
	}
	x->held = varlink_call_congested(x->call, watch_resume, x);
	if (!x->paused)
		return;
	x->watch = kv_watch_free(x->watch);
	if (!x->held)
		watch_resume(x);
}

static void watch_changed(void *arg, const struct store_entry *entry, enum status status)
{
	struct sharing_watch *x = arg;

	if (x->paused)
		return;
	if (status != STATUS_OK) {
		x->over = status;
	} else if (x->held && entry->revision != x->newest) {
		x->paused = true;
	} else {
		if (x->text.len)
			json_write(&x->text, ",", 1);
		sharing_text_entry(&x->text, entry, true);
		x->newest = entry->revision;
		if (x->text.len > BATCH_BYTES)
			x->held = true;
	}
	if (loop_defer(x->c->loop, watch_flush, x) < 0)
		x->text.failed = true;
}

/* Opens the store's watch at the last revision that the reader got. */
static void watch_begin(struct sharing_watch *x)
{
	struct error err = { 0 };

	x->watch = kv_watch_free(x->watch);
	if (kv_watch_new(x->c->kv, x->key, x->sent, watch_changed, x, &x->watch, &err) < 0)
		watch_fail(x, STATUS_RESOURCE_EXHAUSTED);
}

/* The reader has room again. */
static void watch_resume(void *arg)
{
	struct sharing_watch *x = arg;

	x->held = false;
	if (!x->paused || x->over != STATUS_OK)
		return;
	x->paused = false;
	watch_begin(x);
}

static void watch_end(struct sharing_watch *x, enum status status)
{
	x->over = status;
	if (loop_defer(x->c->loop, watch_flush, x) < 0)
		watch_fail(x, status);
}

int sharing_watch(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	int64_t since = json_get_int(p, "since", -1);
	struct sharing_watch *x;
	struct error err = { 0 };
	int r;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	x = calloc(1, sizeof(*x));
	if (!x)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*x = (struct sharing_watch){ .c = c, .call = call };
	x->sent = x->newest = since < 0 ? kv_revision(c->kv) : since;
	LIST_INSERT_HEAD(&c->watches, x, link);
	x->key = kv_normalise(json_get_string(p, "key", ""));
	r = x->key ? kv_watch_new(c->kv, x->key, x->sent, watch_changed, x, &x->watch, &err)
		   : -ENOMEM;
	if (r == 0) {
		varlink_call_on_gone(call, watch_gone, x);
		(void)watch_notify(x, x->newest);
		return 0;
	}
	watch_free(x);
	if (r == -EINVAL)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT, "%s", err.text);
	return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* Ends paused watches, too: the store does not know them. */
void commons_watches_end(struct commons *c)
{
	struct sharing_watch *next;

	for (struct sharing_watch *x = LIST_FIRST(&c->watches); x; x = next) {
		next = LIST_NEXT(x, link);
		watch_end(x, STATUS_CANCELLED);
	}
}

void commons_watches_free(struct commons *c)
{
	while (!LIST_EMPTY(&c->watches))
		watch_free(LIST_FIRST(&c->watches));
}
