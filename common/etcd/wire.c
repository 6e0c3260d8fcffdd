/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/wire.h"

#include "common/base/array.h"
#include "common/base/printable.h"
#include "common/loop/curl_loop.h"

#include <errno.h>

#if HAVE_CURL

#include <string.h>

/* Seconds after which a silent connection is probed, and between probes. */
enum { WIRE_KEEPALIVE_IDLE_S = 10, WIRE_KEEPALIVE_PROBE_S = 5 };

struct etcd_wire {
	struct loop *loop;
	const struct curl_library *curl;
	struct curl_loop *transfers;
	struct etcd_wire_options options;
};

struct etcd_exchange {
	struct curl_transfer transfer;
	struct etcd_wire *owner;
	const struct etcd_wire_events *events;
	void *arg;
	struct curl_slist *headers;
	char *body;
	size_t len, room;
	uint64_t sent_ms;
	bool sent, once, known, too_large, no_memory, resent;
	char error[CURL_ERROR_SIZE];
};

/* libcurl must be able to give up a look-up of a name. */
static int check_library(const struct curl_library *curl, struct error *err)
{
	const curl_version_info_data *v = curl->version_info(CURLVERSION_NOW);

	if (v->version_num < CURL_VERSION_BITS(7, 87, 0))
		return error_set(err, -EOPNOTSUPP,
			"libcurl %s is too old for etcd: 7.87 or later "
			"is wanted",
			v->version);
	if (!(v->features & CURL_VERSION_ASYNCHDNS))
		return error_set(err, -EOPNOTSUPP,
			"this host's libcurl is built without AsynchDNS, which etcd wants");
	return 0;
}

int etcd_wire_new(struct loop *loop, const struct etcd_wire_options *o, struct etcd_wire **ret,
	struct error *err)
{
	struct etcd_wire *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_set(err, -ENOMEM, "out of memory");
	w->loop = loop;
	w->options = *o;
	r = curl_loop_new(loop, &w->transfers, err);
	if (!r) {
		w->curl = curl_loop_library(w->transfers);
		r = check_library(w->curl, err);
	}
	if (r < 0) {
		etcd_wire_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct etcd_wire *etcd_wire_free(struct etcd_wire *w)
{
	if (!w)
		return NULL;
	curl_loop_free(w->transfers);
	free(w);
	return NULL;
}

/* --- What happened --- */

struct meaning {
	int code; /* libcurl's */
	enum status status;
	const char *advice; /* follows libcurl's text; NULL: nothing */
};

static const struct meaning meanings[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, STATUS_UNAVAILABLE, NULL },
	{ CURLE_COULDNT_CONNECT, STATUS_UNAVAILABLE, NULL },
	{ CURLE_OPERATION_TIMEDOUT, STATUS_UNAVAILABLE, NULL },
	{ CURLE_PEER_FAILED_VERIFICATION, STATUS_FAILED_PRECONDITION,
		"name the CA that signed etcd's certificate, and etcd by a name in that "
		"certificate" },
	{ CURLE_SSL_CACERT_BADFILE, STATUS_FAILED_PRECONDITION,
		"the file of the CA cannot be "
		"read" },
	{ CURLE_SSL_CERTPROBLEM, STATUS_FAILED_PRECONDITION,
		"the client certificate and its key cannot be read, or do not belong together" },
	{ CURLE_SSL_CONNECT_ERROR, STATUS_FAILED_PRECONDITION, "does it speak http, not https?" },
	{ CURLE_UNSUPPORTED_PROTOCOL, STATUS_UNIMPLEMENTED,
		"is it a port for gRPC alone? name an address of etcd's "
		"--listen-client-http-urls" },
	{ CURLE_WEIRD_SERVER_REPLY, STATUS_UNIMPLEMENTED,
		"is it a port for gRPC alone? name an address of etcd's "
		"--listen-client-http-urls" },
};

static const struct meaning *find_meaning(CURLcode code)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].code == (int)code)
			return &meanings[i];
	return NULL;
}

/* With TLS 1.3 a server may refuse the client's certificate after the client has begun to send. */
static bool refuses_certificate(const char *text)
{
	return strstr(text, "alert bad certificate") || strstr(text, "certificate required") ||
	       strstr(text, "alert unknown ca") || strstr(text, "alert certificate") ||
	       strstr(text, "alert unsupported certificate");
}

/* The connection broke after the handshake of TLS: a server may refuse a certificate like that. */
static bool may_refuse_certificate(struct etcd_exchange *x)
{
	curl_off_t at = 0;

	return !x->known && !etcd_exchange_status(x) &&
	       !x->owner->curl->easy_getinfo(x->transfer.easy, CURLINFO_APPCONNECT_TIME_T, &at) &&
	       at;
}

