/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only set_life() changes a job's life, and logs it: job_event() asks the pure machine, set_life()
 * writes the line, run_action() does what the machine said. Actions that take time (the guard's
 * end, processes that are slow to die) come back as further events from the loop.
 */
#include "daemon/jobs/job.h"

#include "common/base/backoff.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/text/json.h"
#include "daemon/jobs/cgroupfs.h"
#include "daemon/jobs/job_process.h"
#include "daemon/jobs/record_sync.h"

#include <errno.h>
#include <string.h>

enum {
	LOSS_WINDOW_MS = 60000,
	RESUME_DELAY_MS = 1000, /* before the second try within the window */
	SWEEP_FIRST_MS = 10,
	SWEEP_LONGEST_MS = 1000,
	SWEEP_TRIES = 35, /* about half a minute */
	CHECK_FIRST_MS = 1000,
	CHECK_LONGEST_MS = 60000,
	CHECKS = 5, /* checks of a guard whose agent has gone, before elasticd kills it */
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
	job_notify(j, JOB_GONE);
	job_agent_drop(j);
	budget_leave(&j->kept);
	j->sweep = sweeper_cancel(j->sweep);
	loop_timer_free(j->timer);
	loop_timer_free(j->limit);
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

void job_notify(struct job *j, enum job_news news)
{
	unsigned mark = ++j->news;
	struct job_watch *w;

	/* Each goes to the end before its call, since fn may remove any of the watches. */
	while ((w = TAILQ_FIRST(&j->watches)) && w->seen != mark) {
		TAILQ_REMOVE(&j->watches, w, link);
		TAILQ_INSERT_TAIL(&j->watches, w, link);
		w->seen = mark;
		w->fn(w->arg, j, news);
	}
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

	/* LIFE_ENDED is also what a new job begins with. */
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
	if (j->limit && job_is_over(j))
		loop_timer_disarm(j->limit);
	j->tries = j->guard_checks = 0;
	log_life(j, from, next, why);
	j->host->changed(j->host->arg, j);
}

static bool lost_too_often(const struct job *j)
{
	return j->n_losses == JOB_LOSSES_MAX && loop_now_ms() - j->losses_ms[0] < LOSS_WINDOW_MS;
}

/* Whether elasticd starts no other agent for the run. */
static bool is_given_up(const struct job *j)
{
	return j->condemned || lost_too_often(j);
}

/* Puts the reason for the agent's absence into the mirror, for Status calls. */
static void set_reason(struct job *j, const char *reason)
{
	struct error err = { 0 };

	if (mirror_reason(&j->mirror, &j->rec, reason, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
	job_notify(j, JOB_UPDATED);
}

void job_save(struct job *j, json_t *ended)
{
	_cleanup_json_ json_t *brief = json_loads(j->mirror.brief, 0, NULL);
	const struct job_last last = { .ended = ended, .brief = brief };
	struct error err = { 0 };

	j->rec.seq = j->seq;
	j->unsaved = job_record_update(j->host->store, &j->rec, &last, &err) < 0;
	if (j->unsaved)
		log_warning("job %s: %s", j->rec.name, err.text);
	else if (ended && j->host->syncs)
		record_sync_later(j->host->syncs, j->host->store, &j->rec);
}

static void on_swept(void *arg, int n);

/* on_swept() follows from the loop, also if this fails. */
static void begin_search(struct job *j)
{
	const struct sweep_target target = { .run = j->rec.run,
		.uid = j->rec.uid,
		.cgroup = j->rec.cgroup,
		.guard = j->guard_known ? j->rec.agent_pid : 0,
		.guard_ticks = j->rec.agent_ticks };
	int r = j->sweep ? 0 : sweeper_begin(j->host->sweepers, &target, on_swept, j, &j->sweep);

	if (r < 0) {
		log_warning(
			"job %s: cannot search for its processes: %s", j->rec.name, strerror(-r));
		loop_timer_arm(j->timer, SWEEP_LONGEST_MS);
	}
}

static void on_swept(void *arg, int n)
{
	struct job *j = arg;
	uint64_t now = loop_now_ms();
	/* A search that failed is repeated, but not one that timed out: it would hang again. */
	bool left = n > 0 || (n < 0 && n != -ETIMEDOUT) ||
		    agent_process_locked(j->host->runtime_dir, j->rec.name);

	j->sweep = NULL;
	if (n < 0)
		log_warning(
			"job %s: cannot search for its processes: %s", j->rec.name, strerror(-n));
	else if (n > 0)
		log_notice("job %s: killed %d processes that its agent left", j->rec.name, n);
	left |= !j->guard_gone;
	if (left && j->tries < SWEEP_TRIES) {
		loop_timer_arm(j->timer, backoff_ms(SWEEP_FIRST_MS, j->tries++, SWEEP_LONGEST_MS));
		return;
	}
	if (left)
		log_error("job %s: %s", j->rec.name,
			n < 0 ? "cannot search for its processes; gives up"
			      : "its processes do not die of SIGKILL; gives up");
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

/* Whether the agent's process lives. Its pid is not trusted, so it counts only if that
 * process is the guard's child. hidden: the socket was removed, so the agent may not have been able
 * to send its pid. */
static bool agent_lives(const struct job *j, bool hidden)
{
	_cleanup_json_ json_t *job = json_loads(j->mirror.brief, 0, NULL);
	pid_t pid = (pid_t)json_get_int(job, "agent_pid", 0);
	struct proc_stat p;
	int r = pid > 0 ? proc_stat_read(pid, &p) : -ESRCH;

	if (r < 0)
		return r != -ESRCH || (hidden && pid <= 0);
	return p.ppid == j->rec.agent_pid && !proc_stat_dead(&p);
}

/* The guard lives, but the connection to the agent is gone. Mostly the guard is clearing up; if the
 * agent still listens, connects again; if the agent lives without listening (slow last readers),
 * waits. Otherwise counts checks, not time: while the host stands still only one of them is lost.
 */
static void check_guard(struct job *j)
{
	int fd = j->life == LIFE_LOST
			 ? agent_process_connect(j->host->runtime_dir, j->rec.name, NULL)
			 : -ECONNREFUSED;
	bool hidden = fd == -ENOTSOCK || fd == -ENOENT;

	if (fd >= 0) {
		close(fd);
		job_event(j, LIFE_EV_FOUND);
	} else if (fd == -EAGAIN || agent_lives(j, hidden)) {
		loop_timer_arm(j->timer, backoff_ms(CHECK_FIRST_MS, ++j->tries, CHECK_LONGEST_MS));
	} else if (++j->guard_checks < CHECKS) {
		loop_timer_arm(j->timer, CHECK_FIRST_MS);
	} else {
		job_event(j, LIFE_EV_OVERDUE);
	}
}

/* Sets the reason in the mirror: the agent is lost, or its socket cannot be reached. */
static void set_loss_reason(struct job *j)
{
	struct error why = { 0 };
	char text[512];
	int fd = agent_process_connect(j->host->runtime_dir, j->rec.name, &why);

	snprintf(text, sizeof(text), "agent-lost: %.400s",
		fd == -ENOTSOCK || fd == -ENOENT ? why.text : "its workers are being ended");
	close_fd(fd);
	set_reason(j, text);
}

/* Waits for the guard's end, after the verdict. */
static void await_guard(struct job *j)
{
	loop_timer_arm(j->timer, CHECK_FIRST_MS);
	job_limit_guard(j);
}

static void on_timer(void *arg)
{
	struct job *j = arg;

	if (j->life == LIFE_SWEEPING || j->life == LIFE_CLEARING || j->killing)
		begin_search(j);
	else
		check_guard(j);
}

static void begin_sweep(struct job *j)
{
	job_agent_drop(j);
	job_save(j, NULL);
	set_reason(j, "agent-lost: clearing up before it is started again");
	j->resume_at_ms = loop_now_ms() + (j->n_losses > 1 ? RESUME_DELAY_MS : 0);
	begin_search(j);
}

static void resume_run(struct job *j)
{
	_cleanup_json_ json_t *spec = NULL;
	_cleanup_json_ json_t *state = NULL;
	struct error err = { 0 };
	int64_t seq;
	bool begun;
	int r;

	if (j->unread && job_agent_found_ended(j)) {
		job_event(j, LIFE_EV_VERDICT);
		return;
	}
	r = job_record_spec(j->host->store, j->rec.run, &spec, &err);
	/* Without a state, elasticd accepted the run but no agent ever began it. */
	begun = job_record_state(j->host->store, &j->rec, &state, &seq, NULL) != -ENOENT;

	if (!r)
		r = job_agent_start(j, spec, begun, &err);
	if (r < 0)
		job_agent_spawn_failed(j, &err);
}

static bool link_again(struct job *j)
{
	int fd = agent_process_connect(j->host->runtime_dir, j->rec.name, NULL);

	return fd >= 0 && !job_agent_link(j, fd);
}

static void drop_cgroup(struct job *j)
{
	/* systemd must remove a scope itself, or it would never learn of its end. */
	bool ours = j->rec.cgroup && !scope_owns(j->rec.cgroup);
	int r = ours ? cgroupfs_remove(j->rec.cgroup) : 0;

	if (r < 0)
		log_warning("job %s: %s: %s", j->rec.name, j->rec.cgroup, strerror(-r));
}

/* Removes what the agent used besides its record. */
static void clear_outside(struct job *j)
{
	struct error err = { 0 };

	drop_cgroup(j);
	agent_process_clear(j->host->runtime_dir, j->rec.name);
	if (job_record_remove(j->host->living, j->rec.run, &err) < 0)
		log_warning("job %s: %s", j->rec.name, err.text);
}

/* Clears up after the run, when no process of the agent is left. */
static void clear_up(struct job *j)
{
	job_agent_drop(j);
	clear_outside(j);
	job_record_release(j->host->store, j->rec.run);
	if (!j->unsaved) {
		mirror_drop(&j->mirror);
		budget_leave(&j->kept);
	}
	job_notify(j, JOB_ENDED);
}

/* Saves the verdict that elasticd heard, for the next elasticd: the guard may still be leaving, and
 * the agent's own file may be missing or forged. */
static void keep_verdict(struct job *j)
{
	_cleanup_json_ json_t *job = json_loads(j->mirror.brief, 0, NULL);

	j->rec.ended_us = json_get_int(job, "ended_us", loop_real_us());
	mirror_shorten(&j->mirror);
	job_save(j, json_get_object(job, "verdict"));
}

static void announce_verdict(struct job *j)
{
	job_agent_unlink(j);
	if (!j->rec.ended_us)
		keep_verdict(j);
	job_notify(j, JOB_VERDICT);
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

/* Notes why the guard was killed, for the next agent and for people. */
static void note_guard(struct job *j)
{
	snprintf(j->lost, sizeof(j->lost),
		"its guard (pid %d) had not ended %d s after the agent, and elasticd killed it",
		(int)j->rec.agent_pid, CHECKS * CHECK_FIRST_MS / 1000);
	log_warning("job %s: %s", j->rec.name, j->lost);
}

/* The guard's end follows as an event. */
static void kill_agent(struct job *j)
{
	char text[512];

	job_agent_unlink(j);
	if (!j->condemned)
		note_guard(j);
	if (!job_is_over(j)) {
		snprintf(text, sizeof(text), "agent-lost: %s%.400s", j->condemned ? "it " : "",
			j->condemned ? j->condemned : j->lost);
		set_reason(j, text);
	}
	j->killing = true;
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

/* Makes the last error that an agent reported the start error, unless elasticd has one itself. */
static void note_last_error(struct job *j)
{
	_cleanup_free_ char *text = NULL;

	if (j->start_error.code)
		return;
	if (!job_record_last_error(j->host->store, &j->rec, &text))
		error_set(&j->start_error, -EIO, "%s", text);
	else if (j->lost[0])
		error_set(&j->start_error, -EIO, "%s", j->lost);
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
		if (mirror_finish(&j->mirror, &j->rec, verdict, j->rec.ended_us, &err) < 0)
			log_warning("job %s: %s", j->rec.name, err.text);
		mirror_shorten(&j->mirror);
		job_save(j, verdict);
	}
	job_own_event(j, "agent-given-up", text);
	announce_verdict(j);
	clear_up(j);
}

static void run_action(struct job *j, enum life_action action)
{
	switch (action) {
	case LIFE_DO_NOTHING:
		break;
	case LIFE_DO_ATTACH:
		job_notify(j, JOB_ATTACHED);
		break;
	case LIFE_DO_AWAIT:
		job_agent_unlink(j);
		set_loss_reason(j);
		loop_timer_arm(j->timer, CHECK_FIRST_MS);
		break;
	case LIFE_DO_KILL:
		kill_agent(j);
		break;
	case LIFE_DO_RELINK:
		if (!link_again(j))
			job_event(j, LIFE_EV_UNLINKED);
		break;
	case LIFE_DO_SWEEP:
		begin_sweep(j);
		break;
	case LIFE_DO_RESUME:
		resume_run(j);
		break;
	case LIFE_DO_GIVE_UP:
		give_up(j);
		break;
	case LIFE_DO_ANNOUNCE:
		await_guard(j);
		announce_verdict(j);
		break;
	case LIFE_DO_FINISH:
		announce_verdict(j);
		clear_up(j);
		break;
	case LIFE_DO_SETTLE:
		announce_verdict(j);
		begin_search(j);
		break;
	case LIFE_DO_SEARCH:
		begin_search(j);
		break;
	case LIFE_DO_CLEAR:
		clear_up(j);
		break;
	case LIFE_DO_ABANDON:
		clear_outside(j);
		job_notify(j, JOB_START_FAILED);
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
	run_action(j, step.action);
}

static int make_timer(struct job *j, struct error *err)
{
	int r = j->timer ? 0 : loop_timer_new(j->host->loop, on_timer, j, &j->timer);

	return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

int job_start(struct job *j, const json_t *spec, const struct spec *parsed, struct error *err)
{
	int r = make_timer(j, err);

	if (!r)
		r = mirror_initial(&j->mirror, &j->rec, parsed, err);
	if (r < 0)
		return r;
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
	int r = job_record_spec(j->host->living, j->rec.run, &doc, NULL);

	if (r < 0)
		r = job_record_spec(j->host->store, j->rec.run, &doc, err);
	return r < 0 ? r : spec_parse(doc, ret, err);
}

/* The mirror before the agent reports, from what the record knows, or for a run whose agent never
 * began from the specification. */
static int initial_from_record(
	struct job *j, const struct job_last *last, bool alive, struct error *err)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	int r = last->brief ? mirror_restore(&j->mirror, &j->rec, last->brief, err) : -ENOENT;

	if (!r)
		r = mirror_cut(&j->mirror);
	if (!r)
		return 0;
	r = load_spec(j, &spec, err);
	return r < 0 && !alive ? r : mirror_initial(&j->mirror, &j->rec, spec, err);
}

/* Loads the mirror from what the agent wrote last. Ignores a verdict there while the agent lives:
 * it could still be wrong. */
static int load_mirror(struct job *j, const struct job_last *last, bool alive, struct error *err)
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
		log_warning("job %s: %s/%s: %s; its agent will send it again", j->rec.name,
			j->host->store->path, j->rec.run, err->text);
	return initial_from_record(j, last, alive, err);
}

/* Puts the verdict on disk, if any, into the mirror. elasticd's own has precedence over the
 * agent's. */
static int load_verdict(struct job *j, const json_t *ended, bool alive, struct error *err)
{
	if (ended)
		return mirror_finish(&j->mirror, &j->rec, ended, j->rec.ended_us, err);
	if (!alive)
		(void)job_agent_read_verdict(j);
	return 0;
}

/* Finds a cgroup that an earlier elasticd made but did not record because it died. */
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

/* The mirror of a run that is taken up. A living agent's file may be forged; the verdict that
 * elasticd itself recorded is not. */
static int take_up_mirror(
	struct job *j, const struct job_last *last, bool alive, bool read_files, struct error *err)
{
	int r;

	j->seq = j->rec.seq;
	if (last->ended && last->brief)
		return mirror_restore(&j->mirror, &j->rec, last->brief, err);
	j->unread = !read_files && !last->ended && !alive;
	r = read_files || last->ended ? load_mirror(j, last, alive && !last->ended, err)
				      : initial_from_record(j, last, alive, err);
	return r < 0 || j->unread ? r : load_verdict(j, last->ended, alive, err);
}

int job_recover(struct job *j, const struct job_last *last, bool read_files, struct error *err)
{
	_cleanup_close_ int fd = agent_process_guard(j->host->living, &j->rec);
	bool alive = fd >= 0;
	int r = take_up_mirror(j, last, alive, read_files, err);

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
			await_guard(j);
			return 0;
		}
		/* Its runtime directory may belong to a newer run by now. */
		drop_cgroup(j);
		if (!j->rec.ended_us)
			keep_verdict(j);
		mirror_drop(&j->mirror);
		return 0;
	}
	set_life(j, LIFE_STARTING, "taken up again");
	if (!link_again(j)) {
		/* A run that was accepted but never started has lost no agent. */
		if (j->rec.agent_pid)
			job_agent_note_loss(j);
		job_event(j, LIFE_EV_UNLINKED);
	}
	return 0;
}

void job_catch_up(struct job *j)
{
	if (j->link)
		agent_stream_catch_up(j->link);
}

bool job_lags(const struct job *j)
{
	return j->link && agent_stream_lags(j->link);
}

/* Lists go on showing what elasticd knew at the end, whatever became of the files since. */
int job_load_text(struct job *j, struct error *err)
{
	struct job_record rec = { 0 };
	struct job_last last = { 0 };
	struct mirror known = j->mirror;
	int r;

	if (known.text)
		return 0;
	j->loaded = true;
	j->mirror = (struct mirror){ 0 };
	r = job_record_load(j->host->store, j->rec.run, &rec, &last, err);
	job_record_fini(&rec);
	if (!r)
		r = load_mirror(j, &last, false, err);
	if (!r)
		r = load_verdict(j, last.ended, false, err);
	job_last_fini(&last);
	known.text = TAKE_PTR(j->mirror.text);
	known.text_len = j->mirror.text_len;
	mirror_fini(&j->mirror);
	j->mirror = known;
	return r;
}

void job_drop_text(struct job *j)
{
	if (j->loaded)
		mirror_drop(&j->mirror);
	j->loaded = false;
}
