/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for other workers. Barriers and members know each by its sharing_wait; it ends
 * with their answer, or with its connection.
 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum wait_kind { WAIT_BARRIER, WAIT_ALIVE, WAIT_ERROR, WAIT_LEAVE };

struct sharing_wait {
	LIST_ENTRY(sharing_wait) link;
	struct commons *c;
	struct varlink_call *call;
	enum wait_kind kind;
	bool readies; /* at the barrier of spec.ready */
};

static void wait_free(struct sharing_wait *x)
{
	LIST_REMOVE(x, link);
	free(x);
}

static void wait_gone(void *arg)
{
	struct sharing_wait *x = arg;

	if (x->kind == WAIT_BARRIER)
		barriers_forget(x->c->barriers, x);
	else
		members_forget(x->c->members, x);
	wait_free(x);
}

static struct sharing_wait *wait_new(
	struct commons *c, struct varlink_call *call, enum wait_kind kind)
{
	struct sharing_wait *x = calloc(1, sizeof(*x));

	if (!x) {
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return NULL;
	}
	*x = (struct sharing_wait){ .c = c, .call = call, .kind = kind };
	LIST_INSERT_HEAD(&c->waits, x, link);
	varlink_call_on_gone(call, wait_gone, x);
	commons_lost_check(c);
	return x;
}

/* Out of memory: nothing has happened. */
static int wait_failed(struct sharing_wait *x, int r)
{
	struct varlink_call *call = x->call;

	wait_free(x);
	return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "%s", strerror(-r));
}

bool commons_waits(const struct commons *c, int slot)
{
	const struct sharing_wait *x;

	LIST_FOREACH (x, &c->waits, link)
		if (x->kind != WAIT_ERROR && sharing_slot_of(x->call) == slot)
			return true;
	return false;
}

void commons_barrier_answer(void *arg, void *token, const struct barrier_answer *answer)
{
	struct sharing_wait *x = token;
	struct varlink_call *call = x->call;
	struct commons *c = arg;
	bool readies = x->readies;

	wait_free(x);
	if (answer->status != STATUS_OK) {
		sharing_fail_missing(c, call, answer->status, answer->message, answer->missing,
			answer->n_missing);
		return;
	}
	sharing_reply_int(call, "generation", answer->generation);
	if (readies && c->owner.barrier_passed)
		c->owner.barrier_passed(c->owner.arg);
}

