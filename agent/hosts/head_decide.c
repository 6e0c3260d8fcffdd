/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/policy/failure_list.h"
#include "agent/policy/verdict.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Decides what follows from the ends of workers on all hosts: another round, or the verdict. The
 * restart budget is the group's, whichever host's worker failed.
 */

enum {
	DECIDE_SHORT_BYTES = 2 << 20, /* of short_cause, sent to all hosts together */
	/* Failures of a round, with their tracebacks. If more workers fail, the first ones stay. */
	FAILURES_MAX = 1024,
};

enum decide_end { DECIDE_NO_END, DECIDE_SUCCESS, DECIDE_OTHER, DECIDE_LOST };

/* The ends of the workers in the round that runs or ran last, and what follows. */
struct head_decide {
	uint64_t started_ms; /* 0: no round has begun */
	struct decide_worker {
		bool failed; /* failures has had one of it */
		enum decide_end end;
	} * workers;		   /* by rank */
	int n_workers;		   /* of all hosts; 0 also without memory */
	int left, succeeded, lost; /* without an end; with DECIDE_SUCCESS; with DECIDE_LOST */
	json_t *failures;	   /* in the head's time */
	json_t *pending;	   /* those whose decision waits for a feature */
	bool collateral;	   /* a collateral failure is among failures */
	bool leader_over;	   /* the leader has succeeded, and its grace runs */
	char leader_text[256];
	struct loop_timer *leader_timer;
	bool on_notice; /* workers save and leave on a notice of preemption */
	char notice_text[SUPERVISOR_REASON_MAX]; /* why, or how that ended */

	bool decided; /* its end is decided: */
	struct restart_decision decision;
	char consequence[320]; /* of the failure that decided */
	json_t *root_cause;
	json_t *short_cause; /* the same, as long as Assign may have it */
};

static void decide_leader_grace_over(void *arg);

int head_decide_new(struct head *h)
{
	struct head_decide *d = h->decide = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->failures = json_array();
	d->pending = json_array();
	if (!d->failures || !d->pending)
		return -ENOMEM;
	return loop_timer_new(h->loop, decide_leader_grace_over, h, &d->leader_timer);
}

void head_decide_free(struct head *h)
{
	struct head_decide *d = h->decide;

	if (!d)
		return;
	loop_timer_free(d->leader_timer);
	json_decref(d->failures);
	json_decref(d->pending);
	json_decref(d->root_cause);
	json_decref(d->short_cause);
	free(d->workers);
	free(d);
}

bool head_has_begun(const struct head *h)
{
	return h->decide->started_ms;
}

bool head_awaits_worker(const struct head *h, int rank)
{
	const struct head_decide *d = h->decide;

	return rank < d->n_workers && d->workers[rank].end == DECIDE_NO_END;
}

json_t *head_failures(const struct head *h)
{
	return h->decide->failures;
}

json_t *head_last_cause(const struct head *h)
{
	return h->decide->root_cause;
}

json_t *head_short_cause(const struct head *h)
{
	return h->decide->short_cause;
}

void head_round_begins(struct head *h)
{
	struct head_decide *d = h->decide;

	d->decided = d->leader_over = h->lost_one = false;
	d->started_ms = hosts_now_ms();
	h->attempt++;
	*h->cause = *d->consequence = '\0';
	h->why = NULL;
	json_array_clear(d->failures);
	json_array_clear(d->pending);
	d->collateral = false;
	d->on_notice = false;
	json_decref(d->root_cause);
	json_decref(d->short_cause);
	d->root_cause = d->short_cause = NULL;
	memset(&d->decision, 0, sizeof(d->decision));
	free(d->workers);
	d->n_workers = d->left = round_world(h->round)->workers;
	d->succeeded = d->lost = 0;
	d->workers = calloc((size_t)d->n_workers + 1, sizeof(*d->workers));
	if (!d->workers)
		d->n_workers = 0;
}

/* Whether the workers of the present round execute, and their end is not decided. */
static bool decide_is_open(const struct head *h)
{
	enum round_state s = round_state(h->round);

	return !h->decide->decided && !h->end.state && (s == ROUND_STARTING || s == ROUND_RUNNING);
}

