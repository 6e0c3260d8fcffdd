/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"
#include "tests/unit/link_raw.h"
#include "tests/unit/run.h"

static void up(int i)
{
	start_member(i, head_port());
	UNTIL(members[i].ups && n_joined > i && heads[i].ups);
}

START_TEST(a_link_comes_up_and_each_side_knows_the_other)
{
	struct sockaddr_storage own;

	up(0);
	ck_assert_str_eq(link_peer(heads[0].link)->host, "node1");
	ck_assert_str_eq(link_peer(heads[0].link)->version, VERSION);
	ck_assert_ptr_null(link_peer(heads[0].link)->run);
	ck_assert_str_eq(link_peer(members[0].link)->run, "r1");
	ck_assert_str_eq(link_peer(members[0].link)->host, "node0");
	ck_assert_uint_eq(link_peer(members[0].link)->lease_ms, WORLD_LEASE_MS);
	ck_assert_str_eq(link_peer(members[0].link)->word, link_peer(heads[0].link)->word);
	ck_assert_int_eq(link_local_at(members[0].link, &own), 0);
	ck_assert_uint_eq(((struct sockaddr_in *)&own)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}
END_TEST

START_TEST(messages_go_both_ways_and_before_the_link_is_up)
{
	start_member(0, head_port());
	for (int i = 0; i < 5; i++)
		say(&members[0]);
	UNTIL(n_joined);
	for (int i = 0; i < 7; i++)
		say(&heads[0]);
	settle(0);
	ck_assert_int_eq(heads[0].got, 5);
	ck_assert_int_eq(members[0].got, 7);
}
END_TEST

START_TEST(long_messages_and_many_arrive)
{
	char *text = calloc(1, 3 << 20);

	memset(text, 'x', (3 << 20) - 1);
	up(0);
	for (int i = 0; i < 3000; i++)
		say(&members[0]);
	ck_assert_int_eq(
		link_send(heads[0].link, "Unable", json_pack("{s:i,s:s}", "round", 1, "why", text)),
		0);
	for (int i = 0; i < 3000; i++)
		say(&heads[0]);
	settle(0);
	ck_assert_int_eq(members[0].waits, 0);
	free(text);
}
END_TEST

START_TEST(beats_come_five_times_in_a_lease_and_show_the_clocks)
{
	int before;

	up(0);
	AT_ONCE(members[0].beats);
	before = members[0].beats;
	for (int i = 0; i < 10; i++) {
		loop_pass(loop, WORLD_LEASE_MS / 5 - 1);
		turns(8);
		ck_assert_int_eq(members[0].beats, before + i);
		loop_pass(loop, 1);
		AT_ONCE(members[0].beats > before + i);
	}
	ck_assert_int_eq(members[0].beats, before + 10);
	ck_assert_int_eq(heads[0].beats, members[0].beats);
	ck_assert(members[0].beat.clock_known);
	ck_assert(heads[0].beat.clock_known);
	ck_assert_int_le(llabs(members[0].beat.offset_us), members[0].beat.uncertainty_us);
	ck_assert_int_le(members[0].beat.sent_boot_us, boottime_us());
	ck_assert_int_gt(heads[0].beat.came_boot_us, 0);
}
END_TEST

START_TEST(beats_acknowledge_what_was_sent)
{
	up(0);
	say(&members[0]);
	say(&heads[0]);
	settle(0);
	link_finish(members[0].link, WORLD_LEASE_MS);
	link_finish(heads[0].link, WORLD_LEASE_MS);
	UNTIL_BEAT(members[0].ends && heads[0].ends);
	ck_assert(members[0].ended_well && heads[0].ended_well);
}
END_TEST

START_TEST(end_and_bye_close_a_link_in_order_at_once)
{
	up(0);
	ck_assert_int_eq(link_send(heads[0].link, "End", NULL), 0);
	AT_ONCE(!strcmp(members[0].last, "End"));
	ck_assert_int_eq(link_send(members[0].link, "Bye", NULL), 0);
	link_finish(members[0].link, 5000);
	ck_assert_int_eq(link_send(members[0].link, "Bye", NULL), -ECONNRESET);
	AT_ONCE(!strcmp(heads[0].last, "Bye"));
	link_finish(heads[0].link, 5000);
	AT_ONCE(members[0].ends && heads[0].ends);
	ck_assert(members[0].ended_well);
	ck_assert(heads[0].ended_well);
}
END_TEST

START_TEST(a_link_that_cannot_finish_ends_after_its_limit)
{
	up(0);
	say(&members[0]);
	link_finish(members[0].link, 3000);
	head = (heads[0].link = link_free(heads[0].link), link_listen_free(head));
	UNTIL(members[0].ends);
	ck_assert(!members[0].ended_well);
	ck_assert_str_eq(
		members[0].why.text, "the other side has not acknowledged the last 1 messages");
}
END_TEST

START_TEST(a_message_that_its_handler_refuses_ends_the_link_on_both_sides)
{
	up(0);
	heads[0].refuses = true;
	say(&members[0]);
	UNTIL(members[0].ends && heads[0].ends);
	ck_assert_str_eq(heads[0].why.text, "parameters.round: expected another one");
	ck_assert_str_eq(members[0].why.field, "parameters.round");
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "expected another one"));
	ck_assert_int_eq(members[0].ups, 1);
	ck_assert_int_eq(link_send(members[0].link, "Bye", NULL), -ECONNRESET);
}
END_TEST

