/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Known texts of etcd, their meaning, and what to change. */
struct known {
	const char *text; /* a part of etcd's */
	enum status status;
	bool certain, elsewhere, user, no_users;
	const char *advice; /* shown in place of etcd's text; NULL: that is shown */
};

static const struct known known[] = {
	{ "etcdserver: no leader", STATUS_UNAVAILABLE, .certain = true, .elsewhere = true,
		.advice = "etcd has no leader (etcdserver: no leader): most of its members must "
			  "be up and reach each other" },
	{ "too many requests", STATUS_UNAVAILABLE, .certain = true, .elsewhere = true },
	{ "not supported for learner", STATUS_UNAVAILABLE, .certain = true, .elsewhere = true },
	{ "database space exceeded", STATUS_RESOURCE_EXHAUSTED, .certain = true,
		.advice = "etcd is full (NOSPACE): compact and defragment it, then run etcdctl "
			  "alarm disarm, or raise its --quota-backend-bytes" },
	{ "request is too large", STATUS_RESOURCE_EXHAUSTED, .certain = true,
		.advice = "the request is larger than etcd accepts: raise its "
			  "--max-request-bytes" },
	{ "user name is empty", STATUS_UNAUTHENTICATED, .certain = true, .user = true,
		.advice = "etcd has users: name one, with its password" },
	{ "invalid auth token", STATUS_UNAUTHENTICATED, .certain = true, .user = true },
	{ "revision in header is old", STATUS_UNAVAILABLE, .certain = true, .user = true },
	{ "authentication failed", STATUS_UNAUTHENTICATED, .certain = true,
		.advice = "etcd does not know this user and password: correct them" },
	{ "authentication is not enabled", STATUS_FAILED_PRECONDITION, .certain = true,
		.no_users = true },
	{ "CommonName of client", STATUS_UNAUTHENTICATED, .certain = true,
		.advice = "etcd has users, and then its gateway refuses client certificates with "
			  "a common name: use one whose subject has none" },
};

/* By gRPC's code, where etcd's text is not known. After codes that are not certain, a proposal may
 * still be under way inside etcd. */
static const struct {
	enum status status;
	bool certain, elsewhere;
} codes[] = {
	[STATUS_OK] = { STATUS_INTERNAL, false, false },
	[STATUS_CANCELLED] = { STATUS_UNAVAILABLE, false, true },
	[STATUS_UNKNOWN] = { STATUS_UNAVAILABLE, false, true },
	[STATUS_INVALID_ARGUMENT] = { STATUS_INVALID_ARGUMENT, true, false },
	[STATUS_DEADLINE_EXCEEDED] = { STATUS_UNAVAILABLE, false, true },
	[STATUS_NOT_FOUND] = { STATUS_NOT_FOUND, true, false },
	[STATUS_ALREADY_EXISTS] = { STATUS_INVALID_ARGUMENT, true, false },
	[STATUS_PERMISSION_DENIED] = { STATUS_PERMISSION_DENIED, true, false },
	[STATUS_RESOURCE_EXHAUSTED] = { STATUS_RESOURCE_EXHAUSTED, true, false },
	[STATUS_FAILED_PRECONDITION] = { STATUS_INVALID_ARGUMENT, true, false },
	[STATUS_ABORTED] = { STATUS_UNAVAILABLE, false, true },
	[STATUS_OUT_OF_RANGE] = { STATUS_INVALID_ARGUMENT, true, false },
	[STATUS_UNIMPLEMENTED] = { STATUS_UNIMPLEMENTED, true, true },
	[STATUS_INTERNAL] = { STATUS_INTERNAL, false, true },
	[STATUS_UNAVAILABLE] = { STATUS_UNAVAILABLE, false, true },
	[STATUS_DATA_LOSS] = { STATUS_INTERNAL, false, true },
	[STATUS_UNAUTHENTICATED] = { STATUS_UNAUTHENTICATED, true, false },
};

__attribute__((format(printf, 2, 3))) static void failure_text(
	struct etcd_failure *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

static const struct known *find_known(const char *text)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(text, known[i].text))
			return &known[i];
	return NULL;
}

static void failure_of_known(const struct known *k, const char *text, struct etcd_failure *ret)
{
	*ret = (struct etcd_failure){ .status = k->status,
		.certain = k->certain,
		.elsewhere = k->elsewhere,
		.user = k->user,
		.no_users = k->no_users };
	failure_text(ret, "%s", k->advice ? k->advice : text);
}

void etcd_failure_of_refusal(
	const struct etcd_refusal *r, const char *user, struct etcd_failure *ret)
{
	const struct known *k = find_known(r->text);
	int code = r->code < 0 ? STATUS_UNKNOWN : r->code;

	if (k) {
		failure_of_known(k, r->text, ret);
		return;
	}
	*ret = (struct etcd_failure){ .status = codes[code].status,
		.certain = codes[code].certain,
		.elsewhere = codes[code].elsewhere,
		.user = code == STATUS_UNAUTHENTICATED };
	if (code == STATUS_PERMISSION_DENIED)
		failure_text(ret,
			"etcd's user %s has no right to these keys: grant its role readwrite on "
			"the prefix (etcdctl role grant-permission)",
			user ? user : "(none)");
	else
		failure_text(ret, "etcd says: %s", r->text[0] ? r->text : status_name(code));
}

void etcd_failure_of_answer(
	int http_status, const char *body, size_t len, const char *user, struct etcd_failure *ret)
{
	struct etcd_refusal r;

	etcd_decode_refusal(body, len, &r);
	if (r.code >= 0 || find_known(r.text)) {
		etcd_failure_of_refusal(&r, user, ret);
		return;
	}
	/* A proxy may stand before etcd, and give up before etcd does. */
	*ret = (struct etcd_failure){ .status = STATUS_UNIMPLEMENTED,
		.certain = http_status < 500,
		.elsewhere = true,
		.no_gateway = http_status == 404 };
	if (http_status >= 500)
		ret->status = STATUS_UNAVAILABLE;
	failure_text(ret, "no answer of etcd's gateway, but HTTP status %d%s%s", http_status,
		r.text[0] ? ": " : "", r.text);
}

void etcd_failure_of_decoder(int code, struct etcd_failure *ret)
{
	*ret = (struct etcd_failure){ .status = STATUS_INTERNAL };
	if (code == -ENOMEM) {
		failure_text(ret, "out of memory");
	} else if (code == -EMSGSIZE) {
		ret->status = STATUS_RESOURCE_EXHAUSTED;
		failure_text(ret, "the answer has too many keys");
	} else {
		ret->elsewhere = true;
		failure_text(ret, "the answer is not one of etcd's gateway");
	}
}

void etcd_failure_of_version(const char *version, struct etcd_failure *ret)
{
	int major = 0, minor = 0;

	*ret = (struct etcd_failure){
		.status = STATUS_UNIMPLEMENTED, .certain = true, .elsewhere = true
	};
	if (sscanf(version, "%d.%d", &major, &minor) != 2)
		failure_text(ret, "no etcd is there (HTTP status 404)");
	else if (major < 3 || (major == 3 && minor < 4))
		failure_text(ret, "etcd %s is too old: 3.4 or later is wanted", version);
	else
		failure_text(ret,
			"etcd %s has no JSON gateway there (HTTP status 404): start it with "
			"--enable-grpc-gateway, and name the addresses of its "
			"--listen-client-http-urls if it has some",
			version);
}
