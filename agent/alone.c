/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/alone.h"

#include "agent/features.h"
#include "agent/process/spawn.h"
#include "agent/sharing/service.h"
#include "agent/supervise/supervisor.h"
#include "common/base/alone.h"
#include "common/base/log.h"
#include "common/varlink/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EXIT_AGENT = 125 };

/* One worker that the agent never ends, without limits of time or number. */
static const char alone_spec[] =
	"{\"name\": \"alone\","
	" \"roles\": [{\"name\": \"worker\", \"replicas\": 1, \"command\": [\"none\"]}],"
	" \"logs\": {\"dir\": \"/dev/null\"},"
	" \"restart\": {\"policy\": \"never\"},"
	" \"preemption\": {\"how\": \"agree\", \"exit_code\": 42},"
	" \"queue\": {\"max\": 0, \"results\": 0, \"memory\": 0, \"slots\": 1024,"
	" \"recovery_timeout\": 0, \"cancel_grace\": \"87600h\"}}";

struct alone {
	struct loop *loop;
	struct spec *spec;
	struct supervisor *sv;
	struct loop_fd *watch;
	int channel;
};

/* A socket to serve, or the end of the program, which ends the agent. */
static void alone_read(int fd, int events, void *arg)
{
	struct alone *al = arg;
	struct error err = { 0 };
	char byte;
	int brought = -1;
	ssize_t n = varlink_socket_receive_fd(fd, &byte, 1, &brought);

	if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
		loop_quit(al->loop, 0);
	else if (brought >= 0 && sharing_serve_socket(al->sv, brought, &err) < 0)
		log_debug("a connection is not served: %s", err.text);
}

static int alone_open(struct alone *al, struct error *err)
{
	const struct supervisor_options opt = {
		.run = "alone",
		.listen_fd = -1,
		.features = agent_features_alone,
		.alone = true,
	};
	int r = spec_parse_text(alone_spec, sizeof(alone_spec) - 1, &al->spec, err);

	if (r == 0)
		r = spec_resolve(al->spec, err);
	if (r < 0)
		return r;
	r = loop_new(&al->loop);
	if (r < 0)
		return error_set(err, r, "cannot make an event loop: %s", strerror(-r));
	r = supervisor_new(al->loop, al->spec, &opt, NULL, &al->sv, err);
	if (r < 0)
		return r;
	/* The worker's pid is the agent's own, which the supervisor never signals when alone. */
	supervisor_start_alone(al->sv, getpid());
	r = loop_fd_new(al->loop, al->channel, LOOP_READ, alone_read, al, &al->watch);
	if (r < 0)
		return error_set(err, r, "cannot watch the channel: %s", strerror(-r));
	return 0;
}

/* Ignores signals from a terminal or to a whole control group: the program handles them, and the
 * agent serves it until it ends. */
static void alone_signals(void)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE,
		SIGXFSZ };
	sigset_t none;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int alone_run(int channel)
{
	struct alone al = { .channel = channel };
	struct error err = { 0 };
	const char byte = ALONE_BYTE;
	int r;

	alone_signals();
	spawn_raise_nofile();
	(void)!chdir("/");
	fcntl(channel, F_SETFD, FD_CLOEXEC);
	r = alone_open(&al, &err);
	if (r == 0)
		r = (int)varlink_socket_send_fd(channel, &byte, 1, sharing_board_memory(al.sv));
	else
		(void)send(channel, err.text, strlen(err.text), MSG_NOSIGNAL);
	if (r >= 0)
		r = loop_run(al.loop);
	loop_fd_free(al.watch);
	supervisor_free(al.sv);
	loop_free(al.loop);
	spec_free(al.spec);
	close(channel);
	return r < 0 ? EXIT_AGENT : r;
}
