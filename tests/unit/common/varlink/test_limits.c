/* SPDX-License-Identifier: Apache-2.0 */
/* How much connections may hold together, for how long, and which one gives way. */
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

enum { ALL = 1 << 20, SHARE = 256 << 10, KIB = 1024 };

#define WHAT "bytes of unfinished calls and unread answers of "
#define OVER_SHARE                                                            \
	"{'error':'org.test.demo.ResourceExhausted','parameters':{'message':" \
	"'the limit of 262144 " WHAT "one user is reached','limit':262144}}"
#define OVER_ALL                                                              \
	"{'error':'org.test.demo.ResourceExhausted','parameters':{'message':" \
	"'the limit of 1048576 " WHAT "all is reached','limit':1048576}}"

static uint64_t key; /* of connections from now on; 0 is trusted */

static void account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg)
{
	*ret = (struct varlink_account){ .key = key, .trusted = !key };
}

static struct varlink_options limited(void)
{
	struct varlink_options opt = demo_options();

	opt.account = account;
	opt.count_calls = true;
	opt.limits.bytes = ALL;
	opt.limits.account_bytes = SHARE;
	opt.limits.reserved_bytes = ALL / 4;
	opt.limits.queued_bytes = SHARE;
	return opt;
}

static void restart(const struct varlink_options *opt)
{
	demo_stop();
	demo_start(opt);
}

static void setup(void)
{
	struct varlink_options opt = limited();

	key = 1;
	demo_start(&opt);
}

static int peer_of(uint64_t k)
{
	key = k;
	return new_peer();
}

/* Sends as much as is taken, with the server's turns in between; what is left is the server's to
 * refuse. */
