/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/member.h"
#include "agent/sharing/relay.h"
#include "agent/supervise/why.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/manager_error.h"
#include "common/varlink/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Operators' calls on any host that concern all hosts: the head answers. Without a link to the
 * head, this host answers with what it knows, and a note says so.
 */

enum { QUESTION_MS = 700 }; /* elasticd waits a second, then it answers from files */

static const char operators_no_link[] = "there is no link to the host that leads the group";

/* Whether the head can answer. */
static bool operators_linked(const struct member *m)
{
	return m->linked && member_is_admitted(m);
}

static void operators_stream_over(void *arg)
{
	struct member *m = arg;

	m->streams--;
	member_calls_check_bye(m);
}

/* Has the head answer. */
static int operators_forward(struct member *m, struct varlink_call *call, json_t *p)
{
	const struct calls_out_message message = { .round = 1,
		.worker = "",
		.interface = varlink_call_interface(call),
		.method = varlink_call_method(call),
		.more = varlink_call_more(call),
		.parameters = p };
	struct calls_out_connection *c;
	int r;

	if (!sharing_relay_own_job(m->sv, call, p))
		return 0;
	c = calls_out_open(&m->calls, NULL);
	m->streams++;
	r = c ? calls_out_forward(c, &message, call, operators_stream_over, m) : -ENOMEM;
	if (r < 0)
		m->streams--;
	return r;
}

/* --- logs --- */

/* Whether all those ranks are of workers of this host. */
static bool operators_own_ranks(const struct member *m, const char *text)
{
	_cleanup_(ranks_fini) struct ranks ranks = { 0 };
	struct error err = { 0 };
	int n = supervisor_n_workers(m->sv), own = 0;

	if (!text || ranks_parse(&ranks, text, "ranks", &err) < 0)
		return false;
	for (int i = 0; i < n; i++)
		own += ranks_contains(&ranks, supervisor_worker(m->sv, i)->rank);
	return own == ranks_count(&ranks);
}

/* Without a link. Returns whether it has refused the call; if not, this host's lines follow. */
static bool operators_own_logs(struct member *m, struct varlink_call *call, const json_t *p)
{
	char note[256];

	if (operators_own_ranks(m, json_get_string(p, "ranks", NULL)))
		return false;
	if (json_get_string(p, "ranks", NULL)) {
		(void)varlink_error(
			call, "Unavailable", json_pack("{s:s}", "message", operators_no_link));
		return true;
	}
	snprintf(note, sizeof(note), "only workers of host %.64s: %s", supervisor_host(m->sv),
		operators_no_link);
	if (varlink_call_more(call))
		(void)varlink_notify(call, json_pack("{s:[], s:s}", "lines", "note", note));
	return false;
}

static bool relay_logs(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	struct member *m = h->member;
	bool follow = json_get_bool(p, "follow", false);

	if (json_get_bool(p, "own", false))
		return false;
	if (h->head) {
		*ret = head_logs(h->head, call, p);
		return true;
	}
	if (!follow &&
		json_get_int(p, "attempt", supervisor_attempt(m->sv)) ==
			supervisor_attempt(m->sv) &&
		operators_own_ranks(m, json_get_string(p, "ranks", NULL)))
		return false;
	if (!operators_linked(m))
		return operators_own_logs(m, call, p);
	*ret = operators_forward(m, call, p);
	return true;
}

/* --- questions --- */

/* A call that the head is to answer; if it cannot, this host answers with what it knows. */
struct question {
	struct member *member;
	struct varlink_call *call;
	json_t *p;
	struct call_out *out; /* NULL: it is over */
	struct loop_timer *timer;
	/* Makes the answer; group: the head's, or NULL: note says why there is none. */
	json_t *(*answer)(struct member *m, const json_t *p, const json_t *group, const char *note);
};

static void question_free(struct question *q)
{
	if (q->out)
		calls_out_drop(q->out);
	loop_timer_free(q->timer);
	json_decref(q->p);
	free(q);
}

static void question_gone(void *arg)
{
	question_free(arg);
}

static void question_over(struct question *q, const json_t *group, const char *note)
{
	json_t *answer = q->answer(q->member, q->p, group, note);
	struct varlink_call *call = q->call;

	question_free(q);
	(void)varlink_reply(call, answer);
}

static void question_late(void *arg)
{
	question_over(arg, NULL, "the host that leads the group has not answered");
}

static void question_answered(void *arg, const char *error, json_t *p, bool continues)
{
	struct question *q = arg;

	if (continues)
		return;
	q->out = NULL;
	if (!error) {
		question_over(q, p, NULL);
	} else if (!strcmp(error, "Unavailable")) {
		question_over(q, NULL, operators_no_link);
	} else {
		struct varlink_call *call = q->call;

		question_free(q);
		(void)varlink_error(call, error, json_incref(p));
	}
}

