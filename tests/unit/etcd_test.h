/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls of the client of etcd as a test wants them: each waits for its answer. */

#include "common/etcd/etcd.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { PATIENT_MS = 20000, GOT_MAX = 64 };

static struct loop *loop;
static struct etcd *etcd;

/* The last answer, copied. */
static struct got {
	int answers;
	enum status status;
	char text[1024];
	bool maybe, succeeded;
	uint64_t sent_ms, cluster, leader;
	int64_t revision;
	size_t n_results, n_leases;
	int64_t counts[GOT_MAX];
	size_t n_entries; /* of the first result that has some */
	char keys[GOT_MAX][64], values[GOT_MAX][64];
	int64_t mods[GOT_MAX], entry_leases[GOT_MAX];
	struct etcd_lease leases[GOT_MAX];
	char version[32];
	bool no_space;
} got;

static inline void got_entries(const struct etcd_result *r)
{
	got.n_entries = r->n;
	for (size_t i = 0; i < r->n && i < GOT_MAX; i++) {
		snprintf(got.keys[i], sizeof(got.keys[i]), "%s", r->entries[i].key);
		snprintf(got.values[i], sizeof(got.values[i]), "%.*s", (int)r->entries[i].len,
			(const char *)r->entries[i].value);
		got.mods[i] = r->entries[i].mod_revision;
		got.entry_leases[i] = r->entries[i].lease;
	}
}

static inline void on_answer(void *arg, const struct etcd_answer *a)
{
	int answers = got.answers + 1;

	got = (struct got){ .answers = answers,
		.status = a->status,
		.maybe = a->maybe,
		.succeeded = a->succeeded,
		.sent_ms = a->sent_ms,
		.cluster = a->cluster,
		.revision = a->revision,
		.n_results = a->n_results,
		.n_leases = a->n_leases };
	snprintf(got.text, sizeof(got.text), "%s", a->text);
	for (size_t i = 0; i < a->n_results && i < GOT_MAX; i++) {
		got.counts[i] = a->results[i].count;
		if (a->results[i].n && !got.n_entries)
			got_entries(&a->results[i]);
	}
	for (size_t i = 0; i < a->n_leases && i < GOT_MAX; i++)
		got.leases[i] = a->leases[i];
	if (a->member) {
		snprintf(got.version, sizeof(got.version), "%s", a->member->version);
		got.leader = a->member->leader;
		got.no_space = a->member->no_space;
	}
}

static inline void wait_answers(int n)
{
	while (got.answers < n)
		loop_run_once(loop, true);
}

#define ANSWER_OF(call)                                 \
	do {                                            \
		int before_ = got.answers;              \
		ck_assert_int_eq(call, 0);              \
		ck_assert_int_eq(got.answers, before_); \
		wait_answers(before_ + 1);              \
	} while (0)

#define ck_assert_status(is) \
	ck_assert_msg(got.status == (is), "%s: %s", status_name(got.status), got.text)

static inline struct etcd_op op_put(const char *key, const char *value, int64_t lease)
{
	return (struct etcd_op){
		.kind = ETCD_PUT, .key = key, .value = value, .len = strlen(value), .lease = lease
	};
}

static inline void put_within(const char *key, const char *value, int64_t lease, int64_t limit_ms)
{
	struct etcd_op op = op_put(key, value, lease);
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	ANSWER_OF(etcd_txn(etcd, &t, limit_ms, on_answer, NULL, NULL));
}

static inline void put(const char *key, const char *value, int64_t lease)
{
	put_within(key, value, lease, PATIENT_MS);
}

static inline void get_within(const char *key, const char *end, int64_t limit_ms)
{
	struct etcd_op op = { .kind = ETCD_GET, .key = key, .end = end };
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	ANSWER_OF(etcd_txn(etcd, &t, limit_ms, on_answer, NULL, NULL));
}

static inline void get(const char *key, const char *end)
{
	get_within(key, end, PATIENT_MS);
}

/* --- What a watch has reported --- */

static struct {
	int up, down, gaps;
	size_t n;
	char keys[GOT_MAX][64];
	bool deleted[GOT_MAX];
	int64_t revisions[GOT_MAX];
	enum status status; /* of the last DOWN */
	char text[1024];
} seen;

static inline void on_news(void *arg, const struct etcd_news *news)
{
	seen.up += news->kind == ETCD_WATCH_UP;
	seen.down += news->kind == ETCD_WATCH_DOWN;
	seen.gaps += news->kind == ETCD_WATCH_GAP;
	if (news->text)
		snprintf(seen.text, sizeof(seen.text), "%s", news->text);
	seen.status = news->status;
	for (size_t i = 0; i < news->n && seen.n < GOT_MAX; i++, seen.n++) {
		snprintf(seen.keys[seen.n], 64, "%s", news->events[i].entry.key);
		seen.deleted[seen.n] = news->events[i].deleted;
		seen.revisions[seen.n] = news->events[i].entry.mod_revision;
	}
}

#define WAIT_UNTIL(condition)                      \
	do {                                       \
		while (!(condition))               \
			loop_run_once(loop, true); \
	} while (0)
