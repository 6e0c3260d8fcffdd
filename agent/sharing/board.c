/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers map the board, and an access behind the end of a mapped file kills a process. So the
 * board is sealed memory, which no process can cut short, and its path is a link to the agent's
 * descriptor of it. A worker in a container cannot follow that link: for it there is a file beside
 * the memory. The agent writes the same to both, and reads the one that the worker writes to.
 *
 * Any worker may cut the file short. The agent reads and writes it by system calls, and restores
 * its size; what workers wrote there is gone until they write it again. The agent allocates the
 * file's blocks first: on a full file system a store to a hole would kill the worker, too.
 */
#include "agent/sharing/private.h"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	RESERVE_STEP = 32, /* slots */
	NOEXEC_SEAL = 0x8, /* MFD_NOEXEC_SEAL, which libraries' headers may not have yet */
};

_Static_assert(BOARD_SLOTS % RESERVE_STEP == 0, "all slots are whole steps");

static off_t slot_offset(int slot)
{
	return BOARD_HEADER_BYTES + (off_t)slot * BOARD_SLOT_BYTES;
}

static int board_write(int fd, off_t at, const void *data, size_t len)
{
	ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, data, len, at));

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

/* Writes to the memory and to the file, to each where there is one. */
static int board_write_both(const struct sharing *sh, off_t at, const void *data, size_t len)
{
	int r = sh->board_fd < 0 ? 0 : board_write(sh->board_fd, at, data, len);
	int file_r = sh->board_file_fd < 0 ? 0 : board_write(sh->board_file_fd, at, data, len);

	return r < 0 ? r : file_r;
}

static int write_header(struct sharing *sh, int fd)
{
	struct board_header h = {
		.magic = BOARD_MAGIC,
		.version = BOARD_VERSION,
		.slots = BOARD_SLOTS,
		.header_bytes = BOARD_HEADER_BYTES,
		.slot_bytes = BOARD_SLOT_BYTES,
		.attempt = sh->board_attempt,
		.notice = sh->board_notice,
		.stopping = sh->board_stopping,
		.save_at = sh->board_save_at,
		.error = sh->board_error,
	};

	return fd < 0 ? 0 : board_write(fd, 0, &h, sizeof(h));
}

/* Writes a slot whose worker has written nothing yet. */
static int write_slot(int fd, int slot, uint64_t token)
{
	struct board_slot s = { .step = -1, .expected = token };

	return fd < 0 ? 0 : board_write(fd, slot_offset(slot), &s, sizeof(s));
}

static int board_fill(int fd, off_t begin, off_t len)
{
	int r;

	do
		r = len ? posix_fallocate(fd, begin, len) : 0;
	while (r == EINTR);
	return -r;
}

/* Sets the whole size, and allocates the blocks of n slots. */
static int board_size(int fd, int n)
{
	if (ftruncate(fd, (off_t)BOARD_BYTES) < 0)
		return -errno;
	return board_fill(fd, 0, slot_offset(n));
}

/* --- a board that was cut --- */

static int board_make_again(struct sharing *sh)
{
	int r = board_size(sh->board_file_fd, sh->board_slots);

	if (r == 0)
		r = write_header(sh, sh->board_file_fd);
	for (int i = 0; r == 0 && i < sh->board_slots; i++)
		r = write_slot(sh->board_file_fd, i, i < sh->n_slots ? sh->slots[i].token : 0);
	return r;
}

/* Logs it once: a worker may do it again and again. */
static void report_damage(struct sharing *sh, int r)
{
	const char *again = r < 0 ? strerror(-r) : "it was made again";

	if (sh->board_damaged)
		return;
	sh->board_damaged = true;
	supervisor_report(sh->sv, LOG_WARNING, "board-damaged", -1, NULL,
		"a worker has cut the board short: %s", again);
}

