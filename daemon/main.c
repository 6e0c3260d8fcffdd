/* SPDX-License-Identifier: Apache-2.0 */

/* elasticd(8): the daemon's command line and signals. */

#include "common/base/log.h"
#include "common/base/stdfds.h"
#include "common/loop/loop.h"
#include "daemon/api/daemon.h"
#include "daemon/first_process.h"
#include "daemon/host/service_manager.h"
#include "daemon/jobs/child.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { EXIT_USAGE = 2, TRIM_BYTES = 256 << 10 };

static int usage(FILE *f)
{
	fputs("Usage: elasticd [OPTION]...\n"
	      "Supervises groups of training workers. Stays in the foreground; see elasticd(8).\n\n"
	      "  --socket=PATH        control socket (also $ELASTICD_SOCKET)\n"
	      "  --runtime-dir=DIR    sockets of jobs\n"
	      "  --state-dir=DIR      records of jobs\n"
	      "  --log-dir=DIR        where jobs that name no other directory log\n"
	      "  --config=FILE        configuration instead of the default file\n"
	      "  --log-level=LEVEL    err, warning, notice, info or debug\n"
	      "  --check              print every error of the configuration and exit\n"
	      "  --version            print the version\n"
	      "  --help               print this\n",
		f);
	return f == stdout ? 0 : EXIT_USAGE;
}

enum { O_SOCKET = 256, O_RUNTIME, O_STATE, O_LOG, O_CONFIG, O_LEVEL, O_CHECK, O_VERSION, O_HELP };

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, O_SOCKET },
	{ "runtime-dir", required_argument, NULL, O_RUNTIME },
	{ "state-dir", required_argument, NULL, O_STATE },
	{ "log-dir", required_argument, NULL, O_LOG },
	{ "config", required_argument, NULL, O_CONFIG },
	{ "log-level", required_argument, NULL, O_LEVEL },
	{ "check", no_argument, NULL, O_CHECK },
	{ "version", no_argument, NULL, O_VERSION },
	{ "help", no_argument, NULL, O_HELP },
	{ NULL, 0, NULL, 0 },
};

static int parse_level(const char *text, int *ret)
{
	*ret = log_level_from_string(text);
	if (*ret >= 0)
		return -1;
	fprintf(stderr,
		"elasticd: --log-level: expected err, warning, notice, info or debug, found \"%s\"\n",
		text);
	return EXIT_USAGE;
}

/* Returns -1 to go on, or an exit status. */
static int parse_options(int argc, char **argv, struct daemon_options *o)
{
	bool check = false;
	int c;
	int status = -1;

	while (status < 0 && (c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case O_SOCKET:
			o->paths.socket = optarg;
			break;
		case O_RUNTIME:
			o->paths.runtime_dir = optarg;
			break;
		case O_STATE:
			o->paths.state_dir = optarg;
			break;
		case O_LOG:
			o->paths.log_dir = optarg;
			break;
		case O_CONFIG:
			o->paths.config_file = optarg;
			o->config_required = true;
			break;
		case O_LEVEL:
			status = parse_level(optarg, &o->log_level);
			break;
		case O_CHECK:
			check = true;
			break;
		case O_VERSION:
			puts("elasticd " VERSION);
			return 0;
		case O_HELP:
			return usage(stdout);
		default:
			return usage(stderr);
		}
	}
	if (status < 0 && optind < argc) {
		fprintf(stderr, "elasticd: unexpected argument \"%s\"\n", argv[optind]);
		return EXIT_USAGE;
	}
	return status < 0 && check ? daemon_check(o) : status;
}

static void on_leave(int signo, void *arg)
{
	daemon_terminate(arg);
}

static void on_hangup(int signo, void *arg)
{
	daemon_reload(arg);
}

static int serve_signals(struct loop *loop, struct daemon *d)
{
	struct loop_signal *signals[3] = { NULL, NULL, NULL };
	int r = loop_signal_new(loop, SIGTERM, on_leave, d, &signals[0]);

	if (!r)
		r = loop_signal_new(loop, SIGINT, on_leave, d, &signals[1]);
	if (!r)
		r = loop_signal_new(loop, SIGHUP, on_hangup, d, &signals[2]);
	if (!r)
		r = loop_run(loop);
	if (r < 0)
		log_error("%s", strerror(-r));
	for (int i = 0; i < 3; i++)
		loop_signal_free(signals[i]);
	return r < 0 ? EXIT_FAILURE : r;
}

int main(int argc, char **argv)
{
	struct daemon_options options = { .log_level = -1 };
	_cleanup_(loop_freep) struct loop *loop = NULL;
	_cleanup_(daemon_freep) struct daemon *d = NULL;
	struct error err = { 0 };
	int status;

	if (stdfds_open(false) < 0)
		return EXIT_FAILURE;
	status = parse_options(argc, argv, &options);
	if (status >= 0)
		return status;
	/* Else glibc keeps up to twice the largest block that was ever freed. */
	mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
	options.first_process = first_process_fork();
	log_init("elasticd", options.log_level >= 0 ? options.log_level : LOG_INFO);
	notify_use_journal();
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	child_raise_nofile();
	if (loop_new(&loop) < 0) {
		log_error("cannot make an event loop");
		return EXIT_FAILURE;
	}
	if (daemon_new(loop, &options, &d, &err) < 0) {
		log_error("%s", err.text);
		return EXIT_FAILURE;
	}
	return serve_signals(loop, d);
}
