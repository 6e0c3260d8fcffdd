/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/supervisor.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Who the tasks of an incarnation are. Ranks on one host: the roles in their order, the replicas of
 * each in theirs, so that a role's workers are contiguous, as torchelastic numbers them; then those
 * that were added. Over the incarnations a role and index keep their slot, their own budget, and
 * that a person stopped them.
 */

struct roster {
	struct roster_seat {
		const struct spec_role *role;
		int index;
	} * seats; /* a slot's number is its place here */
	int n;
};

void agent_roster_free(struct agent *a)
{
	if (a->roster)
		free(a->roster->seats);
	free(a->roster);
	a->roster = NULL;
}

static bool roster_is(const struct roster *r, int slot, const struct task *t)
{
	return slot < r->n && r->seats[slot].role == t->role && r->seats[slot].index == t->index;
}

static int roster_slot(struct agent *a, const struct task *t)
{
	struct roster *r = a->roster;
	struct roster_seat *bigger;

	if (!r)
		r = a->roster = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (roster_is(r, t->rank, t)) /* as long as nothing was scaled */
		return t->rank;
	for (int i = 0; i < r->n; i++)
		if (roster_is(r, i, t))
			return i;
	bigger = reallocarray(r->seats, (size_t)r->n + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	r->seats = bigger;
	r->seats[r->n] = (struct roster_seat){ .role = t->role, .index = t->index };
	return r->n++;
}

static struct task *roster_find(
	struct task *tasks, int n, const struct spec_role *role, int index, int hint)
{
	if (hint < n && tasks[hint].role == role && tasks[hint].index == index)
		return &tasks[hint];
	for (int i = 0; i < n; i++)
		if (tasks[i].role == role && tasks[i].index == index)
			return &tasks[i];
	return NULL;
}

/* What the record has of t's own budget, where an agent was lost. */
static int roster_past_budget(struct agent *a, struct task *t)
{
	const json_t *saved = json_object_get(a->past_budgets, agent_task_name(t));

	if (!saved)
		return 0;
	t->budget = calloc(1, sizeof(*t->budget));
	if (!t->budget)
		return -ENOMEM;
	if (restart_load(t->budget, saved, loop_now_ms()) < 0) {
		free(t->budget);
		t->budget = NULL;
	}
	return 0;
}

/* Whether a person stopped t under an agent that was lost. */
static bool roster_past_stop(struct agent *a, const struct task *t)
{
	const json_t *name;
	size_t i;

	json_array_foreach (a->past_stopped, i, name)
		if (!strcmp(json_string_value(name), agent_task_name(t)))
			return true;
	return false;
}

static int roster_init(struct agent *a, struct task *t, struct task *old, int n_old)
{
	struct task *before = roster_find(old, n_old, t->role, t->index, t->rank);

	t->slot = roster_slot(a, t);
	if (t->slot < 0)
		return t->slot;
	if (!before) {
		t->on_purpose = roster_past_stop(a, t) && !t->extra && !a->all_again;
		return roster_past_budget(a, t);
	}
	t->budget = before->budget;
	before->budget = NULL;
	t->restarts = before->restarts;
	t->on_purpose = before->on_purpose && !before->extra && !a->all_again;
	return 0;
}

static void roster_free(struct task *tasks, int n)
{
	for (int i = 0; i < n; i++) {
		agent_single_free(&tasks[i]);
		task_fini(&tasks[i]);
	}
	free(tasks);
}

int agent_make_tasks(struct agent *a, struct error *err)
{
	struct task *old = a->tasks, *new;
	int n = 0, n_old = a->n_tasks, rank = 0, r = 0;

	for (size_t i = 0; i < a->spec->n_roles; i++)
		n += a->replicas[i];
	new = calloc((size_t)n, sizeof(*new));
	if (!new)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->spec->n_roles; i++)
		for (int k = 0; k < a->replicas[i]; k++, rank++) {
			task_init(&new[rank], &a->spec->roles[i], k, rank);
			new[rank].role_world = a->replicas[i];
			if (!r)
				r = roster_init(a, &new[rank], old, n_old);
		}
	a->tasks = new;
	a->n_tasks = n;
	a->all_again = false;
	json_decref(a->past_budgets);
	json_decref(a->past_stopped);
	a->past_budgets = a->past_stopped = NULL;
	roster_free(old, n_old);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

void agent_free_tasks(struct agent *a)
{
	roster_free(a->tasks, a->n_tasks);
	a->tasks = NULL;
	a->n_tasks = 0;
}

int agent_add_task(struct agent *a, const struct spec_role *role, int index, struct task **ret)
{
	struct task *bigger = reallocarray(a->tasks, (size_t)a->n_tasks + 1, sizeof(*bigger)), *t;
	int r;

	if (!bigger)
		return -ENOMEM;
	a->tasks = bigger;
	t = &a->tasks[a->n_tasks];
	task_init(t, role, index, a->n_tasks);
	t->extra = true;
	t->role_world = 1;
	t->role_rank = 0;
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].role == role) {
			t->role_world++;
			t->role_rank++;
		}
	r = roster_init(a, t, NULL, 0);
	if (r < 0)
		return r;
	a->n_tasks++;
	*ret = t;
	return 0;
}

void agent_budgets_load(struct agent *a, const json_t *saved)
{
	json_decref(a->past_budgets);
	a->past_budgets = json_is_object(saved) ? json_deep_copy(saved) : NULL;
}

void agent_budgets_replay(struct agent *a, const json_t *event)
{
	const json_t *data = json_get_object(event, "data");
	const char *task = json_get_string(data, "task", NULL);
	struct restart_budget *b = calloc(1, sizeof(*b));

	if (!a->past_budgets)
		a->past_budgets = json_object();
	if (!b || !task || !a->past_budgets) {
		free(b);
		return;
	}
	/* A task that is new there begins with nothing. */
	if (restart_load(b, json_object_get(a->past_budgets, task), loop_now_ms()) < 0)
		memset(b, 0, sizeof(*b));
	restart_replay(b, json_get_string(data, "cause", ""), json_get_bool(data, "counted", true),
		loop_now_ms());
	json_put(a->past_budgets, task, restart_save(b));
	free(b);
}

json_t *agent_budgets_save(const struct agent *a)
{
	/* Before the tasks are made again, what the record had still holds. */
	json_t *all = a->past_budgets ? json_deep_copy(a->past_budgets) : json_object();

	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].budget)
			json_put(all, agent_task_name(&a->tasks[i]),
				restart_save(a->tasks[i].budget));
	return all;
}

void agent_stopped_load(struct agent *a, const json_t *saved)
{
	const json_t *name;
	size_t i;

	json_decref(a->past_stopped);
	a->past_stopped = json_array();
	json_array_foreach (saved, i, name)
		if (json_is_string(name))
			json_add(a->past_stopped, json_string(json_string_value(name)));
}

json_t *agent_stopped_save(const struct agent *a)
{
	json_t *all = a->past_stopped ? json_deep_copy(a->past_stopped) : json_array();

	if (a->all_again)
		json_array_clear(all);
	for (int i = 0; i < a->n_tasks && !a->all_again; i++)
		if (a->tasks[i].on_purpose && !agent_single_starts(&a->tasks[i]))
			json_add(all, json_string(agent_task_name(&a->tasks[i])));
	return all;
}
