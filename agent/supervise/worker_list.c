/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes the workers of each attempt. Ranks follow the order of the roles, and within a role the
 * order of its replicas, so that a role's workers are contiguous as in torchelastic; added workers
 * come last. Over the attempts a worker of the same role and index keeps its slot and its budget,
 * and stays stopped if an operator stopped it.
 */

struct roster {
	struct roster_entry {
		const struct spec_role *role;
		int index;
	} * entries; /* indexed by slot */
	int n;
};

void worker_list_free_roster(struct supervisor *sv)
{
	if (sv->roster)
		free(sv->roster->entries);
	free(sv->roster);
	sv->roster = NULL;
}

static bool roster_is(const struct roster *r, int slot, const struct worker *w)
{
	return slot < r->n && r->entries[slot].role == w->role &&
	       r->entries[slot].index == w->index;
}

static int roster_slot(struct supervisor *sv, const struct worker *w)
{
	struct roster *r = sv->roster;
	struct roster_entry *bigger;

	if (!r)
		r = sv->roster = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (roster_is(r, w->place, w)) /* always, unless the job was scaled */
		return w->place;
	for (int i = 0; i < r->n; i++)
		if (roster_is(r, i, w))
			return i;
	bigger = reallocarray(r->entries, (size_t)r->n + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	r->entries = bigger;
	r->entries[r->n] = (struct roster_entry){ .role = w->role, .index = w->index };
	return r->n++;
}

static struct worker *roster_find(
	struct worker *workers, int n, const struct spec_role *role, int index, int hint)
{
	if (hint < n && workers[hint].role == role && workers[hint].index == index)
		return &workers[hint];
	for (int i = 0; i < n; i++)
		if (workers[i].role == role && workers[i].index == index)
			return &workers[i];
	return NULL;
}

/* After an agent was lost: takes the budget of w from the record. */
static int roster_past_budget(struct supervisor *sv, struct worker *w)
{
	const json_t *saved = json_object_get(sv->past.budgets, worker_name(w));

	if (!saved)
		return 0;
	w->budget = calloc(1, sizeof(*w->budget));
	if (!w->budget)
		return -ENOMEM;
	if (restart_load(w->budget, saved, loop_now_ms()) < 0) {
		free(w->budget);
		w->budget = NULL;
	}
	return 0;
}

/* Whether an operator stopped w under an agent that was lost. */
static bool roster_past_stop(struct supervisor *sv, const struct worker *w)
{
	const json_t *name;
	size_t i;

	json_array_foreach (sv->past.stopped, i, name)
		if (!strcmp(json_string_value(name), worker_name(w)))
			return true;
	return false;
}

static int roster_init(struct supervisor *sv, struct worker *w, struct worker *old, int n_old)
{
	struct worker *before = roster_find(old, n_old, w->role, w->index, w->place);

	w->slot = roster_slot(sv, w);
	if (w->slot < 0)
		return w->slot;
	if (!before) {
		w->on_purpose = roster_past_stop(sv, w) && !w->extra && !sv->restart_all;
		return roster_past_budget(sv, w);
	}
	w->budget = before->budget;
	before->budget = NULL;
	w->restarts = before->restarts;
	w->on_purpose = before->on_purpose && !before->extra && !sv->restart_all;
	return 0;
}

static void roster_free(struct worker *workers, int n)
{
	for (int i = 0; i < n; i++) {
		lifecycle_free(&workers[i]);
		worker_fini(&workers[i]);
	}
	free(workers);
}

/* Where w stands in a group of several hosts. k: how many workers of its role are before it here.
 */
static void worker_list_seat(struct worker *w, const struct seat_role *seat, int k)
{
	w->rank = seat->first_rank + k;
	w->role_rank = w->index;
	w->role_world = seat->role_size;
}

int worker_list_make(struct supervisor *sv, struct error *err)
{
	const struct seat_role *seats = sv->seat ? sv->seat->roles : NULL;
	struct worker *old = sv->workers, *new;
	int n = 0, n_old = sv->n_workers, place = 0, r = 0;

	for (size_t i = 0; i < sv->spec->n_roles; i++)
		n += sv->replicas[i];
	new = calloc((size_t)n + 1, sizeof(*new)); /* a host may have no worker */
	if (!new)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < sv->spec->n_roles; i++)
		for (int k = 0; k < sv->replicas[i]; k++, place++) {
			int first = seats ? seats[i].first_index : 0;

			worker_init(&new[place], &sv->spec->roles[i], first + k, place);
			new[place].role_world = sv->replicas[i];
			if (seats)
				worker_list_seat(&new[place], &seats[i], k);
			if (!r)
				r = roster_init(sv, &new[place], old, n_old);
		}
	sv->workers = new;
	sv->n_workers = n;
	sv->restart_all = false;
	json_decref(sv->past.budgets);
	json_decref(sv->past.stopped);
	sv->past.budgets = sv->past.stopped = NULL;
	roster_free(old, n_old);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

void worker_list_free(struct supervisor *sv)
{
	roster_free(sv->workers, sv->n_workers);
	sv->workers = NULL;
	sv->n_workers = 0;
}

int worker_list_add(
	struct supervisor *sv, const struct spec_role *role, int index, struct worker **ret)
{
	size_t size = (size_t)sv->n_workers + 1;
	struct worker *bigger = reallocarray(sv->workers, size, sizeof(*bigger)), *w;
	int r;

	if (!bigger)
		return -ENOMEM;
	sv->workers = bigger;
	w = &sv->workers[sv->n_workers];
	worker_init(w, role, index, sv->n_workers);
	w->extra = true;
	w->role_world = 1;
	w->role_rank = 0;
	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].role == role) {
			w->role_world++;
			w->role_rank++;
		}
	r = roster_init(sv, w, NULL, 0);
	if (r < 0)
		return r;
	sv->n_workers++;
	*ret = w;
	return 0;
}

