/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/start.h"

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/spec/spec.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/methods.h"
#include "daemon/jobs/record_sync.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/queue.h>

enum { NAME_STEM_MAX = 48, NAME_RANDOM = 4, NAME_TRIES = 8 };

/* How long a Start waits for news that the run which has the name has ended. */
enum { NAME_PATIENCE_MS = 2000 };

/* One Start call, or a start of a run by elasticd, that is not finished. */
struct start {
	LIST_ENTRY(start) link;
	struct daemon *daemon;
	struct varlink_call *call; /* NULL: there is no caller, or it has gone */
	struct varlink_peer peer;
	bool again;    /* restarts an ended run: the answer has no name in it */
	char *follows; /* that run, or NULL */
	json_t *spec;
	struct spec *parsed;
	uid_t uid;
	struct error failure;
	struct loop_again *next_turn; /* continues with an agent that has sent much */
	uint64_t patience_ms;	      /* not after that time */
	struct offload_request *sync; /* until the disk has the record */
	bool runs;		      /* the agent was started */
	struct job *job;	      /* watched: the new one, or the one whose name it waits for */
	struct job_watch watch;
};

struct starts {
	struct daemon *daemon;
	LIST_HEAD(, start) open;
};

static void try_start(void *arg);
static void discard_job(void *arg);

int starts_new(struct daemon *d, struct starts **ret)
{
	struct starts *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->daemon = d;
	LIST_INIT(&s->open);
	*ret = s;
	return 0;
}

static void unwatch_job(struct start *s)
{
	if (s->job)
		job_unwatch(s->job, &s->watch);
	s->job = NULL;
}

static void start_free(struct start *s)
{
	LIST_REMOVE(s, link);
	unwatch_job(s);
	offload_cancel(s->sync);
	loop_again_free(s->next_turn);
	loop_cancel(s->daemon->loop, try_start, s);
	loop_cancel(s->daemon->loop, discard_job, s);
	json_decref(s->spec);
	spec_free(s->parsed);
	free(s->follows);
	free(s);
}

struct starts *starts_free(struct starts *s)
{
	if (!s)
		return NULL;
	while (!LIST_EMPTY(&s->open))
		start_free(LIST_FIRST(&s->open));
	free(s);
	return NULL;
}

static void on_gone(void *arg)
{
	struct start *s = arg;

	s->call = NULL;
}

/* A start without a caller reports its failure to the log. */
static void log_unresumed(const struct start *s, const char *name, const json_t *parameters)
{
	if (!s->call && s->follows)
		log_error("run %s was preempted and cannot be resumed: %s %s", s->follows, name,
			json_get_string(
				parameters, "message", json_get_string(parameters, "run", "")));
}

static void end_error(struct start *s, const char *name, json_t *parameters)
{
	struct varlink_call *call = s->call;

	log_unresumed(s, name, parameters);
	start_free(s);
	if (call)
		varlink_error(call, name, parameters);
	else
		json_decref(parameters);
}

static void end_failed(struct start *s, const struct error *err)
{
	if (err->code == -EPERM)
		end_error(s, "PermissionDenied", json_pack("{s:s}", "message", err->text));
	else
		end_error(s, "Internal", manager_internal(err->text, err->code));
}

static void end_limit(struct start *s, const char *what, int limit)
{
	end_error(s, "ResourceExhausted", manager_limit(what, limit));
}

static void end_invalid(struct start *s, const struct error *err)
{
	end_error(s, "InvalidArgument", manager_invalid(err->field, NULL, err->text));
}

/* A name from the command's, with the characters that a name may have, and four random ones.
 * Returns owned. */
static char *invent_name(const struct spec *spec)
{
	const char *entry = spec_entrypoint(spec);
	const char *slash = strrchr(entry, '/');
	char stem[NAME_STEM_MAX + 1];
	char suffix[NAME_RANDOM + 1];
	size_t n = 0;
	char *name;

	for (const char *p = slash ? slash + 1 : entry; *p && n < NAME_STEM_MAX; p++) {
		bool fits = (isalnum((unsigned char)*p) && isascii(*p)) || *p == '_' ||
			    (n && (*p == '.' || *p == '-'));

		if (fits)
			stem[n++] = *p;
	}
	stem[n] = '\0';
	if (random_letters(suffix, NAME_RANDOM) < 0)
		return NULL;
	return asprintf(&name, "%s-%s", n ? stem : "job", suffix) < 0 ? NULL : name;
}

