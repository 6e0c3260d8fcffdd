/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/private.h"

#include "agent/sharing/commons.h"
#include "agent/sharing/group.h"
#include "agent/sharing/relay.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * Stragglers of a group of several hosts: each host sends its looks to the head, which sends all
 * hosts the names of the workers that are slow.
 */

/* --- every host --- */

bool speed_hosts_offset_us(const struct speed *sp, int64_t *ret)
{
	*ret = 0;
	return supervisor_spec(sp->sv)->speed.straggler != SPEC_UNSET &&
	       sharing_head_offset_us(sp->sv, ret);
}

/* The first rank of this host's workers: the others follow without a gap. */
static int hosts_first_rank(const struct supervisor *sv)
{
	int first = INT_MAX;

	for (int i = 0; i < supervisor_n_workers(sv); i++)
		if (supervisor_worker(sv, i)->rank < first)
			first = supervisor_worker(sv, i)->rank;
	return first;
}

bool speed_hosts_send_looks(struct speed *sp, uint64_t moment)
{
	size_t n = (size_t)supervisor_n_workers(sp->sv);
	int first = hosts_first_rank(sp->sv);
	_cleanup_free_ uint64_t *counts = NULL;
	_cleanup_free_ int64_t *last = NULL;
	json_t *steps;

	if (!sharing_has_head(sp->sv))
		return false;
	counts = calloc(n + 1, sizeof(*counts));
	last = calloc(n + 1, sizeof(*last));
	for (size_t i = 0; counts && last && i < n; i++) {
		const struct worker *w = supervisor_worker(sp->sv, (int)i);
		struct speed_worker *s = w->state == WORKER_RUNNING ? speed_entry(sp, w) : NULL;
		size_t place = (size_t)(w->rank - first);
		struct speed_steps now;

		if (!s || place >= n || !speed_read(sp, w, &now))
			continue;
		counts[place] = now.count;
		last[place] = now.last;
		step_window_add(&s->pace.window, 0, loop_now_ms(), now.count, 0);
	}
	if (!sp->moment_common || !counts || !last)
		return true;
	steps = batch_add(&sp->batch, moment, counts, last, n);
	if (steps)
		sharing_send_to_head(sp->sv, "Steps", steps);
	return true;
}

void speed_hosts_ended(struct speed *sp, const struct worker *w)
{
	batch_forget(&sp->batch, (size_t)(w->rank - hosts_first_rank(sp->sv)));
}

static struct speed_worker *hosts_entry(struct speed *sp, int64_t rank)
{
	for (int i = 0; i < supervisor_n_workers(sp->sv); i++)
		if (supervisor_worker(sp->sv, i)->rank == rank)
			return speed_entry(sp, supervisor_worker(sp->sv, i));
	return NULL;
}

/* text: for people; NULL: the worker is no straggler any more. */
static void hosts_set_straggler(struct speed *sp, const char *name, json_t *text)
{
	if (!sp->slow || sp->slow_attempt != supervisor_attempt(sp->sv)) {
		json_decref(sp->slow);
		sp->slow = json_object();
	}
	sp->slow_attempt = supervisor_attempt(sp->sv);
	if (text)
		json_put(sp->slow, name, text);
	else
		json_object_del(sp->slow, name);
}

void speed_hosts_describe(const struct speed *sp, json_t *job)
{
	json_t *list, *text;
	const char *name;

	if (!json_object_size(sp->slow) || sp->slow_attempt != supervisor_attempt(sp->sv))
		return;
	list = json_array();
	json_object_foreach (sp->slow, name, text)
		json_add(list, json_incref(text));
	json_put(job, "stragglers", list);
}

void speed_hosts_straggler(struct supervisor *sv, const json_t *p)
{
	struct speed *sp = speed_of(sv);
	bool over = json_get_bool(p, "over", false);
	int rank = (int)json_get_int(p, "rank", -1);
	const char *name = json_get_string(p, "worker", ""), *host = json_get_string(p, "host", "");
	const char *text = json_get_string(p, "text", "");
	struct speed_worker *s;

	if (!sp || json_get_int(p, "attempt", -1) != supervisor_attempt(sv))
		return;
	s = hosts_entry(sp, rank);
	if (s)
		snprintf(s->slow_text, sizeof(s->slow_text), "%s", over ? "" : text);
	hosts_set_straggler(
		sp, name, over ? NULL : json_sprintf("%s of host %s %s", name, host, text));
	supervisor_report(sv, over ? LOG_NOTICE : LOG_WARNING,
		over ? "straggler-over" : "straggler", rank,
		json_pack("{s:s, s:I, s:s}", "worker", name, "percent",
			(json_int_t)json_get_int(p, "percent", 0), "host", host),
		"%s of host %s %s", name, host, text);
}

/* --- the head --- */

static void hosts_news(void *arg, int rank, bool over, int percent, const char *text)
{
	struct speed *sp = arg;
	const struct worker *w = commons_at(sp->commons, rank);

	sharing_send_to_hosts(sp->sv, "Straggler",
		json_pack("{s:i, s:s, s:i, s:s, s:b, s:i, s:s}", "attempt",
			sp->commons->owner.attempt(sp->commons->owner.arg), "worker",
			commons_slot_name(sp->commons, w->slot), "rank", rank, "host",
			sharing_host_of(sp->sv, rank), "over", over, "percent", percent, "text",
			text));
}

void speed_hosts_lead(struct supervisor *sv, const struct hosts_lead *lead)
{
	struct speed *sp = speed_of(sv);
	const struct spec *spec = supervisor_spec(sv);
	const struct speed_group_options opt = { .window_ms = (uint64_t)spec->speed.window_ms,
		.limit = spec->speed.straggler,
		.n_roles = spec->n_roles,
		.news = hosts_news,
		.arg = sp };

	if (!sp)
		return;
	sp->group = speed_group_free(sp->group);
	sp->commons = lead ? lead->commons : NULL;
	if (!lead || spec->speed.straggler == SPEC_UNSET)
		return;
	sp->group = speed_group_new(&opt);
	if (!sp->group)
		log_error("out of memory: stragglers are not named");
}

static struct speed_group *hosts_group(const struct supervisor *sv)
{
	return speed_of(sv) ? speed_of(sv)->group : NULL;
}

void speed_hosts_begin(struct supervisor *sv)
{
	struct speed_group *g = hosts_group(sv);

	if (g && speed_group_begin(g, commons_count(speed_of(sv)->commons)) < 0)
		log_error("out of memory: stragglers of this attempt are not named");
}

void speed_hosts_stopping(struct supervisor *sv)
{
	if (hosts_group(sv))
		speed_group_over(hosts_group(sv));
}

void speed_hosts_worker_started(struct supervisor *sv, struct worker *w)
{
	if (hosts_group(sv))
		speed_group_started(
			hosts_group(sv), w->place, (size_t)(w->role - supervisor_spec(sv)->roles));
}

void speed_hosts_worker_exited(struct supervisor *sv, struct worker *w, const json_t *report)
{
	if (hosts_group(sv))
		speed_group_ended(hosts_group(sv), w->place);
}

int speed_hosts_stepped(
	struct supervisor *sv, int first_rank, int n, const json_t *steps, struct error *err)
{
	return hosts_group(sv) ? speed_group_receive(hosts_group(sv), first_rank, n, steps,
					 loop_real_us(), supervisor_on_notice(sv), err)
			       : 0;
}

void speed_hosts_free(struct speed *sp)
{
	batch_fini(&sp->batch);
	sp->group = speed_group_free(sp->group);
	json_decref(sp->slow);
}
