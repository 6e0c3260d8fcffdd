/* SPDX-License-Identifier: Apache-2.0 */

/*
 * elastic-agent: supervises one job. Started by elasticctl run (in the foreground) and by elasticd;
 * people do not call it themselves.
 */

#include "agent/alone.h"
#include "agent/api/archived_run.h"
#include "agent/features.h"
#include "agent/files/file_system.h"
#include "agent/process/guard.h"
#include "agent/process/last_error.h"
#include "agent/process/spawn.h"
#include "agent/resources/gpu_memory.h"
#include "agent/resources/gpu_usage.h"
#include "agent/sharing/socket_dir.h"
#include "agent/supervise/prune_logs.h"
#include "agent/supervise/supervisor.h"
#include "common/base/alone.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/platform.h"
#include "common/base/stdfds.h"
#include "common/text/retention.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { EXIT_AGENT = 125, SPEC_BYTES_MAX = 16 << 20, TRIM_BYTES = 256 << 10 };

struct main_options {
	struct supervisor_options agent;
	int spec_fd, lock_fd, conn_fd;
	bool alone;
	const char *gpus, *free_as; /* --gpu-memory; NULL: not that */
	int free_within;
	bool gpu_usage;
	const char *record_dir; /* of the finished run to answer for, or NULL */
	const char *log_level;
};

static int main_number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *text && !*end && n >= 0 && n < 1 << 20 ? (int)n : -1;
}

static int main_usage(FILE *f)
{
	fputs("elastic-agent supervises one job for elasticctl run or elasticd.\n"
	      "  --spec-fd=N            descriptor of a file: the job's specification (JSON)\n"
	      "  --foreground           streams that are not redirected are this process's own\n"
	      "  --run=RUN              the run's identifier\n"
	      "  --listen-fd=N          listening socket for the control protocol\n"
	      "  --lock-fd=N            descriptor that stays open as long as anything is left\n"
	      "  --state-dir=DIR        the run's record\n"
	      "  --runtime-dir=DIR      where worker.sock and the board are\n"
	      "  --log-dir=DIR          where runs' log directories are\n"
	      "  --error-file=PATH      where the root cause's error.json is copied\n"
	      "  --resume               an earlier agent of this run was lost\n"
	      "  --lost=TEXT            why it was lost, unless that agent has noted it\n"
	      "  --serve=DIR --conn-fd=N  answer for a finished run on one connection\n"
	      "  --alone                serve one program outside elasticd, on descriptor 3\n"
	      "  --gpu-memory=GPUS      print how many MiB of GPUs are in use, or with\n"
	      "  --free-as=NUMBERS --free-within=MS  wait until they are as before\n"
	      "  --gpu-usage            print who uses GPUs, for each byte of standard input\n"
	      "  --log-level=LEVEL      err, warning, notice, info, debug\n"
	      "  --version\n",
		f);
	return f == stdout ? 0 : EXIT_AGENT;
}

/* An option and where its value goes; one of the three is set. */
struct main_option {
	const char *name;
	bool *flag;
	int *number; /* -1 where the argument is none */
	const char **text;
};

enum { MAIN_OPTIONS_MAX = 32, MAIN_OPTION_FIRST = 256 }; /* values of getopt_long() */

/* Fills ret for getopt_long(). */
static void main_long_options(
	const struct main_option *table, size_t n, struct option ret[MAIN_OPTIONS_MAX])
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct option){ .name = table[i].name,
			.has_arg = table[i].flag ? no_argument : required_argument,
			.val = MAIN_OPTION_FIRST + (int)i };
	ret[n] = (struct option){ 0 };
}