/* The list may name thousands of workers, and as many get it: its text is made once. */
static void reply_alive(
	const struct commons *c, struct varlink_call *call, const struct members_answer *answer)
{
	size_t len;

	if (!*answer->text) {
		_cleanup_json_ json_t *p = json_object();

		json_put(p, "alive", sharing_names_json(c, answer->slots, answer->n));
		*answer->text = json_dump_text(p, &len);
	}
	if (*answer->text)
		varlink_reply_text(call, *answer->text, strlen(*answer->text));
	else
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

void commons_members_answer(void *arg, void *token, const struct members_answer *answer)
{
	struct commons *c = arg;
	struct sharing_wait *x = token;
	struct varlink_call *call = x->call;
	enum wait_kind kind = x->kind;
	json_t *p;

	wait_free(x);
	if (answer->status != STATUS_OK) {
		sharing_fail_missing(
			c, call, answer->status, answer->message, answer->slots, answer->n);
		return;
	}
	if (kind == WAIT_ALIVE) {
		reply_alive(c, call, answer);
		return;
	}
	p = json_object();
	if (kind == WAIT_ERROR)
		json_put(p, "error", sharing_error_json(c, answer->error));
	varlink_reply(call, p);
}

/* --- deadlines --- */

void commons_deadlines(void *arg)
{
	struct commons *c = arg;
	uint64_t now = loop_now_ms();
	uint64_t a = barriers_expire(c->barriers, now),
		 b = members_expire(c->members, now, (int64_t)loop_real_us());
	uint64_t next = a < b ? a : b;

	if (next == UINT64_MAX)
		loop_timer_disarm(c->timer);
	else
		loop_timer_arm(c->timer, next > now ? next - now : 0);
}

static uint64_t deadline_after(int64_t timeout, uint64_t now)
{
	return timeout < 0 ? UINT64_MAX : now + (uint64_t)timeout;
}

static uint64_t deadline_of(const json_t *p, uint64_t now)
{
	return deadline_after(json_get_int(p, "timeout_ms", -1), now);
}

/* A new limit may be the nearest: looks at all of them once in this turn. */
static void deadline_added(struct commons *c, uint64_t deadline)
{
	if (deadline == UINT64_MAX)
		return;
	if (loop_defer(c->loop, commons_deadlines, c) < 0)
		loop_timer_arm(c->timer, 0);
}

/* --- sets of members --- */

/* True when w is a member where the caller names none. With present, a worker that has left, or
 * that a person has stopped, is none. */
static bool is_default_member(const struct commons *c, const struct worker *w, bool present)
{
	if (!commons_is_default(w) || !commons_has_slot(c, w))
		return false;
	return !present || !(w->on_purpose || members_left(c->members, w->slot));
}

/* The default members; only slot where the first caller of the barrier (NULL: of Alive) has fixed
 * the others. */
static int default_members(
	const struct commons *c, const char *barrier, int slot, int **ret, size_t *ret_n)
{
	bool begun = barrier ? barriers_begun_default(c->barriers, barrier, loop_now_ms())
			     : members_begun_default(c->members, slot);
	int *set = calloc(begun ? 1 : (size_t)commons_count(c) + 1, sizeof(*set));
	size_t n = 0;

	if (!set)
		return -ENOMEM;
	if (begun)
		set[n++] = slot;
	for (int i = 0; i < commons_count(c) && !begun; i++)
		if (is_default_member(c, commons_at(c, i), barrier != NULL))
			set[n++] = commons_at(c, i)->slot;
	*ret = set;
	*ret_n = n;
	return 0;
}

/* Returns -EINVAL with what is wrong with the names. It looks at no more of them than there are
 * workers. */
static int named_members(const struct commons *c, const json_t *names, int **ret, size_t *ret_n,
	char *text, size_t size)
{
	size_t n = json_array_size(names), i;
	_cleanup_free_ int *set = NULL;
	const json_t *name;

	if (!n || n > (size_t)commons_count(c)) {
		snprintf(text, size, "members: expected 1 to the %d workers of this job, got %zu",
			commons_count(c), n);
		return -EINVAL;
	}
	set = calloc(n + 1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	json_array_foreach (names, i, name) {
		set[i] = commons_slot_named(c, json_string_value(name));
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

static int fail_left(const struct commons *c, struct varlink_call *call, int slot)
{
	return sharing_fail(call, STATUS_FAILED_PRECONDITION,
		"%s has taken its leave (elasticd_leave): it is in no barrier any more",
		c->slots[slot].name);
}

static void fail_not_default(
	const struct commons *c, struct varlink_call *call, int slot, const char *barrier)
{
	if (barrier && members_left(c->members, slot))
		fail_left(c, call, slot);
	else
		sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"%s is not a default barrier member (evaluators and added workers are not); pass members explicitly",
			c->slots[slot].name);
}

static bool has_slot(const int *set, size_t n, int slot)
{
	for (size_t i = 0; i < n; i++)
		if (set[i] == slot)
			return true;
	return false;
}

/*
 * The members that a call of slot names. Returns 0, or non-zero after having answered the call. Bad
 * names fail the barrier (NULL: none) for its other callers, too, since they would wait for ever. A
 * caller that gives no names and is no default member gets an error, and the barrier goes on.
 */
static int members_of(struct commons *c, struct varlink_call *call, const json_t *names,
	const char *barrier, int **ret, size_t *ret_n)
{
	int slot = sharing_slot_of(call), r;
	const struct worker *w = names ? NULL : commons_worker(c, slot);
	char text[512];

	if (!names && !(w && is_default_member(c, w, barrier != NULL))) {
		fail_not_default(c, call, slot, barrier);
		return 1;
	}
	r = names ? named_members(c, names, ret, ret_n, text, sizeof(text))
		  : default_members(c, barrier, slot, ret, ret_n);
	if (r == -EINVAL && barrier) /* -ENOENT: no worker waits there */
		(void)!barriers_fail(c->barriers, barrier, slot, STATUS_INVALID_ARGUMENT, text);
	if (r == -EINVAL)
		sharing_fail(call, STATUS_INVALID_ARGUMENT, "%s", text);
	else if (r < 0)
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	return r;
}

/* --- methods --- */

static bool bad_name(struct varlink_call *call, const char *name)
{
	if (*name && strlen(name) <= BARRIER_NAME_MAX)
		return false;
	sharing_fail(call, STATUS_INVALID_ARGUMENT, "name: expected 1 to %d bytes, got %zu",
		BARRIER_NAME_MAX, strlen(name));
	return true;
}

int sharing_barrier(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	const char *name = flat_text(p, "name", "");
	const json_t *members = flat_array(p, "members");
	uint64_t now = loop_now_ms();
	uint64_t deadline = deadline_after(flat_int(p, "timeout_ms", -1), now);
	_cleanup_free_ int *set = NULL;
	struct sharing_wait *x;
	int slot = sharing_slot_of(call), r;
	size_t n = 0;

	if (bad_name(call, name) || members_of(c, call, members, name, &set, &n) != 0)
		return 0;
	/* Its other callers get their errors by their own waits. */
	if (members_left(c->members, slot) && has_slot(set, n, slot))
		return fail_left(c, call, slot);
	x = wait_new(c, call, WAIT_BARRIER);
	if (!x)
		return 0;
	x->readies = c->spec->ready.barrier && !strcmp(name, c->spec->ready.barrier);
	r = barriers_arrive(c->barriers, name, slot, set, n, !members, deadline, now, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(c, deadline);
	return 0;
}

int sharing_cancel_barrier(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	const char *name = json_get_string(p, "name", "");
	const char *message = json_get_string(p, "message", NULL);
	char text[256];

	if (bad_name(call, name))
		return 0;
	if (!message) {
		snprintf(text, sizeof(text), "the barrier was cancelled by %.100s",
			c->slots[sharing_slot_of(call)].name);
		message = text;
	}
	if (barriers_fail(c->barriers, name, -1, STATUS_CANCELLED, message) < 0)
		return sharing_fail(
			call, STATUS_FAILED_PRECONDITION, "name: no worker waits at \"%s\"", name);
	return varlink_reply(call, NULL);
}

int sharing_alive(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	const json_t *members = json_get_array(p, "members");
	uint64_t deadline = deadline_of(p, loop_now_ms());
	_cleanup_free_ int *set = NULL;
	struct sharing_wait *x;
	size_t n = 0;
	int r;

	if (members_of(c, call, members, NULL, &set, &n) != 0)
		return 0;
	x = wait_new(c, call, WAIT_ALIVE);
	if (!x)
		return 0;
	r = members_wait_alive(c->members, sharing_slot_of(call), set, n, !members, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(c, deadline);
	return 0;
}

int sharing_wait_error(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	uint64_t deadline = deadline_of(p, loop_now_ms());
	struct sharing_wait *x = wait_new(c, call, WAIT_ERROR);
	int r;

	if (!x)
		return 0;
	r = members_wait_error(c->members, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	deadline_added(c, deadline);
	return 0;
}

int sharing_leave(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	int slot = sharing_slot_of(call), r;
	uint64_t deadline = deadline_of(p, loop_now_ms());
	struct sharing_wait *x = wait_new(c, call, WAIT_LEAVE);

	if (!x)
		return 0;
	r = members_leave(c->members, slot, deadline, x);
	if (r < 0)
		return wait_failed(x, r);
	/* Callers that wait for this worker would wait for ever. */
	barriers_worker_ended(c->barriers, slot, false, false, "it has taken its leave");
	deadline_added(c, deadline);
	return 0;
}