static void push(int fd, const char *data, size_t len)
{
	for (int idle = 0; len && idle < 8;) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		turn();
		if (n < 0 && errno != EAGAIN)
			return;
		idle = n > 0 ? 0 : idle + 1;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static const char *before(const char *method)
{
	static char text[128];

	snprintf(text, sizeof(text), "{\"method\":\"%s\",\"parameters\":{\"%s\":\"", method,
		strcmp(method, DEMO "Echo") ? "key" : "text");
	return text;
}

/* The beginning of a call with that many bytes of its one parameter. */
static void begin_call(int fd, const char *method, size_t len)
{
	size_t n = strlen(before(method));
	char *text = malloc(n + len);

	memcpy(text, before(method), n);
	memset(text + n, 'x', len);
	push(fd, text, n + len);
	free(text);
}

static void whole_call(int fd, const char *method, size_t len)
{
	begin_call(fd, method, len);
	push(fd, "\"}}", 4);
}

static bool is_cut(int fd)
{
	const char *heard = hear(fd);
	size_t len = strlen(heard);

	return len >= 3 && !strcmp(heard + len - 3, "EOF");
}

START_TEST(a_message_that_does_not_come_as_a_whole_is_refused_after_a_time)
{
	struct varlink_options opt = limited();
	int fd, other;

	opt.limits.message_ms = 50;
	loop_freeze();
	restart(&opt);
	fd = peer_of(1);
	other = peer_of(1);
	begin_call(fd, DEMO "Echo", 10);
	loop_pass(loop, 49);
	ck_assert_str_eq(hear(fd), "");
	loop_pass(loop, 1);
	ck_assert_str_eq(hear(fd),
		"{'error':'org.test.demo.ResourceExhausted','parameters':{'message':"
		"'the limit of 50 ms for a call to come as a whole is reached',"
		"'limit':50}}\nEOF");
	/* A peer that sends nothing, or waits for an answer, may take any time. */
	whole_call(other, DEMO "Keep", 1);
	ck_assert_int_eq(varlink_server_connections(server), 1);
	answer_kept(0, "late");
	ck_assert_str_eq(hear(other), "{'parameters':{'key':'late'}}\n");
	close(fd);
	close(other);
}
END_TEST

START_TEST(each_message_has_its_own_time)
{
	struct varlink_options opt = limited();
	int fd;

	opt.limits.message_ms = 200;
	loop_freeze();
	restart(&opt);
	fd = peer_of(1);
	begin_call(fd, DEMO "Echo", 1);
	/* The end of one call with the beginning of the next one. */
	for (int n = 0; n < 5; n++) {
		loop_pass(loop, 199);
		push(fd, "\"}}", 4);
		begin_call(fd, DEMO "Echo", 1);
		ck_assert_ptr_null(strstr(hear(fd), "EOF"));
	}
	close(fd);
}
END_TEST

START_TEST(unfinished_calls_of_one_account_have_its_share_and_a_newcomer_gets_an_error)
{
	int a = peer_of(1), b = peer_of(1), c = peer_of(1), other = peer_of(2);

	begin_call(a, DEMO "Echo", 120 * KIB);
	begin_call(b, DEMO "Echo", 120 * KIB);
	begin_call(c, DEMO "Echo", 120 * KIB);
	ck_assert_str_eq(hear(c), OVER_SHARE "\nEOF");
	/* The first ones go on, and so does another account. */
	begin_call(other, DEMO "Echo", 120 * KIB);
	push(a, "\"}}", 4);
	ck_assert_uint_gt(strlen(hear(a)), 120 * KIB);
	push(other, "\"}}", 4);
	ck_assert_uint_gt(strlen(hear(other)), 120 * KIB);
	push(b, "\"}}", 4);
	ck_assert_uint_gt(strlen(hear(b)), 120 * KIB);
	ck_assert_uint_eq(varlink_server_bytes(server), 0);
	close(a), close(b), close(c), close(other);
}
END_TEST

START_TEST(small_calls_are_served_while_the_share_is_used_up)
{
	int a = peer_of(1), b = peer_of(1);

	begin_call(a, DEMO "Echo", 255 * KIB);
	whole_call(b, DEMO "Echo", 3);
	ck_assert_str_eq(hear(b), "{'parameters':{'text':'xxx'}}\n");
	close(a), close(b);
}
END_TEST

/* Each leaves more unread than sockets take. */
START_TEST(an_answer_that_there_is_no_room_for_is_an_error_in_its_place)
{
	enum { PEERS = 40 };
	int fds[PEERS], refused = 0, served = 0;

	for (int i = 0; i < PEERS; i++) {
		int small = 4096;

		fds[i] = peer_of(1);
		ck_assert_int_eq(
			setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
		for (int k = 0; k < 4; k++)
			whole_call(fds[i], DEMO "Echo", 100 * KIB);
		ck_assert_uint_le(varlink_server_bytes(server), SHARE);
	}
	for (int i = 0; i < PEERS; i++) {
		const char *heard = hear(fds[i]);

		refused += strstr(heard, OVER_SHARE) != NULL;
		served += strstr(heard, "xxx") != NULL;
		close(fds[i]);
	}
	ck_assert_int_gt(refused, 0);
	ck_assert_int_gt(served, 0);
	turn();
	ck_assert_uint_eq(varlink_server_bytes(server), 0);
}
END_TEST

START_TEST(the_largest_account_is_cut_for_a_smaller_one)
{
	int a = peer_of(1), b = peer_of(2), c = peer_of(3), small = peer_of(3), d = peer_of(4);

	begin_call(a, DEMO "Echo", 240 * KIB);
	begin_call(b, DEMO "Echo", 240 * KIB);
	begin_call(small, DEMO "Echo", 15 * KIB);
	begin_call(c, DEMO "Echo", 240 * KIB);
	ck_assert_int_eq(varlink_server_connections(server), 5);
	/* 735 KiB of 768 are taken by three; the third has 255 of them. */
	begin_call(d, DEMO "Echo", 120 * KIB);
	ck_assert(is_cut(c));
	ck_assert_int_eq(varlink_server_connections(server), 4);
	push(d, "\"}}", 4);
	ck_assert_uint_gt(strlen(hear(d)), 120 * KIB);
	/* An account that would have the most itself gets the error. */
	begin_call(d, DEMO "Echo", 250 * KIB);
	begin_call(small, DEMO "Echo", 235 * KIB);
	ck_assert(is_cut(d));
	close(a), close(b), close(c), close(d), close(small);
}
END_TEST

START_TEST(the_last_part_is_for_the_trusted)
{
	int fds[4], root = peer_of(0);

	for (int i = 0; i < 4; i++) {
		fds[i] = peer_of(1 + (uint64_t)i);
		begin_call(fds[i], DEMO "Echo", 190 * KIB);
	}
	/* None of the others has as much as this one would have then. */
	begin_call(fds[0], DEMO "Echo", 20 * KIB);
	ck_assert_str_eq(hear(fds[0]), OVER_ALL "\nEOF");
	ck_assert_int_eq(varlink_server_connections(server), 4);
	fds[0] = peer_of(1);
	begin_call(fds[0], DEMO "Echo", 190 * KIB);
	begin_call(root, DEMO "Echo", 250 * KIB);
	push(root, "\"}}", 4);
	ck_assert_uint_gt(strlen(hear(root)), 250 * KIB);
	ck_assert_int_eq(varlink_server_connections(server), 5);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(root);
}
END_TEST

START_TEST(calls_that_are_not_answered_count_and_hold_back_the_next_ones)
{
	int a = peer_of(1), b = peer_of(1), c = peer_of(1);

	for (int i = 0; i < 2; i++)
		whole_call(a, DEMO "Keep", 80 * KIB);
	/* With the second one more than half of the share would be open. */
	ck_assert_int_eq(n_kept, 1);
	ck_assert_uint_gt(varlink_server_bytes(server), 80 * KIB);
	whole_call(b, DEMO "Keep", 80 * KIB);
	ck_assert_int_eq(n_kept, 2);
	whole_call(c, DEMO "Keep", 80 * KIB);
	ck_assert_str_eq(hear(c), OVER_SHARE "\nEOF");
	answer_kept(1, "1");
	answer_kept(0, "0");
	turn();
	ck_assert_int_eq(n_kept, 3);
	close(a), close(b), close(c);
}
END_TEST

/* A list of some thousand numbers takes much more room than its text. */
START_TEST(values_of_calls_that_are_not_answered_count)
{
	static const char head[] = "{\"method\":\"" DEMO "Keep\",\"parameters\":{\"list\":[1";
	static const char tail[] = "]}}";
	char text[16 * KIB];
	size_t n = sizeof(head) - 1;
	int a = peer_of(1), b = peer_of(1), c = peer_of(1);

	memcpy(text, head, n);
	for (int i = 0; i < 2400; i++, n += 2)
		memcpy(text + n, ",1", 2);
	memcpy(text + n, tail, sizeof(tail));
	n += sizeof(tail);
	say_bytes(a, text, n);
	turn();
	ck_assert_int_eq(n_kept, 1);
	ck_assert_uint_gt(varlink_server_bytes(server), 100 * KIB);
	say_bytes(b, text, n);
	turn();
	ck_assert_int_eq(n_kept, 2);
	say_bytes(c, text, n);
	ck_assert_str_eq(hear(c), OVER_SHARE "\n");
	answer_kept(1, "1");
	answer_kept(0, "0");
	turn();
	ck_assert_uint_eq(varlink_server_bytes(server), 0);
	close(a), close(b), close(c);
}
END_TEST

START_TEST(a_stream_is_paused_early_while_its_account_holds_much)
{
	int stream = peer_of(1), a = peer_of(1);
	char text[4096];
	int n = 0;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	call_method(stream, DEMO "Keep", "{}", ",'more':true");
	turn();
	begin_call(a, DEMO "Echo", 140 * KIB);
	while (!varlink_call_congested(kept[0], demo_gone, &kept[200])) {
		ck_assert_int_eq(varlink_notify(kept[0], json_pack("{s:s}", "key", text)), 0);
		turn();
		ck_assert_int_lt(++n, 1000);
	}
	/* As much as the socket has taken, and a little. */
	ck_assert_uint_lt(varlink_server_bytes(server), 140 * KIB + 80 * KIB);
	n_gone = 0;
	hear(stream);
	ck_assert_int_eq(n_gone, 1);
	close(stream), close(a);
}
END_TEST

/* --- turns --- */

enum { CROWD = 40, CALLS = 100, CALLS_OF_TURN = 128 };

static int crowd[CROWD];

/* Many connections of one account, each of which sends many small calls at once. */
static void pipeline(const char *rest)
{
	char call[128], many[CALLS * sizeof(call)];
	size_t n = 1 + (size_t)snprintf(call, sizeof(call),
			       "{\"method\":\"" DEMO "Echo\",\"parameters\":{\"text\":\"x\"}%s}",
			       rest);

	for (int i = 0; i < CALLS; i++)
		memcpy(many + i * n, call, n);
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = peer_of(1);
		say_bytes(crowd[i], many, CALLS * n);
	}
}

static int handled_in_a_turn(void)
{
	int before = n_handled;

	loop_run_once(loop, false);
	return n_handled - before;
}

START_TEST(connections_of_one_account_share_its_part_of_each_turn)
{
	char buf[256];
	int other = peer_of(2), n;

	pipeline("");
	whole_call(other, DEMO "Echo", 1);
	ck_assert_int_gt(recv(other, buf, sizeof(buf), MSG_DONTWAIT), 0);
	close(other);
	for (int i = 0; i < 5; i++) {
		n = handled_in_a_turn();
		ck_assert_int_le(n, CALLS_OF_TURN);
		ck_assert_int_gt(n, 0); /* fewer where a turn is slow */
	}
	/* None waits for the others' last. */
	for (int i = 0; i < CROWD; i++)
		ck_assert_int_gt(recv(crowd[i], buf, 1, MSG_DONTWAIT), 0);
	while (n_handled < CROWD * CALLS + 1)
		ck_assert_int_gt(handled_in_a_turn(), 0);
	for (int i = 0; i < CROWD; i++) {
		n = 0;
		for (const char *heard = hear(crowd[i]); *heard; heard++)
			n += *heard == '\n';
		ck_assert_int_eq(n, CALLS);
		close(crowd[i]);
	}
}
END_TEST

START_TEST(the_first_turn_is_no_longer_than_others)
{
	int other = peer_of(2);

	pipeline("");
	call_method(other, DEMO "Echo", "{'text':'x'}", "");
	ck_assert_int_le(handled_in_a_turn(), 2 * CALLS_OF_TURN + 1);
	close(other);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}
END_TEST

START_TEST(calls_that_wait_for_their_turn_are_handled_though_their_peer_has_left)
{
	pipeline(",\"oneway\":true");
	loop_run_once(loop, false);
	ck_assert_int_lt(n_handled, CROWD * CALLS);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
	while (varlink_server_connections(server))
		loop_run_once(loop, false);
	ck_assert_int_eq(n_handled, CROWD * CALLS);
}
END_TEST

START_TEST(answers_that_wait_for_their_turn_have_come)
{
	pipeline("");
	loop_run_once(loop, false);
	ck_assert_int_lt(n_handled, CROWD * CALLS);
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, CROWD * CALLS);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}
END_TEST

