/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/group_private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- who --- */

static int group_count(void *arg)
{
	const struct sharing_group *g = arg;

	return g->n_placed == g->n_workers ? g->n_workers : 0;
}

static struct worker *group_worker(void *arg, int place)
{
	return &((struct sharing_group *)arg)->workers[place];
}

static bool group_on_notice(void *arg)
{
	return ((struct sharing_group *)arg)->board.notice & 1;
}

static int group_attempt(void *arg)
{
	return ((struct sharing_group *)arg)->attempt;
}

/* --- messages to members --- */

/* text: a JSON object; NULL: there was no memory for it. */
static void send_text(const struct sharing_host *x, const char *method, const char *text)
{
	int r = text ? x->group->down.send(x->arg, method, text, strlen(text)) : -ENOMEM;

	if (r < 0 && r != -ECONNRESET)
		log_error("%s cannot be sent to a host: %s", method, strerror(-r));
}

void sharing_send_to_hosts(struct supervisor *sv, const char *method, json_t *body)
{
	_cleanup_free_ char *text = json_dumps(body, JSON_COMPACT);
	const struct sharing_host *x;

	json_decref(body);
	LIST_FOREACH (x, &sharing_of(sv)->group->hosts, entry)
		if (x->n_workers)
			send_text(x, method, text);
}

const char *sharing_host_of(const struct supervisor *sv, int rank)
{
	const struct sharing_group *g = sharing_of(sv)->group;

	return rank < g->n_workers && g->host_of[rank] ? g->down.name(g->host_of[rank]->arg) : "?";
}

static bool boards_differ(const struct group_board *a, const struct group_board *b)
{
	return (a->notice & 1) != (b->notice & 1) || a->save_at != b->save_at ||
	       a->error != b->error;
}

/* Sends the board to the hosts whose boards show something else. */
static void send_board(const struct sharing_group *g)
{
	const struct group_board *b = &g->board;
	_cleanup_json_ json_t *body = json_pack("{s:I, s:I, s:b}", "notice", (json_int_t)b->notice,
		"save_at", (json_int_t)b->save_at, "error", b->error);
	_cleanup_free_ char *text = json_dumps(body, JSON_COMPACT);
	struct sharing_host *x;

	LIST_FOREACH (x, &g->hosts, entry) {
		if (!boards_differ(&x->board, b))
			continue;
		x->board = *b;
		send_text(x, "Board", text);
	}
}

static void group_notice(void *arg, uint64_t word, int64_t save_at)
{
	struct sharing_group *g = arg;

	g->board.notice = word;
	g->board.save_at = save_at;
	send_board(g);
}

static void group_error_changed(void *arg, bool up)
{
	struct sharing_group *g = arg;

	g->board.error = up;
	send_board(g);
	if (up)
		FEATURES_CALL(g->sv, group_error, g->sv);
}

/* Hands on the samples once all hosts have answered. */
static void check_samples(void *arg)
{
	struct sharing_group *g = arg;
	_cleanup_json_ json_t *samples = NULL;

	if (!g->samples || g->reads_due)
		return;
	samples = g->samples;
	g->samples = NULL;
	loop_timer_disarm(g->read_timer);
	FEATURES_CALL(g->sv, hosts_sampled, g->sv, samples);
}

/* A host has not answered in time. Its workers may have begun later steps than the others know of,
 * so no step is agreed on without it: the head ends its link. */
static void on_read_late(void *arg)
{
	struct sharing_group *g = arg;
	struct sharing_host *x, *next;

	for (x = LIST_FIRST(&g->hosts); x; x = next) {
		next = LIST_NEXT(x, entry);
		if (x->read_due)
			g->down.silent(x->arg);
	}
}

