/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Logs of the workers of all hosts. The head calls Logs on each host that may have lines, and hands
 * these on: to a reader that follows as they come, to others in the order of their times. A host
 * sends one answer and waits for Flow. The head sends Flow once it has handed these lines on and
 * its reader takes more. So neither side keeps more than one answer of each host, however slow the
 * reader is.
 */

enum {
	LOGS_MAX = 512, /* readers at once */
	LOGS_OF_HOST = 64,
	LOGS_BATCH = 256, /* lines of an answer that has those of several hosts */
};

/* The lines of one host for a reader. Stays when they have ended: the host may join again. */
struct host_logs {
	LIST_ENTRY(host_logs) entry;
	struct group_logs *of;
	struct head_host *host; /* NULL: its lines have ended */
	char *run;		/* of the host */
	struct call_out *call;	/* until the last answer has come */
	int64_t until_us;	/* when its lines ended, by the head's clock */
	int64_t offset_us;	/* of its clock to the head's */
	json_t *lines;		/* of the last answer, not all handed on yet; NULL: none */
	size_t next;		/* the first of these that is not */
	bool waits;		/* the host waits for Flow; false: it may send one answer */
};

struct group_logs {
	LIST_ENTRY(group_logs) entry;
	struct head *head;
	struct varlink_call *call;
	uint64_t caller;
	json_t *p;
	struct ranks ranks;
	bool all_ranks, follow, congested;
	int64_t begun_us;
	LIST_HEAD(, host_logs) hosts;
	bool any;	 /* a host has answered, or was lost before it could */
	char *error;	 /* the answer if no host has lines; owned, or NULL */
	json_t *error_p; /* its parameters; owned */
};

static void host_logs_end(struct host_logs *x)
{
	x->host = NULL;
	x->call = NULL;
	x->until_us = (int64_t)loop_real_us();
}

static void host_logs_free(struct host_logs *x)
{
	LIST_REMOVE(x, entry);
	if (x->call)
		calls_out_drop(x->call);
	json_decref(x->lines);
	free(x->run);
	free(x);
}

static void group_logs_free(struct group_logs *g)
{
	while (!LIST_EMPTY(&g->hosts))
		host_logs_free(LIST_FIRST(&g->hosts));
	LIST_REMOVE(g, entry);
	json_decref(g->p);
	json_decref(g->error_p);
	ranks_fini(&g->ranks);
	free(g->error);
	free(g);
}

static void group_logs_gone(void *arg)
{
	group_logs_free(arg);
}

/* --- to the reader --- */

static void logs_resume(void *arg);

/* Sends lines to the reader; takes lines. */
static void logs_hand_on(struct group_logs *g, json_t *lines, int64_t missed, const char *note)
{
	json_t *answer = json_object();

	json_put(answer, "lines", lines);
	if (missed)
		json_put_int(answer, "missed", missed);
	if (note)
		json_put_string(answer, "note", note);
	(void)varlink_notify(g->call, answer);
	g->congested = varlink_call_congested(g->call, logs_resume, g);
}

static void logs_over(struct group_logs *g)
{
	struct varlink_call *call = g->call;
	_cleanup_free_ char *error = g->any ? NULL : TAKE_PTR(g->error);
	json_t *p = g->any ? NULL : TAKE_PTR(g->error_p);

	group_logs_free(g);
	if (error)
		(void)varlink_error(call, error, p);
	else
		(void)varlink_reply(call, json_pack("{s:[]}", "lines"));
}

static bool host_logs_open(const struct host_logs *x)
{
	return x->call || x->lines;
}

/* Ends the call if no more lines can come. A reader that follows waits for further rounds, too. */
static void logs_check(struct group_logs *g)
{
	const struct host_logs *x;

	LIST_FOREACH (x, &g->hosts, entry)
		if (host_logs_open(x))
			return;
	if (!g->follow || g->head->end.state)
		logs_over(g);
}

static void host_logs_want_more(struct host_logs *x)
{
	if (x->waits && x->call)
		calls_out_flow(x->call, false);
	x->waits = false;
}

/* The time of the next line by the head's clock. A line without one follows its predecessor. */
static int64_t host_logs_next_us(const struct host_logs *x)
{
	const json_t *line = json_array_get(x->lines, x->next);

	return json_get_int(line, "time_us", INT64_MIN / 2) + x->offset_us;
}

/* The host with the oldest line. NULL: there is none, or (ret_wait) a host has to send lines first.
 */
static struct host_logs *logs_oldest(struct group_logs *g, bool *ret_wait)
{
	struct host_logs *x, *best = NULL;

	*ret_wait = false;
	LIST_FOREACH (x, &g->hosts, entry) {
		if (x->call && !x->lines)
			*ret_wait = true;
		else if (x->lines && (!best || host_logs_next_us(x) < host_logs_next_us(best)))
			best = x;
	}
	return *ret_wait ? NULL : best;
}

