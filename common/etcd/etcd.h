/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client of etcd v3 (3.4 or later), by its JSON gateway. Owns the connections to etcd, users'
 * tokens, and the choice of an endpoint: it begins with any of them, stays with one that answers,
 * and leaves one that cannot be reached, does not answer, or has no leader. Called by the agent and
 * by elasticctl.
 *
 * Every operation is asynchronous: its callback runs once, on a later turn of the loop, never
 * within a call, and may free anything, the client too. All arguments are copied. Keys are byte
 * strings without NUL.
 *
 * Guarantees:
 * - A call ends within its limit_ms. A transaction is atomic; a read sees every write, of any
 *   client, that etcd answered before the read was called.
 * - Writes (transactions with a put or a delete, grants, revokes) are sent one at a time, in the
 *   order of the calls. Reads and keep-alives do not wait for them.
 * - The client sends a transaction to etcd at most once, unless etcd has said that it did not
 *   carry it out. When a transaction fails, answer.maybe tells whether etcd may have carried it
 *   out. Etcd may do so even later than later writes: a writer whose earlier write must not
 *   overtake a later one compares the mod revision of the key that it writes.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/base/status.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ETCD_PORT = 2379,
	ETCD_ENDPOINTS_MAX = 16,
	ETCD_OPS_MAX = 128,	    /* compares, or operations of one branch; etcd's own limit */
	ETCD_REQUEST_MAX = 2 << 20, /* bytes of JSON; etcd's default limit is 1.5 MiB of values */
	ETCD_ANSWER_MAX = 16 << 20, /* bytes of JSON; of a watch, each message's */
};

struct etcd;
struct etcd_call;  /* an operation that has no answer yet */
struct etcd_watch; /* an open watch */

struct etcd_options {
	const char *const *endpoints; /* "HOST", "HOST:PORT", either after http:// or https:// */
	size_t n;
	bool tls;		     /* https, where an endpoint does not say which */
	const char *ca;		     /* file of PEM; NULL: the system's authorities */
	const char *cert, *key;	     /* files of PEM; NULL: no certificate of our own */
	const char *user, *password; /* NULL: none */
};

/* Loads libcurl; makes no connection yet. 0, -EINVAL with err (field: the endpoint),
 * -EOPNOTSUPP with err where libcurl is missing or too old, or -ENOMEM. */
_must_check_ int etcd_new(
	struct loop *loop, const struct etcd_options *o, struct etcd **ret, struct error *err);
/* Open calls end without a callback, and their handles with them; watches report nothing more. Etcd
 * may still carry out a write that is under way. Never waits. NULL is accepted. */
struct etcd *etcd_free(struct etcd *e);
DEFINE_CLEANUP(struct etcd *, etcd_free)

/* How long etcd took for the last call that it answered; -1: none yet. */
int64_t etcd_took_ms(const struct etcd *e);

/* --- Transactions --- */

/* Holds where the key's mod revision is this one; 0: the key does not exist. */
struct etcd_compare {
	const char *key;
	int64_t mod_revision;
};

enum etcd_kind { ETCD_PUT, ETCD_DELETE, ETCD_GET };

/* DELETE and GET: the keys from key ("": the first) up to, not including, end. end NULL: only key;
 * "": up to the last. */
struct etcd_op {
	enum etcd_kind kind;
	const char *key, *end;
	const void *value; /* PUT */
	size_t len;
	int64_t lease; /* PUT; 0: none */
	int64_t limit; /* GET; 0: any number */
};

/* Etcd carries out then_ops if all compares hold, else else_ops; both may be empty. One branch must
 * not put a key twice, or put and delete it. */
struct etcd_txn {
	const struct etcd_compare *compares;
	size_t n_compares;
	const struct etcd_op *then_ops, *else_ops;
	size_t n_then, n_else;
};

struct etcd_entry {
	const char *key;
	const void *value;
	size_t len; /* of value */
	int64_t mod_revision;
	int64_t lease; /* 0: none */
};

/* The result of the operation with the same index in the branch that etcd carried out. */
struct etcd_result {
	const struct etcd_entry *entries; /* GET: sorted by key */
	size_t n;
	int64_t count; /* GET: keys in the span, also beyond limit; DELETE: keys deleted */
};

struct etcd_lease {
	int64_t id;
	int64_t ttl_s; /* 0: there is no such lease */
};

struct etcd_member {
	const char *version; /* "3.4.23" */
	uint64_t leader;     /* of etcd's cluster; 0: none */
	bool no_space;	     /* alarms: no write is accepted */
	bool corrupt;
};

/* Borrowed until the callback returns. Where status is not OK, text is one line for people that
 * names the endpoints and what to change, and all members below maybe are 0. */