bool head_end(struct head *h, enum group_state state, enum group_goal goal, const char *text)
{
	if (h->end.state)
		return false;
	h->end = (struct group){ .state = state, .goal = goal };
	h->decide->decided = true;
	snprintf(h->end_text, sizeof(h->end_text), "%s", text);
	if (!*h->cause)
		snprintf(h->cause, sizeof(h->cause), "%s", text);
	h->why = goal == GOAL_TIMEOUT ? "timeout" : state == GROUP_STOPPED ? "stopped" : "ended";
	if (round_end(h->round, hosts_now_ms()))
		head_carry_out(h);
	head_logs_end(h);
	return true;
}

/* The exit of a Failure as the budget sees it. */
static struct restart_fault decide_fault(const struct head *h, const json_t *failure)
{
	const json_t *exit = json_object_get(failure, "exit");
	int signo = (int)json_get_int(exit, "signal", 0), code = (int)json_get_int(exit, "code", 0);
	struct restart_fault f = {
		.cause = json_object_get(exit, "error") ? RESTART_EXEC
			 : signo			? RESTART_SIGNAL
							: RESTART_EXIT,
		.value = signo ? signo : code,
		.ran_ms = (int64_t)(hosts_now_ms() - h->decide->started_ms),
	};

	if (!strcmp(json_get_string(failure, "class", ""), "timeout"))
		f.cause = RESTART_HEARTBEAT;
	if (f.cause == RESTART_EXIT && !f.value) /* it has reported an error, then exited with 0 */
		f.value = 1;
	return f;
}

static const struct spec_restart *decide_policy(const struct head *h, const json_t *failure)
{
	const char *role = json_get_string(failure, "role", "");

	for (size_t i = 0; i < h->spec->n_roles; i++)
		if (!strcmp(h->spec->roles[i].name, role))
			return spec_restart_of(h->spec, &h->spec->roles[i]);
	return &h->spec->restart;
}

/* The core's clock is not the head's. */
void head_show_budget(const struct head *h)
{
	struct restart_budget b = h->budget;

	for (size_t i = 0; i < b.n_times; i++)
		b.times_ms[i] -= hosts_now_ms() - loop_now_ms();
	supervisor_show_budget(h->hosts->sv, &b);
}

/* Restarts the group if the budget allows; what: the fault, for people. */
static void decide_restart(struct head *h, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what)
{
	struct head_decide *d = h->decide;

	restart_decide(policy, &h->budget, fault, hosts_now_ms(), &d->decision);
	head_show_budget(h);
	d->decided = true;
	snprintf(d->consequence, sizeof(d->consequence), "%s", d->decision.text);
	snprintf(h->cause, sizeof(h->cause), "%.340s; %.150s", what, d->decision.text);
	head_event(h, LOG_NOTICE, d->decision.restart ? "restart" : "no-restart", h->attempt - 1,
		json_pack("{s:s, s:b, s:I}", "cause", restart_cause_name(fault->cause), "counted",
			d->decision.counted, "delay_ms", (json_int_t)d->decision.delay_ms),
		"%s", h->cause);
	if (!d->decision.restart)
		return;
	h->why = "failure";
	round_restart(h->round, d->decision.delay_ms, hosts_now_ms());
	head_carry_out(h);
}

/* Other hosts send these times, and this one subtracts them from each other: none may overflow. */
static void decide_clamp_time(json_t *failure, const char *key)
{
	int64_t t = json_get_int(failure, key, 0);

	json_put_int(failure, key, t < 0 ? 0 : t > INT64_MAX / 8 ? INT64_MAX / 8 : t);
}

/* Keeps the first failure of each rank in the round. When the group is stopped, each worker has a
 * collateral one: of those one is kept. */
static void decide_add_failure(struct head *h, const json_t *failure)
{
	struct head_decide *d = h->decide;
	int rank = (int)json_get_int(failure, "rank", -1);
	bool collateral = json_get_bool(failure, "collateral", false);
	json_t *copy;

	if (rank < 0 || rank >= d->n_workers || d->workers[rank].failed)
		return;
	d->workers[rank].failed = true;
	if (collateral && d->collateral)
		return;
	d->collateral = d->collateral || collateral;
	copy = json_deep_copy(failure);
	decide_clamp_time(copy, "time_us");
	if (json_object_get(failure, "uncertainty_us"))
		decide_clamp_time(copy, "uncertainty_us");
	json_add(d->failures, copy);
	if (json_array_size(d->failures) >= FAILURES_MAX)
		failure_list_cut(d->failures, FAILURES_MAX / 2);
}