START_TEST(the_trusted_have_no_part)
{
	key = 0;
	for (int i = 0; i < CROWD; i++)
		crowd[i] = new_peer();
	for (int i = 0; i < CROWD; i++)
		for (int k = 0; k < 10; k++)
			call_method(crowd[i], DEMO "Echo", "{'text':'x'}", "");
	ck_assert_int_gt(handled_in_a_turn(), 2 * CALLS_OF_TURN);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}
END_TEST

/* Each call takes 3 ms. */
static int dear(struct varlink_call *call, const char *method, json_t *parameters, void *arg)
{
	loop_pass(loop, 3);
	return 0;
}

static void setup_dear(void)
{
	struct varlink_options opt = limited();

	opt.authorize = dear;
	restart(&opt);
}

START_TEST(costly_calls_of_one_account_share_its_time_in_each_turn)
{
	int other = peer_of(2);
	char byte;

	setup_dear();
	close(other);
	other = peer_of(2);
	pipeline("");
	call_method(other, DEMO "Echo", "{'text':'x'}", "");
	/* Two for what came and two for what waits in each turn, and one of the other. Not all
	 * descriptors are reported in the first turn. */
	ck_assert_int_le(handled_in_a_turn() + handled_in_a_turn(), 4 + 4 + 1);
	ck_assert_int_gt(recv(other, &byte, 1, MSG_DONTWAIT), 0);
	/* None of them waits for the others' last. */
	for (int i = 0; i < CROWD + 8; i++)
		ck_assert_int_le(handled_in_a_turn(), 2);
	for (int i = 0; i < CROWD; i++)
		ck_assert_int_gt(recv(crowd[i], &byte, 1, MSG_DONTWAIT), 0);
	while (n_handled < CROWD * CALLS + 1)
		ck_assert_int_gt(handled_in_a_turn(), 0);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
	close(other);
}
END_TEST