struct etcd_answer {
	enum status status;
	const char *text;
	bool maybe; /* a write that failed: etcd may have carried it out, or may do so later; false:
		       it has not, and will not */
	uint64_t sent_ms; /* loop_now_ms() before the request was sent: a lease that was granted or
			     kept alive lasts at least until sent_ms + TTL */
	uint64_t cluster; /* etcd's id: revisions of another cluster mean nothing */
	int64_t revision; /* etcd's, after the transaction */
	bool succeeded;	  /* txn: all compares held */
	const struct etcd_result *results; /* txn */
	size_t n_results;
	const struct etcd_lease *leases; /* keep-alive: in the order asked for; grant: one */
	size_t n_leases;
	const struct etcd_member *member; /* status */
};
typedef void (*etcd_fn)(void *arg, const struct etcd_answer *answer);

/*
 * Failures have these statuses:
 * UNAVAILABLE		no endpoint can be reached, has a leader, or is in working order
 * DEADLINE_EXCEEDED	limit_ms is over
 * NOT_FOUND		put: there is no such lease
 * PERMISSION_DENIED	the user has no right to a key
 * UNAUTHENTICATED	wrong user, password or client certificate, or none
 * RESOURCE_EXHAUSTED	etcd is full (NOSPACE), refuses the size, or answers with more than 16 MiB
 * FAILED_PRECONDITION	http to https or the reverse, a certificate that cannot be verified
 * UNIMPLEMENTED	no gateway there, or an etcd older than 3.4
 * INVALID_ARGUMENT	etcd does not accept the request (a key twice in one transaction)
 * INTERNAL		an answer that is not etcd's; no memory
 *
 * Each call returns 0 and the handle (for etcd_cancel(), valid until fn was called; ret may be
 * NULL), -EINVAL for an empty key to put, a negative number or none, -E2BIG for too many
 * operations, -EMSGSIZE for a request above ETCD_REQUEST_MAX, or -ENOMEM; fn runs only after 0.
 */
_must_check_ int etcd_txn(struct etcd *e, const struct etcd_txn *t, int64_t limit_ms, etcd_fn fn,
	void *arg, struct etcd_call **ret);

/* Grants a lease of ttl_s seconds, or of etcd's minimum where that is more. A grant that failed may
 * leave a lease behind, until its TTL is over. */
_must_check_ int etcd_grant(struct etcd *e, int64_t ttl_s, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret);
/* Keeps n leases (1 or more) alive, in one request. OK also where some or all have ended: see each
 * ttl_s. The client may send it several times. */
_must_check_ int etcd_keep_alive(struct etcd *e, const int64_t *leases, size_t n, int64_t limit_ms,
	etcd_fn fn, void *arg, struct etcd_call **ret);
/* Ends a lease and deletes its keys; OK also where there is no such lease. The client may send it
 * several times. */
_must_check_ int etcd_revoke(struct etcd *e, int64_t lease, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret);
/* Asks the member of etcd's cluster in use about itself; it answers also without a leader. */
_must_check_ int etcd_status(
	struct etcd *e, int64_t limit_ms, etcd_fn fn, void *arg, struct etcd_call **ret);

/* fn will not run; etcd may still carry out a write that was sent. NULL is accepted. */
struct etcd_call *etcd_cancel(struct etcd_call *c);

/* --- Watches --- */

enum etcd_watch_kind {
	ETCD_WATCH_UP,	   /* the stream is open, for the first time or again */
	ETCD_WATCH_EVENTS, /* changes of one or more revisions, each whole */
	ETCD_WATCH_DOWN,   /* the stream broke or etcd refused it, text and status say why. The
			      client opens it again after a while, without missing a change */
	ETCD_WATCH_GAP,	   /* the watch has lost changes (etcd has compacted them, it is another
			      cluster, or one message is above ETCD_ANSWER_MAX), and reports
			      nothing more. The caller should read, and watch from the revision
			      after that of the answer */
};

struct etcd_event {
	bool deleted; /* then entry has a key and a mod_revision only */
	struct etcd_entry entry;
};

struct etcd_news {
	enum etcd_watch_kind kind;
	const struct etcd_event *events; /* EVENTS: in the order of their revisions */
	size_t n;
	enum status status; /* DOWN */
	const char *text;   /* DOWN, GAP */
};
typedef void (*etcd_watch_fn)(void *arg, const struct etcd_news *news);

/* Reports every change of the keys of the span (as in struct etcd_op) from that revision on (1 or
 * more), each once and in order, until it is freed or there is a gap. A watch does not notice a
 * member of etcd's cluster that hangs; calls do. 0, -EINVAL or -ENOMEM. */
_must_check_ int etcd_watch_new(struct etcd *e, const char *key, const char *end, int64_t revision,
	etcd_watch_fn fn, void *arg, struct etcd_watch **ret);
/* The caller frees its watch before or after the client, also after a gap. */
struct etcd_watch *etcd_watch_free(struct etcd_watch *w);

/* The end of the span of all keys that begin with prefix. Returns owned, NULL without memory. */
char *etcd_prefix_end(const char *prefix);
