/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent is no child of the process, which would find it among its own, and get a SIGCHLD: it is
 * its grandchild's program, and the child between them, which makes no signal, is gone at once.
 *
 * What beat and its like touch is there before the agent is, in memory of the process; then the
 * agent's board takes its place, at the same address.
 */
#include "worker/base/private_agent.h"

#include "common/base/alone.h"
#include "common/base/paths.h"
#include "common/varlink/socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STACK_BYTES = 64 << 10,
	START_MS = 30000,
	BOARD_USED = BOARD_HEADER_BYTES + BOARD_SLOT_BYTES,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int channel = -1;  /* of the agent; stays open once it is */
static struct stat made;  /* the same: a program may close what it does not know */
static void *board;	  /* of all handles */
static bool forked, born; /* this process had a child; it is one */

static void alone_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	forked = true;
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	born = true;
	pthread_mutex_unlock(&lock);
}

static size_t board_bytes(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (BOARD_USED + page - 1) / page * page;
}

static void alone_init(void)
{
	void *at = mmap(
		NULL, board_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return;
	board = at;
	board_slot(board, 0)->step = -1;
	pthread_atfork(alone_lock, in_parent, in_child);
}

int alone_open(struct elasticd *h)
{
	struct who *w = &h->who;

	pthread_once(&once, alone_init);
	if (!board)
		return fail_memory();
	h->side = &side_remote;
	h->alone = true;
	h->token = ALONE_TOKEN;
	h->header = board;
	h->slot = board_slot(board, 0);
	w->job = strdup("");
	w->run = strdup("");
	w->role = strdup("worker");
	w->task = strdup("worker:0");
	w->world_size = 1;
	return w->job && w->run && w->role && w->task ? 0 : fail_memory();
}

/* --- the agent's process */

struct launch {
	const char *program;
	int channel;
	int error;
	sigset_t mask;
};

/* Ends the process. Before _exit() a sanitizer would look at the stack, which is not the thread's.
 */
static void leave(int status)
{
	syscall(SYS_exit_group, status);
}

/* In the memory of the thread that waits for it: it calls what is safe in a handler of signals. */
static void launch_exec(struct launch *l)
{
	char *const argv[] = { (char *)l->program, (char *)"--alone", NULL };
	int null = open("/dev/null", O_RDWR), fd = dup2(l->channel, ALONE_FD);

	if (null < 0 || fd < 0 || fcntl(fd, F_SETFD, 0) < 0)
		goto failed;
	for (int i = 0; i < ALONE_FD; i++)
		if (dup2(null, i) < 0)
			goto failed;
	/* What it inherits it would keep open for as long as it lives. */
	close_range(ALONE_FD + 1, ~0U, 0);
	setsid();
	execv(l->program, argv);
failed:
	l->error = errno;
	leave(127);
}

static int launch_child(void *arg)
{
	struct launch *l = arg;
	pid_t pid = vfork();

	if (pid == 0)
		launch_exec(l);
	if (pid < 0)
		l->error = errno;
	leave(0);
	return 0;
}

/* 0 or a negative errno. Signals wait until nothing runs in this memory but its own threads. */
static int launch(const char *program, int agent_end)
{
	struct launch l = { .program = program, .channel = agent_end };
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all;
	pid_t pid;

	if (stack == MAP_FAILED)
		return -ENOMEM;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &l.mask);
	pid = clone(launch_child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, &l);
	if (pid < 0)
		l.error = errno;
	else
		(void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, __WALL));
	pthread_sigmask(SIG_SETMASK, &l.mask, NULL);
	munmap(stack, STACK_BYTES);
	return -l.error;
}

/* --- its start, with the lock */

/* Where a build tree has it. */
static char *library_dir(void)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)&channel, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	return slash ? strndup(info.dli_fname, (size_t)(slash - info.dli_fname)) : strdup(".");
}

/* The agent's board in place of what was there: what was said goes over, what is said meanwhile is
 * said again by the next beat. */
static int board_adopt(int fd, struct error *err)
{
	const size_t len = board_bytes();
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct board_slot *from = board_slot(board, 0), *to;

	if (at == MAP_FAILED)
		return error_set(err, -errno, "cannot map the board: %s", strerror(errno));
	to = board_slot(at, 0);
	to->beats = from->beats;
	to->step = from->step;
	to->steps = from->steps;
	to->token = from->token;
	if (mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, board) != MAP_FAILED)
		return 0;
	munmap(at, len);
	return error_set(err, -errno, "cannot map the board: %s", strerror(errno));
}

/* The agent's first message, or its end without one. */
static int first_message(int fd, const char *program, struct error *err)
{
	const int64_t end = clock_ms() + START_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	_cleanup_close_ int board_fd = -1;
	char text[512] = "";
	ssize_t n = 0;
	int r;

	do
		r = poll(&p, 1, START_MS);
	while (r < 0 && errno == EINTR && clock_ms() < end);
	if (r > 0)
		n = varlink_socket_receive_fd(fd, text, sizeof(text) - 1, &board_fd);
	if (r <= 0)
		return error_set(err, -ETIME, "%s --alone does not answer", program);
	if (n <= 0)
		return error_set(err, -ECONNABORTED, "%s --alone has ended at once", program);
	if (board_fd < 0)
		return error_set(err, -ECONNABORTED, "%s --alone: %s", program, text);
	return board_adopt(board_fd, err);
}

static int start(struct error *err)
{
	_cleanup_free_ char *dir = library_dir();
	_cleanup_free_ char *program = paths_agent_program(dir, err);
	_cleanup_close_ int ours = -1;
	int pair[2], r;

	if (!program) {
		error_prefix(err, "%s",
			"outside elasticd an agent of this program's own keeps what it shares");
		return -ENOENT;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	ours = pair[0];
	r = launch(program, pair[1]);
	close(pair[1]);
	if (r < 0)
		return error_set(err, r, "cannot start %s: %s", program, strerror(-r));
	r = first_message(ours, program, err);
	if (r == 0 && fstat(ours, &made) < 0)
		r = error_set(err, -errno, "cannot start %s: %s", program, strerror(errno));
	if (r == 0)
		channel = TAKE_FD(ours);
	return r;
}

static int gone(struct error *err)
{
	return error_set(err, -EPIPE, "the agent that this program started is gone");
}

/* A socket of which the agent has the other end. */
static int pass_socket(int *ret, struct error *err)
{
	const char byte = ALONE_BYTE;
	struct stat st;
	int pair[2];
	ssize_t n;

	if (fstat(channel, &st) < 0 || st.st_ino != made.st_ino || st.st_dev != made.st_dev)
		return gone(err);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	n = varlink_socket_send_fd(channel, &byte, 1, pair[1]);
	close(pair[1]);
	if (n > 0) {
		*ret = pair[0];
		return 0;
	}
	close(pair[0]);
	return n == -EAGAIN || n == -ETOOMANYREFS ? -EAGAIN : gone(err);
}

int alone_connect(int *ret, struct error *err)
{
	int r = 0;

	alone_lock();
	if (channel < 0)
		r = start(err);
	if (r == 0)
		r = pass_socket(ret, err);
	pthread_mutex_unlock(&lock);
	return r;
}

/* --- who else there is */

static bool has_children(void)
{
	siginfo_t si;

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

bool alone_single(void)
{
	struct stat st;

	/* The kernel has a directory of each thread. */
	if (stat("/proc/self/task", &st) < 0 || st.st_nlink != 3)
		return false;
	return !born && !(forked && has_children());
}
