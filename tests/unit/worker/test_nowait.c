/* SPDX-License-Identifier: Apache-2.0 */
/* Puts that do not wait: their order, calls that wait for them, and gets of this process. */
#include "worker/base/handle.h"

/* After the header of handles, since Check has a macro fail(). */
#include "tests/unit/fake_nowait.h"

/* --- going on */

START_TEST(writes_go_in_order_without_waiting)
{
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(puts_soon("a", "1"), 0);
		ck_assert_int_eq(puts_soon("b", "2"), 0);
		ck_assert_int_eq(puts_soon("a", "3"), 0);
		hears_put("a", "1");
		hears_put("b", "2");
		hears_put("a", "3");
		for (int j = 0; j < 3; j++)
			agent_say(fd, PUT_DONE);
		flushed();
	}
	hears_no_more();
}
END_TEST

START_TEST(a_flush_without_writes_sends_nothing)
{
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
	ck_assert_int_eq(elasticd_flush(h, 0), 0);
	hears_no_more();
}
END_TEST

START_TEST(a_write_too_many_waits_until_half_are_answered)
{
	for (int turn = 0; turn < 3; turn++) {
		fill();
		worker_start(&w, puts_last, h);
		for (int i = 0; i < AT_ONCE / 2; i++) {
			until_it_waits(&w);
			agent_say(fd, PUT_DONE);
		}
		ck_assert_int_eq(worker_end(&w), 0);
		hears_put("last", "v");
		for (int i = 0; i <= AT_ONCE / 2; i++)
			agent_say(fd, PUT_DONE);
		flushed();
	}
}
END_TEST

START_TEST(answers_that_have_come_make_room)
{
	for (int i = 0; i < 5 * AT_ONCE; i++) {
		ck_assert_int_eq(puts_soon("k", "v"), 0);
		hears_put("k", "v");
		agent_say(fd, PUT_DONE);
	}
	flushed();
}
END_TEST

static char long_key[WORKER_KEY_MAX + 1];

enum { LONG_AT_ONCE = 8 };

static void puts_long(struct worker *me)
{
	me->r = elasticd_put(me->h, long_key, "3", 1, NOWAIT);
}

/* An answer may name its key, and all answers must fit into the socket's buffer. */
START_TEST(long_keys_leave_room_for_fewer_writes)
{
	memset(long_key, 'k', WORKER_KEY_MAX);
	for (int i = 0; i < LONG_AT_ONCE; i++)
		ck_assert_int_eq(puts_soon(long_key, "1"), 0);
	for (int i = 0; i < LONG_AT_ONCE; i++)
		ck_assert_ptr_nonnull(strstr(agent_hear(fd), long_key));
	worker_start(&w, puts_long, h);
	for (int i = 0; i < LONG_AT_ONCE / 2; i++) {
		until_it_waits(&w);
		agent_say(fd, PUT_DONE);
	}
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "'value':'3'"));
	for (int i = 0; i <= LONG_AT_ONCE / 2; i++)
		agent_say(fd, PUT_DONE);
	flushed();
}
END_TEST

/* --- where it has to wait */

static struct worker busy;

static void no_free_connection(void)
{
	worker_start(&busy, gets, h);
	ck_assert_str_eq(agent_hear(fd), GET);
}

static void free_again(void)
{
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&busy), 0);
	free(busy.value);
}

