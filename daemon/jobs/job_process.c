/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/job_process.h"

#include "common/base/cgroup_dir.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/text/json.h"
#include "common/varlink/client.h"
#include "daemon/jobs/cgroupfs.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

/* News that took COSTLY_MS or more are followed by a rest of REST_TIMES that time. */
enum { COSTLY_MS = 5, REST_TIMES = 8, REST_MOST_MS = 2000 };

#define LINKS_OF_USER (UINT64_C(1) << 32)

enum {
	JOB_ANSWER_MS = 30 * 1000,    /* for one message to be complete */
	JOB_ANSWER_UNITS = 512 << 10, /* the most that others wait for one to be handled */
};

static struct varlink_client_limits limits_of(const struct job *j, uint64_t kind)
{
	return (struct varlink_client_limits){ .budget = j->host->budget,
		.key = kind | j->rec.uid,
		.message_ms = JOB_ANSWER_MS,
		.message_units = JOB_ANSWER_UNITS };
}

void job_agent_unlink(struct job *j)
{
	j->link = agent_stream_free(j->link);
	j->silence = varlink_client_free(j->silence);
	mirror_heard(&j->mirror);
}

static void set_silent(struct job *j, int64_t since_us, const char *why)
{
	struct error err = { 0 };

	if (mirror_silent(&j->mirror, &j->rec, since_us, why, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
	j->host->changed(j->host->arg, j);
	job_notify(j, JOB_UPDATED);
}

/* Also gets the end of the connection; the next call tries again. */
static void on_silence_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct job *j = arg;

	j->silence = varlink_client_free(j->silence);
	if (!error)
		job_agent_heard(j);
}

static void ask_for_sign(struct job *j, struct error *err)
{
	int fd = agent_process_connect(j->host->runtime_dir, j->rec.name, err);

	if (fd < 0 || varlink_client_new_fd(j->host->loop, fd, NULL, j, &j->silence) < 0)
		return;
	if (job_count_client(j, j->silence) < 0 ||
		varlink_client_call(j->silence, "io.elasticd.Manager.Ping", NULL, false,
			on_silence_answer, j) < 0)
		j->silence = varlink_client_free(j->silence);
}

void job_agent_silent(struct job *j, int64_t since_us)
{
	const struct mirror *m = &j->mirror;
	struct error why = { 0 };

	if (!j->silence)
		ask_for_sign(j, &why);
	if (m->silent_us && (!why.code || (m->silent_why && !strcmp(m->silent_why, why.text))))
		return;
	log_warning("job %s: its agent (guard %d) does not answer%s%s", j->rec.name,
		(int)j->rec.agent_pid, why.code ? ": " : "", why.text);
	set_silent(j, m->silent_us ? m->silent_us : since_us, why.code ? why.text : NULL);
}

void job_agent_heard(struct job *j)
{
	if (!j->mirror.silent_us)
		return;
	log_notice("job %s: its agent answers again, after %lld ms", j->rec.name,
		(long long)(loop_real_us() - j->mirror.silent_us) / 1000);
	j->silence = varlink_client_free(j->silence);
	set_silent(j, 0, NULL);
}

static void on_go(void *arg);

void job_agent_drop(struct job *j)
{
	job_agent_unlink(j);
	loop_cancel(j->host->loop, on_go, j);
	j->scope = scope_cancel(j->scope);
	if (j->child.pidfd >= 0)
		child_abandon(&j->child, j->host->loop, j->host->orphans);
	j->guard = child_watch_free(j->guard);
}

/* The guard had left in order: the agent was not lost. */
static void take_back_loss(struct job *j)
{
	if (!j->counted)
		return;
	j->counted = false;
	j->n_losses--;
	j->rec.agent_losses--;
}

/* One obituary for a guard that did not leave in order. */
static void on_guard_end(void *arg, int code, int status)
{
	struct job *j = arg;

	j->guard = child_watch_free(j->guard);
	j->guard_gone = true;
	j->clean_end = code == CLD_EXITED;
	if (code == CLD_KILLED || code == CLD_DUMPED)
		log_warning("job %s: the guard of its agent (pid %d) was killed by signal %d",
			j->rec.name, (int)j->rec.agent_pid, status);
	/* Its agent may have written a verdict that did not come over the connection. */
	if (j->life == LIFE_LOST && !j->condemned && job_agent_read_verdict(j)) {
		take_back_loss(j);
		job_event(j, LIFE_EV_VERDICT);
	} else {
		job_event(j, LIFE_EV_GUARD_GONE);
	}
}

int job_agent_adopt(struct job *j, int pidfd)
{
	j->guard_gone = false;
	j->guard_known = true;
	j->clean_end = false;
	return child_watch_new(j->host->loop, pidfd, on_guard_end, j, &j->guard);
}

void job_agent_note_loss(struct job *j)
{
	/* A dying agent may accept connections that end at once, until the kernel closes its
	 * socket: that is one loss. */
	if (j->counted)
		return;
	j->counted = true;
	if (j->n_losses == JOB_LOSSES_MAX) {
		memmove(j->losses_ms, j->losses_ms + 1,
			(JOB_LOSSES_MAX - 1) * sizeof(*j->losses_ms));
		j->n_losses--;
	}
	j->losses_ms[j->n_losses++] = loop_now_ms();
	j->rec.agent_losses++;
}

bool job_agent_read_verdict(struct job *j)
{
	_cleanup_json_ json_t *verdict = NULL;
	_cleanup_json_ json_t *job = NULL;
	struct error err = { 0 };
	int64_t seq = 0;
	int r = job_record_verdict(j->host->store, &j->rec, &verdict, &err);

	if (r < 0) {
		if (r != -ENOENT)
			log_warning("job %s: %s", j->rec.name, err.text);
		return false;
	}
	/* Reads the last state too: the verdict says nothing about the workers. */
	if (!job_record_state(j->host->store, &j->rec, &job, &seq, &err))
		r = mirror_set(&j->mirror, &j->rec, job, &err);
	if (!j->mirror.has_verdict)
		r = mirror_finish(&j->mirror, &j->rec, verdict,
			j->rec.ended_us ? j->rec.ended_us : (int64_t)loop_real_us(), &err);
	if (r < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
	return j->mirror.has_verdict;
}

bool job_agent_found_ended(struct job *j)
{
	j->unread = false;
	if (!job_agent_read_verdict(j))
		return false;
	take_back_loss(j);
	return true;
}

static void on_link_closed(void *arg, const char *why)
{
	struct job *j = arg;

	child_catch_up(&j->child);
	if (!j->link)
		return;
	job_agent_unlink(j);
	/* While the guard lives, wait for its end: the user could have forged the verdict file. */
	if (j->guard_gone && job_agent_read_verdict(j)) {
		job_event(j, LIFE_EV_VERDICT);
		return;
	}
	log_warning("job %s: lost its agent (pid %d): %s", j->rec.name, (int)j->rec.agent_pid, why);
	job_agent_note_loss(j);
	job_event(j, LIFE_EV_UNLINKED);
}

static void take_events(struct job *j, json_t *events)
{
	json_t *e;
	size_t i;

	mirror_check_events(&j->rec, events);
	json_array_foreach (events, i, e) {
		int64_t seq = json_get_int(e, "seq", 0);

		if (seq > j->seq)
			j->seq = seq;
	}
	if (json_array_size(events))
		j->host->events(j->host->arg, j, events);
}

/* Another user needs the room. The run's files cannot stand in: its user can forge them while it
 * lives. */
static void on_text_cut(void *arg)
{
	struct job *j = arg;

	if (mirror_cut(&j->mirror) < 0)
		log_warning("job %s: out of memory", j->rec.name);
}

/* The agent's last Job text stays in memory as long as the agent lives: it counts for the user. */
static int hold_text(struct job *j, const json_t *job, struct error *err)
{
	size_t n = json_dumpb(job, NULL, 0, JSON_COMPACT);
	int r = 0;

	if (!j->host->kept)
		return 0;
	if (!j->kept.account)
		r = budget_join(j->host->kept, &j->kept, j->rec.uid, false, on_text_cut, j);
	if (r == 0)
		r = budget_hold(&j->kept, n);
	return r < 0 ? error_set(err, r, "there is no room for its %zu bytes", n) : 0;
}

/* Agents of one user that send costly news again and again leave most of the time to others. */
static void rest_after_cost(struct job *j, uint64_t took_ms)
{
	uint64_t ms = took_ms * REST_TIMES * budget_holders(&j->kept);

	if (j->link && took_ms >= COSTLY_MS && ms > 0)
		agent_stream_rest(j->link, ms < REST_MOST_MS ? ms : REST_MOST_MS);
}

static void on_link_update(void *arg, json_t *job, json_t *events)
{
	uint64_t begun = loop_now_ms();
	struct job *j = arg;
	struct error err = { 0 };
	int r;

	/* The agent was started before it spoke: handle that first. */
	child_catch_up(&j->child);
	if (!j->link)
		return;
	if (json_get_object(job, "verdict"))
		mirror_heard(&j->mirror);
	r = hold_text(j, job, &err);
	if (r == 0)
		r = mirror_set(&j->mirror, &j->rec, job, &err);
	if (r < 0 && !j->odd)
		log_warning("job %s: its agent sent a state that cannot be used: %s", j->rec.name,
			err.text);
	j->odd = r < 0;
	j->counted = false;
	job_event(j, LIFE_EV_ANSWERED);
	take_events(j, events);
	rest_after_cost(j, loop_now_ms() - begun);
	j->host->changed(j->host->arg, j);
	job_notify(j, JOB_UPDATED);
	if (r == 0 && j->mirror.has_verdict)
		job_event(j, LIFE_EV_VERDICT);
}

int job_count_client(const struct job *j, struct varlink_client *c)
{
	const struct varlink_client_limits l = limits_of(j, 0);

	return l.budget ? varlink_client_limit(c, &l) : 0;
}

int job_agent_link(struct job *j, int fd)
{
	/* A separate account: what the user's clients leave unread must not cost the job its agent.
	 */
	const struct varlink_client_limits l = limits_of(j, LINKS_OF_USER);
	int r;

	job_agent_unlink(j);
	r = agent_stream_new(
		j->host->loop, fd, j->rec.run, j->seq, on_link_update, on_link_closed, j, &j->link);
	if (!r && l.budget)
		r = agent_stream_limit(j->link, &l);
	if (r < 0)
		job_agent_unlink(j);
	return r;
}

void job_agent_spawn_failed(struct job *j, const struct error *err)
{
	j->start_error = *err;
	log_error("job %s: its agent could not be started: %s", j->rec.name, err->text);
	j->guard_gone = true;
	job_agent_note_loss(j);
	job_event(j, LIFE_EV_SPAWN_FAILED);
}

static void on_failed(struct job *j, const struct error *err)
{
	child_abandon(&j->child, j->host->loop, j->host->orphans);
	job_agent_unlink(j);
	job_agent_spawn_failed(j, err);
}

static void on_went(void *arg, const struct error *why)
{
	struct job *j = arg;
	struct error err = { 0 };
	int r = why ? 0 : job_agent_adopt(j, TAKE_FD(j->child.pidfd));

	if (r < 0)
		error_set(&err, r, "%s", strerror(-r));
	if (why || r < 0) {
		on_failed(j, why ? why : &err);
		return;
	}
	j->accepted = true;
	/* For the next elasticd, in case the record among the living is gone. */
	job_save(j, NULL);
	job_notify(j, JOB_STARTED);
}

static void on_go(void *arg)
{
	struct job *j = arg;
	struct error err = { 0 };
	int r = child_go(&j->child, j->host->loop, on_went, j);

	if (r < 0) {
		error_set(&err, r, "%s", strerror(-r));
		on_failed(j, &err);
	}
}

/* Nothing but a cgroup of the job's own may ever be killed as a whole. */
char *job_agent_scope(const struct job *j, pid_t pid)
{
	_cleanup_free_ char *dir = cgroup_dir_of(pid, NULL);
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "/elasticd-%s.scope", j->rec.run) < 0)
		name = NULL;
	if (!dir || !name || strlen(dir) <= strlen(name) ||
		strcmp(dir + strlen(dir) - strlen(name), name) != 0)
		return NULL;
	return TAKE_PTR(dir);
}

