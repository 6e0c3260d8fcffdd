/* SPDX-License-Identifier: Apache-2.0 */
/* What a group of one has in common: its only task is worker:0. */
#include "worker/local.h"

#include <string.h>

#define SELF "worker:0"

static struct elasticd_error *error; /* the group's */
static bool gone;		     /* has taken its leave */

struct local_events {
	struct elasticd *h;
	bool told; /* of the error */
};

/* The handle is open; members may be left out, or be this task. ret_gone: whether it has taken its
 * leave; NULL: not asked. */
static int check_members(
	const struct elasticd *h, const char *const *members, size_t n, bool *ret_gone)
{
	int r = local_enter(h);

	if (r)
		return r;
	if (ret_gone)
		*ret_gone = gone;
	local_unlock();
	if (n > 1)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"members: expected at most the 1 task of this group, got %zu", n);
	for (size_t i = 0; i < n; i++)
		if (strcmp(members[i], SELF) != 0)
			return fail(ELASTICD_INVALID_ARGUMENT,
				"members: %.256s is no task of this group", members[i]);
	return 0;
}

int local_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms)
{
	bool left;
	int r = check_members(h, members, n, &left);

	if (r || !left)
		return r;
	return fail(ELASTICD_FAILED_PRECONDITION,
		SELF " has taken its leave (elasticd_leave): it is in no barrier any more");
}

int local_barrier_cancel(struct elasticd *h, const char *name, const char *message)
{
	int r = check_members(h, NULL, 0, NULL);

	return r ? r : fail(ELASTICD_FAILED_PRECONDITION, "nobody waits at barrier %s", name);
}

int local_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n)
{
	char **names;
	bool left;
	int r = check_members(h, members, n, &left);

	if (r)
		return r;
	names = calloc(2, sizeof(*names));
	if (names && !left)
		names[0] = strdup(SELF);
	if (!names || !(left || names[0])) {
		free(names);
		return fail_memory();
	}
	*ret = names;
	*ret_n = left ? 0 : 1;
	return 0;
}

static int copy_error(struct elasticd_error **ret)
{
	struct elasticd_error *e =
		error_new(error->code, error->message, error->task, error->reported);

	if (!e)
		return fail_memory();
	*ret = e;
	return 0;
}

static int states_locked(struct elasticd_member **ret)
{
	struct elasticd_member *m = calloc(1, sizeof(*m));
	int r = 0;

	if (!m)
		return fail_memory();
	m->task = strdup(SELF);
	m->state = strdup("running");
	m->left = gone;
	m->healthy = !error && !gone;
	if (!m->task || !m->state)
		r = fail_memory();
	if (!r && error)
		r = copy_error(&m->error);
	if (r)
		elasticd_members_free(m, 1);
	else
		*ret = m;
	return r;
}

int local_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n)
{
	int r;

	for (size_t i = 0; i < n; i++)
		if (strcmp(roles[i], "worker") != 0)
			return fail(ELASTICD_INVALID_ARGUMENT,
				"roles: %.256s is no role of this group", roles[i]);
	r = local_enter(h);
	if (r)
		return r;
	r = states_locked(ret);
	local_unlock();
	if (r == 0)
		*ret_n = 1;
	return r;
}

/* There is nobody to keep it for. */
int local_result(struct elasticd *h, const void *value, size_t len)
{
	return check_members(h, NULL, 0, NULL);
}

int local_report(struct elasticd *h, int code, const char *message)
{
	int r = local_enter(h);

	if (r)
		return r;
	if (!error) {
		error = error_new(code, message, SELF, true);
		if (!error)
			r = fail_memory();
		else
			atomic_store(&local_header()->error, 1);
		local_wake();
	}
	local_unlock();
	return r;
}

int local_error_fail(void)
{
	return error ? fail_missing(error->code, strdup(error->task), error->message) : 0;
}

static int error_wait(struct local_wait *w, int64_t end, struct elasticd_error **ret)
{
	int r = 0;

	while (!error && !r)
		r = local_wait_next(w, end);
	return error ? copy_error(ret) : r;
}

int local_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret)
{
	struct local_wait w;
	int r = local_enter(h);

	if (r)
		return r;
	local_wait_begin(&w, h);
	r = error_wait(&w, clock_end(timeout_ms), ret);
	local_wait_end(&w);
	local_unlock();
	return r;
}

int local_leave(struct elasticd *h, int timeout_ms)
{
	int r = local_enter(h);

	if (r)
		return r;
	gone = true;
	local_unlock();
	return 0;
}

/* --- events: its own error is all that can happen */

int local_events_open(struct elasticd *h, void **ret)
{
	struct local_events *e = calloc(1, sizeof(*e));
	int r = e ? local_enter(h) : fail_memory();

	if (r) {
		free(e);
		return r;
	}
	e->h = h;
	e->told = error != NULL;
	local_unlock();
	*ret = e;
	return 0;
}

void local_events_close(void *stream)
{
	free(stream);
}

static int event_return(struct elasticd_event **ret)
{
	struct elasticd_event *e = calloc(1, sizeof(*e));
	int r = 0;

	if (!e)
		return fail_memory();
	e->event = strdup("error");
	e->task = strdup(SELF);
	e->text = strdup(error->message);
	if (!e->event || !e->task || !e->text)
		r = fail_memory();
	if (!r)
		r = copy_error(&e->error);
	if (r)
		elasticd_event_free(e);
	else
		*ret = e;
	return r;
}

int local_events_next(void *stream, int timeout_ms, struct elasticd_event **ret)
{
	struct local_events *e = stream;
	int64_t end = clock_end(timeout_ms);
	struct local_wait w;
	int r = local_enter(e->h);

	if (r)
		return r;
	local_wait_begin(&w, e->h);
	while (!r && (e->told || !error))
		r = local_wait_next(&w, end);
	if (!r)
		r = event_return(ret);
	if (!r)
		e->told = true;
	local_wait_end(&w);
	local_unlock();
	return r;
}