static void exchange_failure(struct etcd_exchange *x, CURLcode code, struct etcd_failure *ret)
{
	const char *text = x->error[0] ? x->error : x->owner->curl->easy_strerror(code);
	const struct meaning *m = find_meaning(code);
	char shown[CURL_ERROR_SIZE];

	*ret = (struct etcd_failure){
		.status = m ? m->status : STATUS_UNAVAILABLE, .certain = !x->sent, .elsewhere = true
	};
	printable_copy(shown, sizeof(shown), text);
	if (x->no_memory || code == CURLE_OUT_OF_MEMORY) {
		ret->status = STATUS_INTERNAL;
		ret->elsewhere = false;
		snprintf(ret->text, sizeof(ret->text), "out of memory");
	} else if (x->too_large) {
		ret->status = STATUS_RESOURCE_EXHAUSTED;
		ret->elsewhere = false;
		snprintf(ret->text, sizeof(ret->text), "the answer is larger than %d MiB",
			ETCD_ANSWER_MAX >> 20);
	} else if (x->resent) {
		snprintf(ret->text, sizeof(ret->text), "the connection broke before the answer");
	} else if (code == CURLE_GOT_NOTHING && !x->known) {
		snprintf(ret->text, sizeof(ret->text),
			"the server closed the connection: does it speak https?");
	} else if (refuses_certificate(text)) {
		ret->status = STATUS_UNAUTHENTICATED;
		snprintf(ret->text, sizeof(ret->text),
			"etcd does not accept our client certificate: name one that its "
			"--trusted-ca-file has signed (%s)",
			shown);
	} else if (code != CURLE_OPERATION_TIMEDOUT && may_refuse_certificate(x)) {
		snprintf(ret->text, sizeof(ret->text),
			"the server closed the connection: does it want a client certificate that "
			"its --trusted-ca-file has signed?");
	} else {
		snprintf(ret->text, sizeof(ret->text), "%s%s%s", shown, m && m->advice ? ": " : "",
			m && m->advice ? m->advice : "");
	}
}

static void exchange_on_done(void *arg, CURLcode result)
{
	struct etcd_exchange *x = arg;
	struct etcd_failure failure;

	if (result)
		exchange_failure(x, result, &failure);
	x->events->done(x->arg, result ? &failure : NULL);
}

static void exchange_on_more(void *arg)
{
	struct etcd_exchange *x = arg;

	x->events->more(x->arg);
}

/* --- libcurl's callbacks --- */

static size_t exchange_write_fn(char *data, size_t size, size_t n, void *arg)
{
	struct etcd_exchange *x = arg;

	n *= size;
	if (!n) /* the body is empty */
		return 0;
	if (n > ETCD_ANSWER_MAX - x->len) {
		x->too_large = true;
		return 0;
	}
	if (array_reserve((void **)&x->body, &x->room, x->len + n, 1) < 0) {
		x->no_memory = true;
		return 0;
	}
	memcpy(x->body + x->len, data, n);
	x->len += n;
	if (x->events->more && etcd_exchange_status(x) == 200 &&
		loop_defer(x->owner->loop, exchange_on_more, x) < 0) {
		x->no_memory = true;
		return 0;
	}
	return n;
}

/* Runs just before a request is sent. libcurl sends it again by itself where a connection that had
 * been used before breaks without an answer: the server may have got it by then. */
static int exchange_prereq_fn(void *arg, char *ip, char *local_ip, int port, int local_port)
{
	struct etcd_exchange *x = arg;

	if (x->sent && x->once) {
		x->resent = true;
		return CURL_PREREQFUNC_ABORT;
	}
	x->sent = true;
	x->sent_ms = loop_now_ms();
	return CURL_PREREQFUNC_OK;
}

/* --- Exchanges --- */

