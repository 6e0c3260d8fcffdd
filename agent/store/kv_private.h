/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the key-value store; begin with kv.c and kv_changes.c. */

#include "agent/store/kv.h"
#include "common/base/hash_chain.h"

/* The store has a key of an attempt as "kv/a/<attempt>/<key>", a persistent one as "kv/p/<key>". */
#define KV_ROOT "kv/"
#define KV_ROOT_END "kv0" /* '0' comes after '/' */
#define KV_ATTEMPTS KV_ROOT "a/"

enum {
	KV_PREFIX_MAX = 24,
	KV_STORE_KEY = KV_PREFIX_MAX + KV_KEY_MAX + 2, /* with a last '/' or '0', and its NUL */
};
_Static_assert((int)KV_STORE_KEY <= (int)STORE_KEY_MAX, "a key fits into the store");

/* A member of a circular list, or its head; alone it points at itself. Removing it needs no head.
 */
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

/* Inserts l, which is in no list, before at. Where at is the head, l becomes the last. */
static inline void link_before(struct link *at, struct link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

#define link_entry(l, type, member) ((type *)((char *)(l)-offsetof(type, member)))

/* A key with waits or watches. It is freed when it has none and is not pinned. */
struct kv_node {
	struct chain_node chain;
	struct link waits, watches;
	int pins;
	size_t len;
	char key[];
};

struct kv_call {
	struct kv *kv;
	struct link all; /* of kv->calls, or kv->ended */
	kv_answer_fn fn; /* NULL: its answer is being delivered */
	void *arg;
	struct store_op *op;
	enum status end; /* status for a call in kv->ended */
	bool by_stop;	 /* the text is kv->stop_message */

	/* GET */
	bool wait;
	struct kv_node *node; /* of the key, once the call waits for it; NULL before */
	struct link waits;    /* of node->waits */
	int64_t timeout_ms;
	uint64_t deadline_ms;
	struct link deadline; /* of kv->deadlines, in order */

	char key[];
};

struct kv_watch {
	struct kv *kv;	 /* NULL: it was freed */
	struct link all; /* of kv->watches, or kv->ended_watches */
	struct kv_node *node;
	struct link watches;	 /* of node->watches */
	struct store_watch *own; /* of its own, until it has caught up with the stream */
	int64_t after;		 /* only changes after this revision are reported */
	kv_change_fn fn;
	void *arg;
	enum status end;
};

struct kv {
	struct loop *loop;
	struct store *store;
	char prefix[KV_PREFIX_MAX]; /* of this attempt's keys */
	size_t prefix_len;

	struct link calls, ended;
	struct link watches, ended_watches;
	struct link deadlines;
	struct loop_timer *timer;
	uint64_t timer_ms; /* when it fires */
	struct chain nodes;
	size_t n_watches; /* in nodes */

	struct store_watch *stream; /* all changes */
	int64_t revision;	    /* the newest that the stream has reported */

	bool stopped;
	enum status stop_status;
	char *stop_message;
	void (*on_wait)(void *arg);
	void *on_wait_arg;
	int busy; /* callbacks that run now */
	bool dead;
};

/* kv.c. Surround code that calls callbacks: after kv_free() by a callback, kv_leave() frees the kv.
 */
void kv_enter(struct kv *kv);
void kv_leave(struct kv *kv);
/* Calls back, on a later turn, for the ended calls and watches. */
void kv_post_ended(struct kv *kv);

/* kv_keys.c. Puts the key in normal form into buf (KV_KEY_MAX + 1 bytes) and returns its length, or
 * -EINVAL. */
int kv_key(const char *key, bool empty, char *buf, struct error *err);
/* Puts prefix, key and tail (may be "") into buf. */
char *kv_join(char *buf, const char *prefix, const char *key, const char *tail);
/* The worker's key within a key of the store; NULL: it belongs to another attempt. */
const char *kv_own(const struct kv *kv, const char *key);

/* kv_ops.c */

/* Begins a function that starts a call: ret is the call, with key in normal form ("" where empty
 * allows it). 0, -EINVAL or -ENOMEM with err. */
_must_check_ int kv_call_new(struct kv *kv, const char *key, bool empty, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
/* Ends a function that starts a call. r: the result of the store's function. */
int kv_call_started(struct kv_call *call, int r, struct kv_call **ret, struct error *err);
/* Delivers the answer and frees the call. */
void kv_call_finish(struct kv_call *call, const struct store_answer *answer);
/* The same for an answer with one entry, whose key becomes the worker's. */
void kv_call_finish_entry(
	struct kv_call *call, const struct store_answer *answer, const char *message);
void kv_call_fail(struct kv_call *call, enum status status, const char *message);
struct kv_call *kv_call_free(struct kv_call *call);
/* All calls; gets that may wait; gets that do wait. */
enum kv_which { KV_ALL, KV_WAITS, KV_WAITING };
/* Ends these calls with status on the next turn; all but KV_ALL with kv->stop_message. */
void kv_calls_end(struct kv *kv, enum status status, enum kv_which which);

/* kv_get.c */
void kv_deadlines_pass(struct kv *kv);

/* kv_nodes.c. NULL without memory. */
struct kv_node *kv_node_get(struct kv *kv, const char *key);
struct kv_node *kv_node_find(struct kv *kv, const char *key, size_t len);
/* Frees the node if nothing needs it any more. */
void kv_node_put(struct kv *kv, struct kv_node *node);

/* kv_watch.c */
void kv_watches_end(struct kv *kv, enum status status);
void kv_watches_report(struct kv *kv, struct kv_node *node, const struct store_entry *entry);
void kv_watches_orphan(struct kv *kv);

/* kv_changes.c. The stream reports a change. */
void kv_changed(void *arg, const struct store_entry *entry, bool gap);
