/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/methods.h"

#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/spec/spec.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/host_notices.h"
#include "daemon/api/preempt_method.h"
#include "daemon/api/remove.h"
#include "daemon/api/start.h"
#include "daemon/api/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MARGIN_BYTES = 1024 };

enum access_level methods_level(struct daemon *d, struct varlink_call *call)
{
	const struct varlink_peer *peer = varlink_call_peer(call);

	return access_level(d->access, peer->uid, peer->gid, loop_now_ms());
}

const char *methods_refuse(const struct varlink_peer *peer, json_t **ret_parameters, void *arg)
{
	struct daemon *d = arg;
	char text[512];

	if (access_level(d->access, peer->uid, peer->gid, loop_now_ms()) != ACCESS_NONE)
		return NULL;
	access_refusal(d->access, peer->uid, text, sizeof(text));
	*ret_parameters = json_pack("{s:o}", "message", json_string_lossy(text, strlen(text)));
	return "PermissionDenied";
}

int methods_authorize(struct varlink_call *call, const char *method, json_t *params, void *arg)
{
	json_t *why = NULL;
	const char *error = methods_refuse(varlink_call_peer(call), &why, arg);

	if (!error)
		return 0;
	varlink_error(call, error, why);
	return 1;
}

int methods_failed(struct varlink_call *call, int code, const char *text)
{
	varlink_error(call, "Internal", manager_internal(text, code));
	return 0;
}

struct viewer {
	enum access_level level;
	uid_t uid;
};

static bool may_see(const struct job *j, void *arg)
{
	const struct viewer *v = arg;

	return access_job(v->level, v->uid, j->rec.uid);
}

struct job *methods_job(struct daemon *d, struct varlink_call *call, const json_t *params)
{
	struct viewer v = { methods_level(d, call), varlink_call_peer(call)->uid };
	const char *name = json_get_string(params, "job", "");
	struct job *j = registry_find(d->registry, name, may_see, &v);

	if (!j)
		varlink_error(call, "NotFound", manager_no_job(name));
	else
		job_catch_up(j);
	return j;
}

int methods_not_active(struct varlink_call *call, const struct job *j)
{
	return varlink_error(call, "FailedPrecondition",
		manager_not_active(j->rec.name, mirror_state_name(j->mirror.state)));
}

static int on_start(struct varlink_call *call, json_t *params, void *arg)
{
	return start_begin(arg, call, json_object_get(params, "spec"));
}

static int on_validate(struct varlink_call *call, json_t *params, void *arg)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct error err = { 0 };

	if (!spec_parse(json_object_get(params, "spec"), &spec, &err))
		return varlink_reply(call, json_pack("{s:o}", "spec", spec_to_json(spec)));
	return varlink_error(call, "InvalidArgument", manager_invalid(err.field, NULL, err.text));
}

static int on_spec(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct job *j = methods_job(d, call, params);
	json_t *spec = NULL;
	struct error err = { 0 };
	int r;

	if (!j)
		return 0;
	r = job_record_spec(&d->store, j->rec.run, &spec, &err);
	if (r < 0)
		return methods_failed(call, r, err.text);
	return varlink_reply(call, json_pack("{s:o}", "spec", spec));
}

/* A call that the job's agent answers. */
static int on_relayed(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct job *j = methods_job(d, call, params);

	return j ? relay_begin(d->relays, call, j, params) : 0;
}

/* As on_relayed(), for a call that changes something: elasticd logs it, and refuses it for a run
 * that is over. */
static int relay_command(struct daemon *d, struct varlink_call *call, json_t *params, struct job *j)
{
	const struct varlink_peer *peer;

	if (job_is_over(j))
		return methods_not_active(call, j);
	peer = varlink_call_peer(call);
	log_notice("job %s (%s): %s asked for by uid %u (pid %d)", j->rec.name, j->rec.run,
		varlink_call_method(call), (unsigned)peer->uid, (int)peer->pid);
	return relay_begin(d->relays, call, j, params);
}

static int on_command(struct varlink_call *call, json_t *params, void *arg)
{
	struct job *j = methods_job(arg, call, params);

	return j ? relay_command(arg, call, params, j) : 0;
}

static int on_restart(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct job *j = methods_job(d, call, params);

	if (!j)
		return 0;
	if (job_is_over(j))
		return start_again(d, call, j);
	return relay_command(d, call, params, j);
}

/* The attached program is the caller's child and runs as the caller, so only the job's own user may
 * attach. */
