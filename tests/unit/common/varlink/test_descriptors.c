/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that come with calls. */
#include "tests/unit/varlink_demo.h"

#include "common/varlink/client.h"
#include "common/varlink/socket.h"
#include "tests/unit/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

static struct varlink_client *client;

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
}

static void begin(bool descriptors)
{
	struct varlink_options opt = demo_options();

	opt.descriptors = descriptors;
	demo_start(&opt);
	ck_assert_int_eq(varlink_client_new_fd(loop, new_peer(), NULL, NULL, &client), 0);
}

static void setup(void)
{
	begin(true);
}

static void teardown(void)
{
	client = varlink_client_free(client);
	demo_stop();
}

/* An end of a pipe to send; the other end shows when the last copy is closed. */
static int new_descriptor(int *ret_watch)
{
	int p[2];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	*ret_watch = p[0];
	return p[1];
}

static ino_t inode(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

static bool is_closed(int watched)
{
	struct pollfd p = { .fd = watched };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static void ask(const char *method)
{
	ck_assert_int_eq(varlink_client_call(client, method, NULL, false, on_answer, NULL), 0);
}

START_TEST(one_comes_with_its_call)
{
	int watched, sent = new_descriptor(&watched), fd;
	ino_t expected = inode(sent);

	varlink_client_send_descriptor(client, sent);
	ask(DEMO "Keep");
	turn();
	fd = varlink_call_descriptor(kept[0]);
	ck_assert_int_ge(fd, 0);
	ck_assert_uint_eq(inode(fd), expected);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	ck_assert(!is_closed(watched));
	close(watched);
}
END_TEST

START_TEST(it_is_there_for_later_calls_and_for_no_other_connection)
{
	int watched, peer = new_peer();

	varlink_client_send_descriptor(client, new_descriptor(&watched));
	ask(DEMO "Keep");
	turn();
	ask(DEMO "Keep");
	turn();
	say(peer, "{'method':'" DEMO "Keep'}");
	turn();
	ck_assert_uint_eq(inode(varlink_call_descriptor(kept[1])), inode(watched));
	ck_assert_int_eq(varlink_call_descriptor(kept[2]), -1);
	close(watched);
	close(peer);
}
END_TEST

START_TEST(where_one_cannot_be_sent_its_calls_go_alone)
{
	int watched, sent = new_descriptor(&watched);

	close(sent);
	varlink_client_send_descriptor(client, sent);
	ask(DEMO "Keep");
	ask(DEMO "Keep");
	turn();
	ck_assert_int_eq(n_kept, 2);
	ck_assert_int_eq(varlink_call_descriptor(kept[0]), -1);
	close(watched);
}
END_TEST

START_TEST(the_next_one_replaces_it)
{
	int watched[2];

	for (int i = 0; i < 2; i++) {
		varlink_client_send_descriptor(client, new_descriptor(&watched[i]));
		ask(DEMO "Keep");
		turn();
	}
	ck_assert(is_closed(watched[0]));
	ck_assert(!is_closed(watched[1]));
	close(watched[0]);
	close(watched[1]);
}
END_TEST

START_TEST(a_second_descriptor_replaces_the_waiting_one)
{
	int watched[2];

	varlink_client_send_descriptor(client, new_descriptor(&watched[0]));
	varlink_client_send_descriptor(client, new_descriptor(&watched[1]));
	ck_assert(is_closed(watched[0]));
	client = varlink_client_free(client);
	ck_assert(is_closed(watched[1]));
	close(watched[0]);
	close(watched[1]);
}
END_TEST

START_TEST(it_goes_with_its_connection)
{
	int watched;

	varlink_client_send_descriptor(client, new_descriptor(&watched));
	ask(DEMO "Keep");
	turn();
	ck_assert(!is_closed(watched));
	client = varlink_client_free(client);
	turn();
	ck_assert(is_closed(watched));
	close(watched);
}
END_TEST

START_TEST(a_call_arrives_whole_with_its_descriptor)
{
	int watched;

	for (int i = 0; i < 3; i++)
		ask(DEMO "Keep");
	varlink_client_send_descriptor(client, new_descriptor(&watched));
	turn();
	ck_assert_int_eq(n_kept, 3);
	ck_assert(!is_closed(watched));
	close(watched);
}
END_TEST

START_TEST(of_several_one_comes)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = { 0 };
	char text[] = "{\"method\":\"" DEMO "Keep\"}";
	struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int peer = new_peer(), watched[3], gifts[3], open = 0;

	for (int i = 0; i < 3; i++)
		gifts[i] = new_descriptor(&watched[i]);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(gifts));
	memcpy(CMSG_DATA(h), gifts, sizeof(gifts));
	ck_assert_int_eq(sendmsg(peer, &m, 0), (ssize_t)sizeof(text));
	for (int i = 0; i < 3; i++)
		close(gifts[i]);
	turn();
	ck_assert_int_eq(n_kept, 1);
	for (int i = 0; i < 3; i++)
		open += !is_closed(watched[i]);
	ck_assert_int_eq(open, 1);
	close(peer);
	turn();
	for (int i = 0; i < 3; i++) {
		ck_assert(is_closed(watched[i]));
		close(watched[i]);
	}
}
END_TEST

