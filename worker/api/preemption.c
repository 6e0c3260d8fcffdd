/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps while a notice of preemption, or an error of the group, is up; see common/base/board.h for
 * what makes sure that a task and the agent do not both miss what the other one wrote.
 */
#include "worker/base/handle.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RELAXED memory_order_relaxed

static atomic_bool fences = true;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Also in a child of fork(): whether it has that from its parent is the kernel's business. */
static void ask_kernel(void)
{
	long r = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);

	atomic_store(&fences, r != 0);
}

static void register_first(void)
{
	ask_kernel();
	pthread_atfork(NULL, NULL, ask_kernel);
}

void preempt_register(void)
{
	pthread_once(&once, register_first);
}

const atomic_bool *preempt_fences(void)
{
	return &fences;
}

int preempt_step(struct elasticd *h, int64_t n)
{
	const struct board_header *b = h->header;
	int action, r;

	if (!atomic_load_explicit(&b->error, RELAXED) &&
		n < atomic_load_explicit(&b->save_at, RELAXED))
		return ELASTICD_CONTINUE;
	r = h->side->step(h, n, &action);
	return r ? -r : action;
}

int elasticd_saved(struct elasticd *h, int64_t n, const char *path)
{
	int r = path ? check_text("path", path, WORKER_PATH_MAX) : 0;

	return r ? r : h->side->saved(h, n, path);
}

int elasticd_preempted(struct elasticd *h, struct elasticd_preemption *ret)
{
	int r;

	if (!elasticd_notice(h))
		return 0;
	if (!ret)
		return 1;
	r = h->side->preemption(h, ret);
	return r == ELASTICD_NOT_FOUND ? 0 : r ? -r : 1;
}

int elasticd_notify(struct elasticd *h, const char *reason, int64_t grace_ms)
{
	int r = check_text("reason", reason, SIZE_MAX);

	return r ? r : h->side->notify(h, reason, grace_ms < 0 ? -1 : grace_ms);
}

int elasticd_exit_code(const struct elasticd *h)
{
	return atomic_load(&h->exit_code);
}

/* --- hooks */

/* A status, negative. */
static int save_by_hook(struct elasticd *h, int64_t n, elasticd_save_fn save, void *arg)
{
	char path[WORKER_PATH_MAX + 1] = "";
	int r = save(arg, n, path, sizeof(path));

	if (r)
		return -fail(ELASTICD_ABORTED, "the checkpoint of step %lld was not written: %d",
			(long long)n, r);
	path[sizeof(path) - 1] = '\0';
	return -elasticd_saved(h, n, *path ? path : NULL);
}

int elasticd_checkpoint(
	struct elasticd *h, int64_t n, elasticd_save_fn save, elasticd_exit_fn leave, void *arg)
{
	int action, r = 0;

	if (!save)
		return -fail(ELASTICD_INVALID_ARGUMENT, "save: expected a function, got NULL");
	action = elasticd_step(h, n);
	if (action == ELASTICD_SAVE || action == ELASTICD_SAVE_AND_EXIT)
		r = save_by_hook(h, n, save, arg);
	if (r < 0)
		return r;
	if (action == ELASTICD_SAVE_AND_EXIT || action == ELASTICD_EXIT) {
		if (!leave)
			exit(elasticd_exit_code(h));
		leave(arg, elasticd_exit_code(h));
	}
	return action;
}