START_TEST(a_handler_may_free_its_link)
{
	up(0);
	heads[0].frees = members[0].frees = true;
	say(&members[0]);
	say(&members[0]);
	UNTIL(!heads[0].link);
	ck_assert_int_eq(heads[0].got, 1);
	UNTIL(members[0].ends);
	ck_assert_str_eq(members[0].why.field, "parameters.session");
}
END_TEST

START_TEST(a_restarted_head_refuses_old_links)
{
	int port, kept;

	up(0);
	heads[0].link = link_free(heads[0].link);
	kept = stop_head(&port);
	UNTIL(members[0].waits);
	start_head(port);
	UNTIL(members[0].ends);
	ck_assert_str_eq(members[0].why.field, "parameters.head");
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "which this head serves"));
	close(kept);
}
END_TEST

START_TEST(members_of_another_group_or_run_learn_which_one_is_here)
{
	struct link_identity other = identity("node1", NULL);

	other.group = "g2";
	start_member_as(0, head_port(), other);
	start_member_as(1, head_port(), identity("node2", "r2"));
	UNTIL(members[0].ends && members[1].ends);
	ck_assert_str_eq(members[0].why.field, "rendezvous.id");
	ck_assert_ptr_nonnull(strstr(members[0].why.text,
		"refused this host: rendezvous.id: expected g1, which this head serves, got g2"));
	ck_assert_ptr_nonnull(strstr(members[1].why.text,
		"parameters.run: expected r1, which this head serves, got r2"));
	ck_assert_int_eq(n_joined, 0);
}
END_TEST

START_TEST(the_owner_may_refuse_a_member)
{
	refuse_join = true;
	start_member(0, head_port());
	UNTIL(members[0].ends);
	ck_assert_str_eq(members[0].why.field, "parameters.host");
	ck_assert_int_eq(n_refused, 1);
}
END_TEST

START_TEST(a_member_that_does_not_read_for_a_lease_is_given_up)
{
	char text[8192] = "", body[65600];
	int fd = raw_connect(head_port());

	raw_say(fd, "Hello", HELLO);
	UNTIL(n_joined && heads[0].ups);
	turns(8);
	snprintf(body, sizeof(body), "{\"round\":1,\"why\":\"%065500d\"}", 0);
	for (int i = 0; i < 70; i++)
		ck_assert_int_eq(link_send_text(heads[0].link, "Unable", body, strlen(body)), 0);
	loop_pass(loop, WORLD_LEASE_MS - 1);
	turns(8);
	ck_assert_int_eq(heads[0].ends, 0);
	loop_pass(loop, 1);
	AT_ONCE(heads[0].ends);
	ck_assert_int_eq(heads[0].why.code, -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(heads[0].why.text,
		"bytes have waited for the other side to read them (limit 4194304 bytes"));
	raw_read(fd, text, sizeof(text));
	close(fd);
}
END_TEST

static int n_relieved;

static void on_relieved(void *arg)
{
	n_relieved++;
}

