/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for other tasks. Each has a worker_wait, which is the token that barriers and
 * members know it by; it ends with their answer, or with its connection.
 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum wait_kind { WAIT_BARRIER, WAIT_ALIVE, WAIT_ERROR, WAIT_LEAVE };

struct worker_wait {
	LIST_ENTRY(worker_wait) link;
	struct workers *w;
	struct varlink_call *call;
	enum wait_kind kind;
};

static void wait_free(struct worker_wait *x)
{
	LIST_REMOVE(x, link);
	free(x);
}

static void wait_gone(void *arg)
{
	struct worker_wait *x = arg;

	if (x->kind == WAIT_BARRIER)
		barriers_forget(x->w->barriers, x);
	else
		members_forget(x->w->members, x);
	wait_free(x);
}

static struct worker_wait *wait_new(
	struct workers *w, struct varlink_call *call, enum wait_kind kind)
{
	struct worker_wait *x = calloc(1, sizeof(*x));

	if (!x) {
		worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return NULL;
	}
	*x = (struct worker_wait){ .w = w, .call = call, .kind = kind };
	LIST_INSERT_HEAD(&w->waits, x, link);
	varlink_call_on_gone(call, wait_gone, x);
	worker_lost_look(w);
	return x;
}

/* Nothing has happened for want of memory. */
static int wait_failed(struct worker_wait *x, int r)
{
	struct varlink_call *call = x->call;

	wait_free(x);
	return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "%s", strerror(-r));
}

bool worker_waits(const struct workers *w, int slot)
{
	const struct worker_wait *x;

	LIST_FOREACH (x, &w->waits, link)
		if (x->kind != WAIT_ERROR && worker_of(x->call) == slot)
			return true;
	return false;
}

void worker_barrier_answer(void *arg, void *token, const struct barrier_answer *answer)
{
	struct worker_wait *x = token;
	struct varlink_call *call = x->call;

	wait_free(x);
	if (answer->status != STATUS_OK) {
		worker_fail_missing(arg, call, answer->status, answer->message, answer->missing,
			answer->n_missing);
		return;
	}
	worker_reply_int(call, "generation", answer->generation);
}

void worker_members_answer(void *arg, void *token, const struct members_answer *answer)
{
	struct workers *w = arg;
	struct worker_wait *x = token;
	struct varlink_call *call = x->call;
	enum wait_kind kind = x->kind;
	json_t *p;

	wait_free(x);
	if (answer->status != STATUS_OK) {
		worker_fail_missing(
			w, call, answer->status, answer->message, answer->slots, answer->n);
		return;
	}
	p = json_object();
	if (kind == WAIT_ERROR)
		json_put(p, "error", worker_error_json(w, answer->error));
	if (kind == WAIT_ALIVE)
		json_put(p, "alive", worker_names_json(w, answer->slots, answer->n));
	varlink_reply(call, p);
}

/* --- deadlines ----------------------------------------------------------------------------------
 */

void worker_deadlines(void *arg)
{
	struct workers *w = arg;
	uint64_t now = loop_now_ms();
	uint64_t a = barriers_expire(w->barriers, now),
		 b = members_expire(w->members, now, (int64_t)loop_real_us());
	uint64_t next = a < b ? a : b;

	if (next == UINT64_MAX)
		loop_timer_disarm(w->timer);
	else
		loop_timer_arm(w->timer, next > now ? next - now : 0);
}

static uint64_t deadline_after(int64_t timeout, uint64_t now)
{
	return timeout < 0 ? UINT64_MAX : now + (uint64_t)timeout;
}

static uint64_t deadline_of(const json_t *p, uint64_t now)
{
	return deadline_after(json_get_int(p, "timeout_ms", -1), now);
}

/* A wait with a limit may have the nearest one; looked at once in this turn. */
static void deadline_added(struct workers *w, uint64_t deadline)
{
	if (deadline == UINT64_MAX)
		return;
	if (loop_defer(w->a->loop, worker_deadlines, w) < 0)
		loop_timer_arm(w->timer, 0);
}

/* --- sets of members ----------------------------------------------------------------------------
 */

/* Whether t is meant where members are left out. present: not where it cannot come any more by its
 * own or a person's will. */
static bool is_meant(const struct workers *w, const struct task *t, bool present)
{
	if (!worker_is_default(t) || !worker_has_slot(w, t))
		return false;
	return !present || !(t->on_purpose || members_left(w->members, t->slot));
}

/* All who are meant; slot alone where the first to come to the barrier (NULL: none) has said who
 * the others are. */
static int default_members(
	const struct workers *w, const char *barrier, int slot, int **ret, size_t *ret_n)
{
	bool begun = barrier && barriers_begun_default(w->barriers, barrier, loop_now_ms());
	const struct agent *a = w->a;
	int *set = calloc(begun ? 1 : (size_t)a->n_tasks + 1, sizeof(*set));
	size_t n = 0;

	if (!set)
		return -ENOMEM;
	if (begun)
		set[n++] = slot;
	for (int i = 0; i < a->n_tasks && !begun; i++)
		if (is_meant(w, &a->tasks[i], barrier != NULL))
			set[n++] = a->tasks[i].slot;
	*ret = set;
	*ret_n = n;
	return 0;
}