/* Returns -1 to go on, or an exit status. */
static int main_parse(int argc, char **argv, struct main_options *o)
{
	bool version = false, help = false;
	const struct main_option table[] = {
		{ "spec-fd", .number = &o->spec_fd },
		{ "foreground", .flag = &o->agent.foreground },
		{ "run", .text = &o->agent.run },
		{ "listen-fd", .number = &o->agent.listen_fd },
		{ "lock-fd", .number = &o->lock_fd },
		{ "state-dir", .text = &o->agent.state_dir },
		{ "runtime-dir", .text = &o->agent.runtime_dir },
		{ "log-dir", .text = &o->agent.log_root },
		{ "error-file", .text = &o->agent.error_file },
		{ "resume", .flag = &o->agent.resume },
		{ "lost", .text = &o->agent.lost },
		{ "serve", .text = &o->record_dir },
		{ "conn-fd", .number = &o->conn_fd },
		{ "alone", .flag = &o->alone },
		{ "gpu-memory", .text = &o->gpus },
		{ "free-as", .text = &o->free_as },
		{ "free-within", .number = &o->free_within },
		{ "gpu-usage", .flag = &o->gpu_usage },
		{ "log-level", .text = &o->log_level },
		{ "version", .flag = &version },
		{ "help", .flag = &help },
	};
	struct option options[MAIN_OPTIONS_MAX];
	int c;

	main_long_options(table, sizeof(table) / sizeof(table[0]), options);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const struct main_option *option;

		if (c < MAIN_OPTION_FIRST)
			return main_usage(stderr);
		option = &table[c - MAIN_OPTION_FIRST];
		if (option->flag)
			*option->flag = true;
		else if (option->number)
			*option->number = main_number(optarg);
		else
			*option->text = optarg;
	}
	if (help)
		return main_usage(stdout);
	if (version) {
		puts("elastic-agent " VERSION);
		return 0;
	}
	if (o->gpus && optind == argc)
		return gpu_memory_run(o->gpus, o->free_as, o->free_within);
	if (o->gpu_usage && optind == argc)
		return gpu_usage_run();
	if (optind < argc || (o->record_dir ? o->conn_fd < 0 : o->spec_fd < 0 && !o->alone))
		return main_usage(stderr);
	return -1;
}

static int main_read_spec(int fd, struct spec **ret, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r = file_read_fd(fd, SPEC_BYTES_MAX, &text, &len);

	if (r < 0)
		return error_set(err, r, "specification: %s", strerror(-r));
	r = spec_parse_text(text, len, ret, err);
	if (!r)
		r = spec_resolve(*ret, err);
	if (!r && spec_host_exit_code(*ret, NULL, platform_has_gpu()) < 0)
		r = error_set(err, -ENOMEM, "out of memory");
	return r;
}

/* In the foreground the agent shares the console with its workers' tees: one writer, which never
 * blocks and breaks no line. */
static struct logs *main_console;

static void main_log(int level, const char *text, const struct log_field *fields)
{
	char line[2304];

	log_format(level, text, line, sizeof(line));
	if (logs_put_message(main_console, line))
		return;
	dprintf(STDERR_FILENO, "%s\n", line);
}

static void main_share_console(struct supervisor *sv)
{
	main_console = supervisor_logs(sv);
	log_set_sink(main_log, 1);
}

/* Logs and records why the agent cannot begin: r and text. */
static int main_refuse(const struct main_options *o, int r, const char *text)
{
	log_error("%s", text);
	last_error_cannot_begin(o->agent.state_dir, r, text);
	return EXIT_AGENT;
}