static void decide_worker_ended(struct head *h, int rank, enum decide_end end)
{
	struct head_decide *d = h->decide;

	if (rank < 0 || rank >= d->n_workers || d->workers[rank].end != DECIDE_NO_END)
		return;
	d->workers[rank].end = end;
	d->left--;
	d->succeeded += end == DECIDE_SUCCESS;
	d->lost += end == DECIDE_LOST;
}

static void decide_worker_started(struct head *h, int rank)
{
	struct head_decide *d = h->decide;

	if (rank < 0 || rank >= d->n_workers || d->workers[rank].end == DECIDE_NO_END)
		return;
	d->succeeded -= d->workers[rank].end == DECIDE_SUCCESS;
	d->lost -= d->workers[rank].end == DECIDE_LOST;
	d->workers[rank].end = DECIDE_NO_END;
	d->left++;
}

bool head_stop(struct head *h, int64_t timeout_ms, const char *why)
{
	if (h->end.state)
		return false;
	head_event(h, LOG_NOTICE, "stop", h->attempt - 1, NULL, "%s", why);
	h->stop_timeout_ms = timeout_ms;
	return head_end(h, GROUP_STOPPED, GOAL_NONE, why);
}

void head_timed_out(struct head *h, const char *why)
{
	if (h->end.state)
		return;
	head_event(h, LOG_WARNING, "timeout", h->attempt - 1, NULL, "%s", why);
	(void)head_end(h, GROUP_FAILED, GOAL_TIMEOUT, why);
}

static bool decide_is_leader(const struct head *h, const char *worker)
{
	const char *colon = strrchr(worker, ':');

	if (!colon || h->spec->leader.on_exit != SPEC_LEADER_STOP)
		return false;
	for (size_t i = 0; i < h->spec->n_roles; i++)
		if (h->spec->roles[i].leader &&
			strlen(h->spec->roles[i].name) == (size_t)(colon - worker) &&
			!strncmp(h->spec->roles[i].name, worker, (size_t)(colon - worker)))
			return true;
	return false;
}

static void decide_succeeded(struct head *h, const char *text)
{
	struct head_decide *d = h->decide;
	struct restart_fault fault = { .cause = RESTART_FINISHED,
		.ran_ms = (int64_t)(hosts_now_ms() - d->started_ms) };

	if (h->spec->restart.policy == SPEC_RESTART_ALWAYS) {
		decide_restart(h, &h->spec->restart, &fault, text);
		if (d->decision.restart)
			return;
	}
	*h->cause = '\0';
	(void)head_end(h, GROUP_SUCCEEDED, GOAL_NONE, text);
}

static void decide_leader_grace_over(void *arg)
{
	struct head *h = arg;
	struct head_decide *d = h->decide;

	if (d->leader_over && decide_is_open(h))
		decide_succeeded(h, d->leader_text);
}

static void decide_leader_over(struct head *h, const char *worker)
{
	struct head_decide *d = h->decide;
	int64_t grace_ms = h->spec->leader.grace_ms;
	char text[DURATION_TEXT_MAX];

	d->leader_over = true;
	sharing_group_leader_over(h->sharing);
	snprintf(d->leader_text, sizeof(d->leader_text), "the leader %.100s succeeded", worker);
	log_notice(
		"%s; the others have %s to leave", d->leader_text, duration_format(grace_ms, text));
	loop_timer_arm(d->leader_timer, (uint64_t)grace_ms);
}

static void decide_all_ended(struct head *h)
{
	struct head_decide *d = h->decide;

	/* On a notice head_preempted() decides. */
	if (!d->on_notice && decide_is_open(h) && !d->left && d->succeeded)
		decide_succeeded(h, d->leader_over ? d->leader_text
				    : d->lost	   ? "all workers succeeded but those of lost hosts"
						   : "all workers succeeded");
}

