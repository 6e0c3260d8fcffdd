/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/handle.h"

#include <string.h>

struct elasticd_watch {
	const struct side *side;
	void *stream;
};

struct elasticd_events {
	const struct side *side;
	void *stream;
};

const char *elasticd_version(void)
{
	return VERSION;
}

const char *elasticd_status_name(int status)
{
	if (status == ELASTICD_INTERRUPTED)
		return "Interrupted";
	return status_name((enum status)status);
}

/* --- checks */

int check_text(const char *what, const char *text, size_t max)
{
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected a text, got NULL", what);
	if (len > max)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected at most %zu bytes, got %zu",
			what, max, len);
	if (!text_valid(text, len))
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected UTF-8", what);
	return 0;
}

int check_key(const char *key, bool empty, char **ret_key)
{
	char *normal;
	int r = key ? 0 : check_text("key", key, 0);

	if (r)
		return r;
	normal = key_normalise(key);
	if (!normal)
		return fail_memory();
	r = check_text("key", normal, WORKER_KEY_MAX);
	if (!r && !*normal && !empty)
		r = fail(ELASTICD_INVALID_ARGUMENT, "key: expected 1 byte at least, got \"%.64s\"",
			key);
	if (r)
		free(normal);
	else
		*ret_key = normal;
	return r;
}

static int check_value(const void *value, size_t len)
{
	if (!value && len)
		return fail(ELASTICD_INVALID_ARGUMENT, "value: expected %zu bytes, got NULL", len);
	if (len > WORKER_VALUE_MAX)
		return fail(ELASTICD_INVALID_ARGUMENT, "value: expected at most %d bytes, got %zu",
			WORKER_VALUE_MAX, len);
	return 0;
}

int check_put(const void *value, size_t len, int flags)
{
	if (flags & ~(ELASTICD_OVERWRITE | ELASTICD_PERSISTENT | ELASTICD_NOWAIT))
		return fail(ELASTICD_INVALID_ARGUMENT, "flags: %d is none of this version", flags);
	if (flags & ELASTICD_NOWAIT && !(flags & ELASTICD_OVERWRITE))
		return fail(ELASTICD_INVALID_ARGUMENT,
			"flags: expected OVERWRITE beside NOWAIT, since a write that may find the "
			"key there has to wait");
	return check_value(value, len);
}

int check_names(const char *what, const char *const *names, size_t n)
{
	int r = 0;

	if (n && !names)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected %zu names, got NULL", what, n);
	if (!n && names)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"%s: expected 1 name at least; all are meant where they are left out",
			what);
	for (size_t i = 0; i < n && !r; i++)
		r = check_text(what, names[i], WORKER_KEY_MAX);
	return r;
}

/* --- the store */

int elasticd_put(struct elasticd *h, const char *key, const void *value, size_t len, int flags)
{
	_cleanup_free_ char *normal = NULL;
	int r = check_key(key, false, &normal);

	if (!r)
		r = check_put(value, len, flags);
	return r ? r : h->side->put(h, normal, value ? value : "", len, flags);
}

int elasticd_flush(struct elasticd *h, int timeout_ms)
{
	return h->side->flush ? h->side->flush(h, timeout_ms) : 0;
}

int elasticd_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret_value, size_t *ret_len)
{
	_cleanup_free_ char *normal = NULL;
	size_t len;
	int r = check_key(key, false, &normal);

	if (!r)
		r = h->side->get(h, normal, timeout_ms, ret_value, &len);
	if (!r && ret_len)
		*ret_len = len;
	return r;
}

int elasticd_delete(struct elasticd *h, const char *key, int64_t *ret_deleted)
{
	_cleanup_free_ char *normal = NULL;
	int64_t deleted;
	int r = check_key(key, false, &normal);

	if (!r)
		r = h->side->delete (h, normal, &deleted);
	if (!r && ret_deleted)
		*ret_deleted = deleted;
	return r;
}

int elasticd_list(struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	_cleanup_free_ char *normal = NULL;
	int r = check_key(key, true, &normal);

	return r ? r : h->side->list(h, normal, ret, ret_n);
}

void elasticd_entries_free(struct elasticd_entry *entries, size_t n)
{
	for (size_t i = 0; entries && i < n; i++) {
		free(entries[i].key);
		free(entries[i].value);
	}
	free(entries);
}

int elasticd_watch_open(
	struct elasticd *h, const char *key, int64_t since, struct elasticd_watch **ret)
{
	_cleanup_free_ char *normal = NULL;
	_cleanup_free_ struct elasticd_watch *w = NULL;
	int r = check_key(key, true, &normal);