START_TEST(without_a_free_connection_a_write_waits)
{
	for (int i = 0; i < 2; i++) {
		int other;

		no_free_connection();
		worker_start(&w, puts_soon_there, h);
		other = agent_greets();
		ck_assert_ptr_nonnull(strstr(agent_hear(other), "'key':'k','value':'soon'"));
		until_it_waits(&w);
		agent_say(other, i ? FULL : PUT_DONE);
		ck_assert_int_eq(worker_end(&w), i ? ELASTICD_STATUS_RESOURCE_EXHAUSTED : 0);
		close(other);
		free_again();
	}
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

static char big[60000];

static void puts_big(struct worker *me)
{
	me->r = elasticd_put(me->h, long_key, big, sizeof(big), NOWAIT);
}

START_TEST(a_long_value_waits_and_comes_after_earlier_writes)
{
	memset(big, 'x', sizeof(big));
	memset(long_key, 'k', WORKER_KEY_MAX);
	one_under_way();
	worker_start(&w, puts_big, h);
	until_it_waits(&w);
	agent_say(fd, PUT_DONE);
	ck_assert_ptr_nonnull(strstr(agent_hear(fd), "'value':'xxx"));
	until_it_waits(&w);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	one_call();
}
END_TEST

START_TEST(nowait_needs_overwrite)
{
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, ELASTICD_PUT_NOWAIT),
		ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "OVERWRITE"));
	hears_no_more();
}
END_TEST

/* --- reading */

START_TEST(a_get_returns_the_newest_unanswered_write)
{
	ck_assert_int_eq(puts_soon("a", "1"), 0);
	ck_assert_int_eq(puts_soon("b", ""), 0);
	ck_assert_int_eq(puts_soon("ab", "4"), 0);
	ck_assert_int_eq(puts_soon("a", "3"), 0);
	ck_assert_int_eq(puts_soon("abc", "5"), 0);
	reads_own("a", "3");
	reads_own("b", "");
	reads_own("//ab/", "4");
	reads_own("abc", "5");
	for (int i = 0; i < 5; i++)
		ck_assert_ptr_nonnull(strstr(agent_hear(fd), "Put"));
	hears_no_more();
	/* The fourth is newer still. */
	agent_say(fd, PUT_DONE);
	agent_say(fd, PUT_DONE);
	reads_own("a", "3");
	for (int i = 0; i < 3; i++)
		agent_say(fd, PUT_DONE);
	flushed();
}
END_TEST

START_TEST(a_get_of_an_answered_write_asks_the_agent)
{
	one_under_way();
	reads_own("k", "soon");
	agent_say(fd, PUT_DONE);
	worker_start(&w, gets, h);
	ck_assert_str_eq(agent_hear(fd), GET);
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(w.value, "v");
	free(w.value);
}
END_TEST

static void asked_behind_it(void)
{
	worker_start(&w, gets, h);
	until_it_waits(&w);
	agent_say(fd, PUT_DONE);
	ck_assert_str_eq(agent_hear(fd), GET);
	agent_say(fd, GET_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	free(w.value);
}

START_TEST(while_the_group_has_an_error_a_get_asks_the_agent)
{
	one_under_way();
	atomic_store(&board->error, 1);
	asked_behind_it();
}
END_TEST

START_TEST(a_replaced_process_asks_and_is_refused)
{
	one_under_way();
	atomic_store(&h->slot->expected, h->token + 1);
	asked_behind_it();
}
END_TEST

/* --- what comes later */

static void deletes(struct worker *me)
{
	me->r = elasticd_delete(me->h, "other", NULL);
}

static struct elasticd_entry *entries;

static void lists(struct worker *me)
{
	me->r = elasticd_list(me->h, "other", &entries, &me->n);
}

static void meets(struct worker *me)
{
	me->r = elasticd_barrier(me->h, "b", NULL, 0, -1);
}

static void has_result(struct worker *me)
{
	me->r = elasticd_result(me->h, "r", 1);
}

static void pipelines(struct worker *me)
{
	struct elasticd_op op = { .kind = ELASTICD_OP_GET, .key = "other" };

	me->r = elasticd_pipeline(me->h, &op, 1, 0);
	elasticd_ops_clear(&op, 1);
}

static void submits(struct worker *me)
{
	struct elasticd_queue_stats stats;

	me->r = elasticd_queue_stats(me->h, NULL, &stats);
}

START_TEST(every_other_call_waits_for_the_writes_first)
{
	static const struct {
		void (*fn)(struct worker *me);
		const char *method;
	} calls[] = {
		{ gets_another, "Worker.Get" },
		{ deletes, "Worker.Delete" },
		{ lists, "Worker.List" },
		{ puts_text, "Worker.Put" },
		{ meets, "Worker.Barrier" },
		{ has_result, "Worker.Result" },
		{ pipelines, "Worker.Get" },
		{ submits, "Queue.Stats" },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		ck_assert_int_eq(puts_soon("k", "soon"), 0);
		hears_put("k", "soon");
		worker_start(&w, calls[i].fn, h);
		until_it_waits(&w);
		agent_say(fd, PUT_DONE);
		ck_assert_ptr_nonnull(strstr(agent_hear(fd), calls[i].method));
		agent_say(fd, MISSING_OTHER);
		ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
	}
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

static struct elasticd_watch *watch;

static void watches(struct worker *me)
{
	me->r = elasticd_watch_open(me->h, "k", -1, &watch);
}

START_TEST(a_stream_waits_for_the_writes_first)
{
	int stream;

	one_under_way();
	worker_start(&w, watches, h);
	until_it_waits(&w);
	agent_say(fd, PUT_DONE);
	stream = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(stream), "Watch"));
	agent_continues(stream, "'changes':[],'revision':5");
	ck_assert_int_eq(worker_end(&w), 0);
	elasticd_watch_close(watch);
	close(stream);
}
END_TEST

