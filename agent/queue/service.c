/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a step of the machine, this file carries out its orders (also the records for the journal),
 * and then answers calls, each of which may be a step itself. All answers of one turn of
 * the loop leave together; none waits for another turn.
 */
#include "agent/queue/group_hooks.h"
#include "agent/queue/private.h"
#include "common/base/log.h"
#include "common/varlink/queue_idl.h"
#include "common/varlink/queue_ranges.h"

#include <errno.h>
#include <string.h>

static void do_orders(struct dispatch *d)
{
	while (queue_next_order(d->q, &d->order) != QUEUE_ORDER_NOTHING) {
		switch (d->order.what) {
		case QUEUE_ORDER_RECORD:
			dispatch_journal_add(d, &d->order.record);
			break;
		case QUEUE_ORDER_RECORD_LOST:
			dispatch_journal_lost(d);
			break;
		case QUEUE_ORDER_STALE:
			dispatch_journal_stale(d);
			break;
		default:
			dispatch_group_do(d, &d->order);
		}
	}
}

/* A timer that fires early costs less than setting it after each step. */
static void set_timer(struct dispatch *d)
{
	uint64_t due = queue_due_ms(d->q), now;

	if (due >= d->timer_ms)
		return;
	now = loop_now_ms();
	d->timer_ms = due;
	loop_timer_arm(d->timer, due > now ? due - now : 0);
}

void dispatch_run(struct dispatch *d)
{
	struct queue_wait *w;

	if (d->running) {
		d->again = true;
		return;
	}
	d->running = true;
	dispatch_now(d);
	do {
		d->again = false;
		do_orders(d);
		while ((w = queue_over(d->q))) {
			dispatch_wait_over(w->arg);
			do_orders(d);
		}
	} while (d->again);
	d->running = false;
	set_timer(d);
}

void dispatch_event(const struct dispatch *d, const char *event, const char *text)
{
	supervisor_event(d->sv, event, -1, NULL, "%s", text);
}

static void run_deferred(void *arg)
{
	dispatch_run(arg);
}

void dispatch_run_soon(struct dispatch *d)
{
	if (!d->running && loop_defer(supervisor_loop(d->sv), run_deferred, d) == 0)
		return;
	dispatch_run(d);
}

static void on_timer(void *arg)
{
	struct dispatch *d = arg;

	d->timer_ms = UINT64_MAX;
	queue_expire(d->q, dispatch_now(d));
	dispatch_run(d);
}

static int dispatch_new(struct supervisor *sv, struct error *err)
{
	struct dispatch *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory");
	feature_set_state(sv, &queue_feature, d);
	d->sv = sv;
	d->several = supervisor_spec(sv)->rendezvous.nodes_max > 1;
	d->elected = d->several && supervisor_spec(sv)->rendezvous.backend == SPEC_RENDEZVOUS_ETCD;
	d->copy_in.fd = -1;
	d->commons = d->several ? NULL : sharing_commons(sv);
	d->timer_ms = UINT64_MAX;
	TAILQ_INIT(&d->listings);
	for (int i = 0; i < 2; i++)
		d->endpoints[i] = (struct dispatch_endpoint){ .d = d, .workers = i };
	dispatch_group_options(sv, &d->options);
	d->durable = supervisor_spec(sv)->queue.durable && dispatch_journal_dir(d);
	d->options.journal = d->durable;
	if (supervisor_spec(sv)->queue.durable && !d->durable)
		log_notice("queue.durable has no effect: this run has no record%s",
			d->elected ? ", and no logs" : "");
	r = queues_new(&d->options, &d->q);
	if (r == 0)
		r = loop_timer_new(supervisor_loop(sv), on_timer, d, &d->timer);
	if (r == 0)
		r = loop_timer_new(supervisor_loop(sv), dispatch_copy_timer, d, &d->retry_timer);
	if (r < 0)
		return error_set(err, r, "cannot make the work queue: %s", strerror(-r));
	if (!d->elected)
		r = dispatch_journal_open(d, err);
	return r < 0 ? r : dispatch_group_new(d, err);
}

struct dispatch *dispatch_of(const struct supervisor *sv)
{
	return feature_state(sv, &queue_feature);
}

static void dispatch_free(struct supervisor *sv)
{
	struct dispatch *d = dispatch_of(sv);

	if (!d)
		return;
	if (d->q)
		dispatch_group_free(d);
	feature_set_state(sv, &queue_feature, NULL);
	loop_cancel(supervisor_loop(sv), run_deferred, d);
	dispatch_keepers_free(d);
	dispatch_repeated_free(d);
	dispatch_journal_close(d);
	queues_free(d->q);
	loop_timer_free(d->timer);
	loop_timer_free(d->retry_timer);
	json_writer_fini(&d->text);
	free(d);
}

