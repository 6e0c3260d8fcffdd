/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any answer of etcd's gateway, or of another server in its place, is decoded or refused, all
 * that was decoded can be read, and a stream is split alike wherever it is cut. The first byte says
 * which answer it is, the second one the HTTP status and the length of the pieces.
 */
#include "common/etcd/codec.h"
#include "common/etcd/failure.h"
#include "common/etcd/split.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TXN, GRANT, KEEP_ALIVE, REVOKE, STATUS_OF_MEMBER, USER, CHANGE, REFUSAL, KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static const struct etcd_shape shape = {
	.n_then = 3, .n_else = 1, .kinds = { ETCD_PUT, ETCD_GET, ETCD_DELETE, ETCD_GET }
};
static const int64_t leases[] = { 77, 78 };

static volatile unsigned char sink;

static void read_all(const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i <= len; i++)
		sink ^= p[i];
	EXPECT(!p[len]);
}

static void check_entry(const struct etcd_entry *e)
{
	EXPECT(e->mod_revision >= 0 && e->lease >= 0);
	read_all(e->key, strlen(e->key));
	read_all(e->value, e->len);
}

static void check_decoded(const struct etcd_decoded *d, int kind)
{
	const struct etcd_answer *a = &d->answer;
	int64_t last = 0;

	EXPECT(a->revision >= 0);
	if (kind == TXN)
		EXPECT(a->n_results == (a->succeeded ? shape.n_then : shape.n_else));
	for (size_t i = 0; i < a->n_results; i++)
		for (size_t j = 0; j < a->results[i].n; j++)
			check_entry(&a->results[i].entries[j]);
	for (size_t i = 0; i < a->n_leases; i++)
		EXPECT(a->leases[i].ttl_s >= 0 &&
			(kind != KEEP_ALIVE || a->leases[i].id == leases[i]));
	for (size_t i = 0; i < d->change.n; i++) {
		check_entry(&d->change.events[i].entry);
		EXPECT(d->change.events[i].entry.mod_revision >= last);
		last = d->change.events[i].entry.mod_revision;
	}
	if (kind == STATUS_OF_MEMBER)
		read_all(a->member->version, strlen(a->member->version));
	if (kind == USER)
		EXPECT(d->token && !strpbrk(d->token, " \r\n"));
}

static void check_failure(const struct etcd_failure *f)
{
	EXPECT(f->status != STATUS_OK && f->text[0] && strlen(f->text) < sizeof(f->text));
	for (const char *c = f->text; *c; c++)
		EXPECT((unsigned char)*c >= ' ' || *c == '\t');
}

static int decode(int kind, const char *text, size_t len, struct etcd_decoded *d)
{
	switch (kind) {
	case TXN:
		return etcd_decode_txn(text, len, &shape, d);
	case GRANT:
		return etcd_decode_grant(text, len, d);
	case KEEP_ALIVE:
		return etcd_decode_keep_alive(text, len, leases, 2, d);
	case REVOKE:
		return etcd_decode_revoke(text, len, d);
	case STATUS_OF_MEMBER:
		return etcd_decode_status(text, len, d);
	case USER:
		return etcd_decode_user(text, len, d);
	default:
		return etcd_decode_change(text, len, d);
	}
}

/* The ends of the first objects, where text comes in pieces; -1 where a piece is none. */
enum { ENDS = 8 };
static void split(const char *text, size_t len, size_t step, ssize_t ends[ENDS])
{
	struct etcd_split s = { 0 };
	size_t begin = 0;
	int n = 0;

	for (size_t end = 0; end < len;) {
		ssize_t taken;

		end = end + step < len ? end + step : len;
		while (n < ENDS && (taken = etcd_split(&s, text + begin, end - begin)) != 0) {
			if (taken < 0) {
				ends[n] = -1;
				return;
			}
			begin += (size_t)taken;
			ends[n++] = (ssize_t)begin;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(etcd_decoded_fini) struct etcd_decoded d = { 0 };
	ssize_t whole[ENDS] = { 0 }, pieces[ENDS] = { 0 };
	char version[ETCD_VERSION_MAX];
	struct etcd_failure f;
	const char *text;
	int kind, r;

	if (size < 2)
		return 0;
	kind = data[0] % KINDS;
	text = (const char *)data + 2;
	size -= 2;
	split(text, size, size ? size : 1, whole);
	split(text, size, 1 + data[1] % 16, pieces);
	EXPECT(!memcmp(whole, pieces, sizeof(whole)));
	if (kind == REFUSAL) {
		etcd_failure_of_answer(100 + data[1] * 2, text, size, "u", &f);
		check_failure(&f);
		etcd_decode_version(text, size, version);
		etcd_failure_of_version(version, &f);
		check_failure(&f);
		return 0;
	}
	r = decode(kind, text, size, &d);
	EXPECT(r == 0 || r == -EBADMSG || r == -ENOMEM || r == -EMSGSIZE ||
		(r == -EREMOTEIO && kind == KEEP_ALIVE));
	if (r == 0)
		check_decoded(&d, kind);
	if (r == -EREMOTEIO || (kind == CHANGE && d.change.refused)) {
		etcd_failure_of_refusal(&d.change.refusal, NULL, &f);
		check_failure(&f);
	}
	return 0;
}
