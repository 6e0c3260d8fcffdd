/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chokepoint changes a job's life: job_event() asks the pure machine, set_life() writes the
 * line, act() does what the machine said. Actions that wait (a guard's end, strays that die) come
 * back as further events from the loop.
 */
#include "daemon/job.h"

#include "common/json.h"
#include "common/log.h"
#include "daemon/cgroupfs.h"
#include "daemon/job_agent.h"

#include <errno.h>
#include <string.h>

enum {
	LOSS_WINDOW_MS = 60000,
	RESUME_DELAY_MS = 1000, /* before the second try within the window */
	SWEEP_FIRST_MS = 10,
	SWEEP_LONGEST_MS = 1000,
	SWEEP_TRIES = 35, /* about half a minute */
	LOOK_FIRST_MS = 1000,
	LOOK_LONGEST_MS = 60000,
};

int job_new(const struct job_host *host, struct job_record *rec, struct job **ret)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->host = host;
	j->life = LIFE_ENDED;
	j->child.pidfd = j->child.gate_fd = j->child.status_fd = -1;
	j->guard_gone = true;
	TAILQ_INIT(&j->watches);
	j->rec = *rec;
	memset(rec, 0, sizeof(*rec));
	*ret = j;
	return 0;
}

struct job *job_free(struct job *j)
{
	if (!j)
		return NULL;
	job_tell(j, JOB_GONE);
	job_agent_drop(j);
	j->sweep = sweeper_cancel(j->sweep);
	loop_timer_free(j->timer);
	mirror_fini(&j->mirror);
	free(j->condemned);
	job_record_fini(&j->rec);
	free(j);
	return NULL;
}

void job_watch(struct job *j, struct job_watch *w, job_watch_fn fn, void *arg)
{
	w->fn = fn;
	w->arg = arg;
	w->seen = j->news;
	TAILQ_INSERT_TAIL(&j->watches, w, link);
}

void job_unwatch(struct job *j, struct job_watch *w)
{
	TAILQ_REMOVE(&j->watches, w, link);
}

void job_tell(struct job *j, enum job_news news)
{
	unsigned mark = ++j->news;
	struct job_watch *w;

	/* From the front again after each: any of them may be gone. */
	do {
		TAILQ_FOREACH (w, &j->watches, link)
			if (w->seen != mark)
				break;
		if (w) {
			w->seen = mark;
			w->fn(w->arg, j, news);
		}
	} while (w);
}

bool job_is_over(const struct job *j)
{
	return j->life == LIFE_CLOSING || j->life == LIFE_CLEARING || j->life == LIFE_ENDED;
}

bool job_can_be_asked(const struct job *j)
{
	return !j->condemned &&
	       (j->life == LIFE_STARTING || j->life == LIFE_LINKED || j->life == LIFE_LOST);
}

static void log_life(const struct job *j, enum life from, enum life to, const char *why)
{
	const struct log_field fields[] = { { "ELASTICD_JOB", j->rec.name },
		{ "ELASTICD_RUN", j->rec.run }, { NULL, NULL } };

	/* A new one was nothing before. */
	if (from == LIFE_ENDED)
		log_fields(LOG_INFO, fields, "job %s (%s): %s: %s", j->rec.name, j->rec.run,
			life_name(to), why);
	else
		log_fields(LOG_INFO, fields, "job %s (%s): %s -> %s: %s", j->rec.name, j->rec.run,
			life_name(from), life_name(to), why);
}

static void set_life(struct job *j, enum life next, const char *why)
{
	enum life from = j->life;

	if (from == next)
		return;
	j->life = next;
	if (j->timer)
		loop_timer_disarm(j->timer);
	j->tries = 0;
	log_life(j, from, next, why);
	j->host->changed(j->host->arg, j);
}

static bool lost_too_often(const struct job *j)
{
	return j->n_losses == JOB_LOSSES_MAX && loop_now_ms() - j->losses_ms[0] < LOSS_WINDOW_MS;
}

/* No other agent is started for the run. */
static bool is_given_up(const struct job *j)
{
	return j->condemned || lost_too_often(j);
}

