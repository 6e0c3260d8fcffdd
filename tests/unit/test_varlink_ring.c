/* SPDX-License-Identifier: Apache-2.0 */
/* Connections with a ring: who gets one, and who is answered how. */
#include "tests/unit/random.h"
#include "tests/unit/ring_peer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static bool same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
	       sa.st_dev == sb.st_dev;
}

/* --- how one is had */

START_TEST(the_server_keeps_no_descriptor_of_a_ring)
{
	/* The two ends of the socket. */
	ck_assert_int_eq(count_fds(), n_fds + 2);
	ck_assert_str_eq(hear(peer.fd), "");
	end_ring_peer(&peer);
	turn();
	ck_assert_int_eq(count_fds(), n_fds);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(another_descriptor_goes_with_it)
{
	int fd = new_peer(), fds[8], also = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char text[256];

	snprintf(text, sizeof(text), "{'also':%d}", also);
	call_method(fd, DEMO "Share", text, "");
	call_method(fd, DEMO "Echo", "{'text':'a'}", "");
	turn();
	ck_assert_int_eq(receive_fds(fd, text, sizeof(text), fds), 2);
	ck_assert_int_eq(strncmp(text, SHARED, strlen(SHARED)), 0);
	ck_assert(same_file(fds[1], also));
	ck_assert(!same_file(fds[0], also));
	ck_assert_int_eq(fcntl(also, F_GETFD), FD_CLOEXEC);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(also);
	close(fd);
	end_ring_peer(&peer);
	turn();
	ck_assert_int_eq(count_fds(), n_fds);
}
END_TEST

START_TEST(descriptors_go_to_who_has_asked)
{
	int other = new_peer(), asks = new_peer(), fds[8];
	char text[256];

	for (int i = 0; i < 3; i++) {
		call_method(other, DEMO "Echo", "{'text':'a'}", "");
		if (i == 1)
			say(asks, SHARE);
		turn();
		ck_assert_int_eq(receive_fds(other, text, sizeof(text), fds), 0);
		ck_assert_str_eq(text, ECHOED("a"));
	}
	ck_assert_int_eq(receive_fds(asks, text, sizeof(text), fds), 1);
	close(fds[0]);
	/* And with one answer. */
	call_method(asks, DEMO "Echo", "{'text':'a'}", "");
	turn();
	ck_assert_int_eq(receive_fds(asks, text, sizeof(text), fds), 0);
	ck_assert_str_eq(text, ECHOED("a"));
	close(other);
	close(asks);
}
END_TEST

#define NO_RING(errno) \
	"{'error':'org.test.demo.Failed','parameters':{'message':'no ring','errno':" errno "}}\n"

START_TEST(a_connection_has_one_ring)
{
	say(peer.fd, SHARE);
	ck_assert_str_eq(hear(peer.fd), NO_RING("114"));
	ask(&peer, SHARE);
	ck_assert_str_eq(hear_ring(&peer), NO_RING("114"));
	ask(&peer, ECHO("a"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
	ck_assert_int_eq(count_fds(), n_fds + 2);
}
END_TEST

START_TEST(a_connection_with_open_calls_gets_none)
{
	int fd = new_peer();

	say(fd, KEEP);
	say(fd, SHARE);
	turn();
	answer_kept(0, "x");
	ck_assert_str_eq(hear(fd), KEPT("x") NO_RING("16"));
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), SHARED);
	close(fd);
}
END_TEST

START_TEST(answers_that_are_ready_leave_before_it)
{
	static const char both[] =
		"{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"a\"}}\0"
		"{\"method\":\"org.test.demo.Share\"}";
	int fd = new_peer(), fds[8];
	char text[256];

	/* In one write. */
	say_bytes(fd, both, sizeof(both));
	turn();
	ck_assert_int_eq(receive_fds(fd, text, sizeof(text), fds), 1);
	ck_assert_str_eq(text, ECHOED("a") SHARED);
	close(fds[0]);
	close(fd);
}
END_TEST

START_TEST(who_wants_no_answer_gets_none)
{
	int fd = new_peer(), before = count_fds();

	call_method(fd, DEMO "Share", "{}", ",'oneway':true");
	ck_assert_str_eq(hear(fd), "");
	ck_assert_int_eq(count_fds(), before);
	/* So it has none. */
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), SHARED);
	close(fd);
}
END_TEST