static json_t *host_logs_take_line(struct host_logs *x)
{
	json_t *line = json_incref(json_array_get(x->lines, x->next++));

	if (x->next == json_array_size(x->lines)) {
		json_decref(x->lines);
		x->lines = NULL;
		host_logs_want_more(x);
	}
	return line;
}

/* Hands on the oldest lines, as long as each host has some or has ended. */
static void logs_merge(struct group_logs *g)
{
	bool waits = false;

	while (!g->congested && !waits) {
		json_t *lines = json_array();
		struct host_logs *x;

		while (json_array_size(lines) < LOGS_BATCH && (x = logs_oldest(g, &waits)))
			json_add(lines, host_logs_take_line(x));
		if (!json_array_size(lines)) {
			json_decref(lines);
			break;
		}
		logs_hand_on(g, lines, 0, NULL);
	}
}

static void logs_resume(void *arg)
{
	struct group_logs *g = arg;
	struct host_logs *x;

	g->congested = false;
	if (!g->follow) {
		logs_merge(g);
		logs_check(g);
		return;
	}
	LIST_FOREACH (x, &g->hosts, entry)
		host_logs_want_more(x);
}

/* --- from hosts --- */

static void host_logs_take(struct host_logs *x, json_t *p)
{
	struct group_logs *g = x->of;
	json_t *lines = json_get_array(p, "lines");
	int64_t missed = json_get_int(p, "missed", 0);

	g->any = true;
	if (g->follow) {
		if (json_array_size(lines) || missed)
			logs_hand_on(g, lines ? json_incref(lines) : json_array(), missed, NULL);
		return;
	}
	if (missed)
		logs_hand_on(g, json_array(), missed, NULL);
	if (json_array_size(lines)) {
		x->lines = json_incref(lines);
		x->next = 0;
	}
}

static void host_logs_failed(struct host_logs *x, const char *error, json_t *p)
{
	struct group_logs *g = x->of;
	const char *dot = strrchr(error, '.');
	const char *name = x->host ? head_host_name(g->head, x->host->number) : "";
	char note[256];

	host_logs_end(x);
	if (!strcmp(dot ? dot + 1 : error, "Unavailable")) {
		g->any = true;
		snprintf(note, sizeof(note), "lines of host %.64s are missing: %.120s", name,
			json_get_string(p, "message", "it was lost"));
		logs_hand_on(g, json_array(), 0, note);
	} else if (!g->error) {
		g->error = strdup(error);
		g->error_p = json_incref(p);
	}
}

static void host_logs_answered(void *arg, const char *error, json_t *p, bool continues)
{
	struct host_logs *x = arg;
	struct group_logs *g = x->of;
	struct head_host *host = x->host;

	if (!error && (x->waits || !head_is_of_own_workers(host, json_get_array(p, "lines")))) {
		host->fault = true; /* its link ends */
		error = "Unavailable";
	}
	x->waits = continues;
	if (error) {
		if (continues)
			calls_out_drop(x->call);
		host_logs_failed(x, error, p);
	} else {
		host_logs_take(x, p);
		if (!continues)
			host_logs_end(x);
	}
	if (!g->follow)
		logs_merge(g);
	else if (!g->congested)
		host_logs_want_more(x);
	logs_check(g);
}

/* since_us for a host, by its own clock. later: it has joined, or joined again, since the reader
 * came, which wants its new lines. -1: the reader's own since_us counts. */
static int64_t host_logs_since(const struct group_logs *g, const struct host_logs *x, bool later)
{
	return !later ? -1 : (x->until_us ? x->until_us : g->begun_us) - x->offset_us;
}

static struct host_logs *logs_of(struct group_logs *g, const char *run)
{
	struct host_logs *x;

	LIST_FOREACH (x, &g->hosts, entry)
		if (!strcmp(x->run, run))
			return x;
	x = calloc(1, sizeof(*x));
	if (!x || !(x->run = strdup(run))) {
		free(x);
		return NULL;
	}
	x->of = g;
	LIST_INSERT_HEAD(&g->hosts, x, entry);
	return x;
}

/* Calls Logs on that host; later: as above. */
static void logs_ask(struct group_logs *g, struct head_host *host, bool later)
{
	struct host_logs *x = logs_of(g, round_host(g->head->round, host->number)->run);
	struct calls_out_message m = { .round = 1,
		.worker = "",
		.interface = "io.elasticd.Manager",
		.method = "Logs",
		.more = true };
	_cleanup_json_ json_t *p = json_copy(g->p);
	struct calls_out_connection *c;
	int64_t since;

	if (!x || x->call)
		return; /* the call is under way */
	x->host = host;
	x->waits = false;
	x->offset_us = host->beat.clock_known ? host->beat.offset_us : 0;
	since = host_logs_since(g, x, later);
	if (since > json_get_int(p, "since_us", -1))
		json_put_int(p, "since_us", since);
	m.parameters = p;
	c = calls_out_open(&host->calls, NULL);
	if (!c || calls_out_call(c, &m, host_logs_answered, x, &x->call) < 0)
		host_logs_end(x);
}