static int question_ask(struct member *m, struct varlink_call *call, json_t *p,
	json_t *(*answer)(struct member *, const json_t *, const json_t *, const char *))
{
	struct calls_out_message message = { .round = 1,
		.worker = "",
		.interface = varlink_call_interface(call),
		.method = varlink_call_method(call),
		.parameters = p };
	struct calls_out_connection *c;
	struct question *q;

	if (!operators_linked(m))
		return varlink_reply(call, answer(m, p, NULL, operators_no_link));
	if (!sharing_relay_own_job(m->sv, call, p))
		return 0;
	q = calloc(1, sizeof(*q));
	if (!q || loop_timer_new(supervisor_loop(m->sv), question_late, q, &q->timer) < 0) {
		free(q);
		return -ENOMEM;
	}
	q->member = m;
	q->call = call;
	q->p = json_incref(p);
	q->answer = answer;
	c = calls_out_open(&m->calls, NULL);
	if (!c || calls_out_call(c, &message, question_answered, q, &q->out) < 0) {
		question_free(q);
		return varlink_reply(call, answer(m, p, NULL, operators_no_link));
	}
	varlink_call_on_gone(call, question_gone, q);
	loop_timer_arm(q->timer, QUESTION_MS);
	return 0;
}

/* "only what host node1 knows: ...". */
static void operators_put_note(const struct member *m, json_t *answer, const char *note)
{
	char text[512];

	if (!note)
		return;
	snprintf(
		text, sizeof(text), "only what host %.64s knows: %s", supervisor_host(m->sv), note);
	json_put_note(answer, text);
}

void hosts_note_missing(const struct supervisor *sv, json_t *answer)
{
	const struct hosts *h = hosts_of(sv);

	if (h && h->begun && !h->head && !operators_linked(h->member))
		operators_put_note(h->member, answer, operators_no_link);
}

/* This host's job; the keys in shared come from the head's answer, which knows all hosts. Times by
 * the head's clock become those of this one. */
static json_t *answer_status(
	struct member *m, const json_t *p, const json_t *group, const char *note)
{
	static const char *const shared[] = { "hosts", "preemption", "queue", "restarts",
		"max_restarts", "next_try_us" };
	struct error err = { 0 };
	json_t *job, *host;
	const json_t *theirs = json_get_object(group, "job");
	int64_t offset = m->clock.clock_known ? m->clock.offset_us : 0;
	size_t i;

	if (job_json_asked(m->sv, p, &job, &err) < 0)
		job = job_json(m->sv, false);
	for (i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (json_object_get(theirs, shared[i]))
			json_put(
				job, shared[i], json_deep_copy(json_object_get(theirs, shared[i])));
	if (theirs)
		json_array_foreach (json_get_array(job, "hosts"), i, host)
			if (json_object_get(host, "heard_us"))
				json_put_int(host, "heard_us",
					json_get_int(host, "heard_us", 0) - offset);
	operators_put_note(m, job, note);
	return json_pack("{s:o}", "job", job);
}

static json_t *answer_why(struct member *m, const json_t *p, const json_t *group, const char *note)
{
	_cleanup_free_ char *text = group ? NULL : why_text(m->sv);
	json_t *answer;

	if (group)
		return json_deep_copy(group);
	answer = json_object();
	json_put(answer, "budget", job_json_budget(m->sv));
	json_put(answer, "text", json_text(text ? text : ""));
	operators_put_note(m, answer, note);
	return answer;
}

static json_t *answer_errors(
	struct member *m, const json_t *p, const json_t *group, const char *note)
{
	json_t *answer;

	if (group)
		return json_deep_copy(group);
	answer = json_object();
	json_put(answer, "failures", job_json_failures(m->sv, (int)json_get_int(p, "attempt", -1)));
	operators_put_note(m, answer, note);
	return answer;
}

static bool relay_status(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	if (h->head)
		return false; /* the head's own host knows all */
	*ret = question_ask(h->member, call, p, answer_status);
	return true;
}

static bool relay_why(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	if (h->head)
		return false;
	*ret = question_ask(h->member, call, p, answer_why);
	return true;
}

static bool relay_errors(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	*ret = h->head ? head_errors(h->head, call, p)
		       : question_ask(h->member, call, p, answer_errors);
	return true;
}

static bool relay_dump(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	if (!h->head && !operators_linked(h->member))
		return false;
	*ret = h->head ? head_dump(h->head, call, p) : operators_forward(h->member, call, p);
	return true;
}

/* --- the hook --- */

static const struct {
	const char *method;
	/* Returns whether it sees to the answer; ret: the return value of a handler. */
	bool (*relay)(struct hosts *h, struct varlink_call *call, json_t *p, int *ret);
} operator_methods[] = {
	{ "Logs", relay_logs },
	{ "Status", relay_status },
	{ "Why", relay_why },
	{ "Errors", relay_errors },
	{ "Dump", relay_dump },
};

bool hosts_relays_call(struct supervisor *sv, struct varlink_call *call, json_t *p)
{
	struct hosts *h = hosts_of(sv);
	int r = 0;

	if (!h || !h->begun || (supervisor_ended(sv) && !h->head) ||
		strcmp(varlink_call_interface(call), "io.elasticd.Manager") != 0)
		return false;
	for (size_t i = 0; i < sizeof(operator_methods) / sizeof(operator_methods[0]); i++) {
		if (strcmp(operator_methods[i].method, varlink_call_method(call)) != 0)
			continue;
		if (!operator_methods[i].relay(h, call, p, &r))
			return false;
		if (r == -ECONNRESET)
			(void)varlink_error(call, "Unavailable",
				json_pack("{s:s}", "message", operators_no_link));
		else if (r < 0)
			(void)varlink_error(call, "Internal", manager_internal(strerror(-r), r));
		return true;
	}
	return false;
}
