/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StartTransientUnit answers with a systemd job; the scope exists when that job was removed with
 * the result "done". So the subscription to JobRemoved is sent first, on the same connection.
 */
#include "daemon/jobs/scope.h"

#include "daemon/jobs/bus.h"

#include <errno.h>
#include <string.h>

bool scope_owns(const char *cgroup_dir)
{
	const char *dot = strrchr(cgroup_dir, '.');

	return dot && !strcmp(dot, ".scope");
}

#if HAVE_SYSTEMD
#include <stdio.h>
#include <sys/queue.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-login.h>

enum { SCOPE_TIMEOUT_MS = 5000, SCOPE_RETRY_MS = 100, BUS_LINGER_MS = 1000 };

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

struct scope_request {
	TAILQ_ENTRY(scope_request) link;
	struct scopes *scopes;
	char *unit, *description;
	pid_t pid;
	int64_t memory_max, cpu_weight, tasks_max; /* SPEC_UNSET: none */
	scope_fn fn;
	void *arg;
	sd_bus_slot *call;
	char *job;		  /* systemd's job, once it has answered */
	struct loop_timer *timer; /* the limit for the whole request */
	struct loop_timer *retry;
};

struct scopes {
	struct loop *loop;
	bool system, available;
	char *slice;
	char *service; /* of elasticd itself, or NULL */
	struct bus *bus;
	sd_bus_slot *match;
	struct loop_timer *linger; /* closes an unused connection */
	TAILQ_HEAD(, scope_request) requests;
};

static void bus_close(struct scopes *s)
{
	s->match = sd_bus_slot_unref(s->match);
	s->bus = bus_free(s->bus);
}

static void on_linger(void *arg)
{
	struct scopes *s = arg;

	if (TAILQ_EMPTY(&s->requests))
		bus_close(s);
}

struct scope_request *scope_cancel(struct scope_request *q)
{
	if (!q)
		return NULL;
	TAILQ_REMOVE(&q->scopes->requests, q, link);
	if (TAILQ_EMPTY(&q->scopes->requests))
		loop_timer_arm(q->scopes->linger, BUS_LINGER_MS);
	sd_bus_slot_unref(q->call);
	loop_timer_free(q->timer);
	loop_timer_free(q->retry);
	free(q->unit);
	free(q->description);
	free(q->job);
	free(q);
	return NULL;
}

static void finish_request(struct scope_request *q, const char *error)
{
	scope_fn fn = q->fn;
	void *arg = q->arg;
	char text[256];

	if (error)
		snprintf(text, sizeof(text), "%s", error);
	scope_cancel(q);
	fn(arg, error ? text : NULL);
}

static void on_timeout(void *arg)
{
	finish_request(arg, "systemd did not answer in time");
}

static int on_job_removed(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct scopes *s = arg;
	struct scope_request *q;
	const char *job = NULL, *unit = NULL, *result = NULL;
	uint32_t id;
	int r = sd_bus_message_read(m, "uoss", &id, &job, &unit, &result);

	if (r < 0)
		return 0;
	TAILQ_FOREACH (q, &s->requests, link) {
		char text[128];

		if (strcmp(q->unit, unit))
			continue;
		snprintf(text, sizeof(text), "the scope's start ended as \"%s\"", result);
		finish_request(q, strcmp(result, "done") ? text : NULL);
		break;
	}
	return 0;
}

static int on_answer(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct scope_request *q = arg;
	const sd_bus_error *e = sd_bus_message_get_error(m);

	/* The scope of an earlier agent whose processes were just killed: systemd will soon see
	 * that it is empty. */
	if (e && !strcmp(e->name, SYSTEMD ".UnitExists"))
		loop_timer_arm(q->retry, SCOPE_RETRY_MS);
	else if (e)
		finish_request(q, e->message ? e->message : e->name);
	return 0;
}

