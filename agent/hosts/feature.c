/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/hosts.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "agent/link/resolve.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/local_address.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The hooks by which the core reaches the member of this host and, if this host leads, the head.
 */

struct hosts *hosts_of(const struct supervisor *sv)
{
	return feature_state(sv, &hosts_feature);
}

const char *hosts_group(const struct hosts *h)
{
	return h->spec->rendezvous.id ? h->spec->rendezvous.id : h->spec->name;
}

uint64_t hosts_now_ms(void)
{
	return (uint64_t)boottime_us() / 1000;
}

static void hosts_over_now(void *arg)
{
	struct hosts *h = arg;
	loop_fn fn = h->over_fn;

	h->over_fn = NULL;
	if (fn)
		fn(h->over_arg);
}

void hosts_check_over(struct hosts *h)
{
	if (!h->over_fn || (h->member && h->member->link) || (h->head && !h->head->finished) ||
		(h->lead && !lead_is_over(h->lead)))
		return;
	loop_cancel(supervisor_loop(h->sv), hosts_over_now, h);
	if (loop_defer(supervisor_loop(h->sv), hosts_over_now, h) < 0)
		hosts_over_now(h);
}

void hosts_hand_over(struct hosts *h)
{
	if (h->lead && !h->head)
		lead_withdraw(h->lead);
	if (!h->lead || !h->head || h->head->end.state || h->head->finished)
		return;
	h->head->finished = true;
	head_logs_end(h->head);
	if (head_is_alone(h->head))
		lead_remove(h->lead);
	else
		lead_resign(h->lead);
}

static int hosts_make_ids(struct hosts *h, struct error *err)
{
	_cleanup_free_ char *boot = NULL;

	if (random_hex(h->agent, 32) < 0)
		return error_set(err, -EIO, "no random numbers");
	if (file_read("/proc/sys/kernel/random/boot_id", 0, &boot, NULL) == 0)
		boot[strcspn(boot, "\n")] = '\0';
	snprintf(h->boot, sizeof(h->boot), "%.36s", boot ? boot : "unknown");
	return 0;
}

static void hosts_free(struct hosts *h)
{
	if (!h)
		return;
	loop_cancel(supervisor_loop(h->sv), hosts_over_now, h);
	loop_cancel(supervisor_loop(h->sv), hosts_stop_alone, h);
	hosts_fail_drains(h);
	link_resolve_free(h->resolve);
	h->lead = lead_free(h->lead);
	member_free(h->member);
	head_free(h->head);
	link_listen_free(h->deputy);
	link_tls_free(h->tls);
	free(h->endpoint);
	free(h->address);
	free(h);
}

/* The secret of links is in a file, or (lead_claim.c) in etcd. */
static int hosts_secret(struct hosts *h, struct error *err)
{
	const struct spec_rendezvous *z = &h->spec->rendezvous;
	const struct link_tls_options tls = {
		.token_file = z->token_file, .cert = z->tls_cert, .key = z->tls_key, .ca = z->tls_ca
	};
	int r;

	if (z->backend == SPEC_RENDEZVOUS_ETCD)
		return lead_new(h, &h->lead, err);
	r = link_tls_new(&tls, &h->tls, err);
	if (r == 0 && !h->tls)
		log_notice("links between the group's hosts are open: anyone who reaches %s can "
			   "take part (see rendezvous.token_file)",
			h->endpoint);
	return r;
}