static void group_read(void *arg, bool barrier)
{
	struct sharing_group *g = arg;
	_cleanup_json_ json_t *body = NULL;
	_cleanup_free_ char *text = NULL;
	struct sharing_host *x;

	/* The answers to the Read that is out will do. */
	if (g->samples && !barrier)
		return;
	body = json_pack("{s:I, s:b}", "number", (json_int_t)++g->reads, "barrier", barrier);
	text = json_dumps(body, JSON_COMPACT);
	json_decref(g->samples);
	g->samples = json_array();
	loop_timer_arm(g->read_timer, (uint64_t)supervisor_spec(g->sv)->rendezvous.lease_ms);
	g->reads_due = 0;
	LIST_FOREACH (x, &g->hosts, entry) {
		x->read_due = x->n_workers > 0;
		g->reads_due += x->read_due;
		if (x->read_due)
			send_text(x, "Read", text);
	}
	/* Never inside this call: its caller is not done yet. */
	if (loop_defer(supervisor_loop(g->sv), check_samples, g) < 0)
		log_error("out of memory: the steps of workers are read later");
}

/* True when the group has a worker of that name on another host. */
static bool is_of_another(const struct sharing_host *x, const char *name)
{
	const struct sharing_group *g = x->group;
	int slot = commons_slot_named(g->commons, name);
	const struct worker *w = slot >= 0 ? commons_worker(g->commons, slot) : NULL;

	return w && g->host_of[w->place] != x;
}

int group_samples_received(struct sharing_host *x, const json_t *p, struct error *err)
{
	struct sharing_group *g = x->group;
	const json_t *samples = json_get_array(p, "samples"), *one;
	size_t i;

	if (!x->read_due || json_get_int(p, "number", 0) != g->reads)
		return 0;
	json_array_foreach (samples, i, one) {
		const char *name = json_get_string(one, "worker", "");

		if (is_of_another(x, name))
			return error_field(err, -EPROTO, "worker",
				"expected one of this host, got \"%.100s\"", name);
	}
	x->read_due = false;
	g->reads_due--;
	json_array_extend(g->samples, (json_t *)samples);
	check_samples(g);
	return 0;
}

static void group_preempted(void *arg, const char *why)
{
	struct sharing_group *g = arg;
	bool done = g->n_workers > 0;

	for (int i = 0; i < g->n_workers; i++)
		done = done &&
		       (g->workers[i].state == WORKER_SUCCEEDED || g->workers[i].on_purpose);
	g->down.preempted(g->down.group_arg, why, done);
}

/* The member whose worker it is keeps the error for the worker's end. */
static void group_worker_error(void *arg, struct worker *w, const char *code, const char *message)
{
}

static void group_event(void *arg, const char *event, int rank, json_t *data, const char *text)
{
	const struct sharing_group *g = arg;

	if (supervisor_events(g->sv))
		events_add(supervisor_events(g->sv), event, g->attempt, rank, data, "%s", text);
	else
		json_decref(data);
}

static struct commons_state group_state(void *arg)
{
	return ((struct sharing_group *)arg)->state;
}

static void group_decide_now(void *arg)
{
	const struct sharing_group *g = arg;

	g->down.decide(g->down.group_arg);
}

static void group_order(void *arg, struct worker *w, const char *what, const char *why)
{
	struct sharing_group *g = arg;
	_cleanup_json_ json_t *body =
		json_pack("{s:s, s:i, s:s, s:o}", "worker", g->commons->slots[w->slot].name,
			"start", w->start, "what", what, "why", json_text(why));

	_cleanup_free_ char *text = json_dumps(body, JSON_COMPACT);

	if (g->host_of[w->place])
		send_text(g->host_of[w->place], "Order", text);
}

static void forget_workers(struct sharing_group *g)
{
	struct sharing_host *x;

	LIST_FOREACH (x, &g->hosts, entry)
		x->n_workers = 0;
	for (int i = 0; i < g->n_workers; i++)
		worker_fini(&g->workers[i]);
	free(g->workers);
	free(g->host_of);
	g->workers = NULL;
	g->host_of = NULL;
	g->n_workers = g->n_placed = 0;
}

