/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two windows and the wires between them. A wire holds bytes; a cut loses what stands on both
 * wires, and may leave the beginning of a message with the reader, which forgets it with the
 * connection.
 */
#include "agent/link/message.h"
#include "agent/link/window.h"
#include "common/varlink/frame.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>

struct side {
	struct link_window window;
	struct varlink_buffer wire; /* on its way to the other side */
	struct varlink_frame in;
	int sent, handled; /* messages; their rounds count from 1 */
};

static struct side sides[2];
static struct error err;

static void fini(void)
{
	for (int i = 0; i < 2; i++) {
		link_window_fini(&sides[i].window);
		varlink_buffer_fini(&sides[i].wire);
		varlink_frame_fini(&sides[i].in);
	}
}

static void init(void)
{
	for (int i = 0; i < 2; i++) {
		sides[i] = (struct side){ .sent = 0 };
		varlink_frame_init(&sides[i].in, LINK_MESSAGE_BYTES);
	}
}

static void put(struct side *s)
{
	char body[32];

	snprintf(body, sizeof(body), "{\"round\":%d}", s->sent + 1);
	must(link_window_write(&s->window, "Started", body, strlen(body)) == 0, "put");
	s->sent++;
}

static void take(struct side *s, size_t max)
{
	must(link_window_take(&s->window, &s->wire, varlink_buffer_len(&s->wire) + max) == 0,
		"take");
}

static void ack(struct side *s)
{
	must(link_message_put(&s->wire, "Ack", 0, s->window.seen, NULL) == 0, "ack");
	link_window_acknowledged(&s->window);
}

/* The reader of messages has its own test. */
static int64_t number(const char *text, const char *name, int64_t none)
{
	const char *at = strstr(text, name);

	return at ? strtoll(at + strlen(name), NULL, 10) : none;
}

static void handle(struct side *s, const char *text, size_t len)
{
	int64_t n = number(text, "\"n\":", 0);
	int r = link_window_receive(&s->window, n, number(text, "\"ack\":", -1), len, &err);

	must(r >= 0, err.text);
	if (r == 0 || !n)
		return;
	must(number(text, "\"round\":", 0) == s->handled + 1, "in order");
	s->handled++;
}

/* The other side reads at most max bytes of what s has on its wire. */
static void carry(struct side *s, size_t max)
{
	struct side *to = &sides[s == &sides[0]];
	size_t have = varlink_buffer_len(&s->wire), len;
	char *text;

	if (max > have)
		max = have;
	must(varlink_frame_feed(&to->in, s->wire.data + s->wire.begin, max) == 0, "feed");
	s->wire.begin += max;
	if (!varlink_buffer_len(&s->wire))
		varlink_buffer_fini(&s->wire);
	while (varlink_frame_next(&to->in, &text, &len) > 0)
		handle(to, text, len);
}

/* The connection breaks, and a new one begins with what each side has seen. */
static void cut(void)
{
	for (int i = 0; i < 2; i++) {
		varlink_buffer_fini(&sides[i].wire);
		varlink_frame_fini(&sides[i].in);
	}
	for (int i = 0; i < 2; i++) {
		int r = link_window_resume(&sides[i].window, sides[!i].window.seen, &err);

		must(r == 0, err.text);
	}
}

/* All that was sent arrives in the end, and everything is acknowledged. */
static void settle(void)
{
	for (int i = 0; i < 2; i++) {
		take(&sides[i], SIZE_MAX / 2);
		carry(&sides[i], SIZE_MAX);
	}
	for (int i = 0; i < 2; i++) {
		ack(&sides[i]);
		carry(&sides[i], SIZE_MAX);
	}
	for (int i = 0; i < 2; i++) {
		must(sides[!i].handled == sides[i].sent, "all arrived");
		must(link_window_bytes(&sides[i].window) == 0, "all acknowledged");
		must(!sides[i].window.kept.data, "no memory held");
	}
}

enum { PUT, TAKE, CARRY, ACK, STEPS };

static void step(int i, int what, size_t bytes)
{
	switch (what) {
	case PUT:
		put(&sides[i]);
		break;
	case TAKE:
		take(&sides[i], bytes);
		break;
	case CARRY:
		carry(&sides[i], bytes);
		break;
	case ACK:
		ack(&sides[i]);
		break;
	}
}

/* One byte makes TAKE take one message, and a message is shorter than this. */
enum { ONE_MESSAGE = 1, WHOLE = 200 };

/* Runs a script of steps, numbered in base 2 * STEPS + 1: each of both sides' steps, and a cut. */
static void run_script(unsigned script, int length)
{
	for (int k = 0; k < length; k++) {
		unsigned d = script % (2 * STEPS + 1);

		script /= 2 * STEPS + 1;
		if (d == 2 * STEPS)
			cut();
		else
			step((int)d / STEPS, (int)d % STEPS,
				(int)d % STEPS == TAKE ? ONE_MESSAGE : WHOLE);
	}
}