static int on_attach(struct varlink_call *call, json_t *params, void *arg)
{
	struct job *j = methods_job(arg, call, params);
	char text[160];

	if (!j)
		return 0;
	if (varlink_call_peer(call)->uid == j->rec.uid)
		return relay_command(arg, call, params, j);
	snprintf(text, sizeof(text),
		"an attached worker runs as its caller, and the workers of %.64s run as uid %u: "
		"call as that user",
		j->rec.name, (unsigned)j->rec.uid);
	return varlink_error(call, "PermissionDenied", json_pack("{s:s}", "message", text));
}

/* The process must be the caller's child in elasticd's pid namespace: a number of another namespace
 * would mean another process. */
static int on_attach_started(struct varlink_call *call, json_t *params, void *arg)
{
	pid_t pid = (pid_t)json_get_int(params, "pid", 0), caller = varlink_call_peer(call)->pid;
	struct proc_stat stat;
	char text[96];

	if (proc_stat_read(pid, &stat) == 0 && stat.ppid == caller)
		return on_attach(call, params, arg);
	snprintf(text, sizeof(text), "process %d is not a child of its caller, process %d",
		(int)pid, (int)caller);
	return methods_failed(call, -ESRCH, text);
}

static int on_status(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct job *j = methods_job(d, call, params);
	const char *ranks = json_get_string(params, "ranks", NULL);
	_cleanup_(ranks_fini) struct ranks only = { 0 };
	struct error err = { 0 };
	int r;

	if (!j)
		return 0;
	if (ranks && ranks_parse(&only, ranks, NULL, &err) < 0)
		return varlink_error(
			call, "InvalidArgument", manager_invalid("ranks", ranks, err.text));
	if ((json_get_bool(params, "live", false) || j->mirror.several) && j->life == LIFE_LINKED &&
		!j->mirror.silent_us)
		return relay_begin(d->relays, call, j, params);
	r = job_load_text(j, &err);
	if (r < 0)
		return methods_failed(call, r, err.text);
	r = ranks ? varlink_reply(call, json_pack("{s:o}", "job", mirror_job_of(&j->mirror, &only)))
		  : varlink_reply_text(call, j->mirror.text, j->mirror.text_len);
	job_drop_text(j);
	return r;
}

static bool is_listed(const struct job *j, struct viewer *v, bool ended)
{
	return may_see(j, v) && (ended || !job_is_over(j)) && j->mirror.brief;
}

static struct job *first_listed(const struct daemon *d, bool ended)
{
	return ended ? registry_first(d->registry) : registry_first_active(d->registry);
}

static struct job *next_listed(const struct job *j, bool ended)
{
	return ended ? registry_next(j) : registry_next_active(j);
}

static int on_list(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct viewer v = { methods_level(d, call), varlink_call_peer(call)->uid };
	bool ended = json_get_bool(params, "ended", false);
	size_t room = VARLINK_REPLY_BYTES - LIST_MARGIN_BYTES;
	_cleanup_free_ char *text = NULL;
	size_t total = 0;
	size_t len = 0;
	const char *comma = "";
	FILE *f;
	int r;

	for (struct job *j = registry_first_active(d->registry); j; j = registry_next_active(j))
		if (may_see(j, &v))
			job_catch_up(j);
	for (struct job *j = first_listed(d, ended); j; j = next_listed(j, ended))
		if (is_listed(j, &v, ended))
			total += strlen(j->mirror.brief) + 1;
	f = open_memstream(&text, &len);
	if (!f)
		return -ENOMEM;
	fputs("{\"jobs\":[", f);
	for (struct job *j = first_listed(d, ended); j; j = next_listed(j, ended)) {
		if (!is_listed(j, &v, ended))
			continue;
		/* More than fits into a message: the oldest are left out. */
		if (total > room) {
			total -= strlen(j->mirror.brief) + 1;
			continue;
		}
		fprintf(f, "%s%s", comma, j->mirror.brief);
		comma = ",";
	}
	fputs("]}", f);
	r = fclose(f);
	return r ? -ENOMEM : varlink_reply_text(call, text, len);
}

static int on_wait(struct varlink_call *call, json_t *params, void *arg)
{
	struct job *j = methods_job(arg, call, params);
	const struct varlink_peer *peer;
	struct wait_options options;
	const char *until;

	if (!j)
		return 0;
	until = json_get_string(params, "until", "ended");
	options.until = !strcmp(until, "running") ? WAIT_RUNNING
			: !strcmp(until, "ready") ? WAIT_READY
						  : WAIT_ENDED;
	options.kill = json_get_bool(params, "kill", false);
	options.timeout_ms = json_get_int(params, "timeout_ms", -1);
	if (options.kill && options.timeout_ms < 0)
		return varlink_error_parameter(call, "timeout_ms");
	if (options.kill && !job_is_over(j)) {
		peer = varlink_call_peer(call);
		log_notice("job %s (%s): uid %u (pid %d) waits for it, and ends it after %lld ms",
			j->rec.name, j->rec.run, (unsigned)peer->uid, (int)peer->pid,
			(long long)options.timeout_ms);
	}
	return wait_begin(call, j, &options);
}