/* The agent's death is the mirror's business too: people ask for the status meanwhile. */
static void set_reason(struct job *j, const char *reason)
{
	struct error err = { 0 };

	if (mirror_reason(&j->mirror, &j->rec, reason, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
	job_tell(j, JOB_UPDATED);
}

static void save(struct job *j, const json_t *ended)
{
	struct error err = { 0 };

	if (job_record_update(j->host->store, &j->rec, ended, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
}

static uint64_t doubled(uint64_t first_ms, uint64_t longest_ms, unsigned tries)
{
	uint64_t ms = tries < 20 ? first_ms << tries : longest_ms;

	return ms < longest_ms ? ms : longest_ms;
}

static void on_swept(void *arg, int n);

/* on_swept() follows from the loop, also where this fails. */
static void begin_search(struct job *j)
{
	const struct sweep_target target = { .run = j->rec.run,
		.uid = j->rec.uid,
		.cgroup = j->rec.cgroup,
		.guard = j->guard_known ? j->rec.agent_pid : 0,
		.guard_ticks = j->rec.agent_ticks };
	int r = j->sweep ? 0 : sweeper_begin(j->host->sweepers, &target, on_swept, j, &j->sweep);

	if (r < 0) {
		log_warning("job %s: cannot look for what is left of it: %s", j->rec.name,
			strerror(-r));
		loop_timer_arm(j->timer, SWEEP_LONGEST_MS);
	}
}

static void on_swept(void *arg, int n)
{
	struct job *j = arg;
	uint64_t now = loop_now_ms();
	bool left = n > 0 || agentproc_locked(j->host->runtime_dir, j->rec.name);

	j->sweep = NULL;
	if (n < 0)
		log_warning("job %s: cannot look for what is left of it: %s", j->rec.name,
			strerror(-n));
	else if (n > 0)
		log_notice("job %s: killed %d processes that its agent left", j->rec.name, n);
	left |= !j->guard_gone;
	if (left && j->tries < SWEEP_TRIES) {
		loop_timer_arm(j->timer, doubled(SWEEP_FIRST_MS, SWEEP_LONGEST_MS, j->tries++));
		return;
	}
	if (left)
		log_error("job %s: processes of it do not die of SIGKILL and are given up",
			j->rec.name);
	if (!j->guard_gone) {
		j->guard_gone = true;
		job_event(j, LIFE_EV_GUARD_GONE);
		return;
	}
	if (j->life == LIFE_SWEEPING && now < j->resume_at_ms && !is_given_up(j))
		loop_timer_arm(j->timer, j->resume_at_ms - now);
	else
		job_event(j, LIFE_EV_SWEPT);
}

/* The connection broke and the guard lives. Mostly it is clearing up; should its agent still be
 * there, the connection alone was lost. */
static void look_again(struct job *j)
{
	int fd = agentproc_connect(j->host->runtime_dir, j->rec.name);

	if (fd >= 0) {
		close(fd);
		job_event(j, LIFE_EV_FOUND);
		return;
	}
	loop_timer_arm(j->timer, doubled(LOOK_FIRST_MS, LOOK_LONGEST_MS, ++j->tries));
}

static void on_timer(void *arg)
{
	struct job *j = arg;

	if (j->life == LIFE_SWEEPING || j->life == LIFE_CLEARING || j->condemned)
		begin_search(j);
	else if (j->life == LIFE_LOST)
		look_again(j);
}

static void begin_sweep(struct job *j)
{
	job_agent_drop(j);
	save(j, NULL);
	set_reason(j, "agent-lost: clearing up before it is started again");
	j->resume_at_ms = loop_now_ms() + (j->n_losses > 1 ? RESUME_DELAY_MS : 0);
	begin_search(j);
}

static void resume(struct job *j)
{
	_cleanup_json_ json_t *spec = NULL;
	_cleanup_json_ json_t *state = NULL;
	struct error err = { 0 };
	int64_t seq;
	int r = job_record_spec(j->host->store, j->rec.run, &spec, &err);
	/* Without a state the run was accepted, but no agent ever began it. */
	bool begun = job_record_state(j->host->store, &j->rec, &state, &seq, NULL) != -ENOENT;

	if (!r)
		r = job_agent_start(j, spec, begun, &err);
	if (r == 0)
		return;
	log_error("job %s: its agent could not be started: %s", j->rec.name, err.text);
	j->start_error = err;
	j->guard_gone = true;
	job_agent_note_loss(j);
	job_event(j, LIFE_EV_SPAWN_FAILED);
}

static bool relink(struct job *j)
{
	int fd = agentproc_connect(j->host->runtime_dir, j->rec.name);

	return fd >= 0 && !job_agent_link(j, fd);
}

static void drop_cgroup(struct job *j)
{
	/* A scope's is systemd's, which would never learn of its end. */
	bool ours = j->rec.cgroup && !scope_owns(j->rec.cgroup);
	int r = ours ? cgroupfs_remove(j->rec.cgroup) : 0;

	if (r < 0)
		log_warning("job %s: %s: %s", j->rec.name, j->rec.cgroup, strerror(-r));
}

/* What the agent used besides its record. */
static void clear_outside(struct job *j)
{
	drop_cgroup(j);
	agentproc_clear(j->host->runtime_dir, j->rec.name);
}

/* Nothing of the agent is left. */
static void clear(struct job *j)
{
	job_agent_drop(j);
	clear_outside(j);
	job_record_release(j->host->store, j->rec.run);
	mirror_drop(&j->mirror);
	job_tell(j, JOB_ENDED);
}

/* What elasticd has heard counts for the next elasticd, also while the guard is leaving: the
 * agent's file may be missing, or another's. */
static void keep_verdict(struct job *j)
{
	_cleanup_json_ json_t *job = json_loads(j->mirror.brief, 0, NULL);
	j->rec.ended_us = json_get_int(job, "ended_us", loop_real_us());
	save(j, json_get_object(job, "verdict"));
}

static void announce(struct job *j)
{
	job_agent_unlink(j);
	if (!j->rec.ended_us)
		keep_verdict(j);
	job_tell(j, JOB_VERDICT);
}

void job_own_event(struct job *j, const char *name, const char *text)
{
	_cleanup_json_ json_t *events = json_array();
	json_t *e = json_pack("{s:I, s:I, s:s, s:s, s:s, s:s}", "seq", (json_int_t)++j->seq,
		"time_us", (json_int_t)loop_real_us(), "event", name, "job", j->rec.name, "run",
		j->rec.run, "text", text);

	if (!json_add(events, e))
		j->host->events(j->host->arg, j, events);
}

/* Its guard's end comes as an event. */
static void kill_agent(struct job *j)
{
	char text[512];

	job_agent_unlink(j);
	if (!job_is_over(j)) {
		snprintf(text, sizeof(text), "agent-lost: it %.400s", j->condemned);
		set_reason(j, text);
	}
	j->tries = 0;
	loop_timer_disarm(j->timer);
	begin_search(j);
}

void job_condemn(struct job *j, const char *why)
{
	if (j->condemned)
		return;
	j->condemned = strdup(why);
	if (!j->condemned) {
		log_error("job %s: its agent %s, and cannot be killed: out of memory", j->rec.name,
			why);
		return;
	}
	log_warning("job %s: its agent %s: it is killed", j->rec.name, why);
	job_event(j, LIFE_EV_CONDEMNED);
}

/* What an agent said itself, where elasticd could start it. */
static void note_last_error(struct job *j)
{
	_cleanup_free_ char *text = NULL;

	if (!j->start_error.code && !job_record_last_error(j->host->store, &j->rec, &text))
		error_set(&j->start_error, -EIO, "%s", text);
}

static void give_up(struct job *j)
{
	_cleanup_json_ json_t *verdict = NULL;
	struct error err = { 0 };
	char text[512];

	note_last_error(j);
	if (j->condemned)
		snprintf(text, sizeof(text), "its agent %s", j->condemned);
	else
		snprintf(text, sizeof(text), "its agent was lost %d times within a minute%s%.300s",
			j->n_losses, j->start_error.code ? ": " : "", j->start_error.text);
	log_error("job %s: given up: %s", j->rec.name, text);
	verdict = json_pack("{s:s, s:i, s:o}", "result", "agent_lost", "exit_status", 125,
		"message", json_string_lossy(text, strlen(text)));
	if (verdict) {
		j->rec.ended_us = loop_real_us();
		save(j, verdict);
		if (mirror_finish(&j->mirror, &j->rec, verdict, j->rec.ended_us, &err) < 0)
			log_warning("job %s: %s", j->rec.name, err.text);
	}
	job_own_event(j, "agent-given-up", text);
	announce(j);
	clear(j);
}

static void act(struct job *j, enum life_action action)
{
	switch (action) {
	case LIFE_DO_NOTHING:
		break;
	case LIFE_DO_ATTACH:
		job_tell(j, JOB_ATTACHED);
		break;
	case LIFE_DO_AWAIT:
		job_agent_unlink(j);
		set_reason(j, "agent-lost: its workers are being ended");
		loop_timer_arm(j->timer, LOOK_FIRST_MS);
		break;
	case LIFE_DO_KILL:
		kill_agent(j);
		break;
	case LIFE_DO_RELINK:
		if (!relink(j))
			job_event(j, LIFE_EV_UNLINKED);
		break;
	case LIFE_DO_SWEEP:
		begin_sweep(j);
		break;
	case LIFE_DO_RESUME:
		resume(j);
		break;
	case LIFE_DO_GIVE_UP:
		give_up(j);
		break;
	case LIFE_DO_ANNOUNCE:
		announce(j);
		break;
	case LIFE_DO_FINISH:
		announce(j);
		clear(j);
		break;
	case LIFE_DO_SETTLE:
		announce(j);
		begin_search(j);
		break;
	case LIFE_DO_SEARCH:
		begin_search(j);
		break;
	case LIFE_DO_CLEAR:
		clear(j);
		break;
	case LIFE_DO_ABANDON:
		clear_outside(j);
		job_tell(j, JOB_START_FAILED);
		break;
	}
}

void job_event(struct job *j, enum life_event event)
{
	struct life_input in = { .accepted = j->accepted,
		.guard_gone = j->guard_gone,
		.left_clean = j->clean_end,
		.may_resume = !is_given_up(j) };
	struct life_step step;
	int r = life_step(j->life, event, &in, &step);

	if (r < 0)
		log_error("job %s: %s while it is %s: not expected, ignored", j->rec.name,
			life_event_text(event), life_name(j->life));
	if (r)
		return;
	set_life(j, step.next, life_event_text(event));
	act(j, step.action);
}

static int make_timer(struct job *j, struct error *err)
{
	int r = j->timer ? 0 : loop_timer_new(j->host->loop, on_timer, j, &j->timer);

	return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

/* What is wanted of elasticd itself. */
static void note_wishes(struct job *j, const struct spec *spec)
{
	j->notices = spec->preemption.notices;
	j->poll_ms = spec->preemption.poll_ms;
	j->stop_ms = spec->stop.timeout_ms;
}

int job_start(struct job *j, const json_t *spec, const struct spec *parsed, struct error *err)
{
	int r = make_timer(j, err);

	if (!r)
		r = mirror_initial(&j->mirror, &j->rec, parsed, err);
	if (r < 0)
		return r;
	note_wishes(j, parsed);
	r = job_agent_start(j, spec, false, err);
	if (r < 0) {
		clear_outside(j);
		return r;
	}
	set_life(j, LIFE_STARTING, "it was accepted");
	return 0;
}

static int load_spec(struct job *j, struct spec **ret, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	int r = job_record_spec(j->host->store, j->rec.run, &doc, err);

	return r < 0 ? r : spec_parse(doc, ret, err);
}

/* The agent tells the rest; where it lives the specification is not needed. */
static int initial_from_record(struct job *j, bool alive, struct error *err)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	int r = load_spec(j, &spec, err);

	return r < 0 && !alive ? r : mirror_initial(&j->mirror, &j->rec, spec, err);
}

static void load_wishes(struct job *j)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct error err = { 0 };

	if (load_spec(j, &spec, &err) < 0)
		log_warning("job %s: will not hear of notices: %s", j->rec.name, err.text);
	else
		note_wishes(j, spec);
}

/* The mirror from what the agent wrote last. While the agent lives, no file says that it has ended.
 */
static int load_mirror(struct job *j, bool alive, struct error *err)
{
	_cleanup_json_ json_t *job = NULL;
	int64_t seq = 0;
	int r = job_record_state(j->host->store, &j->rec, &job, &seq, err);

	if (!r)
		r = mirror_set(&j->mirror, &j->rec, job, err);
	if (!r && seq > j->seq)
		j->seq = seq;
	if (!r && !(alive && j->mirror.has_verdict))
		return 0;
	if (r < 0 && r != -ENOENT)
		log_warning("job %s: %s/%s: %s; its agent will tell anew", j->rec.name,
			j->host->store->path, j->rec.run, err->text);
	return initial_from_record(j, alive, err);
}

/* Where a verdict is on disk: puts it into the mirror. elasticd's own counts more than the agent's.
 */
static int load_verdict(struct job *j, const json_t *ended, bool alive, struct error *err)
{
	if (ended)
		return mirror_finish(&j->mirror, &j->rec, ended, j->rec.ended_us, err);
	if (!alive)
		(void)job_agent_read_verdict(j);
	return 0;
}

/* The daemon before may have died between making the job's cgroup and writing it down. */
static void find_cgroup(struct job *j, bool alive)
{
	_cleanup_free_ char *path = NULL;

	if (!j->rec.cgroup && alive)
		j->rec.cgroup = job_agent_scope(j, j->rec.agent_pid);
	if (j->rec.cgroup || !j->host->cgroup_parent)
		return;
	path = cgroupfs_name(j->host->cgroup_parent, j->rec.run);
	if (path && !access(path, F_OK))
		j->rec.cgroup = TAKE_PTR(path);
}

int job_recover(struct job *j, const json_t *ended, struct error *err)
{
	_cleanup_close_ int fd = agentproc_guard(j->host->runtime_dir, &j->rec);
	bool alive = fd >= 0;
	/* What the agent wrote is doubted as long as it lives, but not what elasticd heard of it.
	 */
	int r = load_mirror(j, alive && !ended, err);

	if (!r)
		r = load_verdict(j, ended, alive, err);
	if (!r)
		r = make_timer(j, err);
	if (r < 0)
		return r;
	j->accepted = true;
	find_cgroup(j, alive);
	if (alive)
		r = job_agent_adopt(j, TAKE_FD(fd));
	if (r < 0)
		return error_set(err, r, "%s", strerror(-r));
	if (j->mirror.has_verdict) {
		if (j->guard) {
			set_life(j, LIFE_CLOSING, "its guard is still there");
			return 0;
		}
		/* Its runtime directory may be a newer run's by now. */
		drop_cgroup(j);
		mirror_drop(&j->mirror);
		return 0;
	}
	load_wishes(j);
	set_life(j, LIFE_STARTING, "taken up again");
	if (!relink(j)) {
		/* One that was accepted and never started has lost nothing. */
		if (j->rec.agent_pid)
			job_agent_note_loss(j);
		job_event(j, LIFE_EV_UNLINKED);
	}
	return 0;
}

void job_catch_up(struct job *j)
{
	if (j->link)
		joblink_catch_up(j->link);
}

int job_load_text(struct job *j, struct error *err)
{
	_cleanup_json_ json_t *ended = NULL;
	struct job_record rec = { 0 };
	int r;

	if (j->mirror.text)
		return 0;
	r = job_record_load(j->host->store, j->rec.run, &rec, &ended, err);
	job_record_fini(&rec);
	if (!r)
		r = load_mirror(j, false, err);
	return r < 0 ? r : load_verdict(j, ended, false, err);
}
