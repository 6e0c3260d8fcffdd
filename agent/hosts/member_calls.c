/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/logs_method.h"
#include "agent/hosts/member.h"
#include "agent/sharing/calls_in.h"
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
 * Serves calls of the head to this host, for operators on any host. The end of the run waits for
 * answers that are under way, as long as the head takes them.
 */

enum {
	INCOMING_CONNECTIONS = 1024,
	INCOMING_QUEUED_BYTES = 256 << 10, /* for each, beside the one answer that is on its way */
	INCOMING_BYE_MS = 10000,  /* Bye waits at most so long after a message of the head */
	INCOMING_LEAVE_MS = 1000, /* in all, if other hosts wait for this one's Bye */
};

struct member_calls {
	struct varlink_server *server;
	struct calls_in in;
	struct log_calls logs;
	struct loop_timer *timer; /* armed while Bye waits */
};

struct incoming {
	struct call_in in;
};

static void incoming_closed(void *user, void *arg)
{
	struct incoming *s = user;

	call_in_left(&s->in);
	free(s);
	member_calls_check_bye(arg);
}

/* The caller's ranks may be those of any host. */
static int incoming_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;

	return log_call_start(&m->incoming->logs, supervisor_loop(m->sv), call, p,
		logs_run_dir(supervisor_logs(m->sv)), RANKS_MAX + 1, supervisor_ended(m->sv));
}

static int incoming_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;
	json_t *failures = job_json_failures(m->sv, (int)json_get_int(p, "attempt", -1));

	return varlink_reply(call, json_pack("{s:o}", "failures", failures));
}

/* Dump is a method of another feature. */
static int incoming_dump(struct varlink_call *call, json_t *p, void *arg)
{
	struct member *m = arg;

	for (const struct feature *const *f = supervisor_features(m->sv); *f; f++)
		for (const struct varlink_method *x = (*f)->manager_methods; x && x->name; x++)
			if (!strcmp(x->name, "Dump"))
				return x->fn(call, p, m->sv);
	return -ENOSYS;
}

static const struct varlink_method incoming_methods[] = {
	{ "Logs", incoming_logs },
	{ "Errors", incoming_errors },
	{ "Dump", incoming_dump },
	{ NULL, NULL },
};

static void incoming_bye_late(void *arg)
{
	struct member *m = arg;

	log_debug("the head does not take the last answers of this host");
	calls_in_close(&m->incoming->in);
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
		.methods = incoming_methods,
		.limits = { .connections = INCOMING_CONNECTIONS,
			.queued_bytes = INCOMING_QUEUED_BYTES },
		.closed = incoming_closed,
		.arg = m,
	};

	m->incoming = calloc(1, sizeof(*m->incoming));
	if (!m->incoming || loop_timer_new(supervisor_loop(m->sv), incoming_bye_late, m,
				    &m->incoming->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	calls_in_init(&m->incoming->in, &m->calls.way, true);
	return varlink_server_new(supervisor_loop(m->sv), &opt, &m->incoming->server, err);
}

void member_calls_close(struct member *m)
{
	struct member_calls *c = m->incoming;

	if (!c)
		return;
	m->bye_due = false;
	calls_in_fini(&c->in);
	varlink_server_free(c->server);
	loop_timer_free(c->timer);
	free(c);
	m->incoming = NULL;
}

void member_calls_ready(struct member *m)
{
	calls_in_ready(&m->incoming->in);
}

void member_calls_cut(struct member *m)
{
	calls_in_close(&m->incoming->in);
}

/* Opens a connection. Refuses it, with *ret unchanged, if there are too many. */
static int incoming_open(struct member *m, int64_t number, struct incoming **ret, struct error *err)
{
	struct incoming *s;
	int r;

	if (number >= 0)
		return error_field(err, -EPROTO, "connection",
			"expected a number of the head's, got %lld", (long long)number);
	s = calloc(1, sizeof(*s));
	r = s ? calls_in_open(&m->incoming->in, number, m->incoming->server, s, &s->in) : -ENOMEM;
	if (r < 0) {
		free(s);
		calls_in_refuse(&m->incoming->in, number);
		return 0;
	}
	*ret = s;
	return 0;
}

int member_hear_call(struct member *m, const char *method, const json_t *p, struct error *err)
{
	struct calls_in *in = &m->incoming->in;
	int64_t number = json_get_int(p, "connection", 0);
	struct incoming *s = (struct incoming *)calls_in_find(in, number);
	int r;

	if (strcmp(method, "Call") != 0) {
		calls_in_received(in, method, p);
		return 0;
	}
	r = s ? 0 : incoming_open(m, number, &s, err);
	if (r < 0 || !s)
		return r;
	if (call_in_feed(&s->in, p) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	/* At once: the next message may start workers whose lines this call has to read. */
	call_in_receive(&s->in);
	return 0;
}

/* --- the end --- */

static bool incoming_open_calls(const struct member *m)
{
	return m->incoming && (!TAILQ_EMPTY(&m->incoming->in.connections) ||
				      (m->awaits_streams && m->streams > 0));
}

bool member_calls_delay_bye(struct member *m)
{
	if (!incoming_open_calls(m))
		return false;
	m->bye_due = true;
	loop_timer_arm(m->incoming->timer, m->awaits_streams ? INCOMING_BYE_MS : INCOMING_LEAVE_MS);
	return true;
}

static void incoming_bye_now(void *arg)
{
	struct member *m = arg;

	if (!m->bye_due || incoming_open_calls(m))
		return;
	loop_timer_disarm(m->incoming->timer);
	m->bye_due = false;
	member_say_bye(m);
	hosts_check_over(m->hosts);
}

void member_calls_check_bye(struct member *m)
{
	if (m->bye_due && !incoming_open_calls(m) &&
		loop_defer(supervisor_loop(m->sv), incoming_bye_now, m) < 0)
		log_error("out of memory: this host does not take leave of the head");
}

void member_calls_heard(struct member *m)
{
	if (m->bye_due && m->awaits_streams)
		loop_timer_arm(m->incoming->timer, INCOMING_BYE_MS);
}

void member_calls_end(struct member *m)
{
	log_calls_run_ended(&m->incoming->logs);
}