/* --- calls --- */

/* Whether the host has workers of the present attempt whose lines are wanted. */
static bool logs_concern(const struct group_logs *g, const struct round_host *host)
{
	int next = ranks_next(&g->ranks, host->first_rank - 1);

	if (!host->round || host->round != round_number(g->head->round))
		return false;
	return g->all_ranks || (next >= 0 && next < host->first_rank + host->workers);
}

static void logs_ask_all(struct group_logs *g, bool present)
{
	struct head *h = g->head;
	struct head_host *x = NULL;

	while ((x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (host && x->link && (!present || logs_concern(g, host)))
			logs_ask(g, x, false);
	}
}

/* Refuses the call if there are too many readers, or no such worker. Returns whether it has. */
static bool logs_refused(const struct group_logs *g, struct varlink_call *call)
{
	int world = round_number(g->head->round) ? round_world(g->head->round)->workers : 0;
	int rank = g->all_ranks || !world ? -1 : ranks_next(&g->ranks, world - 1), n = 0, own = 0;
	const struct group_logs *other;
	char name[16];

	LIST_FOREACH (other, &g->head->logs, entry) {
		if (other == g)
			continue;
		n++;
		own += other->caller == g->caller;
	}
	if (n >= LOGS_MAX || own >= LOGS_OF_HOST) {
		varlink_error(call, "ResourceExhausted",
			manager_limit(
				n >= LOGS_MAX ? "readers of logs" : "readers of logs of one host",
				n >= LOGS_MAX ? LOGS_MAX : LOGS_OF_HOST));
		return true;
	}
	if (rank < 0 || json_object_get(g->p, "attempt"))
		return false;
	snprintf(name, sizeof(name), "%d", rank);
	varlink_error(call, "NotFound", manager_no_worker(name));
	return true;
}

static int logs_parse(struct group_logs *g, json_t *p, struct error *err)
{
	const char *ranks = json_get_string(p, "ranks", NULL);

	g->p = json_copy(p);
	if (!g->p)
		return -ENOMEM;
	json_put_string(g->p, "job", "");
	g->follow = json_get_bool(p, "follow", false);
	g->all_ranks = !ranks;
	return ranks ? ranks_parse(&g->ranks, ranks, "ranks", err) : 0;
}

int head_logs(struct head *h, struct varlink_call *call, json_t *p)
{
	struct group_logs *g;
	bool present = !json_get_bool(p, "follow", false);
	struct error err = { 0 };
	int r;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->head = h;
	g->call = call;
	g->caller = varlink_call_account(call).key;
	g->begun_us = (int64_t)loop_real_us();
	LIST_INIT(&g->hosts);
	LIST_INSERT_HEAD(&h->logs, g, entry);
	r = logs_parse(g, p, &err);
	if (r == -EINVAL)
		varlink_error(call, "InvalidArgument",
			manager_invalid("ranks", json_get_string(p, "ranks", ""), err.text));
	if (r < 0 || logs_refused(g, call)) {
		group_logs_free(g);
		return r == -EINVAL ? 0 : r;
	}
	varlink_call_on_gone(call, group_logs_gone, g);
	/* Any host may have lines of earlier attempts. */
	present = present && json_get_int(p, "attempt", h->attempt - 1) == h->attempt - 1;
	if (present && h->attempt > 0)
		json_put_int(g->p, "attempt", h->attempt - 1);
	logs_ask_all(g, present);
	logs_check(g);
	return 0;
}

void head_logs_begin(struct head *h, const struct head_host *only)
{
	struct group_logs *g;

	LIST_FOREACH (g, &h->logs, entry) {
		struct head_host *x = NULL;

		while (g->follow && (x = head_next_member(h, x))) {
			const struct round_host *host = round_host(h->round, x->number);

			if (host && x->link && host->state == HOST_STARTING && (!only || x == only))
				logs_ask(g, x, true);
		}
	}
}

void head_logs_cut(struct head *h)
{
	struct group_logs *g;

	while ((g = LIST_FIRST(&h->logs))) {
		struct varlink_call *call = g->call;

		group_logs_free(g);
		(void)varlink_error(call, "Unavailable",
			json_pack("{s:s}", "message", "this host leads the group no more"));
	}
}

void head_logs_end(struct head *h)
{
	struct group_logs *g, *next;

	for (g = LIST_FIRST(&h->logs); g; g = next) {
		next = LIST_NEXT(g, entry);
		if (h->finished)
			logs_over(g);
		else
			logs_check(g);
	}
}