static int exchange_header(struct etcd_exchange *x, const char *name, const char *value)
{
	_cleanup_free_ char *line = NULL;
	struct curl_slist *longer;

	if (asprintf(&line, "%s: %s", name, value) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	longer = x->owner->curl->slist_append(x->headers, line);
	if (!longer)
		return -ENOMEM;
	x->headers = longer;
	return 0;
}

static int exchange_headers(struct etcd_exchange *x, const struct etcd_wire_request *q)
{
	int r = exchange_header(x, "Content-Type", "application/json");

	/* Without this libcurl waits for "100 Continue" before it sends a large body. */
	if (!r)
		r = exchange_header(x, "Expect", "");
	if (!r && q->token)
		r = exchange_header(x, "Authorization", q->token);
	if (!r && q->has_leader)
		r = exchange_header(x, "Grpc-Metadata-hasleader", "true");
	return r;
}

static int exchange_options(struct etcd_exchange *x, const struct etcd_wire_request *q)
{
	const struct curl_library *curl = x->owner->curl;
	const struct etcd_wire_options *o = &x->owner->options;
	CURL *e = x->transfer.easy;
	int bad = 0;

#define SET(option, value) (bad |= curl->easy_setopt(e, CURLOPT_##option, value) != CURLE_OK)
	SET(URL, q->url);
	SET(PROTOCOLS_STR, "http,https");
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PROXY, "");
	SET(FOLLOWLOCATION, 0L);
	SET(USERAGENT, "elasticd/" VERSION);
	SET(HTTPHEADER, x->headers);
	SET(TIMEOUT_MS, (long)q->limit_ms);
	SET(CONNECTTIMEOUT_MS, (long)q->connect_ms);
	SET(TCP_KEEPALIVE, 1L);
	SET(TCP_KEEPIDLE, (long)WIRE_KEEPALIVE_IDLE_S);
	SET(TCP_KEEPINTVL, (long)WIRE_KEEPALIVE_PROBE_S);
	SET(WRITEFUNCTION, exchange_write_fn);
	SET(WRITEDATA, x);
	SET(PREREQFUNCTION, exchange_prereq_fn);
	SET(PREREQDATA, x);
	SET(ERRORBUFFER, x->error);
	/* On cleanup, do not wait for the thread that looks a name up. */
	SET(QUICK_EXIT, 1L);
	if (q->body) {
		SET(POSTFIELDS, q->body);
		SET(POSTFIELDSIZE_LARGE, (curl_off_t)q->len);
	}
	if (o->ca)
		SET(CAINFO, o->ca);
	if (o->cert)
		SET(SSLCERT, o->cert);
	if (o->key)
		SET(SSLKEY, o->key);
	/* A key that is encrypted is refused; without this its password is asked for at the
	 * terminal. */
	SET(KEYPASSWD, "");
#undef SET
	return bad ? -ENOMEM : 0;
}

int etcd_exchange_new(struct etcd_wire *w, const struct etcd_wire_request *q,
	const struct etcd_wire_events *events, void *arg, struct etcd_exchange **ret)
{
	struct etcd_exchange *x = calloc(1, sizeof(*x));
	int r = -ENOMEM;

	if (!x)
		return -ENOMEM;
	x->owner = w;
	x->events = events;
	x->arg = arg;
	x->once = q->once;
	x->known = q->known;
	x->transfer.fn = exchange_on_done;
	x->transfer.arg = x;
	x->transfer.easy = w->curl->easy_init();
	if (x->transfer.easy)
		r = exchange_headers(x, q);
	if (!r)
		r = exchange_options(x, q);
	if (!r)
		r = curl_loop_add(w->transfers, &x->transfer);
	if (r < 0) {
		etcd_exchange_free(x);
		return r;
	}
	*ret = x;
	return 0;
}

struct etcd_exchange *etcd_exchange_free(struct etcd_exchange *x)
{
	const struct curl_library *curl;

	if (!x)
		return NULL;
	curl = x->owner->curl;
	curl_loop_remove(&x->transfer);
	loop_cancel(x->owner->loop, exchange_on_more, x);
	if (x->transfer.easy)
		curl->easy_cleanup(x->transfer.easy);
	curl->slist_free_all(x->headers);
	free(x->body);
	free(x);
	return NULL;
}

bool etcd_exchange_sent(const struct etcd_exchange *x, uint64_t *ret_ms)
{
	if (ret_ms)
		*ret_ms = x->sent_ms;
	return x->sent;
}

int etcd_exchange_status(const struct etcd_exchange *x)
{
	long status = 0;

	if (x->owner->curl->easy_getinfo(x->transfer.easy, CURLINFO_RESPONSE_CODE, &status))
		return 0;
	return (int)status;
}

const char *etcd_exchange_body(const struct etcd_exchange *x, size_t *ret_len)
{
	*ret_len = x->len;
	return x->len ? x->body : "";
}

void etcd_exchange_consume(struct etcd_exchange *x, size_t n)
{
	x->len -= n;
	memmove(x->body, x->body + n, x->len);
}

#else

int etcd_wire_new(struct loop *loop, const struct etcd_wire_options *o, struct etcd_wire **ret,
	struct error *err)
{
	return error_set(err, -EOPNOTSUPP, "built without libcurl");
}

struct etcd_wire *etcd_wire_free(struct etcd_wire *w)
{
	return NULL;
}

int etcd_exchange_new(struct etcd_wire *w, const struct etcd_wire_request *q,
	const struct etcd_wire_events *events, void *arg, struct etcd_exchange **ret)
{
	return -EOPNOTSUPP;
}

struct etcd_exchange *etcd_exchange_free(struct etcd_exchange *x)
{
	return NULL;
}

bool etcd_exchange_sent(const struct etcd_exchange *x, uint64_t *ret_ms)
{
	return false;
}

int etcd_exchange_status(const struct etcd_exchange *x)
{
	return 0;
}

const char *etcd_exchange_body(const struct etcd_exchange *x, size_t *ret_len)
{
	*ret_len = 0;
	return "";
}

void etcd_exchange_consume(struct etcd_exchange *x, size_t n)
{
}

#endif
