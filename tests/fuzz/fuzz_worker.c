/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes may come on worker.sock: the service answers or ends the connection, keeps its
 * promises to another worker, and leaves nothing behind; the work queue is there, too. A 0xff byte
 * gives the service its turns between what came before it and what comes after; the first byte says
 * from which of the workers the bytes come.
 */
#include "agent/queue/service.h"
#include "agent/sharing/private.h"
#include "agent/supervise/private.h"
#include "common/base/file.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { WORKERS = 3, FIRST_PID = 5000000 }; /* above all pids of the kernel */

static const char doc[] =
	"{\"name\":\"fuzz\",\"logs\":{\"dir\":\"/dev/null\"},\"compat\":{\"tf_config\":false},\"roles\":["
	"{\"name\":\"worker\",\"command\":[\"/bin/true\"],\"replicas\":2},"
	"{\"name\":\"evaluator\",\"command\":[\"/bin/true\"]}],\"queue\":{\"max\":8,"
	"\"results\":8,\"memory\":\"1M\",\"slots\":2,\"blame_limit\":2,\"call_timeout\":\"1s\","
	"\"answer_timeout\":\"1s\",\"loss_grace\":\"1s\"}}";

static const struct feature *const features[] = { &sharing_feature, &queue_feature, NULL };

static struct loop *loop;
static struct spec *spec;
static struct supervisor *supervisor;
static struct sharing *sharing;
static char dir[] = "/tmp/fuzz-worker-XXXXXX";
static int n_spawned, n_reaped;
static bool ended; /* all processes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* --- fake processes --- */

static int fake_spawn(const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage)
{
	*ret_pid = FIRST_PID + n_spawned++;
	return 0;
}

static int fake_kill(pid_t pid, int signo)
{
	errno = ESRCH;
	return -1;
}

static int fake_waitid(idtype_t type, id_t id, siginfo_t *ret, int options)
{
	int i = type == P_PID ? (int)id - FIRST_PID : n_reaped;

	*ret = (siginfo_t){ 0 };
	if (!ended || i != n_reaped || i >= n_spawned)
		return 0;
	ret->si_pid = FIRST_PID + i;
	ret->si_code = CLD_EXITED;
	n_reaped += !(options & WNOWAIT);
	return 0;
}

static const struct supervisor_processes processes = {
	.spawn = fake_spawn,
	.kill = fake_kill,
	.waitid = fake_waitid,
};

/* --- the service --- */

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		loop_run_once(loop, false);
}

static void remove_dir(void)
{
	(void)!file_rm_rf(dir);
}

static void prepare(void)
{
	struct error err;

	log_init("fuzz", LOG_EMERG);
	EXPECT(mkdtemp(dir));
	atexit(remove_dir);
	EXPECT(spec_parse_text(doc, sizeof(doc) - 1, &spec, &err) == 0);
	EXPECT(spec_resolve(spec, &err) == 0);
}

static void begin(void)
{
	const struct supervisor_options opt = {
		.run = "fuzz_1",
		.runtime_dir = dir,
		.listen_fd = -1,
		.features = features,
		.processes = &processes,
	};
	struct error err;

	if (!spec)
		prepare();
	n_spawned = n_reaped = 0;
	ended = false;
	EXPECT(loop_new(&loop) == 0);
	EXPECT(supervisor_new(loop, spec, &opt, NULL, &supervisor, &err) == 0);
	supervisor_start(supervisor);
	turn();
	EXPECT(n_spawned == WORKERS);
	sharing = sharing_of(supervisor);
}

static void end(void)
{
	ended = true;
	reap_children(supervisor);
	turn();
	supervisor = supervisor_free(supervisor);
	loop = loop_free(loop);
}

static int connect_as(int worker)
{
	struct error err;
	char hello[160];
	int p[2], n;

	EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) == 0);
	EXPECT(varlink_server_add_connection(sharing->server, p[1], &err) == 0);
	n = snprintf(hello, sizeof(hello),
		"{\"method\":\"io.elasticd.Worker.Hello\",\"parameters\":{\"token\":\"%llu\"},"
		"\"oneway\":true}",
		(unsigned long long)sharing->slots[worker].token);
	EXPECT(send(p[0], hello, (size_t)n + 1, MSG_NOSIGNAL) == n + 1);
	return p[0];
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
	varlink_server_check_replies(sharing->server, true);
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