START_TEST(a_sender_learns_when_to_wait_and_when_to_go_on)
{
	char body[65600];

	up(0);
	n_relieved = 0;
	snprintf(body, sizeof(body), "{\"round\":1,\"why\":\"%065500d\"}", 0);
	ck_assert(!link_congested(heads[0].link, on_relieved, NULL));
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(link_send_text(heads[0].link, "Unable", body, strlen(body)), 0);
	ck_assert(link_congested(heads[0].link, on_relieved, NULL));
	UNTIL(n_relieved);
	ck_assert(!link_congested(heads[0].link, on_relieved, NULL));
	ck_assert_int_eq(n_relieved, 1);
}
END_TEST

/* Gives the head's link 72 MiB to send, before it has a turn. */
static void overfill(void)
{
	size_t size = 6 << 20;
	char *body = malloc(size);

	up(0);
	memset(body, 'x', size);
	memcpy(body, "{\"round\":1,\"why\":\"", 18);
	memcpy(body + size - 2, "\"}", 2);
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(link_send_text(heads[0].link, "Unable", body, size), 0);
	free(body);
}

START_TEST(more_than_64_mib_unread_end_a_link_at_once)
{
	overfill();
	turns(1);
	ck_assert_int_eq(heads[0].ends, 1);
	ck_assert_int_eq(heads[0].why.code, -ENOBUFS);
}
END_TEST

/* The head took a lease to write it all, so that the limit for less is over, too. */
START_TEST(the_limit_in_bytes_is_reported_before_the_limit_in_time)
{
	overfill();
	loop_pass(loop, WORLD_LEASE_MS);
	turns(1);
	ck_assert_int_eq(heads[0].ends, 1);
	ck_assert_int_eq(heads[0].why.code, -ENOBUFS);
	ck_assert_str_eq(
		heads[0].why.text, "more than 64 MiB wait for the other side to read them");
}
END_TEST

START_TEST(the_guard_of_a_dead_agent_reports_by_last_word)
{
	char parameters[256], text[1024] = "";
	int fd;

	up(0);
	fd = raw_connect(head_port());
	snprintf(parameters, sizeof(parameters),
		"{\"major\":1,\"minor\":0,\"group\":\"g1\",\"agent\":\"node1\",\"word\":\"%s\"}",
		link_peer(members[0].link)->word);
	raw_say(fd, "LastWord", parameters);
	UNTIL(n_last_words);
	close(fd);
	fd = raw_connect(head_port());
	raw_say(fd, "LastWord",
		"{\"major\":1,\"minor\":0,\"group\":\"g1\",\"agent\":\"node1\",\"word\":\"x\"}");
	UNTIL(raw_read(fd, text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "parameters.word"));
	ck_assert_int_eq(n_last_words, 1);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link");
	TCase *t = tcase_create("link");

	tcase_add_checked_fixture(t, world_setup, world_teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_link_comes_up_and_each_side_knows_the_other);
	tcase_add_test(t, messages_go_both_ways_and_before_the_link_is_up);
	tcase_add_test(t, long_messages_and_many_arrive);
	tcase_add_test(t, beats_come_five_times_in_a_lease_and_show_the_clocks);
	tcase_add_test(t, beats_acknowledge_what_was_sent);
	tcase_add_test(t, end_and_bye_close_a_link_in_order_at_once);
	tcase_add_test(t, a_link_that_cannot_finish_ends_after_its_limit);
	tcase_add_test(t, a_message_that_its_handler_refuses_ends_the_link_on_both_sides);
	tcase_add_test(t, a_handler_may_free_its_link);
	tcase_add_test(t, a_restarted_head_refuses_old_links);
	tcase_add_test(t, members_of_another_group_or_run_learn_which_one_is_here);
	tcase_add_test(t, the_owner_may_refuse_a_member);
	tcase_add_test(t, a_member_that_does_not_read_for_a_lease_is_given_up);
	tcase_add_test(t, a_sender_learns_when_to_wait_and_when_to_go_on);
	tcase_add_test(t, more_than_64_mib_unread_end_a_link_at_once);
	tcase_add_test(t, the_limit_in_bytes_is_reported_before_the_limit_in_time);
	tcase_add_test(t, the_guard_of_a_dead_agent_reports_by_last_word);
	suite_add_tcase(s, t);
	return suite_run(s);
}