static int hosts_init(struct supervisor *sv, struct error *err)
{
	const struct spec_rendezvous *z = &supervisor_spec(sv)->rendezvous;
	struct hosts *h;
	int r;

	if (z->backend == SPEC_RENDEZVOUS_LOCAL || z->nodes_max < 2)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	feature_set_state(sv, &hosts_feature, h);
	h->sv = sv;
	h->spec = supervisor_spec(sv);
	if ((r = hosts_make_ids(h, err)) < 0 ||
		(r = spec_rendezvous_endpoint(z, &h->endpoint, err)) < 0 ||
		(r = local_address_find(z->address, &h->address, err)) < 0 ||
		(r = hosts_secret(h, err)) < 0)
		return r;
	r = member_new(h, &h->member, err);
	if (r < 0)
		return r;
	if (member_relay_open(h->member) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return member_calls_open(h->member, err);
}

static void hosts_fini(struct supervisor *sv)
{
	hosts_free(hosts_of(sv));
	feature_set_state(sv, &hosts_feature, NULL);
}

/* Whether this host may lead: in a static group the host of rank 0 must, in a direct one any host
 * that can listen at the endpoint. */
static bool hosts_may_lead(const struct hosts *h)
{
	const struct spec_rendezvous *z = &h->spec->rendezvous;

	return z->backend == SPEC_RENDEZVOUS_STATIC ? z->node_rank == 0 : !z->never_leads;
}

static void hosts_resolved(void *arg, const struct link_addresses *a, const struct error *why)
{
	struct hosts *h = arg;
	struct error err = { 0 };
	int r;

	/* If the endpoint has no address, the member's link reports that, and tries again. */
	if (!why && hosts_may_lead(h)) {
		r = head_new(h, a, NULL, &h->head, &err);
		if (r == 0)
			log_info("this host leads the group %s at %s", hosts_group(h), h->endpoint);
		else if (r != -EADDRNOTAVAIL && r != -EADDRINUSE)
			log_error("this host cannot lead: %s", err.text);
	}
	h->resolve = link_resolve_free(h->resolve);
	member_connect(h->member);
}

static void hosts_begin(struct hosts *h)
{
	struct endpoint e;
	struct error err = { 0 };
	int r;

	h->begun = true;
	if (h->lead) {
		lead_begin(h->lead);
		return;
	}
	r = endpoint_parse(h->endpoint, LINK_ENDPOINT_FIELD, &e, &err);

	if (!r)
		r = link_resolve_new(supervisor_loop(h->sv), &e, hosts_resolved, h, &h->resolve);
	if (r < 0)
		member_give_up(h->member, "failed", 1, *err.text ? err.text : strerror(-r));
}

static bool hosts_rendezvous(struct supervisor *sv)
{
	struct hosts *h = hosts_of(sv);

	if (h && !h->begun)
		hosts_begin(h);
	return h;
}

static bool hosts_decides(struct supervisor *sv, enum group_decision_step step)
{
	struct hosts *h = hosts_of(sv);

	if (!h)
		return false;
	/* If the lease is over, the guard may have killed these workers: they have not failed. */
	if (member_lease_holds(h->member) && h->member->state == MEMBER_RUNNING &&
		(step == GROUP_DECISION_GROUP || step == GROUP_DECISION_NO_RESTART))
		member_say_failures(h->member, step == GROUP_DECISION_NO_RESTART);
	return true;
}

/* Sends Ask. Returns whether the head gets it, now or when the link is up again. */
static bool hosts_ask_head(struct hosts *h, const char *want, int64_t timeout_ms, const char *why)
{
	const struct member *m = h->member;

	if (!m->link || m->state == MEMBER_AWAY || m->state == MEMBER_OVER ||
		(m->state == MEMBER_JOINING && !m->linked))
		return false;
	member_say_ask(h->member, want, timeout_ms, why);
	return true;
}

void hosts_stop_alone(void *arg)
{
	struct hosts *h = arg;

	end_run_stop_asked(h->sv, 0, h->stop_timeout_ms, h->stop_text);
}

/* An operator ends the group, or has this host leave. A signal to the agent has this host leave; if
 * it leads and no other host can, that ends the group. A second request does not wait for the head.
 */
static bool hosts_takes_stop(struct hosts *h, int64_t timeout_ms, const char *why)
{
	bool first = !h->stop_asked, leaves = supervisor_stopped_by(h->sv) || h->leave_asked;

	if (h->head ? h->head->end.state : h->member->final && h->member->linked)
		return true; /* the group is on its way to its end */
	h->stop_asked = true;
	if (first && h->head && !(h->lead && leaves))
		return head_stop(h->head, timeout_ms, why);
	if (first && !leaves && hosts_ask_head(h, "stop", timeout_ms, why)) {
		h->stop_timeout_ms = timeout_ms;
		snprintf(h->stop_text, sizeof(h->stop_text), "%s", why);
		supervisor_report(h->sv, LOG_NOTICE, "stop", -1, NULL, "%s", why);
		return true;
	}
	if (!h->member->leaving && h->member->state != MEMBER_OVER) {
		snprintf(h->member->leave_text, sizeof(h->member->leave_text), "%s", why);
		member_post(h->member, MEMBER_EV_LEAVE);
	}
	return false;
}

static bool hosts_takes_request(
	struct supervisor *sv, enum group_event event, int64_t timeout_ms, const char *why)
{
	struct hosts *h = hosts_of(sv);

	if (!h)
		return false;
	switch (event) {
	case GROUP_EV_STOP:
		return hosts_takes_stop(h, timeout_ms, why);
	case GROUP_EV_TIMEOUT:
		if (!h->head && member_is_away(h->member))
			return false; /* no head can end the group */
		if (h->head)
			head_timed_out(h->head, why);
		else
			snprintf(h->late, sizeof(h->late), "%s", why);
		return true;
	case GROUP_EV_RESTART:
		if (h->head)
			head_restart_asked(h->head, why);
		else if (!hosts_ask_head(h, "restart", SPEC_UNSET, why))
			log_warning("the group is not started again: there is no link to the host "
				    "that leads");
		return true;
	default:
		return true;
	}
}

/* Stopped workers would outlive the lease, and go on when the terminal continues them. */
static bool hosts_takes_signal(struct supervisor *sv, int signo)
{
	if (!hosts_of(sv) || signo != SIGTSTP)
		return false;
	log_notice("Ctrl-Z does not stop a group of several hosts");
	return true;
}

/* Whether the head has to learn how workers of this host end. */
static bool hosts_reports(const struct supervisor *sv)
{
	const struct hosts *h = hosts_of(sv);

	return h && h->member->state == MEMBER_RUNNING;
}

static bool hosts_dumps(struct supervisor *sv, const char *why)
{
	struct member *m;

	if (!hosts_reports(sv))
		return false;
	m = hosts_of(sv)->member;
	member_say(m, "Hang",
		json_pack("{s:I, s:o}", "round", (json_int_t)m->round, "why", json_text(why)));
	return true;
}

static void hosts_dump_over(struct supervisor *sv, int64_t number)
{
	if (hosts_of(sv))
		member_say(hosts_of(sv)->member, "Dumped",
			json_pack("{s:I}", "number", (json_int_t)number));
}

/* While this host has workers of a round, the group acts on its notice. Otherwise this host leaves
 * alone. */
static bool hosts_takes_notice(struct supervisor *sv, const char *source, const char *reason,
	int64_t grace_ms, int64_t deadline_us)
{
	if (!hosts_reports(sv))
		return false;
	member_say_notice(hosts_of(sv)->member, source, reason, grace_ms, deadline_us);
	return true;
}

static void hosts_worker_exited(struct supervisor *sv, struct worker *w)
{
	if (hosts_reports(sv))
		member_say_exited(hosts_of(sv)->member, w);
}

static void hosts_worker_stopped(struct supervisor *sv, struct worker *w)
{
	if (hosts_reports(sv))
		member_say_worker(hosts_of(sv)->member, w, "stopped");
}

static void hosts_worker_over(struct supervisor *sv, struct worker *w)
{
	if (hosts_reports(sv))
		member_say_worker_over(hosts_of(sv)->member, w);
}

static void hosts_worker_started(struct supervisor *sv, struct worker *w)
{
	if (hosts_reports(sv) && w->start > 0)
		member_say_worker(hosts_of(sv)->member, w, "started");
}

static void hosts_attempt_over(struct supervisor *sv, const json_t *failures)
{
	struct hosts *h = hosts_of(sv);

	if (!h)
		return;
	json_decref(h->member->failures);
	h->member->failures = json_deep_copy(failures);
}

static void hosts_group_changed(struct supervisor *sv)
{
	struct hosts *h = hosts_of(sv);
	enum group_state state = supervisor_group(sv)->state;

	if (!h || state != GROUP_RENDEZVOUS)
		return;
	if (h->member->state == MEMBER_STOPPING || h->member->state == MEMBER_FENCED)
		member_post(h->member, MEMBER_EV_DEAD);
	if (h->member->noticed && h->member->state == MEMBER_OVER)
		member_give_up(
			h->member, "preempted", supervisor_preempted_status(sv), h->member->cause);
}

static void hosts_group_running(struct supervisor *sv)
{
	struct hosts *h = hosts_of(sv);

	if (h && h->member->state == MEMBER_RUNNING)
		member_post(h->member, MEMBER_EV_STARTED);
}

/* The run of this host is over, and none of its workers lives: the group goes on without it. */
static void hosts_job_ended(struct supervisor *sv)
{
	struct hosts *h = hosts_of(sv);

	if (!h || h->member->state == MEMBER_OVER)
		return;
	h->member->state = MEMBER_OVER;
	hosts_fail_drains(h);
	if (h->head && !h->lead && supervisor_guard_died(sv)) { /* the others wait for a new head */
		h->member->link = link_free(h->member->link);
		h->head->finished = true;
		return;
	}
	member_say_bye(h->member);
	hosts_hand_over(h);
	if (h->head && !h->lead)
		(void)head_end(h->head,
			supervisor_group(sv)->state == GROUP_PREEMPTED ? GROUP_PREEMPTED
								       : GROUP_STOPPED,
			GOAL_NONE, supervisor_end_message(sv));
}

static bool hosts_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	struct hosts *h = hosts_of(sv);

	if (!h || !h->begun)
		return false;
	member_calls_end(h->member);
	h->over_fn = fn;
	h->over_arg = arg;
	hosts_check_over(h);
	return true;
}

