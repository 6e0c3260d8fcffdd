/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/kernel_log.h"

#include "common/base/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	KERNEL_RECORDS_MAX = 4096, /* read at once */
	KERNEL_RECORD_BYTES = 8192,
	KERNEL_LINES =
		32, /* remembered of each kind: the first ones, which are nearest to the cause */
};

struct kernel_lines {
	struct {
		pid_t pid; /* 0: none is named, or it was taken */
		char text[KERNEL_LOG_TEXT];
	} lines[KERNEL_LINES];
	int n;
};

struct kernel_log {
	int fd;
	struct kernel_lines traps, xids;
};

struct kernel_log *kernel_log_open(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct kernel_log *k = fd < 0 ? NULL : calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->fd = TAKE_FD(fd);
	kernel_log_begin(k);
	return k;
}

struct kernel_log *kernel_log_close(struct kernel_log *k)
{
	if (k) {
		close(k->fd);
		free(k);
	}
	return NULL;
}

void kernel_log_begin(struct kernel_log *k)
{
	if (!k)
		return;
	(void)lseek(k->fd, 0, SEEK_END);
	k->traps.n = k->xids.n = 0;
}

static void kernel_lines_add(struct kernel_lines *l, pid_t pid, const char *text)
{
	if (l->n == KERNEL_LINES)
		return;
	l->lines[l->n].pid = pid;
	snprintf(l->lines[l->n++].text, KERNEL_LOG_TEXT, "%s", text);
}

/* The number behind what, or 0. */
static pid_t kernel_pid(const char *text, const char *what)
{
	const char *at = strstr(text, what);
	uint64_t pid;

	if (!at)
		return 0;
	at += strlen(what);
	return scan_u64(&at, &pid) == 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

/* "train[71]: segfault at 8 ip 55.. sp 7f.. error 4 in train[55..]",
 * "traps: train[71] general protection fault ip:55.. sp:7f.. error:0 in train[55..]",
 * "train[71]: unhandled level 2 translation fault (11) at 0x00000000",
 * "MCE 0x83..: Killing train:71 due to hardware memory corruption". */
static pid_t kernel_trap_pid(const char *text)
{
	static const char *const marks[] = { "]: segfault at ", "]: unhandled ",
		"] general protection", "] trap " };
	const char *colon;

	if (strstr(text, ": Killing ") && strstr(text, " due to hardware memory corruption")) {
		colon = strrchr(strstr(text, ": Killing ") + 2, ':');
		return colon ? kernel_pid(colon, ":") : 0;
	}
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *end = strstr(text, marks[i]), *start = end;

		while (start && start > text && *start != '[')
			start--;
		if (start && *start == '[')
			return kernel_pid(start, "[");
	}
	return 0;
}

/* A record is "6,1234,567890,-;text", perhaps with lines of properties. */
static void kernel_log_add(struct kernel_log *k, char *record)
{
	char *text = strchr(record, ';');
	pid_t pid;

	/* Facility 0 is the kernel itself: others can write there, too. */
	if (!text || strtoul(record, NULL, 10) >= 8)
		return;
	*strchrnul(++text, '\n') = '\0';
	pid = kernel_trap_pid(text);
	if (pid)
		kernel_lines_add(&k->traps, pid, text);
	else if (!strncmp(text, "NVRM: Xid ", 10))
		kernel_lines_add(&k->xids, kernel_pid(text, "pid="), text);
}

void kernel_log_read(struct kernel_log *k)
{
	char record[KERNEL_RECORD_BYTES];

	for (int i = 0; k && i < KERNEL_RECORDS_MAX; i++) {
		ssize_t n = read(k->fd, record, sizeof(record) - 1);

		if (n < 0 && (errno == EPIPE || errno == EINTR)) /* records were overwritten */
			continue;
		if (n <= 0)
			return;
		record[n] = '\0';
		kernel_log_add(k, record);
	}
}

bool kernel_log_take_trap(struct kernel_log *k, pid_t pid, kernel_log_other_fn other, void *arg,
	bool *ret_sure, char *text)
{
	int found = -1;

	for (int i = 0; k && i < k->traps.n && (found < 0 || k->traps.lines[found].pid != pid); i++)
		if (k->traps.lines[i].pid == pid ||
			(found < 0 && k->traps.lines[i].pid && !other(arg, k->traps.lines[i].pid)))
			found = i;
	if (found < 0)
		return false;
	*ret_sure = k->traps.lines[found].pid == pid;
	snprintf(text, KERNEL_LOG_TEXT, "%s", k->traps.lines[found].text);
	k->traps.lines[found].pid = 0;
	return true;
}

bool kernel_log_find_xid(const struct kernel_log *k, pid_t pid, bool *ret_sure, char *text)
{
	int found = k && k->xids.n ? 0 : -1;

	for (int i = 0; found >= 0 && i < k->xids.n; i++)
		if (k->xids.lines[i].pid == pid) {
			found = i;
			break;
		}
	if (found < 0)
		return false;
	*ret_sure = k->xids.lines[found].pid == pid;
	snprintf(text, KERNEL_LOG_TEXT, "%s", k->xids.lines[found].text);
	return true;
}