START_TEST(a_server_that_wants_none_gets_none)
{
	int watched;

	begin(false);
	varlink_client_send_descriptor(client, new_descriptor(&watched));
	ask(DEMO "Keep");
	turn();
	ck_assert_int_eq(n_kept, 1);
	ck_assert(is_closed(watched));
	ck_assert_int_eq(varlink_call_descriptor(kept[0]), -1);
	close(watched);
	teardown();
}
END_TEST

/* Another process has a copy of its socket. */
static int handed(int peer)
{
	say(peer, "{'method':'" DEMO "Keep'}");
	turn();
	return dup(varlink_call_socket(kept[n_kept - 1]));
}

START_TEST(a_connection_that_is_closed_ends_for_its_peer_although_others_have_the_socket)
{
	int peer = new_peer(), copy = handed(peer);

	say_bytes(peer, "rubbish", sizeof("rubbish"));
	turn();
	ck_assert_int_eq(recv(peer, &(char){ 0 }, 1, 0), 0);
	close(copy);
	close(peer);
}
END_TEST

START_TEST(the_end_of_the_server_leaves_a_handed_on_client_connected)
{
	int peer = new_peer(), copy = handed(peer);

	server = varlink_server_free(server);
	ck_assert_int_eq(recv(peer, &(char){ 0 }, 1, 0), -1);
	ck_assert_int_eq(errno, EAGAIN);
	close(copy);
	ck_assert_int_eq(recv(peer, &(char){ 0 }, 1, 0), 0);
	close(peer);
}
END_TEST

START_TEST(the_socket_of_a_call_is_that_of_its_connection)
{
	struct stat st;
	int peer = new_peer();

	say(peer, "{'method':'" DEMO "Keep'}");
	turn();
	ck_assert_int_eq(fstat(varlink_call_socket(kept[0]), &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_int_eq(send(varlink_call_socket(kept[0]), "x", 1, 0), 1);
	ck_assert_int_eq(recv(peer, &(char){ 0 }, 1, 0), 1);
	close(peer);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_descriptors");
	TCase *t = tcase_create("given"), *without = tcase_create("without");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, one_comes_with_its_call);
	tcase_add_test(t, it_is_there_for_later_calls_and_for_no_other_connection);
	tcase_add_test(t, where_one_cannot_be_sent_its_calls_go_alone);
	tcase_add_test(t, the_next_one_replaces_it);
	tcase_add_test(t, a_second_descriptor_replaces_the_waiting_one);
	tcase_add_test(t, it_goes_with_its_connection);
	tcase_add_test(t, a_call_arrives_whole_with_its_descriptor);
	tcase_add_test(t, of_several_one_comes);
	tcase_add_test(
		t, a_connection_that_is_closed_ends_for_its_peer_although_others_have_the_socket);
	tcase_add_test(t, the_end_of_the_server_leaves_a_handed_on_client_connected);
	tcase_add_test(t, the_socket_of_a_call_is_that_of_its_connection);
	suite_add_tcase(s, t);
	tcase_add_test(without, a_server_that_wants_none_gets_none);
	suite_add_tcase(s, without);
	return suite_run(s);
}
