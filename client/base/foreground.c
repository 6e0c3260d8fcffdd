/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/foreground.h"

#include "common/base/stdfds.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Signals that other processes send to us and that are meant for the program. While the program has
 * the terminal, the keyboard's signals reach it directly. */
static const int handed_on[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2 };

static void block_signals(struct foreground *f, sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGCHLD);
	sigaddset(ret, SIGCONT);
	for (size_t i = 0; i < sizeof(handed_on) / sizeof(handed_on[0]); i++)
		sigaddset(ret, handed_on[i]);
	/* We are in the background when we take the terminal back: SIGTTOU must not stop us. */
	sigaddset(ret, SIGTTOU);
	sigprocmask(SIG_BLOCK, ret, &f->before);
	sigdelset(ret, SIGTTOU);
	/* The program may be killed before it is let go. */
	signal(SIGPIPE, SIG_IGN);
}

static bool have_terminal(void)
{
	return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void give_terminal(struct foreground *f)
{
	if (!f->has_tty || f->given)
		return;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &f->its);
	f->given = tcsetpgrp(STDIN_FILENO, f->pid) == 0;
}

/* Takes the terminal back from the program's group, or from a group that the program gave it to;
 * never if we did not give it away. */
static void take_terminal(struct foreground *f)
{
	if (!f->given)
		return;
	tcsetpgrp(STDIN_FILENO, getpgrp());
	tcgetattr(STDIN_FILENO, &f->its);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &f->ours);
	f->given = false;
}

struct refusal {
	int error; /* errno */
	enum foreground_stage stage;
};

/* In the child: executes the program, or returns why that failed. */
static struct refusal exec_program(const struct foreground_program *p)
{
	if (p->cwd && chdir(p->cwd) < 0)
		return (struct refusal){ errno, FOREGROUND_CWD };
	if (p->umask != SPEC_UNSET)
		umask((mode_t)p->umask);
	for (size_t i = 0; i < p->n_limits; i++) {
		struct rlimit lim = { p->limits[i].soft, p->limits[i].hard };

		if (setrlimit(p->limits[i].resource, &lim) < 0)
			return (struct refusal){ errno, FOREGROUND_LIMITS };
	}
	stdfds_inherit();
	environ = (char **)p->envp;
	execvp(p->argv[0], p->argv);
	return (struct refusal){ errno, FOREGROUND_EXEC };
}

/* In the child; never returns. */
static void run_child(const struct foreground *f, const struct foreground_program *p, pid_t parent)
{
	struct refusal why;
	char go;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	close(f->signal_fd);
	if (read(f->go_fd, &go, 1) != 1)
		_exit(127);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigprocmask(SIG_SETMASK, &f->before, NULL);
	why = exec_program(p);
	(void)!write(f->error_fd, &why, sizeof(why));
	_exit(127);
}

static int make_process(struct foreground *f, const struct foreground_program *p, int go[2],
	int error[2], struct error *err)
{
	struct foreground child = *f;
	pid_t parent = getpid();

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	f->pid = fork();
	if (f->pid < 0)
		return error_set(err, -errno, "cannot make a process: %s", strerror(errno));
	if (f->pid == 0) {
		close(go[1]);
		child.go_fd = go[0];
		child.error_fd = error[1];
		run_child(&child, p, parent);
	}
	setpgid(f->pid, f->pid);
	return 0;
}

int foreground_start(
	struct foreground *f, const struct foreground_program *program, struct error *err)
{
	int go[2] = { -1, -1 }, error[2] = { -1, -1 };
	sigset_t wanted;
	int r = 0;

	*f = (struct foreground){ .signal_fd = -1, .go_fd = -1, .error_fd = -1 };
	f->has_tty = have_terminal() && tcgetattr(STDIN_FILENO, &f->ours) == 0;
	f->its = f->ours;
	block_signals(f, &wanted);
	f->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	if (f->signal_fd < 0)
		r = error_set(err, -errno, "cannot listen to signals: %s", strerror(errno));
	if (r == 0)
		r = make_process(f, program, go, error, err);
	close_fd(go[0]);
	close_fd(error[1]);
	f->go_fd = go[1];
	f->error_fd = error[0];
	if (r < 0) {
		f->pid = 0;
		foreground_end(f);
	}
	return r;
}