void head_worker_changed(struct head *h, struct head_host *x, const json_t *report)
{
	const json_t *exit = json_get_object(report, "exit");
	const char *worker = json_get_string(report, "worker", "");
	int rank = (int)json_get_int(report, "rank", -1);
	const char *event = json_get_string(report, "event", "");
	bool ok = json_object_get(exit, "code") && !json_get_int(exit, "code", 1);

	if (!strcmp(event, "started")) {
		decide_worker_started(h, rank);
		return;
	}
	/* A failure follows its Report. */
	if ((strcmp(event, "exited") != 0 && strcmp(event, "over") != 0) ||
		!strcmp(json_get_string(report, "state", ""), "failed") ||
		json_get_bool(report, "alone", false))
		return;
	decide_worker_ended(h, rank, ok ? DECIDE_SUCCESS : DECIDE_OTHER);
	if (ok && !h->decide->leader_over && decide_is_open(h) && decide_is_leader(h, worker))
		decide_leader_over(h, worker);
	decide_all_ended(h);
	head_decide_pending(h);
}

void head_workers_over(struct head *h, int first_rank, int n)
{
	for (int rank = first_rank; rank < first_rank + n; rank++)
		decide_worker_ended(h, rank, DECIDE_LOST);
	decide_all_ended(h);
}

void head_worker_failed(struct head *h, struct head_host *x, const json_t *failure, bool over)
{
	struct head_decide *d = h->decide;

	if (d->leader_over) { /* however the others end, the group has succeeded */
		decide_worker_ended(h, (int)json_get_int(failure, "rank", -1), DECIDE_OTHER);
		decide_all_ended(h);
		return;
	}
	decide_add_failure(h, failure);
	if (!decide_is_open(h))
		return;
	json_add(d->pending, json_pack("{s:s, s:O, s:b}", "host", head_host_name(h, x->number),
				     "failure", failure, "over", over));
	head_decide_pending(h);
}

/* Restarts the group after that failure, or ends it. */
static void decide_failed(struct head *h, const char *host, const json_t *failure, bool over)
{
	struct head_decide *d = h->decide;
	struct restart_fault fault = decide_fault(h, failure);
	char what[512];

	snprintf(what, sizeof(what), "%.64s:%d on %.64s: %.300s",
		json_get_string(failure, "role", ""), (int)json_get_int(failure, "index", 0), host,
		json_get_string(failure, "message", "it failed"));
	if (over) {
		snprintf(d->consequence, sizeof(d->consequence),
			"the restarts of its own are used up");
		snprintf(h->cause, sizeof(h->cause), "%.340s; %.150s", what, d->consequence);
	} else {
		decide_restart(h, decide_policy(h, failure), &fault, what);
	}
	if (!d->decision.restart)
		(void)head_end(h, GROUP_FAILED, GOAL_NONE, h->cause);
}

void head_decide_pending(void *arg)
{
	struct head *h = arg;
	struct head_decide *d = h->decide;
	_cleanup_json_ json_t *first = NULL;

	if (!decide_is_open(h))
		json_array_clear(d->pending);
	if (!json_array_size(d->pending) ||
		FEATURES_ANY(h->hosts->sv, hosts_delay_decision, h->hosts->sv))
		return;
	first = json_incref(json_array_get(d->pending, 0));
	json_array_clear(d->pending);
	decide_failed(h, json_get_string(first, "host", ""), json_object_get(first, "failure"),
		json_get_bool(first, "over", false));
}

void head_add_failures(struct head *h, const json_t *failures)
{
	const json_t *f;
	size_t i;

	json_array_foreach (failures, i, f)
		decide_add_failure(h, f);
}

static int decide_class_rank(const json_t *failure)
{
	static const char *const classes[] = { "application", "timeout", "exit", "lost" };
	const char *class = json_get_string(failure, "class", "exit");
	int i = 0;

	if (json_get_bool(json_object_get(failure, "exit"), "out_of_memory", false))
		return 0; /* no other worker's failure causes it */
	while (i < 3 && strcmp(classes[i], class))
		i++;
	return i;
}

/* The first failure. Of those that the hosts' clocks cannot put in order, the one of the class that
 * explains most. */
