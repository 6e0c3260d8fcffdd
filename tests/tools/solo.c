/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A worker that must not live twice: `solo DIR [child]`. It locks a byte of DIR/lives that stands
 * for its round and rank, and looks whether any process lives that has locked one of another
 * round, or the same. DIR/records gets a line for each thing that happens:
 *
 *	start ROUND RANK HOST PID WORLD ATTEMPT RESTARTS
 *	twice ROUND RANK HOST PID OTHER_ROUND OTHER_RANK
 *	end ROUND RANK HOST PID STATUS
 *
 * A round is known by its attempt and MASTER_PORT, since each head counts attempts from 0. With
 * `child`, a process that ignores SIGTERM shares the lock. SIGUSR1 ends the worker with 0, SIGUSR2
 * with 3, SIGTERM with 143.
 *
 * The locks belong to the open file: the kernel drops them with the last process that has it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 1024, PORTS = 65536 };

static int records;

static void record(const char *format, ...)
{
	char line[512];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (write(records, line, (size_t)len) != len)
		_exit(9);
}

static long number(const char *name)
{
	const char *text = getenv(name);

	if (!text) {
		fprintf(stderr, "solo: no %s\n", name);
		exit(9);
	}
	return strtol(text, NULL, 10);
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		perror(path);
		exit(9);
	}
	return fd;
}

/* Where a living process has locked one of these bytes, or -1; len 0: up to the end. */
static long locked_by_others(int fd, long from, long len)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = len
	};

	if (fcntl(fd, F_OFD_GETLK, &lock) < 0) {
		perror("solo: F_OFD_GETLK");
		exit(9);
	}
	return lock.l_type == F_UNLCK ? -1 : lock.l_start;
}

/* First the lock, then the look: of two that live at once one sees the other. */
static long find_other(int fd, long round, long rank)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = round * RANKS + rank, .l_len = 1
	};
	long other = -1;

	if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
		return round * RANKS + rank;
	if (round)
		other = locked_by_others(fd, 0, round * RANKS);
	return other >= 0 ? other : locked_by_others(fd, (round + 1) * RANKS, 0);
}

static void make_child(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("solo: fork");
		exit(9);
	}
	if (pid)
		return;
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	long round, rank, other;
	char host[256] = "";
	int signo, status;
	sigset_t signals;

	if (argc < 2) {
		fprintf(stderr, "usage: solo DIR [child]\n");
		return 9;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	gethostname(host, sizeof(host) - 1);
	rank = number("RANK");
	round = number("ELASTICD_ATTEMPT") * PORTS + number("MASTER_PORT");
	records = open_in(argv[1], "records", O_WRONLY | O_APPEND);
	other = find_other(open_in(argv[1], "lives", O_RDWR), round, rank);
	if (other >= 0)
		record("twice %ld %ld %s %d %ld %ld\n", round, rank, host, (int)getpid(),
			other / RANKS, other % RANKS);
	if (argc > 2)
		make_child();
	record("start %ld %ld %s %d %ld %ld %ld\n", round, rank, host, (int)getpid(),
		number("WORLD_SIZE"), number("ELASTICD_ATTEMPT"),
		number("TORCHELASTIC_RESTART_COUNT"));
	if (sigwait(&signals, &signo))
		return 9;
	status = signo == SIGUSR1 ? 0 : signo == SIGUSR2 ? 3 : 143;
	record("end %ld %ld %s %d %d\n", round, rank, host, (int)getpid(), status);
	return status;
}
