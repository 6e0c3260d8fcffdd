/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The service of varlink_demo.h with a method that gives a ring, and raw peers that have
 * one. Included once by each test program. */

#include "common/ring.h"
#include "tests/unit/varlink_demo.h"

#include <dirent.h>

static const char ring_idl[] = "interface org.test.demo\n"
			       "method Echo(text: string, n: ?int) -> (text: string)\n"
			       "method Keep(key: ?string) -> (key: string)\n"
			       "method Big(bytes: int) -> (text: string)\n"
			       "method Share(also: ?int, text: ?string) -> ()\n"
			       "error LimitReached (what: string, limit: int)\n"
			       "error Failed (message: string, errno: ?int)\n";

#define ECHO(text) "{'method':'org.test.demo.Echo','parameters':{'text':'" text "'}}"
#define ECHOED(text) "{'parameters':{'text':'" text "'}}\n"
#define KEEP "{'method':'org.test.demo.Keep','parameters':{}}"
#define KEPT(key) "{'parameters':{'key':'" key "'}}\n"
#define SHARE "{'method':'org.test.demo.Share','parameters':{}}"
#define SHARED "{'parameters':{}}\n"
#define BIG(n) "{'method':'org.test.demo.Big','parameters':{'bytes':" #n "}}"

struct ring_peer {
	int fd;
	struct ring ring;
};

static int demo_big(struct varlink_call *call, json_t *parameters, void *arg)
{
	size_t n = (size_t)json_get_int(parameters, "bytes", 0);
	_cleanup_free_ char *text = calloc(n + 1, 1);

	n_handled++;
	memset(text, 'b', n);
	return varlink_reply(call, json_pack("{s:s}", "text", text));
}

static bool spoils_rings; /* of their descriptors, so that none can be sent */
static int n_unrung;	  /* calls that have ended without a ring */

static inline void spoil_ring(void)
{
	char path[64], name[64];

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		name[n < 0 ? 0 : n] = '\0';
		if (strstr(name, "elasticd-ring"))
			close(fd);
	}
}

static int demo_share(struct varlink_call *call, json_t *parameters, void *arg)
{
	const char *text = json_get_string(parameters, "text", NULL);
	json_t *answer = text ? json_pack("{s:s}", "text", text) : json_object();
	int r = varlink_reply_ring(call, answer, (int)json_get_int(parameters, "also", -1));

	n_handled++;
	if (spoils_rings)
		spoil_ring();
	n_unrung += r == -ECONNRESET;
	if (r == -EALREADY || r == -EBUSY || r == -EBADF || r == -EMFILE)
		return varlink_error(
			call, "Failed", json_pack("{s:s,s:i}", "message", "no ring", "errno", -r));
	return 0;
}

static const struct varlink_method ring_methods[] = {
	{ "Echo", demo_echo },
	{ "Keep", demo_keep },
	{ "Big", demo_big },
	{ "Share", demo_share },
	{ NULL, NULL },
};

static struct varlink_options ring_options(void)
{
	struct varlink_options opt = demo_options();

	opt.idl = ring_idl;
	opt.methods = ring_methods;
	return opt;
}

static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* One read, with the descriptors that came: how many. text has newlines and ' as hear() has. */
static inline int receive_fds(int fd, char *text, size_t room, int *fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
	struct iovec iov = { .iov_base = text, .iov_len = room - 1 };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	size_t bytes = 0;

	for (ssize_t i = 0; i < n; i++)
		text[i] = text[i] == '\0' ? '\n' : text[i] == '"' ? '\'' : text[i];
	text[n < 0 ? 0 : n] = '\0';
	if (n < 0 || !h)
		return 0;
	ck_assert_int_eq(h->cmsg_type, SCM_RIGHTS);
	ck_assert_ptr_null(CMSG_NXTHDR(&m, h));
	bytes = h->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(h), bytes);
	return (int)(bytes / sizeof(int));
}

static inline struct ring_peer new_ring_peer(void)
{
	struct ring_peer p = { .fd = new_peer() };
	char text[256];
	int fds[8];

	say(p.fd, SHARE);
	turn();
	ck_assert_int_eq(receive_fds(p.fd, text, sizeof(text), fds), 1);
	ck_assert_str_eq(text, SHARED);
	ck_assert_int_eq(ring_open(&p.ring, fds[0]), 0);
	close(fds[0]);
	return p;
}

static inline void end_ring_peer(struct ring_peer *p)
{
	ring_fini(&p->ring);
	p->fd = close_fd(p->fd);
}

/* Puts text in the ring, ' as ", with its NUL where that is asked for, and rings no bell. */
static inline void put(struct ring_peer *p, const char *text, bool whole)
{
	_cleanup_free_ char *copy = strdup(text);

	for (char *s = copy; *s; s++)
		*s = *s == '\'' ? '"' : *s;
	ck_assert_int_eq(ring_write(&p->ring, copy, strlen(copy) + whole), 0);
}

static inline void bell(struct ring_peer *p)
{
	if (ring_bell_due(&p->ring))
		say_bytes(p->fd, "", 1);
}

/* Makes a call through the ring. */
static inline void ask(struct ring_peer *p, const char *text)
{
	put(p, text, true);
	bell(p);
}

/* Gives the server its turns and returns what it has put into the ring since, as hear() does. Owned
 * by the next call. */
static inline const char *hear_ring(struct ring_peer *p)
{
	static char text[64 * RING_BYTES];
	size_t len = 0;
	int n = 1;

	turn();
	while (n > 0) {
		ck_assert_uint_lt(len + RING_BYTES, sizeof(text));
		n = ring_read(&p->ring, text + len, RING_BYTES);
		ck_assert_int_ge(n, 0);
		len += (size_t)n;
		turn();
	}
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '\0' ? '\n' : text[i] == '"' ? '\'' : text[i];
	text[len] = '\0';
	return text;
}

static void on_rest(void *arg)
{
	*(bool *)arg = true;
}

/* Until the server has nothing to do but to wait: with one that never waits this never ends. On a
 * machine that is very slow it may end early, but not before many turns. */
static inline void come_to_rest(void)
{
	struct loop_timer *t;
	bool over = false;
	int turns;

	for (int i = 0; i < 10; i++)
		turn();
	ck_assert_int_eq(loop_timer_new(loop, on_rest, &over, &t), 0);
	do {
		over = false;
		loop_timer_arm(t, 10);
		/* The first turn may find what was left of the one before. */
		for (turns = 0; !over; turns++)
			loop_run_once(loop, true);
	} while (turns > 2);
	loop_timer_free(t);
}

/* --- a server with one peer, as a fixture */

static struct ring_peer peer;
static int n_fds; /* before it had a ring */

static inline void start_with_peer(const struct varlink_options *opt)
{
	demo_start(opt);
	n_fds = count_fds();
	peer = new_ring_peer();
}

static inline void setup_peer(void)
{
	struct varlink_options opt = ring_options();

	start_with_peer(&opt);
}

static inline void teardown_peer(void)
{
	end_ring_peer(&peer);
	demo_stop();
}

/* The same with other options. */
static inline void restart_with_peer(const struct varlink_options *opt)
{
	teardown_peer();
	start_with_peer(opt);
}

/* Of text as hear() and hear_ring() return it. */
static inline size_t answer_bytes(const char *text, size_t *ret_answers)
{
	*ret_answers = 0;
	for (const char *s = text; *s; s++)
		*ret_answers += *s == '\n';
	return strlen(text);
}