START_TEST(where_there_are_no_descriptors_the_call_can_be_answered_otherwise)
{
	struct rlimit l;
	int fd = new_peer();
	rlim_t before;

	call_method(fd, DEMO "Share", "{'also':999999}", "");
	ck_assert_str_eq(hear(fd), NO_RING("9"));
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
	before = l.rlim_cur;
	l.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), NO_RING("24"));
	l.rlim_cur = before;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), SHARED);
	close(fd);
}
END_TEST

/* Before anything else has its number, it is closed once more. */
START_TEST(who_cannot_be_handed_a_ring_is_not_kept_waiting)
{
	int fd = new_peer(), before = count_fds(), n = varlink_server_connections(server);

	spoils_rings = true;
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), "EOF");
	spoils_rings = false;
	ck_assert_int_eq(varlink_server_connections(server), n - 1);
	ck_assert_int_eq(count_fds(), before - 1);
	close(fd);
}
END_TEST

/* The answer does not fit the interface: the call ends with Failed, and not a second time. */
START_TEST(an_answer_that_cannot_be_given_ends_the_call_without_a_ring)
{
	int fd = new_peer(), before = count_fds();

	n_unrung = 0;
	varlink_server_check_replies(server, true);
	call_method(fd, DEMO "Share", "{'text':'x'}", "");
	ck_assert_ptr_nonnull(strstr(hear(fd), "does not fit the interface"));
	ck_assert_int_eq(n_unrung, 1);
	ck_assert_int_eq(count_fds(), before);
	say(fd, SHARE);
	ck_assert_str_eq(hear(fd), SHARED);
	close(fd);
}
END_TEST

static void leaving(void *arg)
{
}

START_TEST(who_vanishes_before_its_descriptors_leave_leaves_none_behind)
{
	struct varlink_options opt = ring_options();
	int fd, before;

	opt.leaving = leaving;
	restart_with_peer(&opt);
	before = count_fds();
	for (int i = 0; i < 20; i++) {
		fd = new_peer();
		say(fd, SHARE);
		if (i % 2)
			turn();
		else
			varlink_server_receive(server);
		close(fd);
		turn();
		ck_assert_int_eq(count_fds(), before);
	}
}
END_TEST

/* --- calls and answers */

START_TEST(who_calls_by_the_ring_is_answered_by_it)
{
	for (int i = 0; i < 3000; i++) {
		ask(&peer, ECHO("a"));
		ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
	}
	ck_assert_str_eq(hear(peer.fd), "");
	ck_assert(!ring_spilled(&peer.ring));
}
END_TEST

START_TEST(who_calls_by_the_socket_is_answered_there)
{
	for (int i = 0; i < 10; i++) {
		say(peer.fd, ECHO("a"));
		ck_assert_str_eq(hear(peer.fd), ECHOED("a"));
		ck_assert_int_eq(ring_ready(&peer.ring), 0);
		ask(&peer, ECHO("b"));
		ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
		ck_assert_str_eq(hear(peer.fd), "");
	}
}
END_TEST

START_TEST(answers_keep_the_order_of_calls)
{
	ask(&peer, KEEP);
	turn();
	put(&peer, ECHO("b"), true);
	ask(&peer, ECHO("c"));
	ck_assert_str_eq(hear_ring(&peer), "");
	answer_kept(0, "x");
	ck_assert_str_eq(hear_ring(&peer), KEPT("x") ECHOED("b") ECHOED("c"));
}
END_TEST