static void on_bus_failed(void *arg, int code)
{
	struct scopes *s = arg;
	struct scope_request *q;
	char text[128];

	snprintf(text, sizeof(text), "D-Bus: %s", strerror(-code));
	bus_close(s);
	while ((q = TAILQ_FIRST(&s->requests)))
		finish_request(q, text);
}

static int bus_open(struct scopes *s)
{
	int r;

	if (s->bus)
		return 0;
	r = bus_new(s->loop, s->system ? BUS_SYSTEM : BUS_USER, on_bus_failed, s, &s->bus);
	if (r < 0)
		return r;
	r = sd_bus_match_signal_async(bus_sd(s->bus), &s->match, SYSTEMD, SYSTEMD_PATH,
		SYSTEMD_MANAGER, "JobRemoved", on_job_removed, NULL, s);
	if (r >= 0)
		r = sd_bus_call_method_async(bus_sd(s->bus), NULL, SYSTEMD, SYSTEMD_PATH,
			SYSTEMD_MANAGER, "Subscribe", NULL, NULL, "");
	if (r < 0)
		bus_close(s);
	return r < 0 ? r : 0;
}

/* The agent sets the same limits on a group of its own below, but CPUs are shared out between
 * scopes, and systemctl and systemd-cgtop show what these have. systemd itself limits the number of
 * tasks where nothing is said. */
static int append_limits(sd_bus_message *m, const struct scope_request *q)
{
	const struct {
		const char *property;
		int64_t value;
		uint64_t unset;
	} limits[] = {
		{ "MemoryMax", q->memory_max, 0 },
		{ "CPUWeight", q->cpu_weight, 0 },
		{ "TasksMax", q->tasks_max, UINT64_MAX },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits) && r >= 0; i++) {
		bool set = limits[i].value != SPEC_UNSET;

		if (set || limits[i].unset)
			r = sd_bus_message_append(m, "(sv)", limits[i].property, "t",
				set ? (uint64_t)limits[i].value : limits[i].unset);
	}
	return r;
}

static int append_properties(sd_bus_message *m, const struct scope_request *q)
{
	int r = sd_bus_message_append(m, "ss", q->unit, "fail");

	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "(sv)");
	if (r >= 0)
		r = sd_bus_message_append(m, "(sv)", "Description", "s", q->description);
	if (r >= 0)
		r = sd_bus_message_append(m, "(sv)", "Slice", "s", q->scopes->slice);
	/* With Delegate the policy about kills of the kernel (OOMPolicy) is "continue" in each
	 * version of systemd: the agent decides about such a worker as about any other. */
	if (r >= 0)
		r = sd_bus_message_append(m, "(sv)", "Delegate", "b", 1);
	if (r >= 0)
		r = append_limits(m, q);
	if (r >= 0)
		r = sd_bus_message_append(m, "(sv)", "CollectMode", "s", "inactive-or-failed");
	/* When the host goes down, systemd stops elasticd first, which gives notice and waits. */
	if (r >= 0 && q->scopes->service)
		r = sd_bus_message_append(m, "(sv)", "Before", "as", 1, q->scopes->service);
	if (r >= 0)
		r = sd_bus_message_append(m, "(sv)", "PIDs", "au", 1, (uint32_t)q->pid);
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	return r < 0 ? r : sd_bus_message_append(m, "a(sa(sv))", 0);
}

static int send_request(struct scope_request *q)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(bus_sd(q->scopes->bus), &m, SYSTEMD, SYSTEMD_PATH,
		SYSTEMD_MANAGER, "StartTransientUnit");

	if (r >= 0)
		r = append_properties(m, q);
	if (r >= 0)
		r = sd_bus_call_async(bus_sd(q->scopes->bus), &q->call, m, on_answer, q,
			(uint64_t)SCOPE_TIMEOUT_MS * 1000);
	sd_bus_message_unref(m);
	return r < 0 ? r : 0;
}