START_TEST(costly_calls_of_the_trusted_do_not_wait)
{
	int fds[8];

	setup_dear();
	for (int i = 0; i < 8; i++)
		fds[i] = peer_of(0);
	for (int i = 0; i < 8; i++)
		call_method(fds[i], DEMO "Echo", "{'text':'x'}", "");
	ck_assert_int_eq(handled_in_a_turn(), 8);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}
END_TEST

/* --- connections --- */

static const char *over(const char *what, int limit)
{
	static char text[256];

	snprintf(text, sizeof(text),
		"{'error':'org.test.demo.ResourceExhausted','parameters':{'message':"
		"'the limit of %d %s is reached','limit':%d}}\nEOF",
		limit, what, limit);
	return text;
}

static int refused_peer(uint64_t k)
{
	int p[2];

	key = k;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_eq(varlink_server_add_connection(server, p[1], &err), -EUSERS);
	return p[0];
}

static void limit_connections(void)
{
	struct varlink_options opt = limited();

	opt.limits.connections = 16;
	opt.limits.account_connections = 4;
	opt.limits.reserved_connections = 4;
	restart(&opt);
}

START_TEST(connections_of_one_account_have_their_share)
{
	int fds[4], fd;

	limit_connections();
	for (int i = 0; i < 4; i++)
		fds[i] = peer_of(1);
	fd = refused_peer(1);
	ck_assert_str_eq(hear(fd), over("connections of one user", 4));
	close(fd);
	close(fds[0]);
	turn();
	fds[0] = peer_of(1);
	fd = peer_of(2);
	ck_assert_int_eq(varlink_server_connections(server), 5);
	close(fd);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}
