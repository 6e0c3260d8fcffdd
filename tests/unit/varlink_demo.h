/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A small service for the tests of the varlink server and clients, and a raw peer that speaks to it
 * in text. Included once by each test program. */

#include "common/text/json.h"
#include "common/varlink/server.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEMO "org.test.demo."

static const char demo_idl[] = "interface org.test.demo\n"
			       "method Echo(text: string, n: ?int) -> (text: string)\n"
			       "method Keep(key: ?string, list: ?[]int) -> (key: string)\n"
			       "method Fail() -> ()\n"
			       "method Wrong() -> (n: int)\n"
			       "method Undone() -> ()\n"
			       "error Refused (why: string)\n"
			       "error ResourceExhausted (message: string, limit: int)\n"
			       "error Internal (message: string, errno: ?int)\n";

static struct loop *loop;
static struct varlink_server *server;
static struct error err;
static struct varlink_call *kept[256]; /* calls of Keep, in the order in which they came */
static int n_kept, n_gone, n_handled;

static int demo_echo(struct varlink_call *call, json_t *parameters, void *arg)
{
	json_t *p = json_object();

	n_handled++;
	json_put_string(p, "text", json_get_string(parameters, "text", ""));
	return varlink_reply(call, p);
}

static void demo_gone(void *arg)
{
	*(struct varlink_call **)arg = NULL;
	n_gone++;
}

static int demo_keep(struct varlink_call *call, json_t *parameters, void *arg)
{
	n_handled++;
	varlink_call_on_gone(call, demo_gone, &kept[n_kept]);
	kept[n_kept++] = call;
	return 0;
}

static int demo_fail(struct varlink_call *call, json_t *parameters, void *arg)
{
	return -ENOSPC;
}

static int demo_wrong(struct varlink_call *call, json_t *parameters, void *arg)
{
	return varlink_reply(call, json_pack("{s:s}", "n", "many"));
}

static const struct varlink_method demo_methods[] = {
	{ "Echo", demo_echo },
	{ "Keep", demo_keep },
	{ "Fail", demo_fail },
	{ "Wrong", demo_wrong },
	{ NULL, NULL },
};

static struct varlink_options demo_options(void)
{
	return (struct varlink_options){
		.vendor = "Test",
		.product = "demo",
		.version = "1",
		.url = "https://demo.test",
		.idl = demo_idl,
		.methods = demo_methods,
	};
}

static void demo_start(const struct varlink_options *opt)
{
	n_kept = n_gone = n_handled = 0;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_msg(varlink_server_new(loop, opt, &server, &err) == 0, "%s", err.text);
}

static void demo_stop(void)
{
	server = varlink_server_free(server);
	loop = loop_free(loop);
}

/* Lets everything happen that needs no time. */
static void turn(void)
{
	for (int i = 0; i < 8; i++)
		loop_run_once(loop, false);
}

/* Answers the kept call with its key. */
static inline void answer_kept(int i, const char *key)
{
	struct varlink_call *call = kept[i];

	ck_assert_ptr_nonnull(call);
	kept[i] = NULL;
	ck_assert_int_eq(varlink_reply(call, json_pack("{s:s}", "key", key)), 0);
}

/* A peer of the server without a path: its end of a new socket. */
static inline int new_peer(void)
{
	int p[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_eq(varlink_server_add_connection(server, p[1], &err), 0);
	return p[0];
}

static inline void say_bytes(int fd, const char *data, size_t len)
{
	ck_assert_int_eq(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Sends one message; ' stand for ". */
static inline void say(int fd, const char *text)
{
	char copy[4096];
	size_t n = strlen(text);

	ck_assert_uint_lt(n, sizeof(copy));
	for (size_t i = 0; i <= n; i++)
		copy[i] = text[i] == '\'' ? '"' : text[i];
	say_bytes(fd, copy, n + 1);
}

static inline void call_method(int fd, const char *method, const char *parameters, const char *rest)
{
	char text[2048];

	snprintf(text, sizeof(text), "{'method':'%s','parameters':%s%s}", method, parameters, rest);
	say(fd, text);
}

/*
 * Gives the server its turns and returns what it has sent since, a newline for each NUL, " as ',
 * and EOF at the end where it has closed. Owned by the next call.
 */
static inline const char *hear(int fd)
{
	static char *text;
	static size_t room;
	size_t len = 0;
	ssize_t n = 1;

	turn();
	while (n > 0) {
		if (room - len < 65536)
			text = realloc(text, room += 65536 * 4);
		n = recv(fd, text + len, room - len - 8, 0);
		if (n > 0)
			len += n;
		turn();
	}
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '\0' ? '\n' : text[i] == '"' ? '\'' : text[i];
	strcpy(text + len, n == 0 || errno == ECONNRESET ? "EOF" : "");
	return text;
}