static int main_supervise(struct main_options *o, struct spec *spec, struct cgroup *cgroup,
	const sigset_t *mask, bool *ret_guard_died)
{
	_cleanup_(loop_freep) struct loop *loop = NULL;
	_cleanup_(supervisor_freep) struct supervisor *sv = NULL;
	struct error err = { 0 };
	sigset_t all;
	int r = loop_new(&loop);

	if (r < 0) {
		error_set(&err, r, "cannot make an event loop: %s", strerror(-r));
		return main_refuse(o, r, err.text);
	}
	r = supervisor_new(loop, spec, &o->agent, cgroup, &sv, &err);
	if (r < 0)
		return main_refuse(o, r, err.text);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (o->agent.foreground)
		main_share_console(sv);
	supervisor_start(sv);
	r = loop_run(loop);
	/* A signal that comes now is too late to change how the run has ended. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	log_set_sink(NULL, 0);
	*ret_guard_died = supervisor_guard_died(sv);
	if (r < 0) {
		error_set(&err, r, "the event loop failed: %s", strerror(-r));
		last_error_save(o->agent.state_dir, err.text);
	}
	return r < 0 ? EXIT_AGENT : r;
}

/* The job's name by its program: "train" for train.py. Owned. */
static char *main_default_name(const struct spec *spec)
{
	const char *program = spec_entrypoint(spec), *slash = strrchr(program, '/');
	char name[41], *out = name;

	for (const char *p = slash ? slash + 1 : program; *p && out < name + sizeof(name) - 1; p++)
		*out++ = isalnum((unsigned char)*p) || *p == '-' || *p == '_' || *p == '.' ? *p
											   : '-';
	*out = '\0';
	out = strrchr(name, '.');
	if (out && (!strcmp(out, ".py") || !strcmp(out, ".sh")))
		*out = '\0';
	return strdup(spec_check_name(name, NULL) ? "job" : name);
}

/* Makes a private directory in the foreground, or if the daemon's path is too long for a socket.
 * Without one the job still runs, but its workers cannot share anything. Owned path, or NULL. */
static char *main_runtime_dir(struct main_options *o)
{
	struct error err = { 0 };
	char *dir = NULL;

	if (o->agent.runtime_dir && paths_socket_fits(o->agent.runtime_dir, WORKER_SOCKET))
		return NULL;
	if (sharing_dir_new(&dir, &err) < 0)
		log_warning("workers share nothing: %s", err.text);
	o->agent.runtime_dir = dir;
	return dir;
}

/* Removes old runs of elasticctl run, since no elasticd does. In a directory that the user has
 * chosen, only by limits that the user has set. */
static void main_prune(const struct main_options *o, const struct spec *spec)
{
	const struct spec_logs *l = &spec->logs;
	const char *root = l->dir ? l->dir : o->agent.log_root;
	struct retention limits = {
		.runs = l->keep_runs != SPEC_UNSET ? l->keep_runs : 0,
		.days = l->keep_days != SPEC_UNSET ? l->keep_days
			: root			   ? 0
						   : RETENTION_DAYS,
		.bytes = l->keep_bytes != SPEC_UNSET ? l->keep_bytes
			 : root			     ? 0
						     : RETENTION_BYTES,
	};
	struct paths p = { 0 };

	if (!root && paths_init(&p, false, NULL, NULL) < 0)
		return;
	prune_logs_start(root ? root : p.log_dir, &limits);
	paths_fini(&p);
}

static int main_job(struct main_options *o)
{
	_cleanup_free_ char *private_dir = NULL;
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_free_ char *run = NULL;
	struct guard_job guard = { .keep_fd = o->lock_fd,
		.state_dir = o->agent.state_dir,
		.foreground = o->agent.foreground };
	struct cgroup *cgroup = NULL;
	bool guard_died = false;
	struct error err = { 0 };
	sigset_t mask;
	bool hangs;
	int r = main_read_spec(o->spec_fd, &spec, &err);

	if (r < 0)
		return main_refuse(o, r, err.text);
	close(o->spec_fd);
	if (!spec->name)
		spec->name = main_default_name(spec);
	if (!o->agent.run)
		o->agent.run = run = run_id_here(spec->name, spec->rendezvous.nodes_max > 1);
	if (!o->agent.run || cgroup_new(o->agent.run, &cgroup) < 0)
		return main_refuse(o, -ENOMEM, "out of memory");
	if (!o->agent.foreground)
		log_set_context(spec->name);
	guard.fence = spec->rendezvous.nodes_max > 1;
	guard.dir = private_dir = main_runtime_dir(o);
	if (o->agent.foreground)
		main_prune(o, spec);
	r = guard_fork(cgroup, &guard, &mask);
	if (r < 0) {
		if (private_dir)
			(void)!file_rm_rf(private_dir);
		error_set(&err, r, "fork: %s", strerror(-r));
		return main_refuse(o, r, err.text);
	}
	spawn_raise_nofile();
	sigemptyset(&mask); /* nothing blocked, whatever the caller had */
	if (log_fs_start(LOG_FS_LIMIT_MS) < 0)
		log_warning("no thread for the files of the logs: a file system that hangs stops "
			    "this agent");
	r = main_supervise(o, spec, cgroup, &mask, &guard_died);
	hangs = log_fs_stop();
	if (guard_died)
		cgroup_free(cgroup);
	else
		cgroup_drop(cgroup); /* the guard removes it: it is the last one here */
	if (private_dir)
		(void)!file_rm_rf(private_dir);
	if (hangs)
		guard_leave(r, o->lock_fd);
	return r;
}

int main(int argc, char **argv)
{
	struct main_options o = { .agent.listen_fd = -1,
		.agent.features = agent_features,
		.spec_fd = -1,
		.lock_fd = -1,
		.conn_fd = -1 };
	int level, status;

	if (stdfds_open(false) < 0)
		return EXIT_AGENT;
	status = main_parse(argc, argv, &o);
	if (status >= 0)
		return status;
	/* Else glibc keeps up to twice the largest block that was ever freed. */
	mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
	/* Workers must not inherit what the caller's shell has left open. */
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	level = o.log_level ? log_level_from_string(o.log_level)
			    : (o.agent.foreground ? LOG_NOTICE : LOG_INFO);
	log_init(o.agent.foreground ? "elasticctl run" : "elastic-agent",
		level >= 0 ? level : LOG_INFO);
	if (o.alone)
		return alone_run(ALONE_FD);
	if (o.record_dir)
		return archived_run_serve(o.record_dir, o.conn_fd);
	if (o.agent.foreground && !o.agent.error_file)
		o.agent.error_file = getenv("TORCHELASTIC_ERROR_FILE");
	return main_job(&o);
}
