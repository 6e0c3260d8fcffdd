/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/daemon.h"

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/project.h"
#include "common/text/json.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/manager_ranges.h"
#include "common/varlink/queue_idl.h"
#include "common/varlink/queue_ranges.h"
#include "daemon/api/auto_resume.h"
#include "daemon/api/boot_jobs.h"
#include "daemon/api/host_notices.h"
#include "daemon/api/methods.h"
#include "daemon/api/preempt_method.h"
#include "daemon/api/prune.h"
#include "daemon/api/queue_relay.h"
#include "daemon/api/remove.h"
#include "daemon/api/start.h"
#include "daemon/api/stop_all.h"
#include "daemon/jobs/cgroupfs.h"
#include "daemon/jobs/scope.h"
#include "daemon/metrics/metrics.h"
#include "daemon/recover.h"
#include "daemon/setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

enum {
	REPORT_MS = 1000, /* for the agents of an earlier elasticd, before the socket opens */
	DRAIN_MS = 500,	  /* for open calls, after Shutdown was answered */
	RESERVED_CONNECTIONS = 64,
	MESSAGE_UNITS = 512 << 10, /* the most that others wait for one message to be handled */
};

static int out_of_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

static void show_status(struct daemon *d)
{
	int running = 0;
	int active = 0;
	char text[128];

	for (struct job *j = registry_first_active(d->registry); j; j = registry_next_active(j)) {
		active += j->life != LIFE_ENDED;
		running += j->life == LIFE_LINKED && j->mirror.state == MIRROR_RUNNING;
	}
	snprintf(text, sizeof(text), "%d job%s, %d running", active, active == 1 ? "" : "s",
		running);
	notify_status(d->notify, text);
}

/* True once every job that was taken up has reported, or has lost its agent. */
static bool all_known(struct daemon *d)
{
	for (struct job *j = registry_first_active(d->registry); j; j = registry_next_active(j))
		if (j->life == LIFE_STARTING)
			return false;
	return true;
}

static int open_socket(struct daemon *d, struct error *err)
{
	size_t n = registry_count_active(d->registry, -1);
	int r;

	d->open = true;
	d->report_timer = loop_timer_free(d->report_timer);
	r = setup_listen(d->server, &d->paths, &d->config, d->system, err);
	if (r < 0)
		return r;
	log_notice("elasticd " VERSION " serves %s, %zu active job%s", d->paths.socket, n,
		n == 1 ? "" : "s");
	show_status(d);
	notify_ready(d->notify);
	prune_update(d->prune);
	d->boot_jobs = boot_jobs_begin(d);
	return 0;
}

static void open_socket_now(void *arg)
{
	struct daemon *d = arg;
	struct error err = { 0 };

	if (open_socket(d, &err) < 0) {
		log_error("%s", err.text);
		loop_quit(d->loop, EXIT_FAILURE);
	}
}

/* Runs once per turn of the loop, however many jobs changed in it. */
static void on_changes(void *arg)
{
	struct daemon *d = arg;

	registry_tidy(d->registry);
	prune_update(d->prune);
	resume_update(d);
	notices_update(d->notices);
	if (d->open)
		show_status(d);
	else if (d->report_timer && all_known(d))
		open_socket_now(d);
}

static void on_job_changed(void *arg, struct job *j)
{
	struct daemon *d = arg;

	metrics_job_changed(d->metrics, j);
	(void)!loop_defer(d->loop, on_changes, d);
}

static void log_event(const struct job *j, const json_t *e)
{
	_cleanup_free_ char *text = printable_dup(json_get_string(e, "text", ""));
	_cleanup_free_ char *name = printable_dup(json_get_string(e, "event", ""));
	_cleanup_free_ char *result = NULL;
	char rank[24] = "";
	char attempt[24] = "";
	struct log_field fields[7] = { { "ELASTICD_JOB", j->rec.name },
		{ "ELASTICD_RUN", j->rec.run }, { "ELASTICD_EVENT", name ? name : "" } };
	int n = 3;

	if (json_is_integer(json_object_get(e, "rank"))) {
		snprintf(rank, sizeof(rank), "%lld", (long long)json_get_int(e, "rank", 0));
		fields[n++] = (struct log_field){ "ELASTICD_RANK", rank };
	}
	if (json_is_integer(json_object_get(e, "attempt"))) {
		snprintf(
			attempt, sizeof(attempt), "%lld", (long long)json_get_int(e, "attempt", 0));
		fields[n++] = (struct log_field){ "ELASTICD_ATTEMPT", attempt };
	}
	if (name && !strcmp(name, "ended")) {
		result = printable_dup(json_get_string(json_object_get(e, "data"), "result", ""));
		fields[n++] = (struct log_field){ "ELASTICD_RESULT", result ? result : "" };
	}
	fields[n] = (struct log_field){ NULL, NULL };
	log_fields(LOG_INFO, fields, "job %s: %s", j->rec.name, text ? text : "?");
}

