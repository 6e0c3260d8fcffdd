/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages of io.elasticd.Queue that the played agent gets and sends. */

#include "tests/unit/fake_handle.h"

#define queue_hears(fd, method, parameters) \
	ck_assert_str_eq(agent_hear(fd),    \
		"{'method':'io.elasticd.Queue." method "','parameters':{" parameters "}}")
#define queue_hears_more(fd, method, parameters)                                \
	ck_assert_str_eq(agent_hear(fd), "{'method':'io.elasticd.Queue." method \
					 "','parameters':{" parameters "},'more':true}")
#define queue_refuses(fd, name, parameters) \
	agent_say(fd, "{'error':'io.elasticd.Queue." name "','parameters':{" parameters "}}")
#define queue_failed(fd, error) queue_refuses(fd, "QueueFailed", "'error':{" error "}")

static struct elasticd_queue *q;
static struct elasticd_queue_work *work;
static const struct elasticd_queue_item *item;
static int work_fd;

static inline void setup_queue(void)
{
	setup();
	q = NULL;
	work = NULL;
	item = NULL;
	work_fd = -1;
	ck_assert_int_eq(elasticd_queue_open(h, "trials", &q), 0);
}

static inline void teardown_queue(void)
{
	/* Before the close, which puts back an item and waits for the answer. */
	close_fd(work_fd);
	elasticd_queue_work_close(work);
	elasticd_queue_close(q);
	teardown();
}

static inline void asks_work(struct worker *me)
{
	me->r = elasticd_queue_work_next(work, -1, &item);
}

static inline void asks_work_for_a_minute(struct worker *me)
{
	me->r = elasticd_queue_work_next(work, 60000, &item);
}

/* A slot whose thread waits in Work on work_fd. */
static inline void work_begins(void)
{
	if (!work)
		ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	worker_start(&w, asks_work, h);
	work_fd = agent_greets();
	queue_hears(work_fd, "Work", "");
}

#define ITEM(lease, task, more)                                                             \
	"'item':{'kind':'task','lease':" lease ",'task':" task more ",'index':3,'start':1," \
	"'tries':0}"

/* The same, with an item. */
static inline void work_has(void)
{
	work_begins();
	agent_answers(work_fd, ITEM("7", "41", ",'payload':'x'"));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_ptr_nonnull(item);
}