static void on_scope(void *arg, const char *error)
{
	struct job *j = arg;
	_cleanup_free_ char *dir = NULL;
	struct error err = { 0 };

	j->scope = NULL;
	if (error)
		log_warning("job %s: gets no scope of its own: %s", j->rec.name, error);
	else
		dir = job_agent_scope(j, j->child.pid);
	if (dir) {
		if (cgroupfs_give(dir, j->rec.uid, &err) < 0)
			log_warning("job %s: %s", j->rec.name, err.text);
		free(j->rec.cgroup);
		j->rec.cgroup = TAKE_PTR(dir);
	}
	on_go(j);
}

/* Puts the waiting child into its scope, if there is to be one, then lets it go from the loop. */
static int enter_scope(struct job *j, const json_t *doc)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct scope_unit u = {
		.name = j->rec.name, .run = j->rec.run, .user = j->rec.user, .pid = j->child.pid
	};
	struct error ignored = { 0 };
	int r = -EOPNOTSUPP;

	if (j->host->scopes && scopes_available(j->host->scopes)) {
		if (json_object_get(doc, "resources") && !spec_parse(doc, &spec, &ignored))
			u.resources = &spec->resources;
		r = scope_begin(j->host->scopes, &u, on_scope, j, &j->scope);
	}
	if (!r)
		return 0;
	if (r != -EOPNOTSUPP)
		log_warning("job %s: gets no scope of its own: %s", j->rec.name, strerror(-r));
	return loop_defer(j->host->loop, on_go, j);
}