int foreground_go(struct foreground *f)
{
	struct refusal why;
	ssize_t n;

	give_terminal(f);
	n = write(f->go_fd, "x", 1);
	f->go_fd = close_fd(f->go_fd);
	while ((n = read(f->error_fd, &why, sizeof(why))) < 0 && errno == EINTR)
		;
	f->error_fd = close_fd(f->error_fd);
	if (n != sizeof(why))
		return 0;
	foreground_kill(f);
	f->stage = why.stage;
	return -why.error;
}

void foreground_signal(struct foreground *f, int signo)
{
	if (f->ended)
		return;
	kill(-f->pid, signo);
	if (signo == SIGTERM || signo == SIGHUP)
		kill(-f->pid, SIGCONT);
}

/* Whether a shell could continue us. If not, we must not stop, since nothing would continue us. */
static bool has_job_control(void)
{
	pid_t parent = getppid();

	return getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}

/* Runs when a shell continues us, in the foreground ("fg") or background ("bg"): continues the
 * program too. */
static void continue_program(struct foreground *f)
{
	if (f->has_tty && !f->given && tcgetpgrp(STDIN_FILENO) == getpgrp()) {
		tcgetattr(STDIN_FILENO, &f->ours);
		give_terminal(f);
	}
	kill(-f->pid, SIGCONT);
}

/* A shell does not tell us that "bg" has become "fg": the program stops because it wants the
 * terminal, and we have it by now. */
static bool only_lacks_terminal(const struct foreground *f, int signo)
{
	return (signo == SIGTTIN || signo == SIGTTOU) && f->has_tty && !f->given &&
	       tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Clears a pending SIGCONT. Handled a second time, it would undo a stop that came between. */
static void forget_continued(void)
{
	const struct timespec now = { 0 };
	sigset_t cont;

	sigemptyset(&cont);
	sigaddset(&cont, SIGCONT);
	while (sigtimedwait(&cont, NULL, &now) == SIGCONT)
		;
}

/* The program was stopped: stops our own process group too, until a shell continues it. */
static void stop_too(struct foreground *f, int signo)
{
	sigset_t stop;

	take_terminal(f);
	if (!only_lacks_terminal(f, signo) && has_job_control()) {
		sigemptyset(&stop);
		sigaddset(&stop, SIGTSTP);
		signal(SIGTSTP, SIG_DFL);
		kill(0, SIGTSTP);
		sigprocmask(SIG_UNBLOCK, &stop, NULL);
		/* The process is stopped here. */
		sigprocmask(SIG_BLOCK, &stop, NULL);
		forget_continued();
	}
	continue_program(f);
}

static void reap_program(struct foreground *f)
{
	int status;

	while (!f->ended && waitpid(f->pid, &status, WNOHANG | WUNTRACED) == f->pid) {
		if (WIFSTOPPED(status)) {
			stop_too(f, WSTOPSIG(status));
		} else {
			f->ended = true;
			f->status = status;
		}
	}
}

void foreground_take(struct foreground *f)
{
	struct signalfd_siginfo si;

	while (read(f->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			reap_program(f);
		else if (si.ssi_signo == SIGCONT)
			continue_program(f);
		else
			foreground_signal(f, (int)si.ssi_signo);
	}
}

void foreground_kill(struct foreground *f)
{
	if (f->ended || !f->pid)
		return;
	kill(-f->pid, SIGKILL);
	while (waitpid(f->pid, &f->status, 0) < 0 && errno == EINTR)
		;
	f->ended = true;
}

void foreground_end(struct foreground *f)
{
	/* A program that was never let go ends here. */
	f->go_fd = close_fd(f->go_fd);
	f->error_fd = close_fd(f->error_fd);
	foreground_kill(f);
	take_terminal(f);
	f->signal_fd = close_fd(f->signal_fd);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &f->before, NULL);
}