static void on_job_events(void *arg, struct job *j, json_t *events)
{
	struct daemon *d = arg;
	json_t *e;
	size_t i;

	json_array_foreach (events, i, e)
		log_event(j, e);
	feed_publish(d->feed, j->rec.uid, events);
}

static int make_access(
	const struct daemon *d, const struct config *c, struct access **ret, struct error *err)
{
	const char *admin = c->admin_group ? c->admin_group : d->system ? "elasticd-admin" : NULL;
	char *const members[] = { (char *)"elasticd", NULL };
	/* Any user can connect to the system's daemon, only its own user to a user's daemon. */
	bool is_set = (c->allow_groups && *c->allow_groups) || (c->allow_users && *c->allow_users);
	char *const *groups = d->system && !is_set ? members : c->allow_groups;

	if (access_new(admin, groups, c->allow_users, ret) < 0)
		return out_of_memory(err);
	return 0;
}

static void apply_log_level(struct daemon *d)
{
	int level = d->options.log_level;

	if (level < 0)
		level = d->config.log_level;
	if (level < 0)
		level = LOG_INFO;
	log_set_level(level);
	/* The agent reports by events; with its info messages the log would say everything twice.
	 */
	d->host.agent_log_level = level >= LOG_DEBUG ? "debug" : "warning";
}

/* Has the keys in fresh that wait for the next start keep their values, and fills text with "; KEY,
 * KEY: at the next start", or with "". */
static void keep_until_restart(
	struct config *running, struct config *fresh, char *text, size_t size)
{
	const char *key;
	size_t i = 0, n = 0;

	text[0] = '\0';
	while ((key = config_next_start(running, fresh, &i)) && n < size)
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "; ", key);
	if (n && n < size)
		snprintf(text + n, size - n, ": at the next start");
}

/* Takes all of the configuration, or nothing. */
static int read_config(struct daemon *d, char *waiting, size_t size, struct error *err)
{
	_cleanup_(config_fini) struct config fresh = { 0 };
	struct access *access = NULL;
	struct config old;
	int r = config_load(
		&fresh, d->paths.config_file, d->options.config_required, NULL, NULL, err);

	if (!r)
		r = make_access(d, &fresh, &access, err);
	if (r < 0)
		return r;
	waiting[0] = '\0';
	if (d->access) /* else this is the start */
		keep_until_restart(&d->config, &fresh, waiting, size);
	old = d->config;
	d->config = fresh;
	fresh = old; /* and is freed */
	access_free(d->access);
	d->access = access;
	apply_log_level(d);
	return 0;
}

void daemon_reload(struct daemon *d)
{
	struct error err = { 0 };
	char waiting[320];

	notify_reloading(d->notify);
	if (read_config(d, waiting, sizeof(waiting), &err) < 0) {
		log_error("configuration not reloaded: %s", err.text);
	} else {
		prune_update(d->prune);
		log_notice("configuration reloaded%s", waiting);
	}
	notify_ready(d->notify);
}

static int open_dirs(struct daemon *d, struct error *err)
{
	const char *log_dir = d->options.paths.log_dir ? d->paths.log_dir
			      : d->config.log_dir      ? d->config.log_dir
						       : d->paths.log_dir;
	int r;

	d->log_dir = strdup(log_dir);
	if (!d->log_dir)
		return out_of_memory(err);
	r = setup_dirs(&d->paths, d->log_dir, d->system, err);
	if (r < 0)
		return r;
	d->locks[0] = setup_lock(d->paths.runtime_dir, err);
	if (d->locks[0] < 0)
		return d->locks[0];
	if (strcmp(d->paths.runtime_dir, d->paths.state_dir)) {
		d->locks[1] = setup_lock(d->paths.state_dir, err);
		if (d->locks[1] < 0)
			return d->locks[1];
	}
	r = record_store_open(&d->store, d->paths.state_dir, err);
	return r < 0 ? r : record_store_open_living(&d->living, d->paths.runtime_dir, err);
}

