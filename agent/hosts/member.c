/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/member.h"
#include "agent/hosts/lead.h"
#include "agent/process/fence.h"
#include "agent/process/guard.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Carries out the actions of agent/rounds/member_machine.h, and keeps the lease and the link to the
 * head. When the lease is over, no worker lives here.
 */

enum {
	MEMBER_CLOCK_US = 5000, /* clocks that differ by less are the same */
	MEMBER_CLOCK_JUMP_US = 1000000,
	MEMBER_CLOCK_MS = 600000, /* between two events of a clock that has not jumped */
};

static void member_prepare_now(struct member *m)
{
	int r = supervisor_prepare(m->sv, &m->seat.seat, &m->unable);

	if (m->state == MEMBER_PREPARING)
		member_post(m, r < 0 ? MEMBER_EV_FAILED : MEMBER_EV_READY);
	else if (r == 0) /* it has said that it could not take part, and now can */
		member_say_prepared(m);
}

/* May be called again, with NULL, after it has reported why this host is not ready. */
static void member_when_ready(void *arg, const struct error *why)
{
	struct member *m = arg;

	if (!why && (m->state == MEMBER_PREPARING || m->state == MEMBER_WAITING)) {
		member_prepare_now(m);
	} else if (why && m->state == MEMBER_PREPARING) {
		m->unable = *why;
		member_post(m, MEMBER_EV_FAILED);
	}
}

static void member_prepare(struct member *m)
{
	if (!FEATURES_ANY(m->sv, delays_attempt, m->sv, member_when_ready, m))
		member_prepare_now(m);
}

static void member_spawn(struct member *m)
{
	struct error err = { 0 };

	m->last_round = m->round;
	m->last_rank = m->seat.seat.group_rank;
	json_array_clear(m->reported);
	if (supervisor_launch(
		    m->sv, m->start.master_addr, m->start.master_port, m->start.cluster, &err) < 0)
		member_give_up(m, "failed", 1, err.text);
}

static void member_rejoin_now(void *arg)
{
	member_post(arg, MEMBER_EV_LINKED);
}

/* Joins again by the present link, or makes another one, perhaps to another head. */
static void member_rejoin(struct member *m)
{
	if (*m->refused) {
		member_give_up(m, "failed", 1, m->refused);
		return;
	}
	if (m->hosts->lead)
		lead_workers_gone(m->hosts->lead);
	else if (!m->link)
		member_connect(m);
	if (m->linked && loop_defer(supervisor_loop(m->sv), member_rejoin_now, m) < 0)
		member_rejoin_now(m);
}

static void member_act(struct member *m, enum member_action action)
{
	switch (action) {
	case MEMBER_DO_NOTHING:
		break;
	case MEMBER_DO_JOIN:
		if (m->noticed) {
			member_give_up(m, "preempted", supervisor_preempted_status(m->sv),
				"the head was lost after the notice of preemption");
			break;
		}
		lease_begin(&m->lease, link_peer(m->link)->lease_ms, hosts_now_ms());
		member_say_join(m);
		break;
	case MEMBER_DO_REJOIN:
		loop_timer_disarm(m->lease_timer);
		member_rejoin(m);
		break;
	case MEMBER_DO_PREPARE:
		member_prepare(m);
		break;
	case MEMBER_DO_SAY_PREPARED:
		member_say_prepared(m);
		break;
	case MEMBER_DO_SAY_UNABLE:
		member_say_unable(m);
		break;
	case MEMBER_DO_SPAWN:
		member_spawn(m);
		break;
	case MEMBER_DO_SAY_STARTED:
		member_say_started(m);
		break;
	case MEMBER_DO_STOP:
		supervisor_halt(m->sv, m->cause, m->stop_timeout_ms, false);
		break;
	case MEMBER_DO_SAY_STOPPED:
		member_say_stopped(m);
		break;
	case MEMBER_DO_KILL:
		supervisor_halt(m->sv, "the lease of this host is over", 0, true);
		break;
	case MEMBER_DO_SAY_LEAVE:
		member_say_leave(m);
		break;
	case MEMBER_DO_SAY_BYE:
		member_say_bye(m);
		break;
	}
}