/* The slot of a role and index; -ENOMEM. */
static int slot_for(struct sharing_group *g, size_t role, int index)
{
	struct group_role *r = &g->roles[role];

	if (index >= r->n) {
		int *grown = reallocarray(r->slots, (size_t)index + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->slots = grown;
		while (r->n <= index)
			r->slots[r->n++] = -1;
	}
	if (r->slots[index] < 0)
		r->slots[index] = g->n_slots++;
	return r->slots[index];
}

int sharing_group_begin(struct sharing_group *g, int attempt, int n_workers)
{
	struct sharing_host *x;

	LIST_FOREACH (x, &g->hosts, entry)
		group_connections_renew(x);
	forget_workers(g);
	g->attempt = attempt;
	g->workers = calloc((size_t)n_workers + 1, sizeof(*g->workers));
	g->host_of = calloc((size_t)n_workers + 1, sizeof(struct sharing_host *));
	if (!g->workers || !g->host_of) {
		forget_workers(g);
		return -ENOMEM;
	}
	for (int i = 0; i < n_workers; i++)
		worker_init(&g->workers[i], &supervisor_spec(g->sv)->roles[0], 0, i);
	g->n_workers = n_workers;
	return 0;
}

int sharing_group_place(struct sharing_group *g, struct sharing_host *x, size_t role,
	int first_rank, int first_index, int n)
{
	if (!x->n_workers)
		x->first_rank = first_rank;
	for (int i = 0; i < n; i++) {
		int rank = first_rank + i, slot = slot_for(g, role, first_index + i), r;
		struct worker *w;

		if (slot < 0)
			return slot;
		if (rank >= g->n_workers)
			return -ERANGE;
		w = &g->workers[rank];
		worker_init(w, &supervisor_spec(g->sv)->roles[role], first_index + i, rank);
		w->slot = slot;
		g->host_of[rank] = x;
		x->n_workers++;
		g->n_placed++;
		r = commons_give_slot(g->commons, w);
		if (r < 0)
			return r;
	}
	return 0;
}

static void start_worker(struct sharing_group *g, struct worker *w)
{
	w->pid = 1; /* the head does not know the pid, but worker_alive() looks at it */
	w->state = WORKER_RUNNING;
	commons_worker_starting(g->commons, w);
	commons_worker_started(g->commons, w);
	FEATURES_CALL(g->sv, hosts_worker_started, g->sv, w);
}

void sharing_group_start(struct sharing_group *g)
{
	g->state = (struct commons_state){ .phase = COMMONS_STARTING };
	varlink_server_limit_bytes(
		g->server, sharing_unread_bytes(g->commons) + SHARING_REPLY_BYTES);
	commons_begin(g->commons);
	FEATURES_CALL(g->sv, hosts_begin, g->sv);
	send_board(g);
	for (int i = 0; i < g->n_placed; i++)
		start_worker(g, &g->workers[i]);
	g->state.phase = COMMONS_RUNNING;
	FEATURES_CALL(g->sv, hosts_running, g->sv);
}

void sharing_group_stop(struct sharing_group *g, enum group_goal goal, const char *why)
{
	if (g->state.phase == COMMONS_STOPPING && g->state.goal == goal)
		return;
	snprintf(g->reason, sizeof(g->reason), "%s", why);
	g->state.phase = COMMONS_STOPPING;
	g->state.goal = goal;
	g->state.reason = g->reason;
	commons_stop(g->commons, why);
	FEATURES_CALL(g->sv, hosts_stopping, g->sv);
}

void sharing_group_leader_over(struct sharing_group *g)
{
	g->state.leader_over = true;
}

/* --- what becomes of them --- */

static enum worker_state state_of(const json_t *report)
{
	static const enum worker_state ends[] = { WORKER_WAITING, WORKER_SUCCEEDED, WORKER_FAILED };
	const char *name = json_get_string(report, "state", "");

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(name, worker_state_name(ends[i])))
			return ends[i];
	return WORKER_STOPPED;
}

/* report: of its host; NULL: there is none. */
static void end_worker(struct sharing_group *g, struct worker *w, enum worker_state state,
	bool recovers, const json_t *report)
{
	w->pid = 0;
	w->ended_us = (int64_t)loop_real_us();
	w->state = state;
	commons_worker_ended(g->commons, w, recovers);
	FEATURES_CALL(g->sv, hosts_worker_exited, g->sv, w, report);
}

