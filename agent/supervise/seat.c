/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "agent/supervise/tfconfig.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Carries out the orders of the head of a group of several hosts, which decides in place of the
 * core, for the workers of this host.
 */

static void seat_done(struct supervisor_seat *s)
{
	if (!s)
		return;
	free((void *)s->seat.roles);
	free(s->master_addr);
	free(s);
}

void seat_free(struct supervisor *sv)
{
	seat_done(sv->seat);
	sv->seat = NULL;
}

static struct supervisor_seat *seat_copy(const struct supervisor *sv, const struct seat *seat)
{
	struct supervisor_seat *s = calloc(1, sizeof(*s));
	size_t n = sv->spec->n_roles;
	struct seat_role *roles = calloc(n, sizeof(*roles));

	if (!s || !roles) {
		free(s);
		free(roles);
		return NULL;
	}
	memcpy(roles, seat->roles, n * sizeof(*roles));
	s->seat = *seat;
	s->seat.roles = roles;
	s->seat.starts = NULL;
	return s;
}

/* The workers of this host had earlier starts in the attempt, on another one. */
static void seat_count_starts(struct supervisor *sv, const struct seat *seat)
{
	for (int i = 0; i < sv->n_workers && i < seat->n_starts; i++) {
		if (seat->starts[i] < 0)
			worker_set_state(&sv->workers[i], WORKER_SUCCEEDED,
				"it had succeeded on another host");
		else
			sv->workers[i].start = seat->starts[i];
	}
}

int supervisor_prepare(struct supervisor *sv, const struct seat *seat, struct error *err)
{
	struct supervisor_seat *s = seat_copy(sv, seat);
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	seat_free(sv);
	sv->seat = s;
	sv->attempt = seat->attempt;
	sv->budget.used = seat->restarts;
	for (size_t i = 0; i < sv->spec->n_roles; i++)
		sv->replicas[i] = seat->roles[i].replicas;
	r = launch_prepare(sv, seat->master, err);
	if (!r)
		seat_count_starts(sv, seat);
	return r;
}

int supervisor_launch(struct supervisor *sv, const char *master_addr, int master_port,
	const json_t *cluster, struct error *err)
{
	char *addr = strdup(master_addr);
	int r = addr ? tfconfig_set_cluster(sv, cluster, err)
		     : error_set(err, -ENOMEM, "out of memory");

	if (r < 0) {
		free(addr);
		return r;
	}
	free(sv->seat->master_addr);
	sv->seat->master_addr = addr;
	sv->master_port = master_port;
	supervisor_post(sv, GROUP_EV_READY);
	return 0;
}

void supervisor_halt(struct supervisor *sv, const char *cause, int64_t timeout_ms, bool kill)
{
	supervisor_settle(sv);
	memset(&sv->decision, 0, sizeof(sv->decision));
	if (!stop_group_active(sv)) {
		supervisor_set_reason(sv, "%s", cause);
		why_note(sv, cause);
		sv->stop_timeout_ms = timeout_ms;
	}
	supervisor_post(sv, GROUP_EV_RETRY);
	supervisor_settle(sv);
	if (kill && stop_group_active(sv))
		stop_group_kill(sv);
}

static const struct {
	const char *result;
	enum group_event event;
} seat_verdicts[] = {
	{ "succeeded", GROUP_EV_DONE },
	{ "failed", GROUP_EV_FAIL },
	{ "agent_lost", GROUP_EV_FAIL },
	{ "stopped", GROUP_EV_STOP },
	{ "timeout", GROUP_EV_TIMEOUT },
	{ "preempted", GROUP_EV_PREEMPT },
};

static size_t seat_verdict(const json_t *verdict)
{
	const char *result = json_get_string(verdict, "result", "");
	size_t n = sizeof(seat_verdicts) / sizeof(seat_verdicts[0]), i = 0;

	while (i < n && strcmp(seat_verdicts[i].result, result))
		i++;
	return i < n ? i : 1;
}

void supervisor_take_verdict(struct supervisor *sv, const json_t *verdict, bool report)
{
	size_t i = seat_verdict(verdict);

	json_decref(sv->verdict_given);
	sv->verdict_given = json_deep_copy(verdict);
	sv->reports = report;
	supervisor_set_reason(sv, "%s", i ? json_get_string(verdict, "message", "") : "");
	supervisor_post(sv, seat_verdicts[i].event);
}

bool seat_set_verdict(struct supervisor *sv)
{
	const json_t *verdict = sv->verdict_given;

	if (!verdict)
		return false;
	sv->end.result = seat_verdicts[seat_verdict(verdict)].result;
	sv->end.exit_status = (int)json_get_int(verdict, "exit_status", 1);
	snprintf(sv->end.message, sizeof(sv->end.message), "%s",
		json_get_string(verdict, "message", ""));
	json_decref(sv->end.root_cause);
	sv->end.root_cause = json_deep_copy(json_get_object(verdict, "root_cause"));
	if (sv->end.root_cause)
		run_failures_copy_groups(sv);
	return true;
}
