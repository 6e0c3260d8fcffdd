/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/logs_method.h"
#include "agent/hosts/private.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/manager_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Calls that the head makes of this host, for operators on any host. The end of the run waits for
 * answers that are under way, as long as the head takes them.
 */

enum {
	SERVED_CONNECTIONS = 1024,
	SERVED_QUEUED_BYTES = 256 << 10, /* for each, beside the one answer that is on its way */
	SERVED_BYE_MS = 10000,		 /* without a message of the head */
	SERVED_LEAVE_MS = 1000,		 /* in all, where others wait for this host's Bye */
};

struct member_calls {
	struct varlink_server *server;
	struct calls_in in;
	struct log_calls logs;
	struct loop_timer *timer; /* armed while Bye waits */
};

struct served {
	struct call_in in;
};

static void served_closed(void *user, void *arg)
{
	struct served *s = user;

	call_in_left(&s->in);
	free(s);
	member_calls_check_bye(arg);
}

/* Ranks are those of all hosts: this one has lines of its own workers. */
static int served_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;

	return log_call_start(&m->served->logs, supervisor_loop(m->sv), call, p,
		logs_run_dir(supervisor_logs(m->sv)), RANKS_MAX + 1, supervisor_ended(m->sv));
}

static int served_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;
	json_t *failures = job_json_failures(m->sv, (int)json_get_int(p, "attempt", -1));

	return varlink_reply(call, json_pack("{s:o}", "failures", failures));
}

/* The method of another feature. */
static int served_dump(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;

	for (const struct feature *const *f = supervisor_features(m->sv); *f; f++)
		for (const struct varlink_method *x = (*f)->manager_methods; x && x->name; x++)
			if (!strcmp(x->name, "Dump"))
				return x->fn(call, p, m->sv);
	return -ENOSYS;
}

static const struct varlink_method served_methods[] = {
	{ "Logs", served_logs },
	{ "Errors", served_errors },
	{ "Dump", served_dump },
	{ NULL, NULL },
};

static void bye_is_late(void *arg)
{
	struct member *m = arg;

	log_debug("the head does not take the last answers of this host");
	calls_in_close(&m->served->in);
	m->awaits_streams = false;
	member_calls_check_bye(m);
}

int member_calls_open(struct member *m, struct error *err)
{
	const struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.ranges = manager_ranges,
		.methods = served_methods,
		.limits = { .connections = SERVED_CONNECTIONS,
			.queued_bytes = SERVED_QUEUED_BYTES },
		.closed = served_closed,
		.arg = m,
	};

	m->served = calloc(1, sizeof(*m->served));
	if (!m->served ||
		loop_timer_new(supervisor_loop(m->sv), bye_is_late, m, &m->served->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	calls_in_init(&m->served->in, &m->calls.way, true);
	return varlink_server_new(supervisor_loop(m->sv), &opt, &m->served->server, err);
}

void member_calls_close(struct member *m)
{
	struct member_calls *c = m->served;

	if (!c)
		return;
	m->bye_due = false;
	calls_in_fini(&c->in);
	varlink_server_free(c->server);
	loop_timer_free(c->timer);
	free(c);
	m->served = NULL;
}

void member_calls_ready(struct member *m)
{
	calls_in_ready(&m->served->in);
}

void member_calls_cut(struct member *m)
{
	calls_in_close(&m->served->in);
}

/* A head that opens more than these has lost count. */
static int served_open(struct member *m, int64_t number, struct served **ret, struct error *err)
{
	struct served *s;
	int r;

	if (number >= 0)
		return error_field(err, -EPROTO, "connection",
			"expected a number of the head's, got %lld", (long long)number);
	s = calloc(1, sizeof(*s));
	r = s ? calls_in_open(&m->served->in, number, m->served->server, s, &s->in) : -ENOMEM;
	if (r < 0) {
		free(s);
		calls_in_refuse(&m->served->in, number);
		return 0;
	}
	*ret = s;
	return 0;
}

int member_hear_call(struct member *m, const char *method, const json_t *p, struct error *err)
{
	struct calls_in *in = &m->served->in;
	int64_t number = json_get_int(p, "connection", 0);
	struct served *s = (struct served *)calls_in_find(in, number);
	int r;

	if (strcmp(method, "Call") != 0) {
		calls_in_received(in, method, p);
		return 0;
	}
	r = s ? 0 : served_open(m, number, &s, err);
	if (r < 0 || !s)
		return r;
	if (call_in_feed(&s->in, p) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	/* Workers that the next message starts write what this call is to read. */
	call_in_receive(&s->in);
	return 0;
}

/* --- the end ------------------------------------------------------------------------------------
 */

static bool calls_are_open(const struct member *m)
{
	return m->served &&
	       (!TAILQ_EMPTY(&m->served->in.connections) || (m->awaits_streams && m->streams > 0));
}

bool member_calls_delay_bye(struct member *m)
{
	if (!calls_are_open(m))
		return false;
	m->bye_due = true;
	loop_timer_arm(m->served->timer, m->awaits_streams ? SERVED_BYE_MS : SERVED_LEAVE_MS);
	return true;
}

static void bye_now(void *arg)
{
	struct member *m = arg;

	if (!m->bye_due || calls_are_open(m))
		return;
	loop_timer_disarm(m->served->timer);
	m->bye_due = false;
	member_say_bye(m);
	hosts_settle(m->hosts);
}

void member_calls_check_bye(struct member *m)
{
	if (m->bye_due && !calls_are_open(m) && loop_defer(supervisor_loop(m->sv), bye_now, m) < 0)
		log_error("out of memory: this host does not take leave of the head");
}

void member_calls_heard(struct member *m)
{
	if (m->bye_due && m->awaits_streams)
		loop_timer_arm(m->served->timer, SERVED_BYE_MS);
}

void member_calls_end(struct member *m)
{
	log_calls_run_ended(&m->served->logs);
}