static void worker_ended(struct sharing_group *g, struct worker *w, const json_t *report)
{
	if (!worker_alive(w))
		return;
	group_receive_last_calls(g, w);
	worker_set_exit_json(w, json_get_object(report, "exit"));
	end_worker(g, w, state_of(report), json_get_bool(report, "recovers", false), report);
}

/* The worker has no process, and will get none. The head may take it for alive, since it cannot
 * know of a worker that its host has yet to start. */
static void worker_over(struct sharing_group *g, struct worker *w, const json_t *report)
{
	if (worker_alive(w))
		end_worker(g, w, WORKER_STOPPED, false, report);
	commons_worker_over(g->commons, w);
	FEATURES_CALL(g->sv, hosts_worker_over, g->sv, w);
}

static void worker_restarted(struct sharing_group *g, struct worker *w, const json_t *report)
{
	worker_renew(w);
	w->start = (int)json_get_int(report, "start", 0);
	w->on_purpose = false;
	start_worker(g, w);
}

static void vacate_worker(struct sharing_group *g, struct worker *w, const char *why)
{
	bool recovers = w->role->recoverable && !g->state.leader_over && !(g->board.notice & 1);

	if (!worker_alive(w))
		return;
	group_receive_last_calls(g, w);
	if (g->host_of[w->place])
		group_connections_renew(g->host_of[w->place]);
	snprintf(w->exit.text, sizeof(w->exit.text), "%s", why);
	end_worker(g, w, WORKER_WAITING, recovers, NULL);
}

void sharing_group_vacate(struct sharing_group *g, int first_rank, int n, const char *why)
{
	for (int rank = first_rank; rank < first_rank + n && rank < g->n_workers; rank++) {
		vacate_worker(g, &g->workers[rank], why);
		if (g->host_of[rank])
			g->host_of[rank]->n_workers = 0;
		g->host_of[rank] = NULL;
	}
}

json_t *sharing_group_starts_json(const struct sharing_group *g, int first_rank, int n)
{
	json_t *list = json_array();

	for (int rank = first_rank; rank < first_rank + n; rank++) {
		const struct worker *w = rank < g->n_workers ? &g->workers[rank] : NULL;

		json_add(list, json_integer(!w				   ? 1
					    : w->state == WORKER_SUCCEEDED ? -1
									   : w->start + 1));
	}
	return list;
}

void sharing_group_take(struct sharing_group *g, struct sharing_host *x, int first_rank, int n)
{
	x->first_rank = first_rank;
	for (int rank = first_rank; rank < first_rank + n && rank < g->n_workers; rank++) {
		g->workers[rank].start += g->workers[rank].state != WORKER_SUCCEEDED;
		g->host_of[rank] = x;
		x->n_workers++;
	}
	send_board(g);
}

void sharing_group_give_up(struct sharing_group *g, int first_rank, int n)
{
	for (int rank = first_rank; rank < first_rank + n && rank < g->n_workers; rank++) {
		struct worker *w = &g->workers[rank];

		if (!worker_alive(w) && w->state == WORKER_WAITING)
			worker_over(g, w, NULL);
	}
}

bool sharing_group_is_called(const struct sharing_group *g, int64_t rank, const char *name)
{
	if (rank < 0 || rank >= g->n_workers)
		return true;
	return !strcmp(commons_slot_name(g->commons, g->workers[rank].slot), name);
}

void sharing_group_report(struct sharing_group *g, const json_t *report)
{
	int64_t rank = json_get_int(report, "rank", -1);
	const char *event = json_get_string(report, "event", "");
	struct worker *w = rank >= 0 && rank < g->n_workers ? &g->workers[rank] : NULL;

	if (!w || !commons_has_slot(g->commons, w))
		return;
	if (!strcmp(event, "started"))
		worker_restarted(g, w, report);
	else if (!strcmp(event, "exited"))
		worker_ended(g, w, report);
	else if (!strcmp(event, "over"))
		worker_over(g, w, report);
	else if (!strcmp(event, "stopped")) {
		w->on_purpose = true;
		commons_worker_stopped(g->commons, w);
	}
}

