/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's record is made at its first failure and freed with the thread. The library is never
 * unloaded (-z nodelete), so the destructor stays callable.
 */
#include "worker/base/failure.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t failure_once = PTHREAD_ONCE_INIT;
static pthread_key_t failure_key;
static bool failure_has_key;

/* All but the text. */
static void failure_clear(struct failure *f)
{
	free(f->missing);
	free(f->details);
	free(f->worker);
	f->missing = f->details = f->worker = NULL;
	f->queue = false;
}

static void failure_free(void *arg)
{
	struct failure *f = arg;

	failure_clear(f);
	free(f);
}

static void failure_make_key(void)
{
	failure_has_key = pthread_key_create(&failure_key, failure_free) == 0;
}

static struct failure *failure_get(void)
{
	pthread_once(&failure_once, failure_make_key);
	return failure_has_key ? pthread_getspecific(failure_key) : NULL;
}

const struct failure *failure_last(void)
{
	return failure_get();
}

/* NULL without memory. */
static struct failure *failure_make(void)
{
	struct failure *f = failure_get();

	if (f || !failure_has_key)
		return f;
	f = calloc(1, sizeof(*f));
	if (f && pthread_setspecific(failure_key, f) != 0) {
		free(f);
		f = NULL;
	}
	return f;
}

enum elasticd_status fail(enum elasticd_status status, const char *fmt, ...)
{
	struct failure *f = failure_make();
	va_list ap;

	if (!f)
		return status;
	failure_clear(f);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return status;
}

enum elasticd_status fail_missing(enum elasticd_status status, char *missing, const char *message)
{
	struct failure *f;

	fail(status, "%s", message);
	f = failure_get();
	if (f)
		f->missing = missing;
	else
		free(missing);
	return status;
}

enum elasticd_status fail_queue(const struct queue_error_parts *e)
{
	struct failure *f;

	fail(e->code, "%s", e->message);
	f = failure_get();
	if (!f)
		return e->code;
	f->queue = true;
	f->task = e->task < 0 ? 0 : e->task;
	f->exit_code = e->exit_code;
	f->details = strdup(e->details);
	f->worker = strdup(e->worker);
	return e->code;
}

enum elasticd_status fail_memory(void)
{
	return fail(ELASTICD_STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

enum elasticd_status fail_random(void)
{
	return fail(ELASTICD_STATUS_INTERNAL, "cannot get a random number");
}

enum elasticd_status fail_malformed(void)
{
	return fail(ELASTICD_STATUS_INTERNAL, "the agent's answer is malformed");
}

enum elasticd_status fail_reading(int r)
{
	return r == -ENOMEM ? fail_memory() : fail_malformed();
}

enum elasticd_status fail_alone(void)
{
	return fail(ELASTICD_STATUS_FAILED_PRECONDITION,
		"this would wait for ever: outside elasticd the threads of a process are its "
		"workers, and there is no other thread");
}

enum elasticd_status fail_closed(void)
{
	return fail(ELASTICD_STATUS_CANCELLED, "the handle was closed");
}

enum elasticd_status fail_stopped(void)
{
	return fail(ELASTICD_STATUS_CANCELLED, "the slot was stopped");
}

enum elasticd_status fail_interrupted(void)
{
	return fail(ELASTICD_STATUS_INTERRUPTED, "a signal came");
}

enum elasticd_status fail_errno(int r, const struct error *err)
{
	if (r == -ENOMEM)
		return fail_memory();
	return fail(r == -EPERM ? ELASTICD_STATUS_PERMISSION_DENIED : ELASTICD_STATUS_UNAVAILABLE,
		"%s", err->text);
}
