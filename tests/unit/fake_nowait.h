/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A worker that does not wait for its puts, and the messages that the played agent gets. */

#include "tests/unit/fake_handle.h"
#include "tests/unit/fake_signals.h"

enum { AT_ONCE = 32, NOWAIT = ELASTICD_PUT_OVERWRITE | ELASTICD_PUT_NOWAIT };

#define PUT "{'method':'io.elasticd.Worker.Put','parameters':{'key':'k','value':'v'}}"
#define PUT_DONE "{'parameters':{'revision':1}}"
#define GET "{'method':'io.elasticd.Worker.Get','parameters':{'key':'k','wait':true}}"
#define GET_DONE "{'parameters':{'entry':{'key':'k','value':'v','revision':1}}}"
#define MISSING_OTHER \
	"{'error':'io.elasticd.Worker.NotFound','parameters':{'message':'no key other'}}"
#define FULL \
	"{'error':'io.elasticd.Worker.ResourceExhausted','parameters':{'message':'it is full'}}"

static inline void puts_text(struct worker *me)
{
	me->r = elasticd_put(me->h, "k", "v", 1, 0);
}

static inline int puts_soon(const char *key, const char *value)
{
	/* A process reads its own writes only while it is its worker's. */
	atomic_store(&h->slot->expected, h->token);
	return elasticd_put(h, key, value, strlen(value), NOWAIT);
}

/* The agent hears the next one. */
static inline void hears_put(const char *key, const char *value)
{
	char text[256];

	snprintf(text, sizeof(text),
		"{'method':'io.elasticd.Worker.Put','parameters':{'key':'%s','value':'%s',"
		"'overwrite':true}}",
		key, value);
	ck_assert_str_eq(agent_hear(fd), text);
}

static inline void hears_no_more(void)
{
	char c;

	ck_assert_int_eq(recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
}

/* The worker has hung up, and has said nothing before. */
static inline void no_more_on(int s)
{
	ck_assert_str_eq(agent_hear(s), "");
}

static inline void flushes(struct worker *me)
{
	me->r = elasticd_flush(me->h, -1);
}

static inline void flushed(void)
{
	worker_start(&w, flushes, h);
	ck_assert_int_eq(worker_end(&w), 0);
}

/* A write was handed over, and the agent has it. */
static inline void one_under_way(void)
{
	ck_assert_int_eq(puts_soon("k", "soon"), 0);
	hears_put("k", "soon");
}

/* An ordinary put. */
static inline void one_call(void)
{
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}

static inline void put_again_on_a_new_one(void)
{
	fd = close_fd(fd);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}

static inline void reads_own(const char *key, const char *expected)
{
	void *value;
	size_t len;

	ck_assert_int_eq(elasticd_get(h, key, 0, &value, &len), 0);
	ck_assert_str_eq(value, expected);
	ck_assert_uint_eq(len, strlen(expected));
	free(value);
}

static inline void puts_last(struct worker *me)
{
	me->r = elasticd_put(me->h, "last", "v", 1, NOWAIT);
}

static inline void fill(void)
{
	char key[16];

	for (int i = 0; i < AT_ONCE; i++) {
		snprintf(key, sizeof(key), "%d", i);
		ck_assert_int_eq(puts_soon(key, "v"), 0);
	}
	for (int i = 0; i < AT_ONCE; i++) {
		snprintf(key, sizeof(key), "%d", i);
		hears_put(key, "v");
	}
}

/* Waits until the worker's thread sleeps, and has sent nothing, on any connection. */
static inline void until_it_waits(struct worker *me)
{
	struct pollfd p = { .fd = agent_listener, .events = POLLIN };
	char path[64], state = 'R';

	while (state != 'S') {
		FILE *f;

		sched_yield();
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&me->tid));
		f = fopen(path, "re");
		if (!f)
			continue;
		ck_assert_int_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
	}
	hears_no_more();
	ck_assert_msg(poll(&p, 1, 0) == 0, "it does not wait, but connects anew");
}

static inline void puts_soon_there(struct worker *me)
{
	me->r = elasticd_put(me->h, "k", "soon", 4, NOWAIT);
}

static inline void gets_another(struct worker *me)
{
	me->r = elasticd_get(me->h, "other", 60000, &me->value, &me->n);
}