static struct elasticd_queue_work *work;
static const struct elasticd_queue_item *item;

static void asks_work(struct worker *me)
{
	do {
		me->r = elasticd_queue_work_next(work, -1, &item);
		atomic_fetch_add(&ends, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

/* After a signal it asks all the same. */
static void work_comes(int s, bool signals)
{
	ck_assert_int_eq(puts_soon("k", "soon"), 0);
	hears_put("k", "soon");
	atomic_store(&ends, 0);
	worker_start(&w, asks_work, h);
	if (signals)
		signal_until_ended(&w, 3);
	else
		until_it_waits(&w);
	agent_say(fd, PUT_DONE);
	if (s < 0)
		s = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(s), "Work"));
	agent_say(s, "{'error':'io.elasticd.Worker.NotFound','parameters':{'message':'none'}}");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
}

START_TEST(a_slot_waits_for_the_writes_first)
{
	int s;

	handle_usr1(0);
	ck_assert_int_eq(elasticd_queue_work_open(h, &work), 0);
	worker_start(&w, asks_work, h);
	s = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(s), "Work"));
	agent_say(s, "{'error':'io.elasticd.Worker.NotFound','parameters':{'message':'none'}}");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
	work_comes(s, false);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
	work_comes(s, true);
#endif
	elasticd_queue_work_close(work);
	close(s);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("nowait");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, writes_go_in_order_without_waiting);
	tcase_add_test(t, a_flush_without_writes_sends_nothing);
	tcase_add_test(t, a_write_too_many_waits_until_half_are_answered);
	tcase_add_test(t, answers_that_have_come_make_room);
	tcase_add_test(t, long_keys_leave_room_for_fewer_writes);
	tcase_add_test(t, without_a_free_connection_a_write_waits);
	tcase_add_test(t, a_long_value_waits_and_comes_after_earlier_writes);
	tcase_add_test(t, nowait_needs_overwrite);
	tcase_add_test(t, a_get_returns_the_newest_unanswered_write);
	tcase_add_test(t, a_get_of_an_answered_write_asks_the_agent);
	tcase_add_test(t, while_the_group_has_an_error_a_get_asks_the_agent);
	tcase_add_test(t, a_replaced_process_asks_and_is_refused);
	tcase_add_test(t, every_other_call_waits_for_the_writes_first);
	tcase_add_test(t, a_stream_waits_for_the_writes_first);
	tcase_add_test(t, a_slot_waits_for_the_writes_first);
	return tests_run(t);
}