static int choose_name(struct start *s, struct error *err)
{
	for (int i = 0; !s->parsed->name && i < NAME_TRIES; i++) {
		_cleanup_free_ char *name = invent_name(s->parsed);

		if (name && !registry_active(s->daemon->registry, name))
			s->parsed->name = TAKE_PTR(name);
	}
	if (!s->parsed->name || json_put_string(s->spec, "name", s->parsed->name) < 0)
		return error_set(err, -EIO, "cannot find a name for the job");
	return 0;
}

static int choose_user(struct start *s, struct error *err)
{
	uid_t wanted = (uid_t)-1;
	int r = 0;

	if (s->again)
		return 0;
	if (s->parsed->user) {
		r = child_user_uid(s->parsed->user, &wanted, err);
		if (r < 0)
			return error_prefix(err, "user");
	}
	return access_job_user(geteuid(), s->peer.uid, wanted, &s->uid, err);
}

/* The run's log directory: an absolute path, since the agent runs in another working directory than
 * the user. */
static int choose_log_dir(struct start *s, char **ret, struct error *err)
{
	const char *dir = s->parsed->logs.dir;

	if (dir && dir[0] != '/')
		return error_field(err, -EINVAL, "logs.dir",
			"expected an absolute path, found \"%.200s\"", dir);
	*ret = strdup(dir ? dir : s->daemon->log_dir);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int fill_record(struct start *s, struct job_record *rec, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	int r = child_user_init(&user, s->uid, err);

	if (!r)
		r = choose_log_dir(s, &rec->log_dir, err);
	if (r < 0)
		return r;
	rec->uid = s->uid;
	rec->user = TAKE_PTR(user.name);
	rec->name = strdup(s->parsed->name);
	rec->run = run_id_here(s->parsed->name, s->parsed->rendezvous.nodes_max > 1);
	rec->created_us = loop_real_us();
	rec->notices = s->parsed->preemption.notices;
	rec->poll_ms = s->parsed->preemption.poll_ms;
	rec->resume = s->parsed->preemption.resume;
	rec->stop_ms = s->parsed->stop.timeout_ms;
	rec->follows = s->follows ? strdup(s->follows) : NULL;
	if (!rec->name || !rec->run || (s->follows && !rec->follows))
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void log_accepted(const struct start *s, const struct job *j)
{
	_cleanup_free_ char *command = spec_command_line(s->parsed);
	const struct log_field fields[] = { { "ELASTICD_JOB", j->rec.name },
		{ "ELASTICD_RUN", j->rec.run }, { NULL, NULL } };

	log_fields(LOG_NOTICE, fields, "job %s (%s): %s by uid %u (pid %d) for user %s: %.200s",
		j->rec.name, j->rec.run, s->again ? "started again" : "started",
		(unsigned)s->peer.uid, (int)s->peer.pid, j->rec.user, command ? command : "?");
}

/* Removes a job that could not be started. From the loop, since its own news calls this. */
static void discard_job(void *arg)
{
	struct start *s = arg;
	struct job *j = s->job;
	struct error err = s->failure;
	struct error ignored = { 0 };

	if (j) {
		unwatch_job(s);
		if (job_record_remove(&s->daemon->store, j->rec.run, &ignored) < 0)
			log_warning("%s", ignored.text);
		registry_remove(s->daemon->registry, j);
		job_free(j);
	}
	end_failed(s, &err);
}

void start_mark_followed(struct daemon *d, const char *run)
{
	struct job *j = registry_find(d->registry, run, NULL, NULL);
	struct error err = { 0 };

	if (!j || strcmp(j->rec.run, run) != 0)
		return;
	j->rec.followed = true;
	if (job_record_update(&d->store, &j->rec, NULL, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
}

/* The new run is on disk and names the old one, so that elasticd never resumes the old one again,
 * even after the new one is removed. */
static void follow_up(struct start *s, const struct job *j)
{
	struct daemon *d = s->daemon;
	struct job *old = s->follows ? registry_find(d->registry, s->follows, NULL, NULL) : NULL;
	char text[512];

	if (!old)
		return;
	start_mark_followed(d, s->follows);
	if (s->call)
		return;
	snprintf(text, sizeof(text), "was preempted, and goes on as run %.300s", j->rec.run);
	job_own_event(old, "resumed", text);
}

static void answer_started(struct start *s)
{
	struct varlink_call *call = s->call;
	const struct job *j = s->job;
	json_t *parameters =
		s->again ? json_pack("{s:s}", "run", j->rec.run)
			 : json_pack("{s:s, s:s}", "job", j->rec.name, "run", j->rec.run);

	log_accepted(s, j);
	follow_up(s, j);
	start_free(s);
	if (call)
		varlink_reply(call, parameters);
	else
		json_decref(parameters);
}

static void on_synced(void *arg, int r)
{
	struct start *s = arg;

	s->sync = NULL;
	if (r < 0)
		log_warning("job %s: its record may be lost if this host crashes now: %s",
			s->parsed->name, strerror(-r));
	if (s->runs)
		answer_started(s);
}

static void on_new_job(void *arg, struct job *j, enum job_news news)
{
	struct start *s = arg;

	switch (news) {
	case JOB_STARTED:
		s->runs = true;
		if (!s->sync)
			answer_started(s);
		break;
	case JOB_START_FAILED:
		s->failure = j->start_error;
		if (loop_defer(s->daemon->loop, discard_job, s) < 0)
			end_failed(s, &j->start_error);
		break;
	case JOB_GONE:
		/* It has ended, and was removed, before the disk had its record. */
		if (s->runs)
			answer_started(s);
		else
			unwatch_job(s);
		break;
	default:
		break;
	}
}

static void on_old_job(void *arg, struct job *j, enum job_news news)
{
	struct start *s = arg;

	if (news != JOB_ENDED && news != JOB_GONE)
		return;
	unwatch_job(s);
	if (loop_defer(s->daemon->loop, try_start, s) < 0)
		end_error(s, "Internal", json_pack("{s:s}", "message", "out of memory"));
}

/* Writes the record first: from then on a crash of elasticd loses nothing. */
static int create_run(struct start *s, struct error *err)
{
	struct daemon *d = s->daemon;
	struct job_record rec = { 0 };
	struct error ignored = { 0 };
	struct job *j = NULL;
	int r = fill_record(s, &rec, err);

	if (!r)
		r = job_record_create(&d->store, &rec, s->spec, err);
	if (!r && job_new(&d->host, &rec, &j) < 0)
		r = error_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		job_record_fini(&rec);
		return r;
	}
	r = job_start(j, s->spec, s->parsed, err);
	if (r < 0) {
		if (job_record_remove(&d->store, j->rec.run, &ignored) < 0)
			log_warning("%s", ignored.text);
		job_free(j);
		return r;
	}
	registry_add(d->registry, j);
	s->job = j;
	job_watch(j, &s->watch, on_new_job, s);
	if (!s->call) {
		record_sync_later(d->syncs, &d->store, &j->rec);
		return 0;
	}
	r = record_sync_begin(d->syncs, &d->store, &j->rec, on_synced, s, &s->sync);
	if (r < 0)
		on_synced(s, r);
	return 0;
}

/* Returns true if the name is free; else answers the call, or waits for the name. */
static bool claim_name(struct start *s)
{
	struct daemon *d = s->daemon;
	struct job *other = registry_active(d->registry, s->parsed->name);
	bool visible;

	if (!other)
		return true;
	job_catch_up(other);
	other = registry_active(d->registry, s->parsed->name);
	if (!other)
		return true;
	if (!job_is_over(other) && job_lags(other) && loop_now_ms() < s->patience_ms) {
		/* Its agent may have said in what is not read yet that it has ended. */
		loop_again_arm(s->next_turn);
		return false;
	}
	if (job_is_over(other)) {
		/* Its verdict is known; its guard is about to leave. */
		job_end_within(other, SPEC_UNSET);
		s->job = other;
		job_watch(other, &s->watch, on_old_job, s);
		return false;
	}
	visible = access_job(access_level(d->access, s->peer.uid, s->peer.gid, loop_now_ms()),
		s->peer.uid, other->rec.uid);
	end_error(s, "AlreadyExists",
		manager_job_exists(other->rec.name, visible ? other->rec.run : ""));
	return false;
}

/* 0: none but that of all jobs. */
static int limit_of_user(const struct start *s)
{
	const struct daemon *d = s->daemon;
	const struct config *c = &d->config;

	if (c->jobs_per_user != CONFIG_JOBS_SHARE)
		return c->jobs_per_user;
	if (access_level(d->access, s->peer.uid, s->peer.gid, loop_now_ms()) == ACCESS_ALL)
		return 0;
	return c->jobs < 4 ? 1 : c->jobs / 4;
}

/* The limit that is reached, or NULL. */
static const char *reached_limit(const struct start *s, int *ret_limit)
{
	const struct daemon *d = s->daemon;
	int of_user = limit_of_user(s);

	*ret_limit = d->config.jobs;
	if (registry_count_active(d->registry, -1) >= (size_t)d->config.jobs)
		return "jobs";
	*ret_limit = of_user;
	if (of_user && registry_count_active(d->registry, s->uid) >= (size_t)of_user)
		return "jobs of one user";
	return NULL;
}

static bool within_limits(struct start *s)
{
	const char *what;
	int limit;

	if (!reached_limit(s, &limit))
		return true;
	/* Some may have ended. */
	for (struct job *j = registry_first_active(s->daemon->registry); j;
		j = registry_next_active(j))
		job_catch_up(j);
	what = reached_limit(s, &limit);
	if (what)
		end_limit(s, what, limit);
	return !what;
}

static void try_start(void *arg)
{
	struct start *s = arg;
	struct error err = { 0 };
	int r;

	if (s->daemon->leaving) {
		end_error(s, "Unavailable", manager_shutting_down());
		return;
	}
	if (!claim_name(s) || !within_limits(s))
		return;
	r = create_run(s, &err);
	if (r == -EINVAL && err.field[0]) {
		end_invalid(s, &err);
	} else if (r < 0) {
		log_error("job %s: cannot be started: %s", s->parsed->name, err.text);
		end_failed(s, &err);
	}
}

/* Refuses a job that lacks what the configuration requires. */
static int check_required(const struct start *s, struct error *err)
{
	const struct spec_rendezvous *z = &s->parsed->rendezvous;

	if (!s->daemon->config.require_secret || z->nodes_max < 2 || z->token_file || z->tls_cert)
		return 0;
	return error_field(err, -EINVAL, "rendezvous.token_file",
		"expected a file, or certificates in `tls`: the configuration of this host's "
		"elasticd requires a secret of groups of several hosts");
}

/* Of several hosts, this one stands where the configuration says, where the job does not. */
static int place_host(struct start *s, struct error *err)
{
	const char *topology = s->daemon->config.topology;
	json_t *section = json_object_get(s->spec, "rendezvous");

	if (!topology || s->parsed->rendezvous.topology || s->parsed->rendezvous.nodes_max < 2)
		return 0;
	if (json_put_string(section, "topology", topology) < 0 ||
		!(s->parsed->rendezvous.topology = strdup(topology)))
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* Takes spec. */
static int begin_start(
	struct daemon *d, struct varlink_call *call, json_t *spec, const struct job *ended)
{
	struct start *s = calloc(1, sizeof(*s));
	struct error err = { 0 };
	int r;

	if (!s || !spec) {
		free(s);
		json_decref(spec);
		return -ENOMEM;
	}
	*s = (struct start){ .daemon = d,
		.call = call,
		.again = ended != NULL,
		.uid = ended ? ended->rec.uid : (uid_t)-1,
		.spec = spec,
		.patience_ms = loop_now_ms() + NAME_PATIENCE_MS };
	LIST_INSERT_HEAD(&d->starts->open, s, link);
	if (call) {
		s->peer = *varlink_call_peer(call);
		varlink_call_on_gone(call, on_gone, s);
	} else {
		s->peer = (struct varlink_peer){ .uid = geteuid(), .pid = getpid() };
	}
	if (ended) {
		s->follows = strdup(ended->rec.run);
		if (!s->follows) {
			error_set(&err, -ENOMEM, "out of memory");
			end_failed(s, &err);
			return 0;
		}
	}
	r = spec_parse(spec, &s->parsed, &err);
	if (!r)
		r = check_required(s, &err);
	if (r < 0) {
		end_invalid(s, &err);
		return 0;
	}
	r = choose_user(s, &err);
	if (!r)
		r = place_host(s, &err);
	if (!r)
		r = choose_name(s, &err);
	if (!r)
		r = loop_again_new(d->loop, try_start, s, &s->next_turn);
	if (r < 0)
		end_failed(s, &err);
	else
		try_start(s);
	return 0;
}

int start_begin(struct daemon *d, struct varlink_call *call, const json_t *spec)
{
	return begin_start(d, call, json_deep_copy(spec), NULL);
}

int start_again(struct daemon *d, struct varlink_call *call, struct job *ended)
{
	json_t *spec = NULL;
	struct error err = { 0 };
	int r = job_record_spec(&d->store, ended->rec.run, &spec, &err);

	if (r < 0)
		return methods_failed(call, r, err.text);
	return begin_start(d, call, spec, ended);
}

void start_resumed(struct daemon *d, struct job *ended)
{
	json_t *spec = NULL;
	struct error err = { 0 };
	int r = job_record_spec(&d->store, ended->rec.run, &spec, &err);

	if (!r && begin_start(d, NULL, spec, ended) < 0)
		r = error_set(&err, -ENOMEM, "out of memory");
	if (r < 0)
		log_error(
			"run %s was preempted and cannot be resumed: %s", ended->rec.run, err.text);
}
