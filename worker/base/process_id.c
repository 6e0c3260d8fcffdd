/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process this is, without asking the kernel each time: the number is kept in memory that is
 * zero in each child, however it was made. Where the kernel has no such memory it is asked.
 */
#include "worker/base/handle.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic(_Atomic(pid_t) *) kept;

/* Does not come where memory is short: then the next caller tries. */
static void keep(pid_t pid)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic(pid_t) *nobody = NULL, *page;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	page = p;
	if (madvise(p, size, MADV_WIPEONFORK) == 0) {
		atomic_store(page, pid);
		if (atomic_compare_exchange_strong(&kept, &nobody, page))
			return;
	}
	munmap(p, size);
}

pid_t process_id(void)
{
	_Atomic(pid_t) *page = atomic_load_explicit(&kept, memory_order_acquire);
	pid_t pid = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;

	if (pid)
		return pid;
	pid = getpid();
	if (page)
		atomic_store_explicit(page, pid, memory_order_relaxed);
	else
		keep(pid);
	return pid;
}
