/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thread has the text of its own last failure, made at its first one and freed with the
 * thread. The library is never unloaded (-z nodelete), so the destructor is always there to be
 * called.
 */
#include "worker/base/handle.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct failure {
	char text[8192 + 1]; /* an error of the group as long as the agent keeps it */
	char *missing;
	/* of the error of a queue */
	bool queue;
	int64_t task;
	int exit_code;
	char *details, *worker;
};

static pthread_once_t failure_once = PTHREAD_ONCE_INIT;
static pthread_key_t failure_key;
static bool failure_has_key;

/* But for the text. */
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

/* NULL where this thread had no failure, or there is no memory for one's text. */
static struct failure *failure_get(bool make)
{
	struct failure *f;

	pthread_once(&failure_once, failure_make_key);
	if (!failure_has_key)
		return NULL;
	f = pthread_getspecific(failure_key);
	if (f || !make)
		return f;
	f = calloc(1, sizeof(*f));
	if (f && pthread_setspecific(failure_key, f) != 0) {
		free(f);
		f = NULL;
	}
	return f;
}

int fail(int status, const char *fmt, ...)
{
	struct failure *f = failure_get(true);
	va_list ap;

	if (!f)
		return status;
	failure_clear(f);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return status;
}

int fail_missing(int status, char *missing, const char *message)
{
	struct failure *f;

	fail(status, "%s", message);
	f = failure_get(true);
	if (f)
		f->missing = missing;
	else
		free(missing);
	return status;
}

int fail_queue(const struct queue_failure_text *q)
{
	struct failure *f;

	fail(q->code, "%s", q->message);
	f = failure_get(true);
	if (!f)
		return q->code;
	f->queue = true;
	f->task = q->task < 0 ? 0 : q->task;
	f->exit_code = q->exit_code;
	f->details = strdup(q->details);
	f->worker = strdup(q->worker);
	return q->code;
}

int fail_memory(void)
{
	return fail(ELASTICD_RESOURCE_EXHAUSTED, "out of memory");
}

int fail_single(void)
{
	return fail(ELASTICD_FAILED_PRECONDITION,
		"this would never end: outside elasticd the threads of a process are its workers, "
		"and this one has no other thread");
}

int fail_errno(int r, const struct error *err)
{
	if (r == -ENOMEM)
		return fail_memory();
	return fail(
		r == -EPERM ? ELASTICD_PERMISSION_DENIED : ELASTICD_UNAVAILABLE, "%s", err->text);
}

const char *elasticd_error_text(void)
{
	const struct failure *f = failure_get(false);

	return f ? f->text : "";
}

const char *elasticd_error_missing(void)
{
	const struct failure *f = failure_get(false);

	return f && f->missing ? f->missing : "";
}

int64_t elasticd_error_task(void)
{
	const struct failure *f = failure_get(false);

	return f && f->queue ? f->task : -1;
}

int elasticd_error_exit_code(void)
{
	const struct failure *f = failure_get(false);

	return f && f->queue ? f->exit_code : -1;
}

const char *elasticd_error_details(void)
{
	const struct failure *f = failure_get(false);

	return f && f->details ? f->details : "";
}

const char *elasticd_error_worker(void)
{
	const struct failure *f = failure_get(false);

	return f && f->worker ? f->worker : "";
}

int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

int64_t clock_end(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : clock_ms() + timeout_ms;
}

int clock_left(int64_t end, int timeout_ms)
{
	int64_t left;

	if (timeout_ms <= 0)
		return timeout_ms;
	left = end - clock_ms();
	return left > 0 ? (int)left : 1;
}

/* Those of a fault are handled for a report of it, and then it is over. */
static bool signal_is_fault(int s)
{
	return s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGABRT ||
	       s == SIGTRAP || s == SIGSYS;
}

bool signal_interrupts(void)
{
	for (int s = 1; s < NSIG; s++) {
		struct sigaction sa;

		if (!signal_is_fault(s) && sigaction(s, NULL, &sa) == 0 &&
			sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
			!(sa.sa_flags & SA_RESTART))
			return true;
	}
	return false;
}