START_TEST(a_call_without_an_answer_has_none)
{
	ask(&peer, "{'method':'org.test.demo.Echo','parameters':{'text':'a'},'oneway':true}");
	ck_assert_str_eq(hear_ring(&peer), "");
	ck_assert_int_eq(n_handled, 2);
	ask(&peer, ECHO("b"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
}
END_TEST

START_TEST(a_stream_comes_by_the_ring)
{
	ask(&peer, "{'method':'org.test.demo.Keep','parameters':{},'more':true}");
	turn();
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(varlink_notify(kept[0], json_pack("{s:s}", "key", "n")), 0);
		ck_assert_str_eq(hear_ring(&peer), "{'parameters':{'key':'n'},'continues':true}\n");
	}
	answer_kept(0, "x");
	ck_assert_str_eq(hear_ring(&peer), KEPT("x"));
	ck_assert_str_eq(hear(peer.fd), "");
}
END_TEST

START_TEST(a_call_in_pieces_is_one)
{
	const char *text = ECHO("a");
	char piece[2] = "";

	for (size_t i = 0; text[i]; i++) {
		piece[0] = text[i];
		put(&peer, piece, false);
		/* A bell is none of its bytes. */
		say_bytes(peer.fd, "", 1);
		ck_assert_str_eq(hear_ring(&peer), "");
	}
	put(&peer, "", true);
	bell(&peer);
	ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
}
END_TEST

START_TEST(bells_say_nothing)
{
	static const char bells[3000];

	say_bytes(peer.fd, bells, sizeof(bells));
	ck_assert_str_eq(hear(peer.fd), "");
	ask(&peer, ECHO("a"));
	say_bytes(peer.fd, bells, sizeof(bells));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
	/* Before a call on the socket, and behind one. */
	say_bytes(peer.fd, bells, 2);
	say(peer.fd, ECHO("b"));
	say_bytes(peer.fd, bells, 2);
	ck_assert_str_eq(hear(peer.fd), ECHOED("b"));
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	come_to_rest();
}
END_TEST

START_TEST(a_call_on_the_socket_is_whole_though_a_bell_could_be_meant)
{
	const char *text = "{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"a\"}}";

	say_bytes(peer.fd, text, strlen(text));
	turn();
	say_bytes(peer.fd, "", 1);
	ck_assert_str_eq(hear(peer.fd), ECHOED("a"));
}
END_TEST

START_TEST(without_a_ring_an_empty_message_is_what_it_was)
{
	int fd = new_peer();

	say_bytes(fd, "", 1);
	ck_assert_ptr_nonnull(strstr(hear(fd), "EOF"));
	close(fd);
}
END_TEST

/* --- what is too long for it */

START_TEST(an_answer_that_finds_no_room_goes_over_the_socket)
{
	size_t n;

	for (int i = 0; i < 4; i++) {
		ask(&peer, BIG(20000));
		turn();
		ck_assert(ring_spilled(&peer.ring));
		ck_assert_int_eq(ring_ready(&peer.ring), 0);
		ck_assert_uint_gt(answer_bytes(hear(peer.fd), &n), 20000);
		ck_assert_uint_eq(n, 1);
		ck_assert(!ring_spilled(&peer.ring));
		/* What is asked next is answered in the ring. */
		ask(&peer, ECHO("a"));
		ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
		ck_assert(!ring_spilled(&peer.ring));
	}
}
END_TEST

START_TEST(from_there_on_all_answers_go_over_the_socket)
{
	const char *text;
	size_t n;

	put(&peer, KEEP, true);
	put(&peer, BIG(20000), true);
	ask(&peer, KEEP);
	turn();
	ck_assert_int_eq(n_kept, 2);
	ck_assert(!ring_spilled(&peer.ring));
	answer_kept(0, "x");
	turn();
	ck_assert(ring_spilled(&peer.ring));
	answer_kept(1, "y");
	text = hear(peer.fd);
	answer_bytes(text, &n);
	ck_assert_uint_eq(n, 3);
	ck_assert_ptr_nonnull(strstr(text, KEPT("y")));
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	ck_assert(!ring_spilled(&peer.ring));
	ask(&peer, ECHO("a"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
}
END_TEST

START_TEST(so_do_those_of_calls_that_lie_in_the_ring_still)
{
	static char filler[9000];
	_cleanup_free_ char *text = NULL;
	size_t n;

	/* More than is taken at once: the answer to the first is sent before the last is read. */
	memset(filler, 'f', sizeof(filler) - 1);
	ck_assert_int_gt(asprintf(&text, ECHO("%s"), filler), 0);
	put(&peer, BIG(20000), true);
	put(&peer, text, true);
	ask(&peer, ECHO("last"));
	turn();
	ck_assert(ring_spilled(&peer.ring));
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	ck_assert_uint_gt(answer_bytes(hear(peer.fd), &n), 29000);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	ck_assert(!ring_spilled(&peer.ring));
	ask(&peer, ECHO("a"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("a"));
}
END_TEST

START_TEST(who_reads_nothing_is_answered_over_the_socket_in_the_end)
{
	size_t n, in_ring;

	for (int i = 0; i < 300; i++) {
		ask(&peer, BIG(1000));
		turn();
	}
	ck_assert(ring_spilled(&peer.ring));
	answer_bytes(hear_ring(&peer), &in_ring);
	answer_bytes(hear(peer.fd), &n);
	ck_assert_uint_gt(in_ring, 10);
	ck_assert_uint_gt(n, 10);
	ck_assert_int_eq(n_handled, 301);
	come_to_rest();
}
END_TEST

struct exchange {
	char calls[RING_BYTES], answers[1 << 20];
	size_t n;
};

/* Calls that fit into a ring, and what they are answered. */
static void make_exchange(struct exchange *x, uint32_t *seed)
{
	uint32_t want = 1 + next_random(seed) % 40, wide = next_random(seed) % 6;
	size_t len = 0, n;

	x->n = 0;
	for (uint32_t i = 0; i < want; i++) {
		uint32_t most = wide ? 300 : 9000, bytes = next_random(seed) % most;

		if (x->n + bytes + 100 > sizeof(x->calls))
			break;
		if (next_random(seed) % 20 == 0) {
			bytes = next_random(seed) % 30000;
			x->n += (size_t)snprintf(x->calls + x->n, 200,
					"{\"method\":\"org.test.demo.Big\",\"parameters\":{\"bytes\":%u}}",
					bytes) +
				1;
			n = (size_t)sprintf(x->answers + len, "{'parameters':{'text':'");
			memset(x->answers + len + n, 'b', bytes);
		} else {
			n = (size_t)sprintf(x->calls + x->n,
				"{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"");
			memset(x->calls + x->n + n, 'a' + (int)(i % 26), bytes);
			x->n += n + bytes;
			x->n += (size_t)sprintf(x->calls + x->n, "\"}}") + 1;
			n = (size_t)sprintf(x->answers + len, "{'parameters':{'text':'");
			memset(x->answers + len + n, 'a' + (int)(i % 26), bytes);
		}
		len += n + bytes;
		len += (size_t)sprintf(x->answers + len, "'}}\n");
	}
	x->answers[len] = '\0';
}

/* As a client hears them: the ring, and from a spill on the socket. */
static void hear_exchange(const struct exchange *x)
{
	static char heard[1 << 20];
	size_t len = 0, want = strlen(x->answers);
	bool spilled = false;

	for (int i = 0; len < want && i < 1000; i++) {
		const char *text;

		turn();
		spilled |= ring_spilled(&peer.ring);
		text = hear_ring(&peer);
		ck_assert(!spilled || !*text || i == 0);
		len += (size_t)sprintf(heard + len, "%s", text);
		if (spilled || ring_spilled(&peer.ring)) {
			spilled = true;
			text = hear(peer.fd);
			while (*text == '\n')
				text++;
			len += (size_t)sprintf(heard + len, "%s", text);
		}
	}
	ck_assert_msg(strcmp(heard, x->answers) == 0, "the answers are others");
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
}

START_TEST(any_mixture_is_answered_in_order)
{
	static struct exchange x;
	uint32_t seed = (uint32_t)_i + 1;

	for (int i = 0; i < 200; i++) {
		make_exchange(&x, &seed);
		if (next_random(&seed) % 3) {
			ck_assert_int_eq(ring_write(&peer.ring, x.calls, x.n), 0);
			bell(&peer);
			hear_exchange(&x);
		} else {
			say_bytes(peer.fd, x.calls, x.n);
			ck_assert_str_eq(hear(peer.fd), x.answers);
		}
		if (next_random(&seed) % 4 == 0)
			say_bytes(peer.fd, "\0\0", next_random(&seed) % 3);
		for (uint32_t n = next_random(&seed) % 4 ? 0 : 1200; n; n--)
			loop_run_once(loop, false);
	}
}
END_TEST

static TCase *had(void)
{
	TCase *t = tcase_create("had");

	tcase_add_test(t, the_server_keeps_no_descriptor_of_a_ring);
	tcase_add_test(t, another_descriptor_goes_with_it);
	tcase_add_test(t, descriptors_go_to_who_has_asked);
	tcase_add_test(t, a_connection_has_one_ring);
	tcase_add_test(t, a_connection_with_open_calls_gets_none);
	tcase_add_test(t, answers_that_are_ready_leave_before_it);
	tcase_add_test(t, who_wants_no_answer_gets_none);
	tcase_add_test(t, where_there_are_no_descriptors_the_call_can_be_answered_otherwise);
	tcase_add_test(t, who_cannot_be_handed_a_ring_is_not_kept_waiting);
	tcase_add_test(t, an_answer_that_cannot_be_given_ends_the_call_without_a_ring);
	tcase_add_test(t, who_vanishes_before_its_descriptors_leave_leaves_none_behind);
	return t;
}

static TCase *used(void)
{
	TCase *t = tcase_create("used");

	tcase_add_test(t, who_calls_by_the_ring_is_answered_by_it);
	tcase_add_test(t, who_calls_by_the_socket_is_answered_there);
	tcase_add_test(t, answers_keep_the_order_of_calls);
	tcase_add_test(t, a_call_without_an_answer_has_none);
	tcase_add_test(t, a_stream_comes_by_the_ring);
	tcase_add_test(t, a_call_in_pieces_is_one);
	tcase_add_test(t, bells_say_nothing);
	tcase_add_test(t, a_call_on_the_socket_is_whole_though_a_bell_could_be_meant);
	tcase_add_test(t, without_a_ring_an_empty_message_is_what_it_was);
	tcase_add_test(t, an_answer_that_finds_no_room_goes_over_the_socket);
	tcase_add_test(t, from_there_on_all_answers_go_over_the_socket);
	tcase_add_test(t, so_do_those_of_calls_that_lie_in_the_ring_still);
	tcase_add_test(t, who_reads_nothing_is_answered_over_the_socket_in_the_end);
	tcase_add_loop_test(t, any_mixture_is_answered_in_order, 0, 8);
	return t;
}

int main(void)
{
	TCase *cases[] = { had(), used() };
	Suite *s = suite_create("varlink_ring");
	SRunner *r;
	int failed;

	for (int i = 0; i < 2; i++) {
		tcase_add_checked_fixture(cases[i], setup_peer, teardown_peer);
		tcase_set_timeout(cases[i], 300);
		suite_add_tcase(s, cases[i]);
	}
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