/* The member's lease is over a tenth before the head's: the guard kills halfway between. On the
 * head's own host no worker outlives the lead. */
void member_fence(const struct member *m)
{
	const struct lease_member *l = &m->lease;
	uint64_t deadline = l->deadline_ms;

	if (m->hosts->head && m->hosts->lead && m->hosts->lead->until_ms < deadline)
		deadline = m->hosts->lead->until_ms;
	guard_fence(member_has_workers(m->state) && deadline != UINT64_MAX
			    ? deadline + l->lease_ms / 20
			    : 0);
}

void member_post(struct member *m, enum member_event event)
{
	struct member_change c;
	int r = member_change(m->state, event, m->leaving, &c);

	if (event == MEMBER_EV_LEAVE)
		m->leaving = true;
	if (r < 0)
		log_error("member event %s cannot happen while %s", member_event_name(event),
			member_state_name(m->state));
	if (r)
		return;
	log_debug("member: %s -> %s (%s)", member_state_name(m->state), member_state_name(c.next),
		member_event_name(event));
	m->state = c.next;
	member_fence(m);
	member_act(m, c.action);
	if (event == MEMBER_EV_LOST && *m->hosts->stop_text && !m->hosts->lead &&
		loop_defer(supervisor_loop(m->sv), hosts_stop_alone, m->hosts) < 0)
		log_error("out of memory: this host is not stopped");
	if (m->state == MEMBER_OVER) {
		if (event != MEMBER_EV_END)
			hosts_hand_over(m->hosts);
		hosts_check_over(m->hosts);
	}
}

bool member_is_away(const struct member *m)
{
	return m->state == MEMBER_AWAY || m->state == MEMBER_JOINING;
}

bool member_is_admitted(const struct member *m)
{
	return !member_is_away(m) && m->state != MEMBER_FENCED && m->state != MEMBER_OVER;
}

bool member_lease_holds(struct member *m)
{
	if (!member_is_admitted(m) || lease_holds(&m->lease, hosts_now_ms()))
		return true;
	log_warning("the head has not answered for %" PRIu64 " ms: the lease of this host is over",
		m->lease.lease_ms - m->lease.lease_ms / 10);
	member_post(m, MEMBER_EV_LOST);
	return false;
}

void member_arm_lease(struct member *m)
{
	uint64_t now = hosts_now_ms();

	if (m->lease.deadline_ms == UINT64_MAX)
		return;
	loop_timer_arm(m->lease_timer, m->lease.deadline_ms > now ? m->lease.deadline_ms - now : 0);
}

static void member_on_lease(void *arg)
{
	struct member *m = arg;

	if (member_lease_holds(m) && member_has_workers(m->state))
		member_arm_lease(m);
}

/* Whether an event is due: at once if the clock has jumped, every ten minutes if it drifts. */
static bool member_clock_differs(const struct member *m, int64_t offset_us)
{
	int64_t by = llabs(offset_us - m->noted_offset_us);

	if (m->hosts->head)
		return by > 0;
	if (by < MEMBER_CLOCK_US + m->clock.uncertainty_us)
		return false;
	return by >= MEMBER_CLOCK_JUMP_US || !m->noted_clock_ms ||
	       hosts_now_ms() - m->noted_clock_ms >= MEMBER_CLOCK_MS;
}

