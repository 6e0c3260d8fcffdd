/* SPDX-License-Identifier: Apache-2.0 */
/* Beats and their answers from peers that send any times. */
#include "tests/unit/link_raw.h"
#include "tests/unit/run.h"

#include <inttypes.h>

static int server, peer; /* a head in text: where it listens, and its connection to a member */
static char heard[65536];

static void setup(void)
{
	world_setup();
	server = peer = -1;
	heard[0] = '\0';
}

static void teardown(void)
{
	close(peer);
	close(server);
	world_teardown();
}

/* Until the peer has heard these words. */
static const char *hear(const char *words)
{
	UNTIL_BEAT((raw_read(peer, heard, sizeof(heard)), strstr(heard, words)));
	return strstr(heard, words);
}

/* A member that connects to a head in text, which has welcomed it. */
static void be_head(void)
{
	struct link_addresses a = loopback(0);
	socklen_t len = sizeof(struct sockaddr_in);

	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(bind(server, (struct sockaddr *)&a.at[0], len) == 0, "bind");
	must(listen(server, 1) == 0, "listen");
	must(getsockname(server, (struct sockaddr *)&a.at[0], &len) == 0, "name");
	start_member(0, ntohs(((struct sockaddr_in *)&a.at[0])->sin_port));
	UNTIL((peer = accept4(server, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	link_channel_tune(peer, 0);
	hear("Peer.Hello");
	raw_say(peer, "Welcome",
		"{\"major\":1,\"minor\":0,\"group\":\"g1\",\"run\":\"r1\",\"agent\":\"a0\","
		"\"boot\":\"b0\",\"host\":\"node0\",\"version\":\"1\",\"head\":\"h0\","
		"\"word\":\"w0\",\"resume\":0,\"lease_ms\":600000}");
	UNTIL(members[0].ups);
}

/* Answers the next beat with these times; returns when the member has seen the answer. */
static void answer(int64_t time_us, int64_t came_us, int64_t sent_us)
{
	const char *beat = hear("Peer.Beat\""), *boot = strstr(beat, "\"boot_us\":");
	char text[512];
	int before = members[0].beats;

	must(boot, "a beat has its time");
	snprintf(text, sizeof(text),
		"{\"ack\":0,\"boot_us\":%" PRId64 ",\"time_us\":%" PRId64 ",\"came_us\":%" PRId64
		",\"sent_us\":%" PRId64 "}",
		(int64_t)atoll(boot + strlen("\"boot_us\":")), time_us, came_us, sent_us);
	heard[0] = '\0';
	raw_say(peer, "BeatAnswer", text);
	UNTIL(members[0].beats > before || members[0].ends);
	ck_assert_msg(!members[0].ends, "%s", members[0].why.text);
}

static const int64_t impossible[] = { -1, INT64_MIN, INT64_MAX / 8, INT64_MAX - 1, INT64_MAX };
enum { IMPOSSIBLE = sizeof(impossible) / sizeof(impossible[0]) };

START_TEST(a_member_learns_nothing_from_impossible_times)
{
	int64_t now_us = (int64_t)loop_real_us();

	be_head();
	for (int i = 0; i < IMPOSSIBLE; i++) {
		answer(impossible[i], now_us, now_us);
		answer(now_us, impossible[i], impossible[i]);
		answer(now_us, impossible[i], now_us);
		answer(now_us, now_us, impossible[i]);
		answer(impossible[i], impossible[i], impossible[i]);
		ck_assert(!members[0].beat.clock_known);
	}
	ck_assert_ptr_null(strstr(hear("Peer.Beat\""), "offset_us"));
}
END_TEST

START_TEST(impossible_times_change_no_estimate)
{
	int64_t now_us = (int64_t)loop_real_us(), offset_us, uncertainty_us;

	be_head();
	answer(now_us, now_us + 5000000, now_us + 5000000);
	ck_assert(members[0].beat.clock_known);
	offset_us = members[0].beat.offset_us;
	uncertainty_us = members[0].beat.uncertainty_us;
	ck_assert_int_le(llabs(offset_us - 5000000), uncertainty_us);
	for (int i = 0; i < IMPOSSIBLE; i++) {
		answer(impossible[i], now_us, now_us);
		answer(now_us, impossible[i], impossible[i]);
		ck_assert(members[0].beat.clock_known);
		ck_assert_int_eq(members[0].beat.offset_us, offset_us);
		ck_assert_int_eq(members[0].beat.uncertainty_us, uncertainty_us);
	}
	ck_assert_ptr_nonnull(strstr(hear("Peer.Beat\""), "\"uncertainty_us\":"));
}
END_TEST

START_TEST(a_beat_that_was_not_sent_has_no_answer)
{
	be_head();
	hear("Peer.Beat\"");
	raw_say(peer, "BeatAnswer",
		"{\"ack\":0,\"boot_us\":9223372036854775807,\"time_us\":1,\"came_us\":1,"
		"\"sent_us\":1}");
	UNTIL(members[0].ends);
	ck_assert_str_eq(members[0].why.field, "parameters.boot_us");
}
END_TEST

/* A member in text sends a beat with this estimate of the head's clock. */
static void beat(int64_t offset_us, int64_t uncertainty_us)
{
	int before = heads[0].beats;
	char text[512];

	snprintf(text, sizeof(text),
		"{\"ack\":0,\"boot_us\":1,\"time_us\":%" PRId64 ",\"offset_us\":%" PRId64
		",\"uncertainty_us\":%" PRId64 "}",
		offset_us, offset_us, uncertainty_us);
	raw_say(peer, "Beat", text);
	UNTIL(heads[0].beats > before || heads[0].ends);
	ck_assert_msg(!heads[0].ends, "%s", heads[0].why.text);
}

START_TEST(a_head_believes_no_impossible_estimate)
{
	peer = raw_connect(head_port());
	raw_say(peer, "Hello", HELLO);
	UNTIL(n_joined && heads[0].ups);
	beat(-70, 0);
	ck_assert(heads[0].beat.clock_known);
	ck_assert_int_eq(heads[0].beat.offset_us, -70);
	beat(1 - INT64_MAX / 8, INT64_MAX / 8 - 1);
	ck_assert(heads[0].beat.clock_known);
	beat(-INT64_MAX / 8, 1);
	ck_assert(!heads[0].beat.clock_known);
	for (int i = 0; i < IMPOSSIBLE; i++) {
		if (impossible[i] >= 0) { /* the interface refuses others */
			beat(5, impossible[i]);
			ck_assert(!heads[0].beat.clock_known);
		}
		beat(impossible[i], 5);
		ck_assert_int_eq(heads[0].beat.clock_known, impossible[i] == -1);
	}
	ck_assert_int_eq(heads[0].ends, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_beat");
	TCase *t = tcase_create("link_beat");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_member_learns_nothing_from_impossible_times);
	tcase_add_test(t, impossible_times_change_no_estimate);
	tcase_add_test(t, a_beat_that_was_not_sent_has_no_answer);
	tcase_add_test(t, a_head_believes_no_impossible_estimate);
	suite_add_tcase(s, t);
	return suite_run(s);
}
