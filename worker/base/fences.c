/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/fences.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool needed = true;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

/* A child of fork() calls it again: kernels differ in whether it inherits the registration. */
static void fences_ask_kernel(void)
{
	long r = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);

	atomic_store(&needed, r != 0);
}

static void fences_register_first(void)
{
	fences_ask_kernel();
	pthread_atfork(NULL, NULL, fences_ask_kernel);
}

void fences_register(void)
{
	pthread_once(&registered, fences_register_first);
}

const atomic_bool *fences_needed(void)
{
	return &needed;
}
