/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/local_queue.h"

#include <sys/stat.h>

enum {
	SLOTS = 1 << 20,
	GRACE_MS = 1 << 30, /* nobody here is killed */
	BLAME = 3,
	/* A limit that a step of another thread has set is kept by then, and that the others have
	 * ended is seen. */
	SLICE_MS = 500,
};

static struct queues *machine;
static TAILQ_HEAD(, local_ask) asks = TAILQ_HEAD_INITIALIZER(asks);
static TAILQ_HEAD(, local_place) places = TAILQ_HEAD_INITIALIZER(places);

uint64_t local_now(void)
{
	return (uint64_t)clock_ms();
}

uint64_t local_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : local_now() + (uint64_t)timeout_ms;
}

static int machine_make(void)
{
	const struct queue_options opt = {
		.first_task = 1,
		.slots = SLOTS,
		.cancel_grace_ms = GRACE_MS,
		.recovery_timeout_ms = -1,
		.blame_limit = BLAME,
		.blame_window_ms = -1,
		.stall_ms = -1,
		.call_timeout_ms = LOCAL_CALL_MS,
		.answer_timeout_ms = LOCAL_ANSWER_MS,
	};
	int r = queues_new(&opt, &machine);

	if (r < 0)
		return fail_memory();
	r = queue_worker_started(machine, 0, 0, NULL, true, local_now());
	if (r == 0)
		r = queue_worker_name(machine, 0, LOCAL_WORKER);
	if (r < 0)
		machine = queues_free(machine);
	return r < 0 ? fail_memory() : 0;
}

struct queues *local_machine(void)
{
	return machine;
}

int local_queue_enter(const struct elasticd *h, struct queues **ret)
{
	int r = local_enter(h);

	if (r)
		return r;
	if (!machine)
		r = machine_make();
	if (r) {
		local_unlock();
		return r;
	}
	local_queue_expire(machine);
	*ret = machine;
	return 0;
}

/* --- what the machine wants */

static void tell_cancelled(const struct queue_do *what)
{
	struct local_place *p;

	TAILQ_FOREACH (p, &places, entry) {
		if (!p->lease || p->number != what->lease || atomic_load(&p->cancelled))
			continue;
		text_cut(p->reason, sizeof(p->reason), what->text);
		atomic_store(&p->cancelled, true);
	}
}

void local_queue_settle(struct queues *m)
{
	struct queue_do what;
	struct queue_wait *w;

	while (queue_next(m, &what) != QUEUE_DO_NOTHING)
		if (what.what == QUEUE_DO_CANCEL)
			tell_cancelled(&what);
	while ((w = queue_over(m))) {
		struct local_ask *a = w->arg;

		a->over = true;
		if (!a->halted)
			sem_post(&a->wait.wake);
	}
}

void local_queue_expire(struct queues *m)
{
	if (queue_due_ms(m) > local_now())
		return;
	(void)queue_expire(m, local_now());
	local_queue_settle(m);
}

/* --- waits */

void local_ask_begin(struct local_ask *a, struct elasticd *h)
{
	*a = (struct local_ask){ .over = false };
	a->w.arg = a;
	local_wait_begin(&a->wait, h);
	TAILQ_INSERT_TAIL(&asks, a, entry);
}

void local_ask_end(struct queues *m, struct local_ask *a)
{
	queue_wait_fini(m, &a->w, local_now());
	TAILQ_REMOVE(&asks, a, entry);
	if (!a->halted)
		local_wait_end(&a->wait);
	local_queue_settle(m);
}

void local_ask_halt(struct local_ask *a)
{
	local_wait_end(&a->wait);
	a->halted = true;
}

void local_ask_resume(struct local_ask *a, struct elasticd *h)
{
	local_wait_begin(&a->wait, h);
	a->halted = false;
}

/* Whether this thread is the only one: the kernel has a directory of each. */
static bool is_alone(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

int local_fail_status(int status, const char *text)
{
	return status == STATUS_OK ? 0 : fail(status, "%s", text);
}

static int ask_status(const struct local_ask *a)
{
	const struct queue_error *e = &a->w.error;

	if (a->w.failed_queue) {
		const struct queue_failure_text f = {
			.code = (int)e->code,
			.message = e->message,
			.details = e->details,
			.worker = e->worker < 0 ? "" : LOCAL_WORKER,
			.task = e->task,
			.exit_code = a->w.exit_code,
		};

		return fail_queue(&f);
	}
	return local_fail_status((int)a->w.status, a->w.text);
}

static int64_t next_look(struct queues *m)
{
	uint64_t slice = local_now() + SLICE_MS, due = queue_due_ms(m);

	return (int64_t)(due < slice ? due : slice);
}

static int alone(bool *ret_alone)
{
	if (!ret_alone)
		return fail(ELASTICD_FAILED_PRECONDITION,
			"this would never end: without an agent the threads of a process are its "
			"workers, and this one has no other thread");
	*ret_alone = true;
	return 0;
}

int local_ask_wait(
	struct queues *m, struct local_ask *a, bool over, int timeout_ms, bool *ret_alone)
{
	int r;

	a->over = a->over || over;
	local_queue_settle(m);
	while (!a->over) {
		if (timeout_ms < 0 && is_alone())
			return alone(ret_alone);
		r = local_wait_next(&a->wait, next_look(m));
		if (r && r != ELASTICD_DEADLINE_EXCEEDED)
			return r;
		local_queue_expire(m);
	}
	return ask_status(a);
}

/* --- slots */

void local_place_add(struct local_place *p)
{
	TAILQ_INSERT_TAIL(&places, p, entry);
}

void local_place_remove(struct queues *m, struct local_place *p)
{
	TAILQ_REMOVE(&places, p, entry);
	queue_holder_gone(m, p, local_now());
	local_queue_settle(m);
}

bool local_place_mine(void)
{
	struct local_place *p;

	TAILQ_FOREACH (p, &places, entry)
		if (p->lease && pthread_equal(p->thread, pthread_self()))
			return true;
	return false;
}

void local_queue_in_child(void)
{
	struct local_place *p;
	struct local_ask *a;

	while ((a = TAILQ_FIRST(&asks))) {
		queue_wait_fini(machine, &a->w, local_now());
		TAILQ_REMOVE(&asks, a, entry);
	}
	local_calls_in_child();
	TAILQ_FOREACH (p, &places, entry) {
		p->lease = NULL;
		queue_holder_gone(machine, p, local_now());
	}
	if (machine)
		local_queue_settle(machine);
}