/* -EINVAL with what is wrong with the names. More than there are tasks are not even looked at. */
static int named_members(const struct workers *w, const json_t *names, int **ret, size_t *ret_n,
	char *text, size_t size)
{
	size_t n = json_array_size(names), i;
	_cleanup_free_ int *set = NULL;
	const json_t *name;

	if (!n || n > (size_t)w->a->n_tasks) {
		snprintf(text, size, "members: expected 1 to the %d tasks of this job, got %zu",
			w->a->n_tasks, n);
		return -EINVAL;
	}
	set = calloc(n + 1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	json_array_foreach (names, i, name) {
		set[i] = worker_slot_named(w, json_string_value(name));
		if (set[i] < 0) {
			snprintf(text, size, "members: there is no worker %.100s",
				json_string_value(name));
			return -EINVAL;
		}
	}
	*ret = TAKE_PTR(set);
	*ret_n = n;
	return 0;
}

static int fail_left(const struct workers *w, struct varlink_call *call, int slot)
{
	return worker_fail(call, STATUS_FAILED_PRECONDITION,
		"%s has taken its leave (elasticd_leave): it is in no barrier any more",
		w->slots[slot].name);
}

static int fail_not_meant(
	const struct workers *w, struct varlink_call *call, int slot, const char *barrier)
{
	if (barrier && members_left(w->members, slot))
		return fail_left(w, call, slot);
	return worker_fail(call, STATUS_INVALID_ARGUMENT,
		"%s is none of the tasks that are meant when members are left out: name them",
		w->slots[slot].name);
}

static bool has_slot(const int *set, size_t n, int slot)
{
	for (size_t i = 0; i < n; i++)
		if (set[i] == slot)
			return true;
	return false;
}

/*
 * The set that a call of slot means. Returns 0, or non-zero after having answered the call. A bad
 * set fails the barrier (NULL: none) for the others, too: they would wait in vain. One that names
 * nobody does not: who calls is only outside of what is meant by default.
 */
static int members_of(struct workers *w, struct varlink_call *call, const json_t *names,
	const char *barrier, int **ret, size_t *ret_n)
{
	int slot = worker_of(call), r;
	const struct task *t = names ? NULL : worker_task(w, slot);
	char text[512];

	if (!names && !(t && is_meant(w, t, barrier != NULL)))
		return fail_not_meant(w, call, slot, barrier), 1;
	r = names ? named_members(w, names, ret, ret_n, text, sizeof(text))
		  : default_members(w, barrier, slot, ret, ret_n);
	if (r == -EINVAL && barrier &&
		barriers_fail(w->barriers, barrier, slot, STATUS_INVALID_ARGUMENT, text) == -ENOMEM)
		r = -ENOMEM;
	if (r == -EINVAL)
		worker_fail(call, STATUS_INVALID_ARGUMENT, "%s", text);
	else if (r < 0)
		worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	return r;
}

/* --- methods ------------------------------------------------------------------------------------
 */

static bool bad_name(struct varlink_call *call, const char *name)
{
	if (*name && strlen(name) <= BARRIER_NAME_MAX)
		return false;
	worker_fail(call, STATUS_INVALID_ARGUMENT, "name: expected 1 to %d bytes, got %zu",
		BARRIER_NAME_MAX, strlen(name));
	return true;
}

int worker_barrier(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct workers *w = arg;
	const char *name = flat_text(p, "name", "");
	const json_t *members = flat_array(p, "members");
	uint64_t now = loop_now_ms();
	uint64_t deadline = deadline_after(flat_int(p, "timeout_ms", -1), now);
	_cleanup_free_ int *set = NULL;
	struct worker_wait *x;
	int slot = worker_of(call), r;
	size_t n = 0;

	if (bad_name(call, name) || members_of(w, call, members, name, &set, &n) != 0)
		return 0;
	/* The others, if there are any, hear it of their own wait for it. */
	if (members_left(w->members, slot) && has_slot(set, n, slot))
		return fail_left(w, call, slot);
	x = wait_new(w, call, WAIT_BARRIER);
	if (!x)
		return 0;
	r = (members ? barriers_arrive : barriers_arrive_default)(
		w->barriers, name, slot, set, n, deadline, now, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(w, deadline);
	return 0;
}

int worker_cancel_barrier(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	const char *name = json_get_string(p, "name", "");
	const char *message = json_get_string(p, "message", NULL);
	char text[256];
	int r;

	if (bad_name(call, name))
		return 0;
	if (!message) {
		snprintf(text, sizeof(text), "the barrier was cancelled by %.100s",
			w->slots[worker_of(call)].name);
		message = text;
	}
	r = barriers_cancel(w->barriers, name, message);
	if (r == -ENOENT)
		return worker_fail(
			call, STATUS_FAILED_PRECONDITION, "nobody waits at \"%s\"", name);
	if (r < 0)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "%s", strerror(-r));
	return varlink_reply(call, NULL);
}

int worker_alive(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	uint64_t deadline = deadline_of(p, loop_now_ms());
	_cleanup_free_ int *set = NULL;
	struct worker_wait *x;
	size_t n = 0;
	int r;

	if (members_of(w, call, json_get_array(p, "members"), NULL, &set, &n) != 0)
		return 0;
	x = wait_new(w, call, WAIT_ALIVE);
	if (!x)
		return 0;
	r = members_ask_alive(w->members, worker_of(call), set, n, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(w, deadline);
	return 0;
}

int worker_wait_error(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	uint64_t deadline = deadline_of(p, loop_now_ms());
	struct worker_wait *x = wait_new(w, call, WAIT_ERROR);
	int r;

	if (!x)
		return 0;
	r = members_wait_error(w->members, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(w, deadline);
	return 0;
}

int worker_leave(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	int slot = worker_of(call), r;
	uint64_t deadline = deadline_of(p, loop_now_ms());
	struct worker_wait *x = wait_new(w, call, WAIT_LEAVE);

	if (!x)
		return 0;
	r = members_leave(w->members, slot, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	/* Who waits for it would wait in vain. */
	barriers_task_ended(w->barriers, slot, false, false, "it has taken its leave");
	deadline_added(w, deadline);
	return 0;
}