/* Adds an event "clock", by which `elasticctl plot` shows the events of all hosts on one clock. */
static void member_note_clock(struct member *m)
{
	bool leads = m->hosts->head;
	int64_t offset = leads ? 0 : m->clock.offset_us;
	char took[DURATION_TEXT_MAX], text[128];

	if (!m->clock.clock_known || !supervisor_events(m->sv) || !member_clock_differs(m, offset))
		return;
	m->noted_offset_us = offset;
	m->noted_clock_ms = hosts_now_ms();
	if (leads)
		snprintf(text, sizeof(text), "this host leads: its clock is the group's");
	else
		snprintf(text, sizeof(text),
			"the clock of this host is %s %s that of the host that leads",
			duration_text(llabs(offset) / 1000, took),
			offset < 0 ? "ahead of" : "behind");
	supervisor_event(m->sv, "clock", -1,
		json_pack("{s:I, s:I}", "offset_us", (json_int_t)offset, "uncertainty_us",
			leads ? (json_int_t)0 : (json_int_t)m->clock.uncertainty_us),
		"%s", text);
}

/* The head has answered a beat. It counts for no lease if it was sent before the present Join. */
static void member_on_beat(void *arg, const struct link_beat *beat)
{
	struct member *m = arg;
	uint64_t sent = (uint64_t)beat->sent_boot_us / 1000;

	if (member_is_away(m) || m->state == MEMBER_OVER || sent < m->lease.sent_ms)
		return;
	m->clock = *beat;
	m->answered_ms = hosts_now_ms();
	member_note_clock(m);
	if (!lease_answer(&m->lease, sent, hosts_now_ms()))
		return;
	member_arm_lease(m);
	if (m->hosts->head && m->hosts->lead)
		lead_arm(m->hosts->lead);
	member_fence(m);
}

void member_give_up(struct member *m, const char *result, int status, const char *text)
{
	_cleanup_json_ json_t *verdict = json_pack(
		"{s:s, s:i, s:s}", "result", result, "exit_status", status, "message", text);

	m->state = MEMBER_OVER;
	member_say_bye(m);
	supervisor_take_verdict(m->sv, verdict, false);
	hosts_check_over(m->hosts);
}

/* The link has ended for good. forgotten: the head does not know this host any more. */
static void member_link_ended(struct member *m, const struct error *why, bool forgotten)
{
	char text[SUPERVISOR_REASON_MAX];

	if (m->state == MEMBER_OVER)
		return;
	/* Only a head of this group knows its secret, and so can refuse this host. */
	if (m->hosts->lead && (forgotten || why->code != -ECONNREFUSED)) {
		member_post(m, MEMBER_EV_LOST);
		lead_unlinked(m->hosts->lead);
		return;
	}
	if (forgotten && why->code != -ETIMEDOUT) {
		if (m->state == MEMBER_AWAY)
			member_connect(m);
		else
			member_post(m, MEMBER_EV_LOST);
		return;
	}
	if (!member_is_away(m)) {
		log_warning("the link to the head has ended: %s", why->text);
		if (why->code != -ETIMEDOUT) /* one side has broken the protocol: join no more */
			snprintf(m->refused, sizeof(m->refused), "%.500s", why->text);
		member_post(m, MEMBER_EV_LOST);
		return;
	}
	if (m->was_member && why->code == -ETIMEDOUT) {
		snprintf(text, sizeof(text), "the head's host %.64s was lost: %.400s",
			m->head_host ? m->head_host : "", why->text);
		member_give_up(m, "agent_lost", 125, text);
	} else {
		member_give_up(m, why->code == -ETIMEDOUT ? "timeout" : "failed",
			why->code == -ETIMEDOUT ? 124 : 1, why->text);
	}
}

static void member_cut_calls(struct member *m)
{
	char why[160];

	snprintf(why, sizeof(why), "the link to host %.64s, which leads the group, is lost",
		m->head_host ? m->head_host : "");
	member_relay_cut(m, why);
}

void member_leave_head(struct member *m)
{
	if (m->link) {
		m->link = link_free(m->link);
		m->linked = false;
		member_calls_cut(m);
		member_cut_calls(m);
		hosts_fail_drains(m->hosts);
	}
	member_post(m, MEMBER_EV_LOST);
}

