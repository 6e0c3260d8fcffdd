/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"

#include "agent/supervise/private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define EACH(sv, f)                                          \
	const struct feature *const *f = (sv)->opt.features; \
	f &&*f;                                              \
	f++

static void **feature_place(const struct supervisor *sv, const struct feature *f)
{
	for (size_t i = 0; sv->feature_states && sv->opt.features[i]; i++)
		if (sv->opt.features[i] == f)
			return &sv->feature_states[i];
	return NULL;
}

void *feature_state(const struct supervisor *sv, const struct feature *f)
{
	void **place = feature_place(sv, f);

	return place ? *place : NULL;
}

void feature_set_state(struct supervisor *sv, const struct feature *f, void *state)
{
	void **place = feature_place(sv, f);

	assert(place);
	*place = state;
}

int features_new(struct supervisor *sv)
{
	size_t n = 0;

	for (EACH(sv, f))
		n++;
	sv->feature_states = calloc(n + 1, sizeof(*sv->feature_states));
	return sv->feature_states ? 0 : -ENOMEM;
}

int features_init(struct supervisor *sv, struct error *err)
{
	int r = 0;

	for (EACH(sv, f)) {
		sv->n_features++;
		if ((*f)->init)
			r = (*f)->init(sv, err);
		if (r < 0)
			return r;
	}
	for (EACH(sv, f)) {
		if ((*f)->ready)
			r = (*f)->ready(sv, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void features_hang_up(struct supervisor *sv)
{
	for (size_t i = 0; i < sv->n_features; i++)
		if (sv->opt.features[i]->hang_up)
			sv->opt.features[i]->hang_up(sv);
}

void features_fini(struct supervisor *sv)
{
	size_t n = 0;

	sv->finalising = true;
	for (EACH(sv, f))
		n++;
	while (n > 0) {
		const struct feature *f = sv->opt.features[--n];

		if (f->fini)
			f->fini(sv);
	}
	free(sv->feature_states);
	sv->feature_states = NULL;
}

int features_attempt_prepared(struct supervisor *sv, struct error *err)
{
	int r = 0;

	for (EACH(sv, f)) {
		if ((*f)->attempt_prepared)
			r = (*f)->attempt_prepared(sv, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int features_environment(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	int r = 0;

	for (EACH(sv, f)) {
		if ((*f)->worker_environment)
			r = (*f)->worker_environment(sv, w, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Returns true from the calling function if a hook does, else false. */
#define ANY(sv, hook, ...)                                           \
	do {                                                         \
		for (EACH(sv, f_))                                   \
			if ((*f_)->hook && (*f_)->hook(__VA_ARGS__)) \
				return true;                         \
		return false;                                        \
	} while (0)

/* Returns from the calling function what the first feature says that has the hook, else none. */
#define FIRST(sv, none, hook, ...)                               \
	do {                                                     \
		for (EACH(sv, f_))                               \
			if ((*f_)->hook)                         \
				return (*f_)->hook(__VA_ARGS__); \
		return none;                                     \
	} while (0)

bool features_rendezvous(struct supervisor *sv)
{
	ANY(sv, rendezvous, sv);
}

bool features_delay_attempt(struct supervisor *sv, feature_ready_fn fn, void *arg)
{
	ANY(sv, delays_attempt, sv, fn, arg);
}

bool features_decide(struct supervisor *sv, enum group_decision_step step)
{
	ANY(sv, decides, sv, step);
}

bool features_take_request(
	struct supervisor *sv, enum group_event event, int64_t timeout_ms, const char *why)
{
	ANY(sv, takes_request, sv, event, timeout_ms, why);
}

bool features_delay_decision(struct supervisor *sv)
{
	ANY(sv, delays_decision, sv);
}

bool features_hosts_delay_decision(struct supervisor *sv)
{
	ANY(sv, hosts_delay_decision, sv);
}

bool features_take_notice(struct supervisor *sv, const char *source, const char *reason,
	int64_t grace_ms, int64_t deadline_us)
{
	ANY(sv, takes_notice, sv, source, reason, grace_ms, deadline_us);
}

bool features_relay_call(struct supervisor *sv, struct varlink_call *call, json_t *parameters)
{
	ANY(sv, relays_call, sv, call, parameters);
}

bool features_save_hosts(struct supervisor *sv, const char *why)
{
	ANY(sv, saves_hosts, sv, why);
}

json_t *features_hosts_samples(struct supervisor *sv, bool barrier)
{
	FIRST(sv, NULL, hosts_samples, sv, barrier);
}

bool features_take_signal(struct supervisor *sv, int signo)
{
	ANY(sv, takes_signal, sv, signo);
}

bool features_signal_worker(struct supervisor *sv, struct worker *w, int signo)
{
	ANY(sv, signals_worker, sv, w, signo);
}

bool features_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	ANY(sv, child_exited, sv, si);
}

bool features_past_ends_job(struct supervisor *sv)
{
	ANY(sv, past_ends_job, sv);
}

bool features_rely_on_disk(const struct supervisor *sv)
{
	ANY(sv, relies_on_disk, sv);
}

int features_hold_answers(const struct supervisor *sv, uint64_t *mark)
{
	FIRST(sv, 0, holds_answers, sv, mark);
}

int features_hosts_stepped(
	struct supervisor *sv, int first_rank, int n, const json_t *steps, struct error *err)
{
	FIRST(sv, 0, hosts_stepped, sv, first_rank, n, steps, err);
}

int features_hosts_recorded(struct supervisor *sv, const json_t *recorded, struct error *err)
{
	FIRST(sv, 0, hosts_recorded, sv, recorded, err);
}

json_t *features_hosts_records(struct supervisor *sv, const json_t *records)
{
	FIRST(sv, NULL, hosts_records, sv, records);
}

bool features_hosts_have_records(const struct supervisor *sv, const json_t *edition)
{
	ANY(sv, hosts_has_records, sv, edition);
}

int features_exit_status(const struct supervisor *sv, const struct worker *w)
{
	for (EACH(sv, f)) {
		int status = (*f)->exit_status ? (*f)->exit_status(sv, w) : -1;

		if (status >= 0)
			return status;
	}
	return -1;
}

size_t features_helper_pids(struct supervisor *sv, pid_t *pids, size_t max)
{
	size_t n = 0;

	for (EACH(sv, f))
		if ((*f)->helper_pids)
			n += (*f)->helper_pids(sv, pids + n, max - n);
	return n;
}

static void features_next_last(void *arg)
{
	struct supervisor *sv = arg;

	while (sv->opt.features && sv->opt.features[sv->n_last]) {
		const struct feature *f = sv->opt.features[sv->n_last++];

		if (f->last_answers && f->last_answers(sv, features_next_last, sv))
			return;
	}
	sv->last_fn(sv->last_arg);
}

void features_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	sv->n_last = 0;
	sv->last_fn = fn;
	sv->last_arg = arg;
	features_next_last(sv);
}

static size_t features_count_methods(const struct varlink_method *m)
{
	size_t n = 0;

	while (m && m[n].name)
		n++;
	return n;
}

struct varlink_method *features_methods(const struct supervisor *sv, bool workers)
{
	struct varlink_method *all;
	size_t n = 0;

	for (EACH(sv, f))
		n += features_count_methods(workers ? (*f)->worker_methods : (*f)->manager_methods);
	all = calloc(n + 1, sizeof(*all));
	n = 0;
	for (EACH(sv, f)) {
		const struct varlink_method *m =
			workers ? (*f)->worker_methods : (*f)->manager_methods;

		for (; all && m && m->name; m++)
			all[n++] = *m;
	}
	return all;
}

void features_interfaces(
	struct supervisor *sv, bool workers, struct varlink_interface_options *more, size_t max)
{
	size_t n = 0;

	for (EACH(sv, f))
		if (n + 1 < max && (*f)->interface && (*f)->interface(sv, workers, &more[n]))
			n++;
	more[n] = (struct varlink_interface_options){ .idl = NULL };
}
