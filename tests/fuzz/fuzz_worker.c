/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes may come on worker.sock: the service answers or ends the connection, keeps its
 * promises to another worker, and leaves nothing behind; the work queue is there, too. A 0xff byte
 * gives the service its turns between what came before it and what comes after; the first byte says
 * from which of the workers the bytes come.
 */
#include "agent/queue/group_hooks.h"
#include "agent/queue/service.h"
#include "agent/sharing/private.h"
#include "agent/sharing/service.h"
#include "agent/supervise/supervisor.h"
#include "common/base/file.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { WORKERS = 3 };

static struct loop *loop;
static struct spec_role roles[] = { { .name = "worker" },
	{ .name = "evaluator", .evaluator = true } };
static struct spec spec = {
	.name = "fuzz",
	.roles = roles,
	.n_roles = 2,
	.queue = {
		.max = 8,
		.results = 8,
		.memory = 1 << 20,
		.slots = 2,
		.cancel_grace_ms = 30000,
		.blame_limit = 2,
		.blame_window_ms = SPEC_UNSET,
		.stall_ms = SPEC_UNSET,
		.call_timeout_ms = 1000,
		.answer_timeout_ms = 1000,
		.loss_grace_ms = 1000,
		.exit_code = SPEC_UNSET,
	},
};
static struct worker workers[WORKERS];
static struct supervisor agent;
static char dir[] = "/tmp/fuzz-worker-XXXXXX";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void remove_dir(void)
{
	(void)!file_rm_rf(dir);
}

static void begin(void)
{
	if (!loop) {
		EXPECT(loop_new(&loop) == 0 && mkdtemp(dir));
		atexit(remove_dir);
	}
	agent = (struct supervisor){
		.loop = loop,
		.spec = &spec,
		.opt = { .run = "fuzz_1", .runtime_dir = dir },
		.workers = workers,
		.n_workers = WORKERS,
		.ended = true, /* so a worker's notice is refused: there is no job to save */
	};
	for (int i = 0; i < WORKERS; i++) {
		worker_init(&workers[i], &roles[i == 2], i % 2, i);
		workers[i].slot = i;
	}
	EXPECT(events_new("fuzz", "fuzz_1", (const char *[2]){ NULL, NULL }, 0, NULL, NULL,
		       &agent.events) == 0);
	EXPECT(dispatch_new(&agent, NULL) == 0);
	EXPECT(sharing_new(&agent, NULL) == 0);
	dispatch_begin(&agent);
	sharing_begin(&agent);
	for (int i = 0; i < WORKERS; i++) {
		sharing_worker_starting(&agent, &workers[i]);
		worker_set_state(&workers[i], WORKER_RUNNING, NULL);
		sharing_worker_started(&agent, &workers[i]);
	}
}

static void end(void)
{
	sharing_stopping(&agent, "the input is over");
	for (int i = 0; i < WORKERS; i++) {
		worker_set_exit(&workers[i], 1 /* CLD_EXITED */, 0);
		sharing_worker_ended(&agent, &workers[i]);
	}
	json_decref(sharing_results_json(&agent));
	dispatch_stopping(&agent);
	sharing_free(&agent);
	dispatch_free(&agent);
	agent.events = events_free(agent.events);
	for (int i = 0; i < WORKERS; i++)
		worker_fini(&workers[i]);
}

static int connect_as(int worker)
{
	struct sharing_slot *slots = agent.sharing->slots;
	struct error err;
	char hello[160];
	int p[2], n;

	EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) == 0);
	EXPECT(varlink_server_add_connection(agent.sharing->server, p[1], &err) == 0);
	n = snprintf(hello, sizeof(hello),
		"{\"method\":\"io.elasticd.Worker.Hello\",\"parameters\":{\"token\":\"%llu\"},"
		"\"oneway\":true}",
		(unsigned long long)slots[worker].token);
	EXPECT(send(p[0], hello, (size_t)n + 1, MSG_NOSIGNAL) == n + 1);
	return p[0];
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		loop_run_once(loop, false);
}

/* Sends what the socket takes, and reads whatever is answered. */
static void say(int fd, const uint8_t *data, size_t len)
{
	static char answers[1 << 16];

	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		turn();
		while (recv(fd, answers, sizeof(answers), 0) > 0)
			turn();
		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

/* The store still answers another worker. */
static void check_other(void)
{
	static const char put[] = "{\"method\":\"io.elasticd.Worker.Put\",\"parameters\":"
				  "{\"key\":\"other\",\"value\":\"v\",\"overwrite\":true}}";
	char answer[256];
	int fd = connect_as(1);

	EXPECT(send(fd, put, sizeof(put), MSG_NOSIGNAL) == sizeof(put));
	turn();
	EXPECT(recv(fd, answer, sizeof(answer), 0) > 0);
	EXPECT(!strncmp(answer, "{\"parameters\":{\"revision\":", 26));
	close(fd);
	turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at, *last = data + size;
	int fd;

	if (!size)
		return 0;
	begin();
	varlink_server_check_replies(agent.sharing->server, true);
	fd = connect_as(data[0] % WORKERS);
	for (data++; data < last; data = at + 1) {
		at = memchr(data, 0xff, (size_t)(last - data));
		if (!at)
			at = last;
		say(fd, data, (size_t)(at - data));
		if (at == last)
			break;
	}
	check_other();
	close(fd);
	turn();
	end();
	return 0;
}