struct worker *worker_list_by_pid(struct supervisor *sv, pid_t pid)
{
	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].pid == pid)
			return &sv->workers[i];
	return NULL;
}

int worker_list_alive(const struct supervisor *sv)
{
	int alive = 0;

	for (int i = 0; i < sv->n_workers; i++)
		alive += worker_alive(&sv->workers[i]);
	return alive;
}

struct worker *worker_named(struct supervisor *sv, const char *role, int index)
{
	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].index == index && !strcmp(sv->workers[i].role->name, role))
			return &sv->workers[i];
	return NULL;
}

void worker_list_load_budgets(struct supervisor *sv, const json_t *saved)
{
	json_decref(sv->past.budgets);
	sv->past.budgets = json_is_object(saved) ? json_deep_copy(saved) : NULL;
}

void worker_list_replay_budgets(struct supervisor *sv, const json_t *event)
{
	const json_t *data = json_get_object(event, "data");
	const char *worker = json_get_string(data, "worker", NULL);
	struct restart_budget *b = calloc(1, sizeof(*b));

	if (!sv->past.budgets)
		sv->past.budgets = json_object();
	if (!b || !worker || !sv->past.budgets) {
		free(b);
		return;
	}
	/* A worker that is not in the record has used nothing. */
	if (restart_load(b, json_object_get(sv->past.budgets, worker), loop_now_ms()) < 0)
		memset(b, 0, sizeof(*b));
	restart_replay(b, json_get_string(data, "cause", ""), json_get_bool(data, "counted", true),
		loop_now_ms());
	json_put(sv->past.budgets, worker, restart_save(b));
	free(b);
}

json_t *worker_list_save_budgets(const struct supervisor *sv)
{
	/* Until the workers are made, the record's own budgets count. */
	json_t *all = sv->past.budgets ? json_deep_copy(sv->past.budgets) : json_object();

	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].budget)
			json_put(all, worker_name(&sv->workers[i]),
				restart_save(sv->workers[i].budget));
	return all;
}

void worker_list_load_stopped(struct supervisor *sv, const json_t *saved)
{
	const json_t *name;
	size_t i;

	json_decref(sv->past.stopped);
	sv->past.stopped = json_array();
	json_array_foreach (saved, i, name)
		if (json_is_string(name))
			json_add(sv->past.stopped, json_string(json_string_value(name)));
}

json_t *worker_list_save_stopped(const struct supervisor *sv)
{
	json_t *all = sv->past.stopped ? json_deep_copy(sv->past.stopped) : json_array();

	if (sv->restart_all)
		json_array_clear(all);
	for (int i = 0; i < sv->n_workers && !sv->restart_all; i++)
		if (sv->workers[i].on_purpose && !lifecycle_starts(&sv->workers[i]))
			json_add(all, json_string(worker_name(&sv->workers[i])));
	return all;
}
