/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ready/ready.h"

#include "agent/ready/file.h"
#include "agent/ready/port.h"
#include "agent/sharing/private.h"
#include "common/base/array.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ready {
	struct supervisor *sv;
	bool met;		 /* the condition has come true in this attempt */
	bool *called;		 /* by slot: the worker's present process has called Ready */
	size_t n_called;	 /* its length */
	struct ready_file *file; /* while this waits for it, like port */
	struct ready_port *port;
	struct ready_port_sockets others; /* those that listened when the attempt began */
};

static struct ready *ready_of(const struct supervisor *sv)
{
	return feature_state(sv, &ready_feature);
}

static const struct spec_ready *ready_spec(const struct supervisor *sv)
{
	return &supervisor_spec(sv)->ready;
}

static void ready_stop_waiting(struct ready *r)
{
	r->file = ready_file_free(r->file);
	r->port = ready_port_free(r->port);
}

static void ready_report(const struct ready *r)
{
	const struct spec_ready *s = ready_spec(r->sv);

	if (s->barrier)
		supervisor_event(r->sv, "ready", -1, NULL, "the barrier %s was passed", s->barrier);
	else if (s->port)
		supervisor_event(r->sv, "ready", -1, NULL, "port %d is open", s->port);
	else if (s->file)
		supervisor_event(r->sv, "ready", -1, NULL, "%s was written", s->file);
	else
		supervisor_event(r->sv, "ready", -1, NULL, "all workers have said so");
}

/* Does not wait for workers that an operator has stopped. */
static bool ready_all_called(const struct ready *r)
{
	for (int i = 0; i < supervisor_n_workers(r->sv); i++) {
		const struct worker *w = supervisor_worker(r->sv, i);

		if (!w->on_purpose &&
			((size_t)w->slot >= r->n_called || !r->called[(size_t)w->slot]))
			return false;
	}
	return true;
}

static void ready_check(struct ready *r)
{
	if (supervisor_group(r->sv)->state != GROUP_RUNNING || supervisor_ready(r->sv) ||
		!(r->met || (ready_spec(r->sv)->call && ready_all_called(r))))
		return;
	ready_stop_waiting(r);
	supervisor_set_unready(r->sv, false);
	ready_report(r);
	supervisor_changed(r->sv);
}

static void ready_on_met(void *arg)
{
	struct ready *r = arg;

	r->met = true;
	ready_check(r);
}

static int ready_init(struct supervisor *sv, struct error *err)
{
	const struct spec_ready *s = ready_spec(sv);
	struct ready *r;

	if (!s->barrier && !s->port && !s->file && !s->call)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, -ENOMEM, "out of memory");
	r->sv = sv;
	feature_set_state(sv, &ready_feature, r);
	supervisor_set_unready(sv, true);
	return 0;
}

static void ready_fini(struct supervisor *sv)
{
	struct ready *r = ready_of(sv);

	if (!r)
		return;
	feature_set_state(sv, &ready_feature, NULL);
	ready_stop_waiting(r);
	free(r->called);
	free(r);
}

/* No worker of the attempt lives yet: the file is an old one, and a port that is open is another
 * program's. */
static void ready_begin(struct supervisor *sv)
{
	const struct spec_ready *s = ready_spec(sv);
	struct ready *r = ready_of(sv);

	if (!r)
		return;
	r->met = false;
	r->file = ready_file_free(r->file);
	if (s->file && ready_file_new(supervisor_loop(sv), s->file, ready_on_met, r, &r->file) < 0)
		log_error("out of memory: the job will not be ready");
	if (s->port)
		ready_port_find_sockets(s->port, &r->others);
	if (r->others.n)
		supervisor_event(sv, "port-taken", -1, NULL,
			"another program listens at port %d: the job is not ready before its own "
			"does",
			s->port);
	if (r->called)
		memset(r->called, 0, r->n_called * sizeof(*r->called));
}

static void ready_group_changed(struct supervisor *sv)
{
	struct ready *r = ready_of(sv);

	if (!r || supervisor_group(sv)->state == GROUP_RUNNING)
		return;
	supervisor_set_unready(sv, true);
	if (supervisor_group(sv)->state >= GROUP_STOPPING)
		ready_stop_waiting(r);
}

/* All workers have started. */
static void ready_running(struct supervisor *sv)
{
	const struct spec_ready *s = ready_spec(sv);
	struct ready *r = ready_of(sv);

	if (!r)
		return;
	if (s->port && !r->port && !r->met &&
		ready_port_new(
			supervisor_loop(sv), s->port, &r->others, ready_on_met, r, &r->port) < 0)
		log_error("out of memory: the job will not be ready");
	ready_check(r);
}

static void ready_barrier_passed(struct supervisor *sv)
{
	if (ready_of(sv))
		ready_on_met(ready_of(sv));
}

/* Makes room for n slots. 0 or -ENOMEM. */
static int ready_reserve(struct ready *r, size_t n)
{
	bool *bigger;

	if (n <= r->n_called)
		return 0;
	bigger = array_grow(r->called, r->n_called, n, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	r->called = bigger;
	r->n_called = n;
	return 0;
}

static void ready_worker_starting(struct supervisor *sv, struct worker *w)
{
	struct ready *r = ready_of(sv);

	if (r && w->slot >= 0 && (size_t)w->slot < r->n_called)
		r->called[w->slot] = false;
}

static void ready_worker_stopped(struct supervisor *sv, struct worker *w)
{
	if (ready_of(sv))
		ready_check(ready_of(sv));
}

static int ready_method(struct varlink_call *call, json_t *p, void *arg)
{
	struct ready *r = ready_of(sharing_supervisor_of(call));
	size_t slot = (size_t)sharing_slot_of(call);
	int e;

	if (!r)
		return varlink_reply(call, NULL);
	if (ready_reserve(r, slot + 1) < 0)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	e = varlink_reply(call, NULL);
	r->called[slot] = true;
	ready_check(r);
	return e;
}

static const struct varlink_method ready_methods[] = {
	{ "Ready", ready_method },
	{ NULL, NULL },
};

const struct feature ready_feature = {
	.name = "ready",
	.init = ready_init,
	.fini = ready_fini,
	.worker_methods = ready_methods,
	.attempt_begins = ready_begin,
	.group_changed = ready_group_changed,
	.group_running = ready_running,
	.barrier_passed = ready_barrier_passed,
	.worker_starting = ready_worker_starting,
	.worker_stopped = ready_worker_stopped,
};
