/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/helper.h"

#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/queue.h>

enum { HELPERS_MAX = 64, HELPERS_OF_USER = 16, HELPERS_RESERVE = 16 };

struct helpers {
	const struct job_host *host;
	uint64_t idle_ms;
	struct budget *budget;
	LIST_HEAD(, helper) list;
};

struct helper {
	LIST_ENTRY(helper) entry;
	struct helpers *all;
	struct budget_holder place;
	struct child_watch *watch; /* NULL: its process is gone */
	struct loop_timer *timer;
	pid_t pid;
	uint64_t cpu_ms; /* of the process, when helper_await() was called */
	const char *why; /* why elasticd killed it; NULL: it ended by itself */
	bool freed;	 /* the owner has dropped it */
};

int helpers_new(const struct job_host *host, uint64_t idle_ms, struct helpers **ret)
{
	const struct budget_limits l = {
		.total = HELPERS_MAX, .share = HELPERS_OF_USER, .reserve = HELPERS_RESERVE
	};
	struct helpers *all = calloc(1, sizeof(*all));

	if (!all || budget_new(&l, &all->budget) < 0) {
		free(all);
		return -ENOMEM;
	}
	all->host = host;
	all->idle_ms = idle_ms;
	LIST_INIT(&all->list);
	*ret = all;
	return 0;
}

static void helper_drop(struct helper *h)
{
	LIST_REMOVE(h, entry);
	budget_leave(&h->place);
	loop_timer_free(h->timer);
	child_watch_free(h->watch);
	free(h);
}

static void on_end(void *arg, int code, int status)
{
	struct helper *h = arg;

	h->watch = child_watch_free(h->watch);
	budget_leave(&h->place);
	loop_timer_disarm(h->timer);
	if (h->freed)
		helper_drop(h);
}

/* Kills the process, even a stopped one. The relay that reads its answer sees the connection end.
 */
static void helper_kill(struct helper *h, const char *why)
{
	if (!h->watch)
		return;
	h->why = why;
	loop_timer_disarm(h->timer);
	child_watch_kill(h->watch, SIGKILL);
}

struct helpers *helpers_free(struct helpers *all)
{
	if (!all)
		return NULL;
	while (!LIST_EMPTY(&all->list)) {
		helper_kill(LIST_FIRST(&all->list), NULL);
		helper_drop(LIST_FIRST(&all->list));
	}
	budget_free(all->budget);
	free(all);
	return NULL;
}

static void on_cut(void *arg)
{
	helper_kill(arg,
		"the process that reads the run's files was ended: other users need its place");
}

static uint64_t cpu_ms(const struct helper *h)
{
	struct proc_stat st;

	return proc_stat_read(h->pid, &st) == 0 ? st.cpu_ms : 0;
}

static void on_idle(void *arg)
{
	struct helper *h = arg;

	if (cpu_ms(h) != h->cpu_ms) { /* it works: it has much to read */
		helper_await(h, true);
		return;
	}
	log_warning("pid %d, which reads the files of a run that is over, got nothing done for "
		    "%d s: killed",
		(int)h->pid, (int)(h->all->idle_ms / 1000));
	helper_kill(h, "the process that reads the run's files got nothing done, and was killed");
}

void helper_await(struct helper *h, bool awaited)
{
	if (!awaited || !h->watch) {
		loop_timer_disarm(h->timer);
		return;
	}
	h->cpu_ms = cpu_ms(h);
	loop_timer_arm(h->timer, h->all->idle_ms);
}

const char *helper_why(const struct helper *h)
{
	return h->why ? h->why : "the process that reads the run's files ended";
}

static int helper_start(struct helper *h, const struct job *j, int *ret_socket, struct error *err)
{
	const struct job_host *host = h->all->host;
	_cleanup_free_ char *dir = paths_join(host->store->path, j->rec.run);
	struct agent_process_options o = { .program = host->agent_program, .record_dir = dir };
	_cleanup_close_ int fd = -1;
	struct child child;
	int r = dir ? agent_process_serve(&o, &j->rec, &child, &fd, err)
		    : error_set(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	h->pid = child.pid;
	r = child_watch_new(host->loop, child.pidfd, on_end, h, &h->watch);
	if (r < 0)
		return error_set(err, r, "%s", strerror(-r));
	*ret_socket = TAKE_FD(fd);
	return 0;
}

int helper_new(struct helpers *all, const struct job *j, const struct varlink_account *caller,
	struct helper **ret, int *ret_socket, size_t *ret_limit, struct error *err)
{
	struct helper *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	h->all = all;
	LIST_INSERT_HEAD(&all->list, h, entry);
	r = budget_join(all->budget, &h->place, caller->key, caller->trusted, on_cut, h);
	if (r == 0)
		r = loop_timer_new(all->host->loop, on_idle, h, &h->timer);
	if (r < 0) {
		helper_drop(h);
		return error_set(err, r, "out of memory");
	}
	r = budget_hold(&h->place, 1);
	if (r < 0)
		*ret_limit = budget_limit(all->budget, r);
	else
		r = helper_start(h, j, ret_socket, err);
	if (r < 0) {
		helper_drop(h);
		return r;
	}
	helper_await(h, true);
	*ret = h;
	return 0;
}

struct helper *helper_free(struct helper *h)
{
	if (!h)
		return NULL;
	h->freed = true;
	helper_kill(h, NULL);
	if (!h->watch)
		helper_drop(h);
	return NULL;
}
