/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/journal/copy.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct copy c;
static struct copy_part part;

static void setup(void)
{
	copy_begin(&c, 8);
}

static void note(void)
{
	ck_assert(copy_wants_note(&c));
	copy_note_asked(&c);
	copy_noted(&c);
}

/* Sends all that may be sent; returns how many bytes. */
static uint64_t send_all(void)
{
	uint64_t n = 0;

	while (copy_next(&c, &part))
		n += part.len;
	return n;
}

START_TEST(without_a_deputy_answers_wait_for_the_note_alone)
{
	copy_grown(&c, 20);
	ck_assert(copy_holds(&c, c.end));
	ck_assert(!copy_next(&c, &part));
	note();
	ck_assert(!copy_holds(&c, c.end));
	copy_grown(&c, 30);
	ck_assert(!copy_holds(&c, c.end));
	ck_assert(!copy_wants_note(&c));
}
END_TEST

START_TEST(answers_wait_until_the_deputy_has_their_records)
{
	uint64_t before;

	note();
	before = c.end;
	copy_to(&c, true);
	copy_grown(&c, 20);
	ck_assert(!copy_holds(&c, before)); /* the edition before has these */
	ck_assert(copy_holds(&c, c.end));
	ck_assert(copy_next(&c, &part));
	ck_assert_int_eq(part.number, 1);
	ck_assert_uint_eq(part.offset, 0);
	ck_assert_uint_eq(part.len, 20);
	ck_assert(part.whole);
	ck_assert(!copy_wants_note(&c));
	ck_assert_int_eq(copy_acked(&c, 1, 20), 0);
	ck_assert(copy_holds(&c, c.end));
	note();
	ck_assert(!copy_holds(&c, c.end));
	copy_grown(&c, 25);
	ck_assert(copy_holds(&c, c.end));
	ck_assert(copy_next(&c, &part));
	ck_assert(part.offset == 20 && part.len == 5 && !part.whole);
	ck_assert_int_eq(copy_acked(&c, 1, 25), 0);
	ck_assert(!copy_holds(&c, c.end));
}
END_TEST

START_TEST(a_deputy_that_is_lost_is_waited_for_until_that_is_noted)
{
	copy_to(&c, true);
	send_all();
	ck_assert_int_eq(copy_acked(&c, 1, 8), 0);
	note();
	copy_grown(&c, 20);
	copy_to(&c, false);
	ck_assert(copy_holds(&c, c.end));
	note();
	ck_assert(!copy_holds(&c, c.end));
}
END_TEST

START_TEST(a_note_that_is_late_says_nothing_of_a_later_edition)
{
	ck_assert(copy_wants_note(&c));
	copy_note_asked(&c);
	copy_to(&c, true);
	send_all();
	ck_assert_int_eq(copy_acked(&c, 1, 8), 0);
	ck_assert(!copy_wants_note(&c)); /* one at a time */
	copy_noted(&c);
	copy_grown(&c, 20);
	ck_assert(copy_holds(&c, c.end));
	copy_to(&c, false);
	note();
	ck_assert(!copy_holds(&c, c.end));
}
END_TEST

START_TEST(a_file_that_replaces_another_goes_to_the_deputy_as_a_whole)
{
	uint64_t kept;

	copy_grown(&c, 1000);
	copy_to(&c, true);
	send_all();
	ck_assert_int_eq(copy_acked(&c, 1, 1000), 0);
	note();
	kept = c.end;
	copy_grown(&c, 1010);
	send_all();
	copy_replaced(&c, 50);
	ck_assert_int_eq(copy_acked(&c, 1, 1010), 0); /* of the file before */
	ck_assert_uint_eq(c.kept, kept);
	ck_assert(copy_next(&c, &part));
	ck_assert(part.number == 2 && part.offset == 0 && part.len == 50 && part.whole);
	copy_grown(&c, 60);
	ck_assert_int_eq(copy_acked(&c, 2, 50), 0);
	ck_assert_uint_eq(c.kept, c.end - 10);
	ck_assert_int_eq(c.note, COPY_NOTED); /* the same hosts */
}
END_TEST

START_TEST(no_more_than_a_window_is_on_its_way)
{
	copy_grown(&c, 10 * COPY_WINDOW_BYTES);
	copy_to(&c, true);
	ck_assert_uint_lt(send_all(), COPY_WINDOW_BYTES + COPY_PART_BYTES);
	ck_assert_int_eq(copy_acked(&c, 1, COPY_PART_BYTES), 0);
	ck_assert_uint_eq(send_all(), COPY_PART_BYTES);
}
END_TEST

