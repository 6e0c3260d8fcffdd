/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the key-value store share; see kv.c and kv_stream.c. */

#include "agent/chain.h"
#include "agent/kv.h"
#include "common/key_mirror.h"

/* In the store, a key of an incarnation is "kv/a/<attempt>/<key>", a persistent one "kv/p/<key>".
 */
#define KV_ROOT "kv/"
#define KV_ROOT_END "kv0" /* '0' comes after '/' */
#define KV_ATTEMPTS KV_ROOT "a/"
#define KV_PERSISTENT KV_ROOT "p/"

enum {
	KV_PREFIX_MAX = 24,
	KV_STORE_KEY = KV_PREFIX_MAX + KV_KEY_MAX + 2, /* with a last '/' or '0', and its NUL */
	KV_RETRY_MS = 10,
	KV_RETRY_MAX_MS = 2000,
};
_Static_assert((int)KV_STORE_KEY <= (int)STORE_KEY_MAX, "a key fits into the store");

/* A member of a ring; alone it points at itself. Taking it out needs no head. */
struct link {
	struct link *prev, *next;
};

static inline void link_init(struct link *l)
{
	l->prev = l->next = l;
}

static inline bool link_alone(const struct link *l)
{
	return l->next == l;
}

static inline void link_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

/* l, which is alone, becomes the one before at: the last, where at is a head. */
static inline void link_before(struct link *at, struct link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

#define link_entry(l, type, member) ((type *)((char *)(l)-offsetof(type, member)))

/* A key that is waited for or watched. It lives as long as it has any of these, or is pinned. */
struct kv_spot {
	struct chain_node node;
	struct link waits, watches;
	int pins;
	size_t len;
	char key[];
};

enum kv_kind { KV_PUT, KV_GET, KV_LIST, KV_DELETE };

struct kv_call {
	struct kv *kv;
	struct link all; /* of kv->calls, or kv->ended */
	enum kv_kind kind;
	kv_answer_fn fn; /* NULL: being answered */
	void *arg;
	struct store_op *op;
	enum status end; /* in kv->ended: as what */
	bool by_stop;	 /* the text is kv->stop_message */

	/* GET */
	bool wait;
	bool checked;	 /* the key was not there, and every later change will come by the stream */
	int64_t floor;	 /* only what was written after this revision ends the wait */
	unsigned stream; /* number of the stream when the check that runs was asked for; 0: none */
	struct kv_spot *spot;
	struct link waits; /* of spot->waits */
	int64_t timeout_ms;
	uint64_t deadline_ms;
	struct link deadline; /* of kv->deadlines, in order */

	size_t len;
	char key[];
};

struct kv_watch {
	struct kv *kv;	 /* NULL: it is gone */
	struct link all; /* of kv->watches, or kv->ended_watches */
	struct kv_spot *spot;
	struct link watches;	 /* of spot->watches */
	struct store_watch *own; /* while it catches up with the stream */
	int64_t after;		 /* only what was written after this revision is told */
	kv_change_fn fn;
	void *arg;
	enum status end;
};

struct kv {
	struct loop *loop;
	struct store *store;
	char prefix[KV_PREFIX_MAX]; /* of this incarnation's keys */
	size_t prefix_len;

	struct link calls, ended;
	struct link watches, ended_watches;
	struct link deadlines;
	struct loop_timer *timer;
	uint64_t timer_ms; /* when it is due */
	struct chain spots;
	size_t n_watches; /* in spots */

	int64_t known;	 /* the newest revision that any answer or change had */
	int64_t seen;	 /* the stream has told of nothing after this one */
	unsigned number; /* of the stream, from 1 */
	struct store_watch *stream;
	struct store_op *probe, *sweep;
	bool sweep_due;
	struct key_mirror *mirror; /* NULL: nobody has asked for it */
	int64_t mirror_since;	   /* all that it showed was dropped at this revision */
	bool mirror_blind;	   /* an answer has left open how new it is: nothing is shown */
	struct loop_timer *retry;
	uint64_t retry_ms;

	bool stopped;
	enum status stop_status;
	char *stop_message;
	void (*on_wait)(void *arg);
	void *on_wait_arg;
	int busy; /* callbacks are under way */
	bool dead;
};

/* Around what calls callbacks: leave frees a kv that one of them freed. */
void kv_enter(struct kv *kv);
void kv_leave(struct kv *kv);
static inline void kv_know(struct kv *kv, int64_t revision)
{
	if (revision > kv->known)
		kv->known = revision;
}

/* kv_key.c. Puts the normalised key into buf (KV_KEY_MAX + 1 bytes) and returns its length, or
 * -EINVAL. */
int kv_key(const char *key, bool empty, char *buf, struct error *err);
/* prefix, key and what follows it (or "") into buf. */
char *kv_join(char *buf, const char *prefix, const char *key, const char *tail);
/* The worker's key in one of the store's: NULL where it is another incarnation's. */
const char *kv_own(const struct kv *kv, const char *key);

/* kv_call.c */
struct kv_call *kv_call_new(
	struct kv *kv, enum kv_kind kind, const char *key, kv_answer_fn fn, void *arg);
/* Answers, and frees it. */
void kv_call_finish(struct kv_call *call, const struct store_answer *answer);
void kv_call_fail(struct kv_call *call, enum status status, const char *message);
struct kv_call *kv_call_free(struct kv_call *call);
enum kv_which { KV_ALL, KV_WAITS, KV_WAITING }; /* questions: all, gets that may wait, that do */
/* These end with this status on the next turn; all but KV_ALL with kv->stop_message. */
void kv_calls_end(struct kv *kv, enum status status, enum kv_which which);

/* kv_get.c */
void kv_get_check(struct kv_call *call);
void kv_deadlines_pass(struct kv *kv);

/* kv_mirror.c. Before an answer is given. */
void kv_mirror_answered(struct kv *kv, const struct store_answer *answer);
/* The worker's key has this value at revision, or none. */
void kv_mirror_show(struct kv *kv, const struct store_entry *entry, int64_t revision);
/* Shows nothing any more, and then only what is at revision or later. */
void kv_mirror_forget(struct kv *kv, int64_t revision);

/* kv_spot.c. NULL without memory. */
struct kv_spot *kv_spot_get(struct kv *kv, const char *key);
struct kv_spot *kv_spot_find(struct kv *kv, const char *key, size_t len);
/* Frees it where nothing needs it. */
void kv_spot_put(struct kv *kv, struct kv_spot *spot);

/* kv_watch.c */
void kv_watches_end(struct kv *kv, enum status status, bool shared_only);
void kv_watches_tell(struct kv *kv, struct kv_spot *spot, const struct store_entry *entry);
void kv_watches_orphan(struct kv *kv);

/* kv_stream.c. Does what is due: clears away old keys, opens the stream, checks what waits. */
void kv_work(struct kv *kv);
/* The same, a while later: the store was not there. */
void kv_work_later(struct kv *kv);
void kv_post_ended(struct kv *kv);