static int on_events(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;

	if (json_get_string(params, "job", NULL))
		return on_relayed(call, params, arg);
	if (!json_get_bool(params, "follow", false))
		return varlink_reply(call, json_pack("{s:[]}", "events"));
	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	return feed_subscribe(d->feed, call, methods_level(d, call), varlink_call_peer(call)->uid);
}

/* Collects the runs that a Remove means: one by its identifier, or all of a name. */
static int collect_ended(struct daemon *d, struct varlink_call *call, const struct job *found,
	const char *key, struct job ***ret, size_t *ret_n)
{
	struct viewer v = { methods_level(d, call), varlink_call_peer(call)->uid };
	bool one = !strcmp(found->rec.run, key);
	struct job **jobs = calloc(registry_count(d->registry), sizeof(*jobs));
	size_t n = 0;

	if (!jobs)
		return -ENOMEM;
	for (struct job *j = registry_first(d->registry); j; j = registry_next(j)) {
		if (one ? j != found : !may_see(j, &v) || strcmp(j->rec.name, key))
			continue;
		if (!job_is_over(j)) {
			free(jobs);
			varlink_error(call, "FailedPrecondition",
				manager_still_active(
					j->rec.name, mirror_state_name(j->mirror.state)));
			return 1;
		}
		jobs[n++] = j;
	}
	*ret = jobs;
	*ret_n = n;
	return 0;
}

static int on_remove(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct job *j = methods_job(d, call, params);
	struct job **jobs = NULL;
	size_t n = 0;
	int r;

	if (!j)
		return 0;
	r = collect_ended(d, call, j, json_get_string(params, "job", ""), &jobs, &n);
	if (r)
		return r < 0 ? r : 0;
	r = remove_begin(d, call, jobs, n, json_get_bool(params, "logs", false));
	free(jobs);
	return r;
}

static int on_preempt(struct varlink_call *call, json_t *params, void *arg)
{
	return preempt_begin(arg, call, params);
}

static int on_platform(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;

	return notices_platform(d->notices, call);
}

static int on_ping(struct varlink_call *call, json_t *params, void *arg)
{
	return varlink_reply(call, NULL);
}

static int on_version(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;

	return varlink_reply(call,
		json_pack("{s:s, s:i, s:I, s:i, s:s}", "version", VERSION, "pid", (int)getpid(),
			"started_us", (json_int_t)d->started_us, "jobs",
			(int)registry_count_active(d->registry, -1), "socket", d->paths.socket));
}

static int on_shutdown(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	const struct varlink_peer *peer = varlink_call_peer(call);
	bool stop = json_get_bool(params, "stop_jobs", false);

	if (methods_level(d, call) != ACCESS_ALL)
		return varlink_error(call, "PermissionDenied",
			json_pack("{s:s}", "message",
				"only root, the daemon's own user and its administrators may end it"));
	if (d->shutdown)
		return varlink_error(call, "Unavailable", manager_shutting_down());
	log_notice("shutdown asked for by uid %u (pid %d)%s", (unsigned)peer->uid, (int)peer->pid,
		stop ? ", all jobs are stopped first" : "; jobs go on");
	return daemon_shutdown(d, call, stop);
}

const struct varlink_method methods_table[] = {
	{ "Start", on_start },
	{ "Validate", on_validate },
	{ "Spec", on_spec },
	{ "Stop", on_command },
	{ "Leave", on_command },
	{ "Drain", on_command },
	{ "Restart", on_restart },
	{ "Kill", on_command },
	{ "Status", on_status },
	{ "List", on_list },
	{ "Logs", on_relayed },
	{ "Errors", on_relayed },
	{ "Wait", on_wait },
	{ "Events", on_events },
	{ "Watch", on_relayed },
	{ "Scale", on_command },
	{ "StartWorker", on_command },
	{ "StopWorkers", on_command },
	{ "Attach", on_attach },
	{ "AttachStarted", on_attach_started },
	{ "AttachEnded", on_attach },
	{ "Dump", on_command },
	{ "Results", on_relayed },
	{ "Why", on_relayed },
	{ "Remove", on_remove },
	{ "Preempt", on_preempt },
	{ "Platform", on_platform },
	{ "Ping", on_ping },
	{ "Version", on_version },
	{ "Shutdown", on_shutdown },
	{ NULL, NULL },
};