START_TEST(a_deputy_cannot_have_what_was_not_sent)
{
	copy_to(&c, true);
	ck_assert_int_eq(copy_acked(&c, 1, 1), -EPROTO);
	send_all();
	ck_assert_int_eq(copy_acked(&c, 1, 8), 0);
	ck_assert_int_eq(copy_acked(&c, 1, 7), -EPROTO);
	ck_assert_int_eq(copy_acked(&c, 2, 8), -EPROTO);
	copy_to(&c, false);
	ck_assert_int_eq(copy_acked(&c, 1, 8), 0); /* it is late */
}
END_TEST

/* --- all of it at random --- */

/* The hosts of an edition: how far each can go on from, by positions. */
enum { DEPUTIES = 3, MESSAGES = 64 };

static struct {
	uint64_t has;  /* its last whole copy ends at that position */
	uint64_t base; /* position of the first byte of the copy that it writes */
	bool whole;
} deputies[DEPUTIES];
static struct message {
	int to;
	struct copy_part part;
	uint64_t base;
} parts[MESSAGES];
static struct {
	int64_t number;
	uint64_t bytes;
} acks[MESSAGES];
static size_t n_parts, n_acks;
static int deputy, noted, asked; /* -1: none */

static void walk_send(void)
{
	while (n_parts < MESSAGES && copy_next(&c, &part))
		parts[n_parts++] = (struct message){ deputy, part, c.end - c.size };
}

static void walk_deliver(void)
{
	struct message m = parts[0];

	if (!n_parts || n_acks == MESSAGES)
		return;
	memmove(parts, parts + 1, --n_parts * sizeof(*parts));
	if (!m.part.offset) {
		deputies[m.to].base = m.base;
		deputies[m.to].whole = false;
	}
	deputies[m.to].whole |= m.part.whole;
	if (deputies[m.to].whole)
		deputies[m.to].has = deputies[m.to].base + m.part.offset + m.part.len;
	acks[n_acks].number = m.part.number;
	acks[n_acks++].bytes = m.part.offset + m.part.len;
}

static void walk_ack(void)
{
	if (!n_acks)
		return;
	ck_assert_int_eq(copy_acked(&c, acks[0].number, acks[0].bytes), 0);
	memmove(acks, acks + 1, --n_acks * sizeof(*acks));
}

/* Links of hosts that are deputies no more have ended. */
static void walk_change(int to)
{
	size_t kept = 0;

	for (size_t i = 0; i < n_parts; i++)
		if (parts[i].to == to || parts[i].to == noted)
			parts[kept++] = parts[i];
	n_parts = kept;
	deputy = to;
	copy_to(&c, to >= 0);
}

static void walk_step(unsigned what)
{
	switch (what) {
	case 0:
		copy_grown(&c, c.size + (uint64_t)(rand() % 100000));
		break;
	case 1:
		walk_change(rand() % (DEPUTIES + 1) - 1);
		break;
	case 2:
		copy_replaced(&c, 8 + (uint64_t)(rand() % (int)c.size));
		break;
	case 3:
		if (copy_wants_note(&c)) {
			copy_note_asked(&c);
			asked = deputy;
		}
		break;
	case 4:
		if (c.note == COPY_NOTE_ASKED) {
			noted = asked;
			copy_noted(&c);
		}
		break;
	default:
		walk_send();
		walk_deliver();
		walk_ack();
		break;
	}
}

START_TEST(a_noted_host_has_what_answers_rely_on)
{
	uint64_t left = 0;

	for (int seed = 0; seed < 300; seed++) {
		srand((unsigned)seed);
		memset(deputies, 0, sizeof(deputies));
		n_parts = n_acks = 0;
		deputy = noted = -1;
		copy_begin(&c, 8);
		for (int i = 0; i < 400; i++) {
			walk_step((unsigned)rand() % (rand() % 8 ? 12 : 3));
			ck_assert_uint_le(c.kept, c.end);
			if (noted >= 0)
				ck_assert_msg(deputies[noted].has >= c.kept,
					"seed %d, step %d: deputy %d", seed, i, noted);
		}
		left += c.kept;
	}
	ck_assert_uint_gt(left, 100000); /* answers do leave */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue_journal_copy");
	TCase *t = tcase_create("copy");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, without_a_deputy_answers_wait_for_the_note_alone);
	tcase_add_test(t, answers_wait_until_the_deputy_has_their_records);
	tcase_add_test(t, a_deputy_that_is_lost_is_waited_for_until_that_is_noted);
	tcase_add_test(t, a_note_that_is_late_says_nothing_of_a_later_edition);
	tcase_add_test(t, a_file_that_replaces_another_goes_to_the_deputy_as_a_whole);
	tcase_add_test(t, no_more_than_a_window_is_on_its_way);
	tcase_add_test(t, a_deputy_cannot_have_what_was_not_sent);
	tcase_add_test(t, a_noted_host_has_what_answers_rely_on);
	suite_add_tcase(s, t);
	return suite_run(s);
}