json_t *head_root_cause(const struct head *h)
{
	const struct head_decide *d = h->decide;
	json_t *first, *best, *f;
	size_t i;

	failure_list_order(d->failures);
	first = best = json_array_get(d->failures, 0);
	json_array_foreach (d->failures, i, f) {
		int64_t apart = json_get_int(f, "time_us", 0) - json_get_int(first, "time_us", 0);
		int64_t unsure = json_get_int(f, "uncertainty_us", 0) +
				 json_get_int(first, "uncertainty_us", 0);

		if (!json_get_bool(f, "collateral", false) &&
			!json_get_bool(f, "made_good", false) && apart <= unsure &&
			decide_class_rank(f) < decide_class_rank(best))
			best = f;
	}
	return json_get_bool(best, "collateral", false) ? NULL : best;
}

static void decide_verdict(struct head *h)
{
	struct head_decide *d = h->decide;
	int stop_signal = supervisor_stopped_by(h->hosts->sv);
	struct verdict_facts facts = { .group = h->end,
		.reason = h->end_text,
		.consequence = d->consequence,
		.answered = d->decision.restart,
		.succeeded = h->end_text,
		.exit_status = 1,
		.stop_signal = stop_signal ? stop_signal : h->spec->stop.signal,
		.preempted_status = supervisor_preempted_status(h->hosts->sv),
		.cause = d->root_cause };
	struct verdict v = verdict_of(&facts);

	h->verdict = json_pack("{s:s, s:i, s:o}", "result", v.result, "exit_status", v.exit_status,
		"message", json_text(v.message));
	if (!v.cause)
		return;
	json_put_string(h->verdict, "host", json_get_string(v.cause, "host", ""));
	json_put(h->verdict, "root_cause", json_deep_copy(v.cause));
}

/* The root cause for Assign: its longest parts go if it is too long for so many hosts. */
static json_t *decide_short_cause(const struct head *h)
{
	const struct head_decide *d = h->decide;
	static const char *const longest[] = { "traceback", "stderr_tail", "text", "message" };
	json_t *told = d->root_cause ? json_copy(d->root_cause) : NULL;
	size_t most = DECIDE_SHORT_BYTES / ((size_t)h->n_members + 1);

	for (size_t i = 0; told && json_dumpb(told, NULL, 0, JSON_COMPACT) > most; i++) {
		if (i == sizeof(longest) / sizeof(longest[0])) {
			json_decref(told);
			return NULL;
		}
		if (!strcmp(longest[i], "message"))
			json_put_string(told, longest[i], "");
		else
			json_object_del(told, longest[i]);
	}
	return told;
}

void head_round_over(struct head *h)
{
	struct head_decide *d = h->decide;
	json_t *root = head_root_cause(h);

	json_decref(d->root_cause);
	json_decref(d->short_cause);
	d->root_cause = json_incref(root);
	d->short_cause = decide_short_cause(h);
	if (h->end.state && !h->verdict)
		decide_verdict(h);
}

/* --- notices of preemption --- */

int head_hear_notice(struct head_host *x, const json_t *notice, struct error *err)
{
	struct head *h = x->head;
	struct head_decide *d = h->decide;
	int64_t left_ms = json_get_int(notice, "deadline_ms", SPEC_UNSET);

	if (!decide_is_open(h))
		return 0; /* its workers are being stopped anyway */
	x->noticed = d->on_notice = true;
	head_hold_seats(h);
	snprintf(d->notice_text, sizeof(d->notice_text), "host %s has a notice of preemption",
		head_host_name(h, x->number));
	FEATURES_CALL(h->hosts->sv, hosts_notice, h->hosts->sv,
		json_get_string(notice, "source", ""), json_get_string(notice, "reason", ""),
		json_get_int(notice, "grace_ms", SPEC_UNSET),
		left_ms == SPEC_UNSET ? SPEC_UNSET : (int64_t)loop_real_us() + left_ms * 1000);
	return 0;
}

void head_checkpoint(struct head *h)
{
	if (!decide_is_open(h))
		return;
	h->decide->on_notice = true;
	head_hold_seats(h);
	FEATURES_CALL(h->hosts->sv, hosts_notice, h->hosts->sv, "hosts", h->change, SPEC_UNSET,
		SPEC_UNSET);
}

static bool decide_any_noticed(const struct head *h)
{
	const struct head_host *x = NULL;

	while ((x = head_next_member(h, x)))
		if (x->noticed)
			return true;
	return false;
}

static bool decide_is_there(const struct round_host *host)
{
	return host->state != HOST_GONE && host->state != HOST_OUT && host->state != HOST_LEAVING;
}