START_TEST(every_short_history_loses_and_repeats_nothing)
{
	const int length = getenv("ELASTIC_ALL") ? 6 : 5;
	unsigned scripts = 1;

	for (int i = 0; i < length; i++)
		scripts *= 2 * STEPS + 1;
	for (unsigned i = 0; i < scripts; i++) {
		run_script(i, length);
		settle();
		cut();
		settle();
		fini();
		init();
	}
}
END_TEST

START_TEST(a_cut_after_any_byte_loses_and_repeats_nothing)
{
	for (size_t first = 0; first < 3 * WHOLE; first++) {
		for (size_t second = 0; second < 3 * WHOLE; second += 7) {
			for (int k = 0; k < 3; k++) {
				put(&sides[0]);
				put(&sides[1]);
			}
			take(&sides[0], SIZE_MAX / 2);
			take(&sides[1], SIZE_MAX / 2);
			carry(&sides[0], first);
			carry(&sides[1], second);
			cut();
			settle();
			fini();
			init();
		}
	}
}
END_TEST

START_TEST(long_random_histories_lose_and_repeat_nothing)
{
	for (uint32_t walk = 1; walk <= 300; walk++) {
		uint32_t seed = walk;

		for (int k = 0; k < 400; k++) {
			uint32_t what = next_random(&seed) % 40;

			if (what == 0)
				cut();
			else
				step((int)(next_random(&seed) % 2), (int)what % STEPS,
					next_random(&seed) % 400);
		}
		settle();
		fini();
		init();
	}
}
END_TEST

START_TEST(a_number_that_was_seen_is_dropped_and_a_gap_is_refused)
{
	struct link_window w = { .last = 0 };

	ck_assert_int_eq(link_window_receive(&w, 1, 0, 10, &err), 1);
	ck_assert_int_eq(link_window_receive(&w, 1, 0, 10, &err), 0);
	ck_assert_int_eq(link_window_receive(&w, 2, 0, 10, &err), 1);
	ck_assert_int_eq(link_window_receive(&w, 1, -1, 10, &err), 0);
	ck_assert_int_eq(link_window_receive(&w, 0, -1, 10, &err), 1);
	ck_assert_int_eq(link_window_receive(&w, 4, 0, 10, &err), -EPROTO);
	ck_assert_str_eq(err.text, "parameters.n: expected 3, got 4");
	ck_assert_int_eq(w.seen, 2);
	ck_assert_uint_eq(w.unacknowledged_bytes, 40);
	link_window_fini(&w);
}
END_TEST

START_TEST(only_messages_that_were_sent_can_be_acknowledged)
{
	struct side *s = &sides[0];

	put(s);
	put(s);
	take(s, ONE_MESSAGE);
	ck_assert_int_eq(link_window_receive(&s->window, 0, 2, 10, &err), -EPROTO);
	ck_assert_str_eq(err.text, "parameters.ack: expected at most 1, got 2");
	ck_assert_int_eq(link_window_receive(&s->window, 0, 1, 10, &err), 1);
	ck_assert_int_eq(link_window_receive(&s->window, 0, 0, 10, &err), 1);
	ck_assert_int_eq(s->window.acked, 1);
	ck_assert_uint_lt(s->window.taken_bytes, link_window_bytes(&s->window));
}
END_TEST

START_TEST(a_side_that_lost_or_invented_numbers_cannot_resume)
{
	struct side *s = &sides[0];

	for (int i = 0; i < 3; i++)
		put(s);
	take(s, SIZE_MAX / 2);
	ck_assert_int_eq(link_window_receive(&s->window, 0, 2, 10, &err), 1);
	ck_assert_int_eq(link_window_resume(&s->window, 1, &err), -EPROTO);
	ck_assert_str_eq(err.text, "parameters.resume: expected 2 to 3, got 1");
	ck_assert_int_eq(link_window_resume(&s->window, 4, &err), -EPROTO);
	ck_assert_int_eq(link_window_resume(&s->window, 3, &err), 0);
	ck_assert_uint_eq(link_window_bytes(&s->window), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_window");
	TCase *t = tcase_create("link_window");

	tcase_add_checked_fixture(t, init, fini);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, every_short_history_loses_and_repeats_nothing);
	tcase_add_test(t, a_cut_after_any_byte_loses_and_repeats_nothing);
	tcase_add_test(t, long_random_histories_lose_and_repeat_nothing);
	tcase_add_test(t, a_number_that_was_seen_is_dropped_and_a_gap_is_refused);
	tcase_add_test(t, only_messages_that_were_sent_can_be_acknowledged);
	tcase_add_test(t, a_side_that_lost_or_invented_numbers_cannot_resume);
	suite_add_tcase(s, t);
	return suite_run(s);
}