END_TEST

START_TEST(where_all_connections_are_taken_the_greediest_gives_one_up)
{
	int fds[12], fd, root[4], n = 0;

	limit_connections();
	for (int i = 0; i < 12; i++)
		fds[i] = peer_of(1 + (uint64_t)i / 4);
	for (int i = 0; i < 4; i++)
		root[i] = peer_of(0);
	ck_assert_int_eq(varlink_server_connections(server), 16);
	fd = peer_of(7);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 16);
	for (int i = 0; i < 12; i++)
		n += is_cut(fds[i]);
	ck_assert_int_eq(n, 1);
	whole_call(fd, DEMO "Echo", 1);
	ck_assert_str_eq(hear(fd), "{'parameters':{'text':'x'}}\n");
	whole_call(root[0], DEMO "Echo", 1);
	ck_assert_str_eq(hear(root[0]), "{'parameters':{'text':'x'}}\n");
	for (int i = 0; i < 12; i++)
		close(fds[i]);
	for (int i = 0; i < 4; i++)
		close(root[i]);
	close(fd);
}
END_TEST

static const char *refuse_all(const struct varlink_peer *who, json_t **ret_parameters, void *arg)
{
	ck_assert_uint_eq(who->uid, getuid());
	*ret_parameters = json_pack("{s:s}", "why", "not here");
	return "Refused";
}

START_TEST(an_unwelcome_peer_is_refused_before_its_bytes_are_read)
{
	struct varlink_options opt = limited();
	int fd;

	opt.refuses = refuse_all;
	restart(&opt);
	fd = refused_peer(1);
	ck_assert_int_eq(varlink_server_connections(server), 0);
	ck_assert_str_eq(
		hear(fd), "{'error':'org.test.demo.Refused','parameters':{'why':'not here'}}\nEOF");
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_limits");
	TCase *t = tcase_create("varlink_limits");

	tcase_add_checked_fixture(t, setup, demo_stop);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_message_that_does_not_come_as_a_whole_is_refused_after_a_time);
	tcase_add_test(t, each_message_has_its_own_time);
	tcase_add_test(
		t, unfinished_calls_of_one_account_have_its_share_and_a_newcomer_gets_an_error);
	tcase_add_test(t, small_calls_are_served_while_the_share_is_used_up);
	tcase_add_test(t, an_answer_that_there_is_no_room_for_is_an_error_in_its_place);
	tcase_add_test(t, the_largest_account_is_cut_for_a_smaller_one);
	tcase_add_test(t, the_last_part_is_for_the_trusted);
	tcase_add_test(t, calls_that_are_not_answered_count_and_hold_back_the_next_ones);
	tcase_add_test(t, values_of_calls_that_are_not_answered_count);
	tcase_add_test(t, a_stream_is_paused_early_while_its_account_holds_much);
	tcase_add_test(t, connections_of_one_account_share_its_part_of_each_turn);
	tcase_add_test(t, the_first_turn_is_no_longer_than_others);
	tcase_add_test(t, calls_that_wait_for_their_turn_are_handled_though_their_peer_has_left);
	tcase_add_test(t, answers_that_wait_for_their_turn_have_come);
	tcase_add_test(t, the_trusted_have_no_part);
	tcase_add_test(t, costly_calls_of_one_account_share_its_time_in_each_turn);
	tcase_add_test(t, costly_calls_of_the_trusted_do_not_wait);
	tcase_add_test(t, connections_of_one_account_have_their_share);
	tcase_add_test(t, where_all_connections_are_taken_the_greediest_gives_one_up);
	tcase_add_test(t, an_unwelcome_peer_is_refused_before_its_bytes_are_read);
	suite_add_tcase(s, t);
	return suite_run(s);
}
