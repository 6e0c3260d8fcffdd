/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"

#include <stdlib.h>

#define EACH(a, f)                                      \
	const struct feature *const *f = (a)->features; \
	f &&*f;                                         \
	f++

int features_init(struct agent *a, struct error *err)
{
	int r = 0;

	for (EACH(a, f)) {
		a->n_features++;
		if ((*f)->init)
			r = (*f)->init(a, err);
		if (r < 0)
			return r;
	}
	for (EACH(a, f)) {
		if ((*f)->serve)
			r = (*f)->serve(a, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void features_hang_up(struct agent *a)
{
	for (size_t i = 0; i < a->n_features; i++)
		if (a->features[i]->hang_up)
			a->features[i]->hang_up(a);
}

void features_fini(struct agent *a)
{
	while (a->n_features > 0) {
		const struct feature *f = a->features[--a->n_features];

		if (f->fini)
			f->fini(a);
	}
}

int features_environment(const struct agent *a, const struct task *t, struct env *e)
{
	int r = 0;

	for (EACH(a, f)) {
		if ((*f)->worker_environment)
			r = (*f)->worker_environment(a, t, e);
		if (r < 0)
			return r;
	}
	return 0;
}

#define ANY(a, hook, ...)                                            \
	do {                                                         \
		for (EACH(a, f_))                                    \
			if ((*f_)->hook && (*f_)->hook(__VA_ARGS__)) \
				return true;                         \
		return false;                                        \
	} while (0)

bool features_hold_decision(struct agent *a)
{
	ANY(a, holds_decision, a);
}

bool features_take_signal(struct agent *a, int signo)
{
	ANY(a, takes_signal, a, signo);
}

bool features_signal_worker(struct agent *a, struct task *t, int signo)
{
	ANY(a, signals_worker, a, t, signo);
}

bool features_child_exited(struct agent *a, const siginfo_t *si)
{
	ANY(a, child_exited, a, si);
}

bool features_past_ends_job(struct agent *a)
{
	ANY(a, past_ends_job, a);
}

bool features_rely_on_disk(const struct agent *a)
{
	ANY(a, relies_on_disk, a);
}

int features_exit_status(const struct agent *a, const struct task *t)
{
	for (EACH(a, f)) {
		int status = (*f)->exit_status ? (*f)->exit_status(a, t) : -1;

		if (status >= 0)
			return status;
	}
	return -1;
}

size_t features_helper_pids(struct agent *a, pid_t *pids, size_t max)
{
	size_t n = 0;

	for (EACH(a, f))
		if ((*f)->helper_pids)
			n += (*f)->helper_pids(a, pids + n, max - n);
	return n;
}

void features_last_answers(struct agent *a, loop_fn fn, void *arg)
{
	for (EACH(a, f))
		if ((*f)->last_answers && (*f)->last_answers(a, fn, arg))
			return;
	fn(arg);
}

static size_t methods_count(const struct varlink_method *m)
{
	size_t n = 0;

	while (m && m[n].name)
		n++;
	return n;
}

struct varlink_method *features_methods(const struct agent *a, bool workers)
{
	struct varlink_method *all;
	size_t n = 0;

	for (EACH(a, f))
		n += methods_count(workers ? (*f)->worker_methods : (*f)->manager_methods);
	all = calloc(n + 1, sizeof(*all));
	n = 0;
	for (EACH(a, f)) {
		const struct varlink_method *m =
			workers ? (*f)->worker_methods : (*f)->manager_methods;

		for (; all && m && m->name; m++)
			all[n++] = *m;
	}
	return all;
}

void features_interfaces(struct agent *a, bool workers, struct varlink_also *also, size_t max)
{
	size_t n = 0;

	for (EACH(a, f))
		if (n + 1 < max && (*f)->interface && (*f)->interface(a, workers, &also[n]))
			n++;
	also[n] = (struct varlink_also){ .idl = NULL };
}
