/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/fence.h"

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/*
 * The guard reads the page at any time, also when the agent died while it wrote: turn is odd then.
 */

enum { FENCE_ROUNDS = 500, FENCE_SAY_MS = 1000 };

struct fence {
	_Atomic uint64_t deadline_ms;
	_Atomic bool waits; /* the guard knows of a deadline, and looks at it again by itself */
	_Atomic unsigned turn;
	struct sockaddr_storage to;
	socklen_t to_len;
	size_t len;
	char text[FENCE_TEXT_MAX];
};

static struct fence *fence;

int fence_make(void)
{
	void *page = mmap(
		NULL, sizeof(*fence), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	fence = page;
	return 0;
}

bool fence_set(uint64_t deadline_ms)
{
	if (!fence)
		return false;
	atomic_store(&fence->deadline_ms, deadline_ms);
	return deadline_ms && !atomic_load(&fence->waits);
}

void fence_last_word(const struct sockaddr *to, socklen_t to_len, const void *text, size_t len)
{
	if (!fence || len > sizeof(fence->text) || to_len > sizeof(fence->to))
		return;
	atomic_fetch_add(&fence->turn, 1);
	fence->len = len;
	fence->to_len = to_len;
	if (len) {
		memcpy(&fence->to, to, to_len);
		memcpy(fence->text, text, len);
	}
	atomic_fetch_add(&fence->turn, 1);
}

int64_t fence_left_ms(void)
{
	uint64_t deadline, ms;

	if (!fence)
		return -1;
	/* First the flag: a deadline that is set after it wakes the guard. */
	atomic_store(&fence->waits, false);
	deadline = atomic_load(&fence->deadline_ms);
	if (!deadline)
		return -1;
	atomic_store(&fence->waits, true);
	ms = (uint64_t)boottime_us() / 1000;
	return deadline > ms ? (int64_t)(deadline - ms) : 0;
}

/* Whether the agent has gone on, which sets another deadline, and may have started p since then. */
static bool fence_spares(const struct proc_stat *p, uint64_t deadline)
{
	uint64_t tick = deadline * (uint64_t)sysconf(_SC_CLK_TCK) / 1000;

	return atomic_load(&fence->deadline_ms) != deadline && p->start_ticks >= tick;
}

/* Returns how many living descendants of agent got SIGKILL. */
static size_t fence_kill_once(pid_t agent, uint64_t deadline)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n = 0, killed = 0;

	if (proc_stat_all(&procs, &n) < 0)
		return 1;
	n = proc_keep_descendants(procs, n, agent);
	for (size_t i = 0; i < n; i++)
		if (!proc_stat_dead(&procs[i]) && !fence_spares(&procs[i], deadline) &&
			!proc_kill(&procs[i], SIGKILL))
			killed++;
	return killed;
}

void fence_kill(pid_t agent)
{
	const struct timespec tick = { .tv_nsec = 10000000 };
	uint64_t deadline = atomic_load(&fence->deadline_ms);

	if (!deadline || deadline > (uint64_t)boottime_us() / 1000)
		return; /* the agent has gone on */
	/* Dead ones stay until the agent reaps them. */
	for (int i = 0; i < FENCE_ROUNDS && fence_kill_once(agent, deadline); i++) {
		if (!i)
			log_error("the lease of this host is over, and its workers live: killing "
				  "them");
		nanosleep(&tick, NULL);
	}
	atomic_compare_exchange_strong(&fence->deadline_ms, &deadline, 0);
}

static bool fence_connect(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int error = 0;

	if (connect(fd, (const struct sockaddr *)&fence->to, fence->to_len) == 0)
		return true;
	return errno == EINPROGRESS && poll(&p, 1, FENCE_SAY_MS) == 1 &&
	       getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && !error;
}

void fence_say_last_word(void)
{
	_cleanup_close_ int fd = -1;

	if (!fence || !fence->len || atomic_load(&fence->turn) % 2)
		return;
	fd = socket(fence->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || !fence_connect(fd) ||
		send(fd, fence->text, fence->len, MSG_NOSIGNAL) != (ssize_t)fence->len)
		log_warning("the head of the group is not told that this host is gone");
	else
		(void)shutdown(fd, SHUT_WR);
}