/* Written before the agent is let go: from then on the next elasticd finds the guard by this
 * record. */
static int note_living(const struct job *j, const json_t *spec, struct error *err)
{
	int r = job_record_update(j->host->living, &j->rec, NULL, err);

	return r == -ENOENT ? job_record_create(j->host->living, &j->rec, spec, err) : r;
}

int job_agent_start(struct job *j, const json_t *spec, bool resume, struct error *err)
{
	_cleanup_free_ char *record_dir = paths_join(j->host->store->path, j->rec.run);
	bool scoped = j->host->scopes && scopes_available(j->host->scopes);
	struct agent_process_options o = { .program = j->host->agent_program,
		.runtime_dir = j->host->runtime_dir,
		.cgroup_parent = scoped ? NULL : j->host->cgroup_parent,
		.log_level = j->host->agent_log_level,
		.resume = resume,
		.lost = j->lost[0] ? j->lost : NULL };
	int socket = -1;
	int r;

	j->counted = false;
	if (!record_dir)
		return error_set(err, -ENOMEM, "out of memory");
	o.record_dir = record_dir;
	r = agent_process_start(&o, &j->rec, spec, &j->child, &socket, err);
	if (r < 0)
		return r;
	j->guard_gone = j->killing = false;
	j->lost[0] = '\0';
	r = job_agent_link(j, socket);
	if (!r)
		r = enter_scope(j, spec);
	if (r < 0)
		error_set(err, r, "%s", strerror(-r));
	else
		r = note_living(j, spec, err);
	if (r < 0)
		job_agent_drop(j);
	return r;
}