/* Restores a file that was cut. Returns false where it was: all that workers wrote is gone. */
static bool board_whole(struct sharing *sh)
{
	struct stat st;

	if (sh->board_file_fd < 0)
		return false;
	if (fstat(sh->board_file_fd, &st) == 0 && st.st_size >= (off_t)BOARD_BYTES)
		return true;
	report_damage(sh, board_make_again(sh));
	return false;
}

/* --- life --- */

static int board_unlink(const char *path)
{
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Sealed memory of the whole size, or a negative errno. */
static int board_memory(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	_cleanup_close_ int fd = memfd_create("elasticd-board", flags | NOEXEC_SEAL);
	int r;

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("elasticd-board", flags);
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return -errno;
	r = board_size(fd, 0);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

/* Without such memory the path leads to the file. */
static int board_link(struct sharing *sh)
{
	_cleanup_free_ char *target = NULL;
	/* Another process may not open /proc/PID/fd of one that cannot be dumped. */
	int fd = prctl(PR_GET_DUMPABLE) == 1 ? board_memory() : -EPERM;

	if (fd < 0)
		log_debug("the board is a file: %s", strerror(-fd));
	else
		sh->board_fd = fd;
	if ((fd < 0 ? asprintf(&target, "%s", strrchr(sh->board_file_path, '/') + 1)
		    : asprintf(&target, "/proc/%d/fd/%d", (int)getpid(), fd)) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	return symlink(target, sh->board_path) < 0 ? -errno : 0;
}

static int board_make(struct sharing *sh)
{
	int r;

	sh->board_file_fd =
		open(sh->board_file_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (sh->board_file_fd < 0)
		return -errno;
	r = board_size(sh->board_file_fd, 0);
	if (r == 0)
		r = board_link(sh);
	if (r == 0)
		r = write_header(sh, sh->board_fd);
	return r < 0 ? r : write_header(sh, sh->board_file_fd);
}

/* A program outside elasticd gets the descriptor itself. */
static int board_open_alone(struct sharing *sh, struct error *err)
{
	int r;

	sh->board_fd = board_memory();
	r = sh->board_fd < 0 ? sh->board_fd : write_header(sh, sh->board_fd);
	return r < 0 ? error_set(err, r, "cannot make the board: %s", strerror(-r)) : 0;
}

int sharing_board_open(struct sharing *sh, struct error *err)
{
	int r;

	if (!sh->board_path)
		return board_open_alone(sh, err);
	/* An agent that was lost has left them. */
	r = board_unlink(sh->board_path);
	if (r == 0)
		r = board_unlink(sh->board_file_path);
	if (r == 0)
		r = board_make(sh);
	return r < 0 ? error_set(err, r, "%s: %s", sh->board_path, strerror(-r)) : 0;
}

/* Allocates the blocks of the slots from sh->board_slots to n. Both are multiples of RESERVE_STEP.
 */
static int board_allocate(struct sharing *sh, int fd, int n)
{
	struct board_slot slots[RESERVE_STEP];
	off_t begin = slot_offset(sh->board_slots);
	int r = fd < 0 ? 0 : board_fill(fd, begin, slot_offset(n) - begin);

	for (int i = 0; i < RESERVE_STEP; i++)
		slots[i] = (struct board_slot){ .step = -1 };
	for (int i = sh->board_slots; fd >= 0 && r == 0 && i < n; i += RESERVE_STEP)
		r = board_write(fd, slot_offset(i), slots, sizeof(slots));
	return r;
}

void sharing_board_reserve(struct sharing *sh, int n)
{
	int r;

	if (n <= sh->board_slots)
		return;
	(void)board_whole(sh);
	n = (n + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
	if (n > BOARD_SLOTS)
		n = BOARD_SLOTS;
	r = board_allocate(sh, sh->board_fd, n);
	if (r == 0)
		r = board_allocate(sh, sh->board_file_fd, n);
	if (r == 0)
		sh->board_slots = n;
	else
		log_error("%s: %s: workers from the %dth on have no slot", sh->board_path,
			strerror(-r), sh->board_slots + 1);
}

void sharing_board_close(struct sharing *sh)
{
	sh->board_slots = 0;
	if (sh->board_file_fd >= 0) {
		unlink(sh->board_path);
		unlink(sh->board_file_path);
	}
	sh->board_fd = close_fd(sh->board_fd);
	sh->board_file_fd = close_fd(sh->board_file_fd);
}

/* --- fields --- */

/* Logs a write that has failed. */
static void board_written(const struct sharing *sh, int r)
{
	if (r < 0)
		log_error("%s: %s", sh->board_path, strerror(-r));
}

bool sharing_board_has(const struct sharing *sh, int slot)
{
	return slot >= 0 && slot < sh->board_slots;
}

void sharing_board_set(struct sharing *sh, uint64_t attempt, uint64_t stopping)
{
	int r;

	sh->board_attempt = attempt;
	sh->board_stopping = stopping;
	r = write_header(sh, sh->board_fd);
	if (r == 0 && board_whole(sh))
		r = write_header(sh, sh->board_file_fd);
	board_written(sh, r);
}

/* Writes one field of the header: workers read the others meanwhile. Where the file cannot be
 * written, workers that have the memory still see it. */
static int write_field(struct sharing *sh, size_t at, uint64_t value)
{
	return board_write_both(sh, (off_t)at, &value, sizeof(value));
}

void sharing_board_notice(struct sharing *sh, uint64_t notice, int64_t save_at)
{
	int r, notice_r;

	sh->board_notice = notice;
	sh->board_save_at = save_at;
	(void)board_whole(sh);
	r = write_field(sh, offsetof(struct board_header, save_at), (uint64_t)save_at);
	notice_r = write_field(sh, offsetof(struct board_header, notice), notice);
	board_written(sh, r < 0 ? r : notice_r);
}

void sharing_board_error(struct sharing *sh, bool up)
{
	sh->board_error = up;
	(void)board_whole(sh);
	board_written(sh, write_field(sh, offsetof(struct board_header, error), up));
}

void sharing_board_expect(struct sharing *sh, int slot, uint64_t token)
{
	off_t at = slot_offset(slot) + (off_t)offsetof(struct board_slot, expected);
	int r;

	if (!sharing_board_has(sh, slot))
		return;
	/* A file that was cut is made again, with this slot in it. */
	(void)board_whole(sh);
	if (token) {
		r = write_slot(sh->board_fd, slot, token);
		if (r == 0)
			r = write_slot(sh->board_file_fd, slot, token);
	} else {
		r = board_write_both(sh, at, &token, sizeof(token));
	}
	board_written(sh, r);
}

void sharing_board_cancel(struct sharing *sh, int slot)
{
	off_t at = slot_offset(slot) + (off_t)offsetof(struct board_slot, cancels);
	uint64_t n;

	if (!sharing_board_has(sh, slot) || slot >= sh->n_slots)
		return;
	n = ++sh->slots[slot].cancels;
	(void)board_whole(sh);
	board_written(sh, board_write_both(sh, at, &n, sizeof(n)));
}

const struct board_slot *sharing_board_read(struct sharing *sh, int slot)
{
	struct board_slot *s = &sh->board_seen;
	ssize_t n = 0;

	if (!sharing_board_has(sh, slot))
		return NULL;
	/* A worker that writes to the memory has put its token there. */
	if (sh->board_fd >= 0)
		n = TEMP_FAILURE_RETRY(pread(sh->board_fd, s, sizeof(*s), slot_offset(slot)));
	if (n == (ssize_t)sizeof(*s) && s->token)
		return s;
	n = TEMP_FAILURE_RETRY(pread(sh->board_file_fd, s, sizeof(*s), slot_offset(slot)));
	if (n == (ssize_t)sizeof(*s))
		return s;
	(void)board_whole(sh);
	return NULL;
}
