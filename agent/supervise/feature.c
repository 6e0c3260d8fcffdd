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
	for (size_t i = 0; sv->features.states && sv->opt.features[i]; i++)
		if (sv->opt.features[i] == f)
			return &sv->features.states[i];
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
	sv->features.states = calloc(n + 1, sizeof(*sv->features.states));
	return sv->features.states ? 0 : -ENOMEM;
}

int features_init(struct supervisor *sv, struct error *err)
{
	int r = 0;

	for (EACH(sv, f)) {
		sv->features.n++;
		if ((*f)->init)
			r = (*f)->init(sv, err);
		if (r < 0)
			return r;
	}
	return FEATURES_TRY(sv, ready, sv, err);
}

void features_hang_up(struct supervisor *sv)
{
	for (size_t i = 0; i < sv->features.n; i++)
		if (sv->opt.features[i]->hang_up)
			sv->opt.features[i]->hang_up(sv);
}

void features_fini(struct supervisor *sv)
{
	size_t n = 0;

	sv->features.finalising = true;
	for (EACH(sv, f))
		n++;
	while (n > 0) {
		const struct feature *f = sv->opt.features[--n];

		if (f->fini)
			f->fini(sv);
	}
	free(sv->features.states);
	sv->features.states = NULL;
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

	while (sv->opt.features && sv->opt.features[sv->features.n_last]) {
		const struct feature *f = sv->opt.features[sv->features.n_last++];

		if (f->last_answers && f->last_answers(sv, features_next_last, sv))
			return;
	}
	sv->features.last_fn(sv->features.last_arg);
}

void features_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	sv->features.n_last = 0;
	sv->features.last_fn = fn;
	sv->features.last_arg = arg;
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