static int open_host(struct daemon *d, struct error *err)
{
	int r = 0;

	d->agent_program = paths_agent_program(NULL, err);
	if (!d->agent_program)
		return err->code;
	if (d->config.scopes) {
		r = scopes_new(d->loop, d->system, d->config.slice, &d->scopes);
		if (r < 0)
			return error_set(err, r, "%s", strerror(-r));
		if (!scopes_available(d->scopes))
			d->cgroup_parent = cgroupfs_own();
	}
	r = offload_new(d->loop, &d->sweepers);
	if (r == 0)
		r = offload_new(d->loop, &d->syncs);
	if (r < 0)
		return out_of_memory(err);
	d->host.sweepers = d->sweepers;
	d->host.syncs = d->syncs;
	d->host.orphans = &d->orphans;
	d->host.loop = d->loop;
	d->host.store = &d->store;
	d->host.living = &d->living;
	d->host.runtime_dir = d->paths.runtime_dir;
	d->host.agent_program = d->agent_program;
	d->host.cgroup_parent = d->cgroup_parent;
	d->host.scopes = d->scopes;
	d->host.events = on_job_events;
	d->host.changed = on_job_changed;
	d->host.arg = d;
	return 0;
}

/* The user that a connection counts for: see varlink_options.account. */
static void account_of(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg)
{
	const struct daemon *d = arg;

	*ret = (struct varlink_account){ .key = peer->uid,
		.trusted = access_level(d->access, peer->uid, peer->gid, loop_now_ms()) ==
			   ACCESS_ALL };
}

static int open_budget(struct daemon *d)
{
	size_t total = (size_t)d->config.buffered_bytes;
	const struct budget_limits l = { .total = total, .share = total / 4, .reserve = total / 4 };
	int r = budget_new(&l, &d->budget);

	if (r == 0)
		r = budget_new(&l, &d->kept);
	d->host.budget = d->budget;
	d->host.kept = d->kept;
	return r;
}

static int open_server(struct daemon *d, struct error *err)
{
	int reserved = d->config.connections / 4 < RESERVED_CONNECTIONS ? d->config.connections / 4
									: RESERVED_CONNECTIONS;
	const struct varlink_interface_options more[] = {
		{
			.idl = queue_idl,
			.methods = queue_relay_methods,
			.ranges = queue_ranges,
			.arg = d,
		},
		{ .idl = NULL },
	};
	const struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elasticd",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.ranges = manager_ranges,
		.methods = methods_table,
		.limits = { .message_bytes = d->config.message_size,
			.message_units = MESSAGE_UNITS,
			.queued_bytes = d->config.queued_bytes,
			.connections = d->config.connections,
			.account_connections = d->config.connections_per_user,
			.reserved_connections = reserved,
			.calls_in_flight = d->config.calls_in_flight },
		.budget = d->budget,
		.count_calls = true,
		.account = account_of,
		.more_interfaces = more,
		.refuses = methods_refuse,
		.authorize = methods_authorize,
		.closed = queue_relay_closed,
		.arg = d,
	};
	int r;

	if (open_budget(d) < 0 || registry_new(&d->registry) < 0 || feed_new(&d->feed) < 0 ||
		relays_new(&d->host, &d->relays) < 0 || starts_new(d, &d->starts) < 0 ||
		removals_new(d, &d->removals) < 0 || prune_new(d, &d->prune) < 0 ||
		preempts_new(d, &d->preempts) < 0 || notify_new(d->loop, &d->notify) < 0 ||
		metrics_new(d, &d->metrics) < 0)
		return out_of_memory(err);
	r = notices_new(d, &d->notices, err);
	return r < 0 ? r : varlink_server_new(d->loop, &opt, &d->server, err);
}

int daemon_new(struct loop *loop, const struct daemon_options *options, struct daemon **ret,
	struct error *err)
{
	_cleanup_(daemon_freep) struct daemon *d = calloc(1, sizeof(*d));
	char waiting[320];
	int r;