	if (r)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail_memory();
	w->side = h->side;
	r = h->side->watch_open(h, normal, since < 0 ? -1 : since, &w->stream);
	if (!r)
		*ret = TAKE_PTR(w);
	return r;
}

int elasticd_watch_next(struct elasticd_watch *w, int timeout_ms, struct elasticd_entry **ret)
{
	return w->side->watch_next(w->stream, timeout_ms, ret);
}

int elasticd_watch_fd(const struct elasticd_watch *w)
{
	return w->side->stream_fd(w->stream);
}

void elasticd_watch_close(struct elasticd_watch *w)
{
	if (w)
		w->side->watch_close(w->stream);
	free(w);
}

/* --- the group */

int elasticd_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms)
{
	int r = check_text("name", name, WORKER_NAME_MAX);

	if (!r && !*name)
		r = fail(ELASTICD_INVALID_ARGUMENT, "name: expected 1 byte at least, got \"\"");
	if (!r)
		r = check_names("members", members, n);
	return r ? r : h->side->barrier(h, name, members, n, timeout_ms);
}

int elasticd_barrier_cancel(struct elasticd *h, const char *name, const char *message)
{
	int r = check_text("name", name, WORKER_NAME_MAX);

	return r ? r : h->side->barrier_cancel(h, name, message);
}

int elasticd_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n)
{
	int r = check_names("members", members, n);

	return r ? r : h->side->alive(h, members, n, timeout_ms, ret, ret_n);
}

void elasticd_names_free(char **names, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}

int elasticd_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n)
{
	int r = check_names("roles", roles, n);

	return r ? r : h->side->states(h, roles, n, ret, ret_n);
}

void elasticd_members_free(struct elasticd_member *members, size_t n)
{
	for (size_t i = 0; members && i < n; i++) {
		free(members[i].task);
		free(members[i].state);
		elasticd_error_free(members[i].error);
	}
	free(members);
}

int elasticd_result(struct elasticd *h, const void *value, size_t len)
{
	int r = check_value(value, len);

	return r ? r : h->side->result(h, value ? value : "", len);
}

/* --- errors */

struct elasticd_error *error_new(int code, const char *message, const char *task, bool reported)
{
	struct elasticd_error *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->code = code;
	e->reported = reported;
	e->message = strdup(message);
	e->task = strdup(task);
	if (!e->message || !e->task) {
		elasticd_error_free(e);
		return NULL;
	}
	return e;
}

void elasticd_error_free(struct elasticd_error *e)
{
	if (!e)
		return;
	free(e->message);
	free(e->task);
	free(e);
}

int elasticd_report_error(struct elasticd *h, int code, const char *message)
{
	if (code <= ELASTICD_OK || code > ELASTICD_UNAUTHENTICATED)
		return fail(ELASTICD_INVALID_ARGUMENT, "code: expected 1 to %d, got %d",
			ELASTICD_UNAUTHENTICATED, code);
	/* That the others are told matters more than the file, and decides. */
	(void)errorfile_write(h, message ? message : "", NULL);
	return h->side->report(h, code, message ? message : "");
}

int elasticd_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret)
{
	return h->side->wait_error(h, timeout_ms, ret);
}

int elasticd_leave(struct elasticd *h, int timeout_ms)
{
	return h->side->leave(h, timeout_ms);
}

int elasticd_write_error(struct elasticd *h, const char *message, const char *traceback)
{
	return errorfile_write(h, message ? message : "", traceback);
}

/* --- events */

int elasticd_events_open(struct elasticd *h, struct elasticd_events **ret)
{
	_cleanup_free_ struct elasticd_events *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fail_memory();
	e->side = h->side;
	r = h->side->events_open(h, &e->stream);
	if (!r)
		*ret = TAKE_PTR(e);
	return r;
}

int elasticd_events_next(struct elasticd_events *e, int timeout_ms, struct elasticd_event **ret)
{
	return e->side->events_next(e->stream, timeout_ms, ret);
}

int elasticd_events_fd(const struct elasticd_events *e)
{
	return e->side->stream_fd(e->stream);
}

void elasticd_event_free(struct elasticd_event *event)
{
	if (!event)
		return;
	free(event->event);
	free(event->task);
	free(event->text);
	elasticd_error_free(event->error);
	free(event);
}

void elasticd_events_close(struct elasticd_events *e)
{
	if (e)
		e->side->events_close(e->stream);
	free(e);
}