/* Gives the guard the message that it sends to the head when this agent has died. */
static void member_leave_last_word(const struct member *m)
{
	struct sockaddr_storage to;
	char text[FENCE_TEXT_MAX];
	ssize_t len = link_last_word(m->link, text, sizeof(text), &to);

	if (len > 0 && !m->hosts->head) /* the guard of the head's host tells the deputy */
		fence_last_word((const struct sockaddr *)&to, sizeof(to), text, (size_t)len);
}

static void member_on_state(void *arg, enum link_state state, const struct error *why)
{
	struct member *m = arg;
	bool was_linked = m->linked;

	m->linked = state == LINK_UP;
	if (state == LINK_UP) {
		free(m->head_host);
		m->head_host = strdup(link_peer(m->link)->host);
		member_leave_last_word(m);
		if (m->hosts->lead)
			lead_linked(m->hosts->lead);
		if (m->state == MEMBER_AWAY)
			member_post(m, MEMBER_EV_LINKED);
	} else if (state == LINK_WAITING) {
		log_notice("%s%s", was_linked ? "the link to the head is broken: " : "", why->text);
		if (m->hosts->lead)
			lead_unlinked(m->hosts->lead);
	} else {
		struct error copy = why ? *why : (struct error){ 0 };
		/* Only a head that has forgotten this host refuses a link that was up before. */
		bool forgotten = !was_linked && link_peer(m->link)->head;

		m->link = link_free(m->link);
		member_calls_cut(m);
		member_cut_calls(m);
		hosts_fail_drains(m->hosts);
		if (why)
			member_link_ended(m, &copy, forgotten);
		hosts_check_over(m->hosts);
	}
}

static const struct link_events member_link_events = {
	.message = member_hear,
	.state = member_on_state,
	.beat = member_on_beat,
};

void member_connect(struct member *m)
{
	const struct spec_rendezvous *z = &m->hosts->spec->rendezvous;
	struct link_options o = {
		.self = { .group = hosts_group(m->hosts),
			.agent = m->hosts->agent,
			.boot = m->hosts->boot,
			.host = supervisor_host(m->sv) },
		.endpoint = m->hosts->endpoint,
		.limit_ms = (uint64_t)z->join_timeout_ms,
		.lease_ms = (uint64_t)z->lease_ms,
		.tls = m->hosts->tls,
		.events = &member_link_events,
		.arg = m,
	};
	struct error err = { 0 };

	if (link_connect(supervisor_loop(m->sv), &o, &m->link, &err) < 0)
		member_give_up(m, "failed", 1, err.text);
}

int member_new(struct hosts *hosts, struct member **ret, struct error *err)
{
	struct member *m = calloc(1, sizeof(*m));

	if (!m)
		return error_set(err, -ENOMEM, "out of memory");
	m->hosts = hosts;
	m->sv = hosts->sv;
	m->state = MEMBER_AWAY;
	m->last_rank = -1;
	m->stop_timeout_ms = SPEC_UNSET;
	m->reported = json_array();
	if (!m->reported ||
		loop_timer_new(supervisor_loop(m->sv), member_on_lease, m, &m->lease_timer) < 0) {
		member_free(m);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret = m;
	return 0;
}

struct member *member_free(struct member *m)
{
	if (!m)
		return NULL;
	loop_cancel(supervisor_loop(m->sv), member_rejoin_now, m);
	member_calls_close(m);
	calls_out_cut(&m->calls, "this host's agent ends");
	calls_out_fini(&m->calls);
	link_free(m->link);
	loop_timer_free(m->lease_timer);
	member_seat_fini(&m->seat);
	member_start_fini(&m->start);
	json_decref(m->failures);
	json_decref(m->reported);
	free(m->head_host);
	free(m);
	return NULL;
}
