/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/verdict.h"
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

void seat_free(struct supervisor *sv)
{
	if (sv->seat)
		free((void *)sv->seat->roles);
	free(sv->seat);
	free(sv->master.addr);
	sv->seat = NULL;
	sv->master.addr = NULL;
}

static struct seat *seat_copy(const struct supervisor *sv, const struct seat *seat)
{
	struct seat *s = malloc(sizeof(*s));
	size_t n = sv->spec->n_roles;
	struct seat_role *roles = calloc(n, sizeof(*roles));

	if (!s || !roles) {
		free(s);
		free(roles);
		return NULL;
	}
	memcpy(roles, seat->roles, n * sizeof(*roles));
	*s = *seat;
	s->roles = roles;
	s->starts = NULL;
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
	struct seat *s = seat_copy(sv, seat);
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
	free(sv->master.addr);
	sv->master.addr = addr;
	sv->master.port = master_port;
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

static const struct verdict_result *seat_verdict_result(const json_t *verdict)
{
	const struct verdict_result *r = verdict_result(json_get_string(verdict, "result", ""));

	return r ? r : verdict_result("failed");
}

void supervisor_take_verdict(struct supervisor *sv, const json_t *verdict, bool report)
{
	enum group_event event = seat_verdict_result(verdict)->event;
	bool success = event == GROUP_EV_DONE;

	json_decref(sv->verdict_given);
	sv->verdict_given = json_deep_copy(verdict);
	sv->reports = report;
	supervisor_set_reason(sv, "%s", success ? "" : json_get_string(verdict, "message", ""));
	supervisor_post(sv, event);
}

bool seat_set_verdict(struct supervisor *sv)
{
	const json_t *verdict = sv->verdict_given;

	if (!verdict)
		return false;
	sv->end.result = seat_verdict_result(verdict)->name;
	sv->end.exit_status = (int)json_get_int(verdict, "exit_status", 1);
	snprintf(sv->end.message, sizeof(sv->end.message), "%s",
		json_get_string(verdict, "message", ""));
	json_decref(sv->end.root_cause);
	sv->end.root_cause = json_deep_copy(json_get_object(verdict, "root_cause"));
	if (sv->end.root_cause)
		run_failures_copy_groups(sv);
	return true;
}