/* A connection of a worker has ended, and its calls are gone: puts its leases back. holder
 * identifies the connection. */
static void dispatch_closed(struct supervisor *sv, void *holder)
{
	struct dispatch *d = dispatch_of(sv);

	if (!d)
		return;
	queue_holder_gone(d->q, holder, loop_now_ms());
	dispatch_run_soon(d);
}

/* A worker writes to a connection no more, so it could not answer an item: its Work ends. */
static void dispatch_shut(struct supervisor *sv, void *holder)
{
	if (dispatch_of(sv))
		dispatch_waits_shut(dispatch_of(sv), holder);
}

/* The slot's process has one more connection. */
static void dispatch_opened(struct supervisor *sv, int slot)
{
	if (dispatch_of(sv))
		queue_worker_lives(dispatch_of(sv)->q, slot);
}

/* --- the feature --- */

/* The queue of a group of several hosts follows the hooks hosts_..., which tell of the workers of
 * all hosts; the queue of one host follows those that begin with own_ here. */
static bool of_one_host(const struct supervisor *sv)
{
	return dispatch_of(sv) && !dispatch_of(sv)->several;
}

static void own_begin(struct supervisor *sv)
{
	if (of_one_host(sv))
		dispatch_begin(sv);
}

static void own_running(struct supervisor *sv)
{
	if (of_one_host(sv))
		dispatch_running(sv);
}

static void own_stopping(struct supervisor *sv, const char *why)
{
	if (of_one_host(sv))
		dispatch_stopping(sv);
}

static void own_worker_started(struct supervisor *sv, struct worker *w)
{
	if (of_one_host(sv))
		dispatch_worker_started(sv, w);
}

static void own_worker_exited(struct supervisor *sv, struct worker *w)
{
	if (of_one_host(sv))
		dispatch_worker_ended(sv, w);
}

static void own_worker_over(struct supervisor *sv, struct worker *w)
{
	if (of_one_host(sv))
		dispatch_worker_over(sv, w);
}

static bool own_decision_waits(struct supervisor *sv)
{
	return of_one_host(sv) && dispatch_decision_waits(sv);
}

static void all_worker_exited(struct supervisor *sv, struct worker *w, const json_t *report)
{
	dispatch_worker_ended(sv, w);
}

static bool dispatch_interface(
	struct supervisor *sv, bool workers, struct varlink_interface_options *ret)
{
	if (!dispatch_of(sv))
		return false;
	*ret = (struct varlink_interface_options){
		.idl = queue_idl,
		.methods = dispatch_methods,
		.flat = dispatch_flat_methods,
		.ranges = queue_ranges,
		.promises = dispatch_of(sv)->elected,
		.arg = &dispatch_of(sv)->endpoints[workers],
	};
	return true;
}

static void dispatch_describe(const struct supervisor *sv, json_t *job, bool live)
{
	json_t *queue = dispatch_json(sv);

	if (queue)
		json_object_set_new(job, "queue", queue);
}

static void dispatch_explain(const struct supervisor *sv, FILE *f)
{
	char text[640];

	dispatch_text(sv, text, sizeof(text));
	if (text[0])
		fprintf(f, "%s\n", text);
}

const struct feature queue_feature = {
	.name = "queue",
	.init = dispatch_new,
	.fini = dispatch_free,
	.interface = dispatch_interface,
	.answers_leaving = dispatch_leaving,
	.relies_on_disk = dispatch_is_durable,
	.holds_answers = dispatch_holds,
	.worker_connected = dispatch_opened,
	.worker_shut = dispatch_shut,
	.worker_hung_up = dispatch_closed,
	.attempt_begins = own_begin,
	.group_running = own_running,
	.group_stopping = own_stopping,
	.job_ended = dispatch_over,
	.worker_started = own_worker_started,
	.worker_exited = own_worker_exited,
	.worker_over = own_worker_over,
	.delays_decision = own_decision_waits,
	.hosts_lead = dispatch_lead,
	.hosts_deputy = dispatch_deputy,
	.hosts_recorded = dispatch_recorded,
	.hosts_noted = dispatch_noted,
	.hosts_records = dispatch_hear_records,
	.hosts_has_records = dispatch_has_records,
	.hosts_begin = dispatch_begin,
	.hosts_running = dispatch_running,
	.hosts_stopping = dispatch_stopping,
	.hosts_worker_started = dispatch_worker_started,
	.hosts_worker_exited = all_worker_exited,
	.hosts_worker_over = dispatch_worker_over,
	.hosts_delay_decision = dispatch_decision_waits,
	.hosts_order = dispatch_order,
	.exit_status = dispatch_exit_status,
	.describe_job = dispatch_describe,
	.explain_last = dispatch_explain,
};
