/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel logs a trap (SIGSEGV and others) and errors of GPUs (NVIDIA calls them Xid). */
#include "agent/resources/private.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Whether the kernel logs a line for processes that end so. */
static bool kernel_logs(int signo)
{
	return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE ||
	       signo == SIGTRAP;
}

/* Also of workers that have ended at the same time: they have their pids until each is handled. */
static bool kernel_is_worker(void *arg, pid_t pid)
{
	return worker_list_by_pid(arg, pid) != NULL;
}

void kernel_note_end(struct resources *x, struct worker *w)
{
	char line[KERNEL_LOG_TEXT], xid[KERNEL_LOG_TEXT], note[KERNEL_LOG_TEXT + 32];
	bool sure = true, sure_gpu = true, trap, gpu;

	if (!worker_bad_exit(w) || w->exit.error || w->stop_us || w->on_purpose)
		return;
	kernel_log_read(x->kernel);
	trap = kernel_logs(w->exit.signal) &&
	       kernel_log_take_trap(x->kernel, w->pid, kernel_is_worker, x->sv, &sure, line);
	gpu = kernel_log_find_xid(x->kernel, w->pid, &sure_gpu, xid);
	if (!trap && !gpu)
		return;
	if (asprintf(&w->exit.kernel, "%s%s%s", trap ? line : "", trap && gpu ? "; " : "",
		    gpu ? xid : "") < 0)
		w->exit.kernel = NULL;
	/* The note is short: it leaves the CPU out. */
	if (trap && strstr(line, " likely on CPU "))
		*strstr(line, " likely on CPU ") = '\0';
	snprintf(note, sizeof(note), ", %skernel: %s", (trap ? sure : sure_gpu) ? "" : "perhaps ",
		trap ? line : xid);
	worker_note_exit(w, note);
}