	if (!d)
		return out_of_memory(err);
	d->loop = loop;
	d->options = *options;
	d->locks[0] = d->locks[1] = d->store.fd = d->living.fd = -1;
	d->started_us = loop_real_us();
	d->system = paths_is_system();
	if ((r = paths_init(&d->paths, d->system, &options->paths, err)) < 0 ||
		(r = read_config(d, waiting, sizeof(waiting), err)) < 0 ||
		(r = open_dirs(d, err)) < 0 || (r = open_host(d, err)) < 0 ||
		(r = open_server(d, err)) < 0 || (r = recover_all(d, err)) < 0)
		return r;
	/* Callers must not get an old record's answer while the agent knows better. */
	if (all_known(d))
		r = open_socket(d, err);
	else
		r = loop_timer_new(loop, open_socket_now, d, &d->report_timer);
	if (r < 0)
		return r;
	if (d->report_timer)
		loop_timer_arm(d->report_timer, REPORT_MS);
	*ret = TAKE_PTR(d);
	return 0;
}

struct daemon *daemon_free(struct daemon *d)
{
	if (!d)
		return NULL;
	/* The server goes first, since its open calls watch jobs. */
	varlink_server_free(d->server);
	d->metrics = metrics_free(d->metrics);
	boot_jobs_free(d->boot_jobs);
	stop_all_free(d->stop_all);
	starts_free(d->starts);
	removals_free(d->removals);
	prune_free(d->prune);
	preempts_free(d->preempts);
	notices_free(d->notices);
	registry_free(d->registry);
	relays_free(d->relays);
	feed_free(d->feed);
	offload_free(d->sweepers);
	offload_free(d->syncs);
	child_orphans_fini(&d->orphans);
	scopes_free(d->scopes);
	notify_free(d->notify);
	loop_timer_free(d->report_timer);
	loop_timer_free(d->drain_timer);
	access_free(d->access);
	budget_free(d->budget);
	budget_free(d->kept);
	loop_cancel(d->loop, on_changes, d);
	record_store_close(&d->store);
	record_store_close(&d->living);
	close_fd(d->locks[0]);
	close_fd(d->locks[1]);
	config_fini(&d->config);
	paths_fini(&d->paths);
	free(d->agent_program);
	free(d->cgroup_parent);
	free(d->log_dir);
	free(d);
	return NULL;
}

static void leave(struct daemon *d)
{
	size_t n = registry_count_active(d->registry, -1);

	notify_stopping(d->notify);
	log_notice("leaving; %zu job%s on", n, n == 1 ? " goes" : "s go");
	loop_quit(d->loop, 0);
}

static void on_drained(void *arg)
{
	leave(arg);
}

static void on_shutdown_gone(void *arg)
{
	struct daemon *d = arg;

	d->shutdown = NULL;
}

static void on_all_ended(void *arg)
{
	struct daemon *d = arg;
	struct varlink_call *call = d->shutdown;

	d->shutdown = NULL;
	if (call)
		varlink_reply(call, NULL);
	varlink_server_drain(d->server, on_drained, d);
	/* Streams and waits may be open for ever. */
	if (loop_timer_new(d->loop, on_drained, d, &d->drain_timer) < 0)
		leave(d);
	else
		loop_timer_arm(d->drain_timer, DRAIN_MS);
}

static void on_may_leave(void *arg)
{
	struct daemon *d = arg;

	if (!d->options.first_process) {
		leave(d);
		return;
	}
	log_notice("stopping all jobs: this is the end of the container");
	if (!d->stop_all &&
		stop_all_new(d->loop, d->registry, geteuid(), on_all_ended, d, &d->stop_all) < 0)
		leave(d);
}

void daemon_terminate(struct daemon *d)
{
	if (d->terminating) {
		leave(d);
		return;
	}
	d->terminating = true;
	d->leaving = true;
	notices_leave(d->notices, on_may_leave, d);
}

int daemon_shutdown(struct daemon *d, struct varlink_call *call, bool stop_jobs)
{
	int r;

	if (stop_jobs)
		r = stop_all_new(d->loop, d->registry, varlink_call_peer(call)->uid, on_all_ended,
			d, &d->stop_all);
	else
		r = loop_defer(d->loop, on_all_ended, d);
	if (r < 0)
		return r;
	d->leaving = true;
	d->shutdown = call;
	varlink_call_on_gone(call, on_shutdown_gone, d);
	return 0;
}
