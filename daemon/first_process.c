/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/first_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns true, with its exit status, once the child has ended. */
static bool reap_children(pid_t child, int *ret_status)
{
	siginfo_t si = { .si_pid = 0 };
	bool ended = false;

	while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) == 0 && si.si_pid) {
		if (si.si_pid == child) {
			*ret_status = si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
			ended = true;
		}
		si.si_pid = 0;
	}
	return ended;
}

_Noreturn static void watch(pid_t child, const sigset_t *signals)
{
	int status = EXIT_FAILURE;

	for (;;) {
		int signo = sigwaitinfo(signals, NULL);

		if (signo == SIGCHLD && reap_children(child, &status))
			exit(status);
		if (signo > 0 && signo != SIGCHLD)
			kill(child, signo);
	}
}

bool first_process_fork(void)
{
	sigset_t all, mask;
	pid_t pid;

	if (getpid() != 1)
		return false;
	/* The kernel drops signals for process 1 that are neither handled nor blocked. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	signal(SIGCHLD, SIG_DFL); /* where it is ignored it is never sent */
	pid = fork();
	if (pid < 0) {
		perror("elasticd: cannot fork");
		exit(EXIT_FAILURE);
	}
	if (pid > 0) {
		prctl(PR_SET_NAME, "elasticd-init");
		watch(pid, &all);
	}
	/* A terminal's Ctrl-C then reaches process 1 alone, which hands it on once. */
	setpgid(0, 0);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return true;
}
