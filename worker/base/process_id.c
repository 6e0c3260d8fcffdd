/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number is kept on a page that the kernel zeroes in every child, however it was made. A kernel
 * that cannot do that is asked for the number each time.
 */
#include "worker/base/process_id.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic(_Atomic(pid_t) *) kept;

/* Without memory for the page, the next caller tries again. */
static void process_id_keep(pid_t pid)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic(pid_t) *none = NULL, *page;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	page = p;
	if (madvise(p, size, MADV_WIPEONFORK) == 0) {
		atomic_store(page, pid);
		if (atomic_compare_exchange_strong(&kept, &none, page))
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
		process_id_keep(pid);
	return pid;
}