static void on_retry(void *arg)
{
	struct scope_request *q = arg;
	int r = q->scopes->bus ? send_request(q) : -ENOTCONN;

	if (r >= 0)
		r = bus_send(q->scopes->bus);
	if (r < 0)
		finish_request(q, strerror(-r));
}

static int scope_describe(struct scope_request *q, const struct scope_unit *u)
{
	const struct spec_resources *res = u->resources;

	q->memory_max = res ? res->memory_max : SPEC_UNSET;
	q->cpu_weight = res ? res->cpu_weight : SPEC_UNSET;
	q->tasks_max = res ? res->tasks_max : SPEC_UNSET;
	if (asprintf(&q->unit, "elasticd-%s.scope", u->run) < 0) {
		q->unit = NULL;
		return -ENOMEM;
	}
	if (asprintf(&q->description, "Training job %s of %s (run %s)", u->name, u->user, u->run) <
		0) {
		q->description = NULL;
		return -ENOMEM;
	}
	return 0;
}

int scope_begin(struct scopes *s, const struct scope_unit *u, scope_fn fn, void *arg,
	struct scope_request **ret)
{
	struct scope_request *q = NULL;
	int r;

	if (!s->available)
		return -EOPNOTSUPP;
	r = bus_open(s);
	if (r < 0)
		return r;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	*q = (struct scope_request){ .scopes = s, .pid = u->pid, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&s->requests, q, link);
	loop_timer_disarm(s->linger);
	r = scope_describe(q, u);
	if (!r)
		r = loop_timer_new(s->loop, on_timeout, q, &q->timer);
	if (!r)
		r = loop_timer_new(s->loop, on_retry, q, &q->retry);
	if (!r)
		r = send_request(q);
	/* Sends what can be sent now; answers are handled from the loop. */
	if (!r)
		r = bus_send(s->bus);
	if (r < 0) {
		scope_cancel(q);
		return r;
	}
	loop_timer_arm(q->timer, SCOPE_TIMEOUT_MS);
	*ret = q;
	return 0;
}

/* The unit that elasticd runs in, where that is a service. */
static char *own_service(bool system)
{
	char *unit = NULL;
	int r = system ? sd_pid_get_unit(0, &unit) : sd_pid_get_user_unit(0, &unit);
	size_t n = r < 0 ? 0 : strlen(unit);

	if (n > 8 && !strcmp(unit + n - 8, ".service"))
		return unit;
	free(r < 0 ? NULL : unit);
	return NULL;
}

int scopes_new(struct loop *loop, bool system, const char *slice, struct scopes **ret)
{
	_cleanup_(scopes_freep) struct scopes *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	TAILQ_INIT(&s->requests);
	s->loop = loop;
	s->system = system;
	s->available = sd_booted() > 0;
	s->slice = strdup(slice);
	if (!s->slice)
		return -ENOMEM;
	s->service = own_service(system);
	r = loop_timer_new(loop, on_linger, s, &s->linger);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct scopes *scopes_free(struct scopes *s)
{
	if (!s)
		return NULL;
	while (!TAILQ_EMPTY(&s->requests))
		scope_cancel(TAILQ_FIRST(&s->requests));
	if (s->bus)
		bus_close(s);
	loop_timer_free(s->linger);
	free(s->slice);
	free(s->service);
	free(s);
	return NULL;
}

bool scopes_available(const struct scopes *s)
{
	return s->available;
}

#else

struct scopes {
	char unused;
};

int scopes_new(struct loop *loop, bool system, const char *slice, struct scopes **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct scopes *scopes_free(struct scopes *s)
{
	free(s);
	return NULL;
}

bool scopes_available(const struct scopes *s)
{
	return false;
}

int scope_begin(struct scopes *s, const struct scope_unit *u, scope_fn fn, void *arg,
	struct scope_request **ret)
{
	return -EOPNOTSUPP;
}

struct scope_request *scope_cancel(struct scope_request *q)
{
	return NULL;
}

#endif
