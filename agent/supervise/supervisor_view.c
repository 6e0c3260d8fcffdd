/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/private.h"

struct loop *supervisor_loop(const struct supervisor *sv)
{
	return sv->loop;
}

const struct spec *supervisor_spec(const struct supervisor *sv)
{
	return sv->spec;
}

const struct supervisor_options *supervisor_options(const struct supervisor *sv)
{
	return &sv->opt;
}

struct logs *supervisor_logs(const struct supervisor *sv)
{
	return sv->logs;
}

struct events *supervisor_events(const struct supervisor *sv)
{
	return sv->events;
}

const struct group *supervisor_group(const struct supervisor *sv)
{
	return &sv->group;
}

const struct feature *const *supervisor_features(const struct supervisor *sv)
{
	return sv->opt.features;
}

const char *supervisor_host(const struct supervisor *sv)
{
	return sv->host;
}

const char *supervisor_dir(const struct supervisor *sv)
{
	return sv->opt.state_dir ? sv->opt.state_dir : logs_run_dir(sv->logs);
}

int supervisor_attempt(const struct supervisor *sv)
{
	return sv->attempt;
}

int supervisor_agents(const struct supervisor *sv)
{
	return sv->agents;
}

int64_t supervisor_created_us(const struct supervisor *sv)
{
	return sv->created_us;
}

const char *supervisor_reason(const struct supervisor *sv)
{
	return sv->reason;
}

bool supervisor_leader_over(const struct supervisor *sv)
{
	return sv->leader.over;
}

int supervisor_stopped_by(const struct supervisor *sv)
{
	return sv->stopped_by;
}

bool supervisor_ended(const struct supervisor *sv)
{
	return sv->ended;
}

const char *supervisor_end_message(const struct supervisor *sv)
{
	return sv->end.message;
}

bool supervisor_guard_died(const struct supervisor *sv)
{
	return sv->guard_died;
}

bool supervisor_no_verdict(const struct supervisor *sv)
{
	return sv->no_verdict;
}

bool supervisor_finalising(const struct supervisor *sv)
{
	return sv->features.finalising;
}

int supervisor_replicas(const struct supervisor *sv, size_t role)
{
	return sv->replicas[role];
}

void supervisor_scale(struct supervisor *sv, size_t role, int n)
{
	sv->replicas[role] = n;
}

bool supervisor_ready(const struct supervisor *sv)
{
	return sv->group.state == GROUP_RUNNING && !sv->unready;
}

void supervisor_set_unready(struct supervisor *sv, bool unready)
{
	sv->unready = unready;
}

bool supervisor_on_notice(const struct supervisor *sv)
{
	return sv->on_notice;
}

void supervisor_set_notice(struct supervisor *sv, bool up)
{
	sv->on_notice = up;
}

int supervisor_n_workers(const struct supervisor *sv)
{
	return sv->n_workers;
}

int supervisor_master_port(const struct supervisor *sv)
{
	return sv->master.port;
}

void supervisor_show_budget(struct supervisor *sv, const struct restart_budget *b)
{
	sv->budget = *b;
}

struct worker *supervisor_worker(const struct supervisor *sv, int place)
{
	return &sv->workers[place];
}