json_t *sharing_group_results_json(const struct sharing_group *g)
{
	return commons_results_json(g->commons);
}

static int open_commons(struct sharing_group *g)
{
	const struct commons_options opt = {
		.loop = supervisor_loop(g->sv),
		.spec = supervisor_spec(g->sv),
		.run = supervisor_options(g->sv)->run,
		.reply_bytes = GROUP_ANSWER_BYTES,
		.owner = { .count = group_count,
			.at = group_worker,
			.on_notice = group_on_notice,
			.attempt = group_attempt,
			.error_changed = group_error_changed,
			.worker_error = group_worker_error,
			.event = group_event,
			.state = group_state,
			.decide = group_decide_now,
			.order = group_order,
			.notice = group_notice,
			.read = group_read,
			.preempted = group_preempted,
			.arg = g },
	};

	g->roles = calloc(supervisor_spec(g->sv)->n_roles, sizeof(*g->roles));
	return g->roles ? commons_new(&opt, &g->commons) : -ENOMEM;
}

int sharing_group_new(struct supervisor *sv, const struct sharing_downlink *down,
	struct sharing_group **ret, struct error *err)
{
	_cleanup_(sharing_group_freep) struct sharing_group *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return error_set(err, -ENOMEM, "out of memory");
	g->sv = sv;
	g->down = *down;
	g->board.save_at = INT64_MIN;
	if (loop_timer_new(supervisor_loop(sv), on_read_late, g, &g->read_timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	LIST_INIT(&g->hosts);
	r = open_commons(g);
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = group_servers_open(g, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(g);
	return 0;
}

void sharing_group_lead(struct sharing_group *g, const struct hosts_lead *lead)
{
	struct hosts_lead own = *lead;

	own.commons = g->commons;
	g->leads = true;
	sharing_lead(g->sv, g);
	FEATURES_CALL(g->sv, hosts_lead, g->sv, &own);
}

struct sharing_group *sharing_group_free(struct sharing_group *g)
{
	if (!g)
		return NULL;
	if (g->leads) {
		FEATURES_CALL(g->sv, hosts_lead, g->sv, NULL);
		sharing_lead(g->sv, NULL);
	}
	while (!LIST_EMPTY(&g->hosts))
		sharing_host_free(LIST_FIRST(&g->hosts));
	group_servers_close(g);
	loop_cancel(supervisor_loop(g->sv), check_samples, g);
	json_decref(g->samples);
	loop_timer_free(g->read_timer);
	commons_free(g->commons);
	forget_workers(g);
	for (size_t i = 0; g->roles && i < supervisor_spec(g->sv)->n_roles; i++)
		free(g->roles[i].slots);
	free(g->roles);
	free(g);
	return NULL;
}

struct sharing_host *sharing_host_new(struct sharing_group *g, void *arg)
{
	struct sharing_host *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->group = g;
	x->arg = arg;
	x->board.save_at = INT64_MIN;
	calls_in_init(&x->calls,
		&(struct calls_way){
			.send = g->down.send, .congested = g->down.congested, .arg = arg },
		false);
	LIST_INSERT_HEAD(&g->hosts, x, entry);
	return x;
}

struct sharing_host *sharing_host_free(struct sharing_host *x)
{
	if (!x)
		return NULL;
	calls_in_fini(&x->calls);
	for (int i = 0; i < x->n_workers; i++)
		x->group->host_of[x->first_rank + i] = NULL;
	x->group->reads_due -= x->read_due;
	LIST_REMOVE(x, entry);
	if (x->read_due && loop_defer(supervisor_loop(x->group->sv), check_samples, x->group) < 0)
		log_error("out of memory: the steps of workers are read later");
	free(x);
	return NULL;
}

struct store *sharing_group_store(const struct sharing_group *g)
{
	return g->commons->store;
}
