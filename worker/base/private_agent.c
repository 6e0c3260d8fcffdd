/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent must not be a child of the process, which would get a SIGCHLD, and find the agent when
 * it waits for its own children. So a child that makes no signal starts it, and ends at once.
 *
 * Beats and steps need a board before there is an agent: it is memory of the process at first, and
 * the agent's board replaces it later at the same address.
 */
#include "worker/base/private_agent.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/waiting.h"

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
	STACK_BYTES = 64 << 10, /* of each of the two processes that start the agent */
	START_MS = 30000,
	BOARD_USED = BOARD_HEADER_BYTES + BOARD_SLOT_BYTES,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int channel = -1;	     /* to the agent; open from its start on */
static struct stat channel_identity; /* a program may close descriptors that it does not know */
static void *board;		     /* of all handles */
static bool has_forked, was_forked;  /* this process had a child; it is a child itself */

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	has_forked = true;
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	was_forked = true;
	pthread_mutex_unlock(&lock);
}

static size_t board_bytes(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (BOARD_USED + page - 1) / page * page;
}

static void private_agent_init(void)
{
	void *at = mmap(
		NULL, board_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return;
	board = at;
	board_slot(board, 0)->step = -1;
	pthread_atfork(lock_take, after_fork_in_parent, after_fork_in_child);
}

enum elasticd_status private_agent_open(struct elasticd *h)
{
	struct identity *i = &h->identity;

	pthread_once(&once, private_agent_init);
	if (!board)
		return fail_memory();
	h->by_hand = true;
	h->token = ALONE_TOKEN;
	h->header = board;
	h->slot = board_slot(board, 0);
	i->job = strdup("");
	i->run = strdup("");
	i->role = strdup("worker");
	i->worker = strdup("worker:0");
	i->world_size = 1;
	return i->job && i->run && i->role && i->worker ? ELASTICD_STATUS_OK : fail_memory();
}

/* --- the agent's process */

/* Both processes that start the agent run in this one's memory, as after vfork(): a copy of a large
 * process takes long. The thread sanitizer can follow neither, so there they get copies, and an
 * error of theirs is known only by the agent's end. */
#ifdef __SANITIZE_THREAD__
enum { IN_THIS_MEMORY = 0 };
#else
enum { IN_THIS_MEMORY = CLONE_VM | CLONE_VFORK };
#endif

struct launch {
	const char *program;
	int channel;
	int error;
	char *exec_stack; /* its end */
	sigset_t mask;
};

/* Ends the process. _exit() would have a sanitizer inspect the stack, which is not the thread's. */
static void launch_exit(int status)
{
	syscall(SYS_exit_group, status);
}

/* Runs in the memory of the thread that waits for it, so it calls only what is safe in a handler of
 * signals. */
static int launch_exec(void *arg)
{
	struct launch *l = arg;
	char *const argv[] = { (char *)l->program, (char *)"--alone", NULL };
	int null = open("/dev/null", O_RDWR), fd = dup2(l->channel, ALONE_FD);

	if (null < 0 || fd < 0 || fcntl(fd, F_SETFD, 0) < 0)
		goto failed;
	for (int i = 0; i < ALONE_FD; i++)
		if (dup2(null, i) < 0)
			goto failed;
	/* The agent would keep what it inherits open for as long as it lives. */
	close_range(ALONE_FD + 1, ~0U, 0);
	setsid();
	execv(l->program, argv);
failed:
	l->error = errno;
	launch_exit(127);
	return 0;
}

static int launch_child(void *arg)
{
	struct launch *l = arg;

	if (clone(launch_exec, l->exec_stack, IN_THIS_MEMORY | SIGCHLD, l) < 0)
		l->error = errno;
	launch_exit(0);
	return 0;
}

/* 0 or a negative errno. Signals are blocked while the child runs in this process's memory. */
static int launch(const char *program, int agent_end)
{
	struct launch l = { .program = program, .channel = agent_end };
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all;
	pid_t pid;

	if (stacks == MAP_FAILED)
		return -ENOMEM;
	l.exec_stack = stacks + STACK_BYTES;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &l.mask);
	pid = clone(launch_child, stacks + 2 * STACK_BYTES, IN_THIS_MEMORY, &l);
	if (pid < 0)
		l.error = errno;
	else
		(void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, __WALL));
	pthread_sigmask(SIG_SETMASK, &l.mask, NULL);
	munmap(stacks, 2 * STACK_BYTES);
	return -l.error;
}

/* --- its start, with the lock */

/* In a build tree the agent is beside the library. */
static char *library_dir(void)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)&channel, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	return slash ? strndup(info.dli_fname, (size_t)(slash - info.dli_fname)) : strdup(".");
}

/* Puts the agent's board in place of the process's own memory, and copies what that said; a beat
 * that comes meanwhile is lost, and the next one says the same. */
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

/* Waits for the agent's first message, or its end. */
static int read_first_message(int fd, const char *program, struct error *err)
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

static int private_agent_start(struct error *err)
{
	_cleanup_free_ char *dir = library_dir();
	_cleanup_free_ char *program = paths_agent_program(dir, err);
	_cleanup_close_ int ours = -1;
	int pair[2], r;

	if (!program) {
		error_prefix(err, "%s",
			"outside elasticd a program needs an agent of its own to share anything");
		return -ENOENT;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	ours = pair[0];
	r = launch(program, pair[1]);
	close(pair[1]);
	if (r < 0)
		return error_set(err, r, "cannot start %s: %s", program, strerror(-r));
	r = read_first_message(ours, program, err);
	if (r == 0 && fstat(ours, &channel_identity) < 0)
		r = error_set(err, -errno, "cannot start %s: %s", program, strerror(errno));
	if (r == 0)
		channel = TAKE_FD(ours);
	return r;
}

static int set_gone(struct error *err)
{
	return error_set(err, -EPIPE, "the agent that this program started is gone");
}

/* Makes a socket pair, and sends one end to the agent. */
static int pass_socket(int *ret, struct error *err)
{
	const char byte = ALONE_BYTE;
	struct stat st;
	int pair[2];
	ssize_t n;

	if (fstat(channel, &st) < 0 || st.st_ino != channel_identity.st_ino ||
		st.st_dev != channel_identity.st_dev)
		return set_gone(err);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	n = varlink_socket_send_fd(channel, &byte, 1, pair[1]);
	close(pair[1]);
	if (n > 0) {
		*ret = pair[0];
		return 0;
	}
	close(pair[0]);
	return n == -EAGAIN || n == -ETOOMANYREFS ? -EAGAIN : set_gone(err);
}

int private_agent_connect(int *ret, struct error *err)
{
	int r = 0;

	lock_take();
	if (channel < 0)
		r = private_agent_start(err);
	if (r == 0)
		r = pass_socket(ret, err);
	pthread_mutex_unlock(&lock);
	return r;
}

/* --- other threads, and relatives */

static bool has_children(void)
{
	siginfo_t si;

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

bool process_is_alone(void)
{
	struct stat st;

	/* One directory per thread, and the two links that each directory has. */
	if (stat("/proc/self/task", &st) < 0 || st.st_nlink != 3)
		return false;
	return !was_forked && !(has_forked && has_children());
}