/* Whether the group can go on without the hosts that have a notice: enough others are there, and
 * the head has no notice or can hand the lead over. */
static bool decide_can_release(const struct head *h)
{
	const struct round_host *host = NULL;
	int n = 0;

	while ((host = round_next_host(h->round, host))) {
		const struct head_host *x = head_member(h, host->number);

		if (!x || !decide_is_there(host))
			continue;
		if (x->noticed && !strcmp(host->agent, h->hosts->agent) &&
			!(h->hosts->lead && lead_confirmed(h->hosts->lead)))
			return false;
		n += !x->noticed;
	}
	return n >= h->spec->rendezvous.nodes_min && !h->spec->preemption.whole;
}

/* Has the hosts with a notice leave; the round that follows counts as no restart. */
static void decide_release(struct head *h)
{
	for (int i = 0; i < h->n_members; i++) { /* head_carry_out() may free x */
		struct head_host *x = h->members[i];

		if (!x || !x->noticed)
			continue;
		head_note_change(h, head_host_name(h, i), "leaves");
		snprintf(h->cause, sizeof(h->cause), "%.128s: %.380s", h->change,
			h->decide->notice_text);
		if (!round_hear(h->round, i, HOST_EV_LEAVE, 0, hosts_now_ms()))
			head_carry_out(h);
	}
	if (!decide_is_open(h))
		return;
	/* The others cannot go on in this round: their workers have left, too. */
	round_restart(h->round, 0, hosts_now_ms());
	head_carry_out(h);
}

/* All workers have saved: begins a round with the hosts that wait; it counts as no restart. */
static void decide_grow(struct head *h)
{
	snprintf(h->cause, sizeof(h->cause), "%.500s", h->decide->notice_text);
	round_restart(h->round, 0, hosts_now_ms());
	head_carry_out(h);
}

void head_release_now(void *arg)
{
	struct head *h = arg;

	if (h->end.state || !decide_any_noticed(h))
		return;
	if (decide_can_release(h))
		decide_release(h);
	else
		(void)head_end(h, GROUP_PREEMPTED, GOAL_PREEMPT, h->decide->notice_text);
}

void head_release_later(struct head *h)
{
	struct head_decide *d = h->decide;

	if (!d->on_notice)
		return;
	d->on_notice = false;
	if (loop_defer(h->loop, head_release_now, h) < 0)
		log_error("out of memory: hosts with a notice of preemption stay");
}

void head_preempted(void *arg, const char *why, bool done)
{
	struct head *h = arg;
	struct head_decide *d = h->decide;

	if (!decide_is_open(h))
		return;
	d->on_notice = false;
	snprintf(d->notice_text, sizeof(d->notice_text), "%s", why);
	if (done)
		decide_succeeded(h, "all workers succeeded");
	else if (!decide_any_noticed(h))
		decide_grow(h);
	else if (decide_can_release(h))
		decide_release(h);
	else
		(void)head_end(h, GROUP_PREEMPTED, GOAL_PREEMPT, why);
}

void head_give_up(struct head *h)
{
	char names[HEAD_NAMES] = "", limit[DURATION_TEXT_MAX];
	const struct round_host *host = NULL;
	int n = 0;

	while ((host = round_next_host(h->round, host))) {
		if (!decide_is_there(host))
			continue;
		head_list_name(names, host->name);
		n++;
	}
	snprintf(h->end_text, sizeof(h->end_text), "%d of at least %d hosts were there for %s: %s",
		n, h->spec->rendezvous.nodes_min,
		duration_format(h->spec->rendezvous.join_timeout_ms, limit), n ? names : "none");
	h->end = (struct group){ .state = GROUP_FAILED, .goal = GOAL_TIMEOUT };
	h->decide->decided = true;
	snprintf(h->cause, sizeof(h->cause), "%.500s", h->end_text);
	h->why = "timeout";
	decide_verdict(h);
}

void head_restart_asked(struct head *h, const char *why)
{
	struct restart_fault fault = { .cause = RESTART_OPERATOR };

	if (decide_is_open(h)) {
		decide_restart(h, &h->spec->restart, &fault, why);
	} else if (round_state(h->round) == ROUND_BACKOFF) {
		round_restart(h->round, 0, hosts_now_ms());
		head_carry_out(h);
	}
}
