/* SPDX-License-Identifier: Apache-2.0 */
/* Puts that do not wait: their order, what waits for them, and what this process reads meanwhile.
 */
#include "worker/base/handle.h"

/* After it, for Check has a macro fail(). */
#include "tests/unit/fake_nowait.h"

/* --- going on */

START_TEST(writes_go_in_order_and_nobody_waits)
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

START_TEST(a_flush_without_writes_asks_nobody)
{
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
	ck_assert_int_eq(elasticd_flush(h, 0), 0);
	hears_no_more();
}
END_TEST

START_TEST(one_too_many_waits_until_half_are_answered)
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

/* Each has an answer that may name its key, and all answers must fit the socket. */
START_TEST(long_keys_are_fewer)
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

START_TEST(without_a_free_connection_it_waits)
{
	for (int i = 0; i < 2; i++) {
		int other;

		no_free_connection();
		worker_start(&w, puts_soon_there, h);
		other = agent_greets();
		ck_assert_ptr_nonnull(strstr(agent_hear(other), "'key':'k','value':'soon'"));
		until_it_waits(&w);
		agent_say(other, i ? FULL : PUT_DONE);
		ck_assert_int_eq(worker_end(&w), i ? ELASTICD_RESOURCE_EXHAUSTED : 0);
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

START_TEST(what_is_too_long_waits_and_comes_behind)
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

START_TEST(it_must_be_said_to_write_over)
{
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, ELASTICD_NOWAIT), ELASTICD_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "OVERWRITE"));
	hears_no_more();
}
END_TEST

/* --- reading */

START_TEST(what_is_under_way_is_read_newest_first)
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

START_TEST(what_was_answered_is_the_agents_to_tell)
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

START_TEST(while_the_group_has_an_error_the_agent_is_asked)
{
	one_under_way();
	atomic_store(&board->error, 1);
	asked_behind_it();
}
END_TEST

START_TEST(a_process_of_before_asks_and_is_refused)
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
	struct elasticd_op op = { .op = ELASTICD_GET, .key = "other" };

	me->r = elasticd_pipeline(me->h, &op, 1, 0);
	elasticd_ops_clear(&op, 1);
}

static void submits(struct worker *me)
{
	struct elasticd_queue_stats stats;

	me->r = elasticd_queue_stats(me->h, NULL, &stats);
}

START_TEST(every_other_call_waits_for_it_first)
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
		ck_assert_int_eq(worker_end(&w), ELASTICD_NOT_FOUND);
	}
	ck_assert_int_eq(elasticd_flush(h, -1), 0);
}
END_TEST

static struct elasticd_watch *watch;

static void watches(struct worker *me)
{
	me->r = elasticd_watch_open(me->h, "k", -1, &watch);
}

START_TEST(so_does_a_stream)
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

static struct elasticd_work *work;
static const struct elasticd_item *item;

static void asks_work(struct worker *me)
{
	do {
		me->r = elasticd_work_next(work, -1, &item);
		atomic_fetch_add(&ends, me->r == ELASTICD_INTERRUPTED);
	} while (me->r == ELASTICD_INTERRUPTED);
}

/* A signal meanwhile does not make it forget to ask. */
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
	ck_assert_int_eq(worker_end(&w), ELASTICD_NOT_FOUND);
}

START_TEST(so_does_a_place_at_the_queue)
{
	int s;

	handle_usr1(0);
	ck_assert_int_eq(elasticd_work_open(h, &work), 0);
	worker_start(&w, asks_work, h);
	s = agent_greets();
	ck_assert_ptr_nonnull(strstr(agent_hear(s), "Work"));
	agent_say(s, "{'error':'io.elasticd.Worker.NotFound','parameters':{'message':'none'}}");
	ck_assert_int_eq(worker_end(&w), ELASTICD_NOT_FOUND);
	work_comes(s, false);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
	work_comes(s, true);
#endif
	elasticd_work_close(work);
	close(s);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("nowait");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, writes_go_in_order_and_nobody_waits);
	tcase_add_test(t, a_flush_without_writes_asks_nobody);
	tcase_add_test(t, one_too_many_waits_until_half_are_answered);
	tcase_add_test(t, answers_that_have_come_make_room);
	tcase_add_test(t, long_keys_are_fewer);
	tcase_add_test(t, without_a_free_connection_it_waits);
	tcase_add_test(t, what_is_too_long_waits_and_comes_behind);
	tcase_add_test(t, it_must_be_said_to_write_over);
	tcase_add_test(t, what_is_under_way_is_read_newest_first);
	tcase_add_test(t, what_was_answered_is_the_agents_to_tell);
	tcase_add_test(t, while_the_group_has_an_error_the_agent_is_asked);
	tcase_add_test(t, a_process_of_before_asks_and_is_refused);
	tcase_add_test(t, every_other_call_waits_for_it_first);
	tcase_add_test(t, so_does_a_stream);
	tcase_add_test(t, so_does_a_place_at_the_queue);
	return tests_run(t);
}