static void hosts_describe_job(const struct supervisor *sv, json_t *job, bool live)
{
	const struct hosts *h = hosts_of(sv);

	if (!h || !h->begun)
		return;
	json_put(job, "hosts", h->head ? head_hosts_json(h->head) : member_hosts_json(h->member));
	if (h->lead && etcd_took_ms(h->lead->etcd) >= 0)
		json_put(job, "etcd_ms", json_integer(etcd_took_ms(h->lead->etcd)));
}

static const struct varlink_method hosts_methods[] = {
	{ "Leave", hosts_method_leave },
	{ "Drain", hosts_method_drain },
	{ NULL, NULL },
};

const struct feature hosts_feature = {
	.name = "hosts",
	.manager_methods = hosts_methods,
	.init = hosts_init,
	.fini = hosts_fini,
	.rendezvous = hosts_rendezvous,
	.decides = hosts_decides,
	.takes_request = hosts_takes_request,
	.takes_notice = hosts_takes_notice,
	.dumps_hosts = hosts_dumps,
	.hosts_dump_over = hosts_dump_over,
	.takes_signal = hosts_takes_signal,
	.relays_call = hosts_relays_call,
	.note_missing_hosts = hosts_note_missing,
	.attempt_over = hosts_attempt_over,
	.group_changed = hosts_group_changed,
	.group_running = hosts_group_running,
	.job_ended = hosts_job_ended,
	.last_answers = hosts_last_answers,
	.worker_not_started = hosts_worker_exited,
	.worker_stopped = hosts_worker_stopped,
	.worker_exited = hosts_worker_exited,
	.worker_started = hosts_worker_started,
	.worker_over = hosts_worker_over,
	.describe_job = hosts_describe_job,
};
