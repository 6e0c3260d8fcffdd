/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An agent that the test plays, word for word, with its workers on threads. Each step of the agent
 * waits for a step of the worker, so nothing depends on time. JSON is written with ' in place of ".
 */

#include "common/base/board.h"
#include "common/base/file.h"
#include "tests/unit/run.h"
#include "worker/api/binding.h"
#include "worker/elasticd_queue.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_MS = 120000 };

static char agent_dir[64], agent_path[128], agent_board[128];
static int agent_listener;
static struct board_header *board;

static inline void board_make(void)
{
	FILE *f = fopen(agent_board, "w+e");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(ftruncate(fileno(f), BOARD_BYTES), 0);
	board = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	ck_assert_ptr_ne(board, MAP_FAILED);
	fclose(f);
	board->magic = BOARD_MAGIC;
	board->version = BOARD_VERSION;
	board->slots = BOARD_SLOTS;
	board->header_bytes = BOARD_HEADER_BYTES;
	board->slot_bytes = BOARD_SLOT_BYTES;
}

/* Check installs handlers without SA_RESTART. With these, any stop and SIGCONT would end waits. */
static inline void signals_default(void)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
}

/* The environment of worker:3, whose token is 77. */
static inline void agent_start(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	signals_default();
	strcpy(agent_dir, "/tmp/test_elasticd.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(agent_dir));
	snprintf(agent_path, sizeof(agent_path), "%s/worker.sock", agent_dir);
	snprintf(agent_board, sizeof(agent_board), "%s/board", agent_dir);
	board_make();
	agent_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(a.sun_path, agent_path);
	ck_assert_int_eq(bind(agent_listener, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(agent_listener, 16), 0);
	setenv("ELASTICD_WORKER_SOCKET", agent_path, 1);
	setenv("ELASTICD_BOARD", agent_board, 1);
	setenv("ELASTICD_SLOT", "3", 1);
	setenv("ELASTICD_TOKEN", "77", 1);
	setenv("LOCAL_RANK", "3", 1);
	setenv("WORLD_SIZE", "5", 1);
}

static inline void agent_stop(void)
{
	close_fd(agent_listener);
	munmap(board, BOARD_BYTES);
	ck_assert_int_eq(file_rm_rf(agent_dir), 0);
}

static inline void agent_await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ck_assert_msg(poll(&p, 1, HANG_MS) == 1, "the worker is silent");
}

static inline int agent_accept(void)
{
	agent_await(agent_listener);
	return accept4(agent_listener, NULL, NULL, SOCK_CLOEXEC);
}

/* The next message of a worker; "" when it has hung up. */
static inline const char *agent_hear(int fd)
{
	static char text[1 << 16];
	size_t n = 0;
	char *end = NULL;

	while (!end) {
		ssize_t got;

		ck_assert_uint_lt(n, sizeof(text) - 1);
		agent_await(fd);
		got = recv(fd, text + n, sizeof(text) - n, MSG_PEEK);
		end = got > 0 ? memchr(text + n, '\0', (size_t)got) : NULL;
		if (end) /* the rest is another message */
			got = end + 1 - (text + n);
		if (got <= 0 || recv(fd, text + n, (size_t)got, 0) != got) {
			text[n] = '\0';
			break;
		}
		n += (size_t)got;
	}
	for (char *c = text; *c; c++)
		if (*c == '"')
			*c = '\'';
	return text;
}

#define agent_hears(fd, method, parameters) \
	ck_assert_str_eq(agent_hear(fd),    \
		"{'method':'io.elasticd.Worker." method "','parameters':{" parameters "}}")
#define agent_hears_more(fd, method, parameters)                                 \
	ck_assert_str_eq(agent_hear(fd), "{'method':'io.elasticd.Worker." method \
					 "','parameters':{" parameters "},'more':true}")

static inline void agent_say(int fd, const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	ck_assert_int_eq(send(fd, copy, strlen(text) + 1, MSG_NOSIGNAL), (ssize_t)strlen(text) + 1);
	free(copy);
}

#define agent_answers(fd, parameters) agent_say(fd, "{'parameters':{" parameters "}}")
#define agent_continues(fd, parameters) \
	agent_say(fd, "{'parameters':{" parameters "},'continues':true}")
#define agent_refuses(fd, name, parameters) \
	agent_say(fd, "{'error':'io.elasticd.Worker." name "','parameters':{" parameters "}}")

#define HELLO                                                                              \
	"'job':'digits','run':'digits_0123abcd','worker':'worker:3','rank':4,'attempt':2," \
	"'start':1,'members':['chief:0','worker:0','worker:1','worker:2','worker:3']"

/* Accepts a connection, and answers its Hello. */
static inline int agent_greets(void)
{
	int fd = agent_accept();

	agent_hears(fd, "Hello", "'token':'77'");
	agent_answers(fd, HELLO);
	return fd;
}

/* --- workers */

struct worker {
	struct elasticd *h;
	void (*fn)(struct worker *w);
	pthread_t thread;
	atomic_int tid;
	int r;
	enum elasticd_action action;
	char text[256], missing[256]; /* of the thread's failure */
	void *value;
	size_t n;
};

static inline void *worker_main(void *arg)
{
	struct worker *w = arg;

	atomic_store(&w->tid, gettid());
	w->fn(w);
	snprintf(w->text, sizeof(w->text), "%s", elasticd_error_text());
	snprintf(w->missing, sizeof(w->missing), "%s", elasticd_error_missing());
	return NULL;
}

static inline void worker_start(struct worker *w, void (*fn)(struct worker *), struct elasticd *h)
{
	*w = (struct worker){ .h = h, .fn = fn };
	ck_assert_int_eq(pthread_create(&w->thread, NULL, worker_main, w), 0);
}

static inline int worker_end(struct worker *w)
{
	ck_assert_int_eq(pthread_join(w->thread, NULL), 0);
	return w->r;
}

static inline void worker_opens(struct worker *w)
{
	w->r = elasticd_open(&w->h);
}

/* A handle, and the connection that it keeps. */
static inline struct elasticd *handle_open(int *ret_fd)
{
	struct worker w;

	worker_start(&w, worker_opens, NULL);
	*ret_fd = agent_greets();
	agent_hears(*ret_fd, "Hello", "'token':'77'");
	agent_answers(*ret_fd, HELLO);
	ck_assert_msg(worker_end(&w) == 0, "%s", w.text);
	return w.h;
}

/* The action of a step that succeeds. */
static inline enum elasticd_action step_action(struct elasticd *h, int64_t n)
{
	enum elasticd_action action = ELASTICD_ACTION_EXIT;

	ck_assert_int_eq(elasticd_step(h, n, &action), 0);
	return action;
}

/* Tests of the library are programs of their own: no signal, no fork by Check when told so. */
static inline int tests_run(TCase *tc)
{
	Suite *s = suite_create("elasticd");

	tcase_set_timeout(tc, 300);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
