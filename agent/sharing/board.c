/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers map the board; an access to a mapping behind the end of its file is a deadly signal. So
 * it is sealed memory that nobody can cut short, and its path a link to the agent's descriptor of
 * it. Whoever is in a container cannot follow that, and has a file beside it, in which the agent
 * writes the same; what the agent reads is the one of the two in which the task says something.
 *
 * Any worker may cut that file short. The agent reads and writes it as a file, and makes it anew in
 * its place: what workers said there is gone until they say it again. Its memory is made before
 * anybody writes to it: on a full file system a store to a hole would be such a signal to a worker.
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
	RESERVE_STEP = 32,
	NOEXEC_SEAL = 0x8, /* MFD_NOEXEC_SEAL, which libraries' headers may not have yet */
};

static off_t slot_at(int slot)
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

/* Whatever of the two there is. */
static int board_write_both(const struct workers *w, off_t at, const void *data, size_t len)
{
	int r = w->board_fd < 0 ? 0 : board_write(w->board_fd, at, data, len);
	int file_r = w->board_file_fd < 0 ? 0 : board_write(w->board_file_fd, at, data, len);

	return r < 0 ? r : file_r;
}

static int write_header(struct workers *w, int fd)
{
	struct board_header h = {
		.magic = BOARD_MAGIC,
		.version = BOARD_VERSION,
		.slots = BOARD_SLOTS,
		.header_bytes = BOARD_HEADER_BYTES,
		.slot_bytes = BOARD_SLOT_BYTES,
		.attempt = w->board_attempt,
		.notice = w->board_notice,
		.stopping = w->board_stopping,
		.save_at = w->board_save_at,
		.error = w->board_error,
	};

	return fd < 0 ? 0 : board_write(fd, 0, &h, sizeof(h));
}

/* A slot whose task has said nothing yet. */
static int write_slot(int fd, int slot, uint64_t token)
{
	struct board_slot s = { .step = -1, .expected = token };

	return fd < 0 ? 0 : board_write(fd, slot_at(slot), &s, sizeof(s));
}

static int board_fill(int fd, off_t begin, off_t len)
{
	int r;

	do
		r = len ? posix_fallocate(fd, begin, len) : 0;
	while (r == EINTR);
	return -r;
}

/* The whole size, with the memory of n slots. */
static int board_size(int fd, int n)
{
	if (ftruncate(fd, (off_t)BOARD_BYTES) < 0)
		return -errno;
	return board_fill(fd, 0, slot_at(n));
}

/* --- a board that was cut -----------------------------------------------------------------------
 */

static int board_make_anew(struct workers *w)
{
	int r = board_size(w->board_file_fd, w->board_slots);

	if (r == 0)
		r = write_header(w, w->board_file_fd);
	for (int i = 0; r == 0 && i < w->board_slots; i++)
		r = write_slot(w->board_file_fd, i, i < w->n_slots ? w->slots[i].token : 0);
	return r;
}

/* Told once: who does it may do it again and again. */
static void tell_damage(struct workers *w, int r)
{
	struct agent *a = w->a;
	const char *anew = r < 0 ? strerror(-r) : "it was made anew";

	if (w->board_damaged)
		return;
	w->board_damaged = true;
	log_warning("%s: a worker has cut it short: %s", w->board_file_path, anew);
	events_add(a->events, "board-damaged", a->attempt, -1, NULL,
		"a worker has cut the board short: %s", anew);
}

/* Has the whole file there. False where it was not: all that workers said there is gone. */
static bool board_whole(struct workers *w)
{
	struct stat st;

	if (w->board_file_fd < 0)
		return false;
	if (fstat(w->board_file_fd, &st) == 0 && st.st_size >= (off_t)BOARD_BYTES)
		return true;
	tell_damage(w, board_make_anew(w));
	return false;
}

/* --- life ---------------------------------------------------------------------------------------
 */

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

/* Where there is no such memory, the path leads to the file. */
static int board_link(struct workers *w)
{
	_cleanup_free_ char *target = NULL;
	/* Nobody else may open what is in /proc of a process that cannot be dumped. */
	int fd = prctl(PR_GET_DUMPABLE) == 1 ? board_memory() : -EPERM;

	if (fd < 0)
		log_debug("the board is a file: %s", strerror(-fd));
	else
		w->board_fd = fd;
	if ((fd < 0 ? asprintf(&target, "%s", strrchr(w->board_file_path, '/') + 1)
		    : asprintf(&target, "/proc/%d/fd/%d", (int)getpid(), fd)) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	return symlink(target, w->board_path) < 0 ? -errno : 0;
}

static int board_make(struct workers *w)
{
	int r;

	w->board_file_fd =
		open(w->board_file_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->board_file_fd < 0)
		return -errno;
	r = board_size(w->board_file_fd, 0);
	if (r == 0)
		r = board_link(w);
	if (r == 0)
		r = write_header(w, w->board_fd);
	return r < 0 ? r : write_header(w, w->board_file_fd);
}

/* A program outside elasticd gets the descriptor itself. */
static int board_open_alone(struct workers *w, struct error *err)
{
	int r;

	w->board_fd = board_memory();
	r = w->board_fd < 0 ? w->board_fd : write_header(w, w->board_fd);
	return r < 0 ? error_set(err, r, "cannot make the board: %s", strerror(-r)) : 0;
}

int worker_board_open(struct workers *w, struct error *err)
{
	int r;

	if (!w->board_path)
		return board_open_alone(w, err);
	/* Of an agent that was lost. */
	r = board_unlink(w->board_path);
	if (r == 0)
		r = board_unlink(w->board_file_path);
	if (r == 0)
		r = board_make(w);
	return r < 0 ? error_set(err, r, "%s: %s", w->board_path, strerror(-r)) : 0;
}

/* The memory of the slots from w->board_slots to n. */
static int board_more(struct workers *w, int fd, int n)
{
	off_t begin = slot_at(w->board_slots);
	int r = fd < 0 ? 0 : board_fill(fd, begin, slot_at(n) - begin);

	for (int i = w->board_slots; r == 0 && i < n; i++)
		r = write_slot(fd, i, 0);
	return r;
}

void worker_board_reserve(struct workers *w, int n)
{
	int r;

	if (n <= w->board_slots)
		return;
	(void)board_whole(w);
	n = (n + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
	if (n > BOARD_SLOTS)
		n = BOARD_SLOTS;
	r = board_more(w, w->board_fd, n);
	if (r == 0)
		r = board_more(w, w->board_file_fd, n);
	if (r == 0)
		w->board_slots = n;
	else
		log_error("%s: %s: tasks from the %dth on have no slot", w->board_path,
			strerror(-r), w->board_slots + 1);
}

void worker_board_close(struct workers *w)
{
	w->board_slots = 0;
	if (w->board_file_fd >= 0) {
		unlink(w->board_path);
		unlink(w->board_file_path);
	}
	w->board_fd = close_fd(w->board_fd);
	w->board_file_fd = close_fd(w->board_file_fd);
}

/* --- words --------------------------------------------------------------------------------------
 */

bool worker_board_has(const struct workers *w, int slot)
{
	return slot >= 0 && slot < w->board_slots;
}

void worker_board_set(struct workers *w, uint64_t attempt, uint64_t stopping)
{
	int r;

	w->board_attempt = attempt;
	w->board_stopping = stopping;
	r = write_header(w, w->board_fd);
	if (r == 0 && board_whole(w))
		r = write_header(w, w->board_file_fd);
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

/* One word of the header by itself: workers read the others meanwhile. Where the file takes none,
 * those who have the memory hear of it all the same. */
static int write_word(struct workers *w, size_t at, uint64_t value)
{
	return board_write_both(w, (off_t)at, &value, sizeof(value));
}

void worker_board_notice(struct workers *w, uint64_t notice, int64_t save_at)
{
	int r, notice_r;

	w->board_notice = notice;
	w->board_save_at = save_at;
	(void)board_whole(w);
	r = write_word(w, offsetof(struct board_header, save_at), (uint64_t)save_at);
	notice_r = write_word(w, offsetof(struct board_header, notice), notice);
	r = r < 0 ? r : notice_r;
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

void worker_board_error(struct workers *w, bool up)
{
	int r;

	w->board_error = up;
	(void)board_whole(w);
	r = write_word(w, offsetof(struct board_header, error), up);
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

void worker_board_expect(struct workers *w, int slot, uint64_t token)
{
	off_t at = slot_at(slot) + (off_t)offsetof(struct board_slot, expected);
	int r = 0;

	if (!worker_board_has(w, slot))
		return;
	/* One that was cut is made anew with the slot as it is to be. */
	(void)board_whole(w);
	if (!token)
		r = board_write_both(w, at, &token, sizeof(token));
	if (token)
		r = write_slot(w->board_fd, slot, token);
	if (token && r == 0)
		r = write_slot(w->board_file_fd, slot, token);
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

void worker_board_cancel(struct workers *w, int slot)
{
	off_t at = slot_at(slot) + (off_t)offsetof(struct board_slot, cancels);
	uint64_t n;
	int r;

	if (!worker_board_has(w, slot) || slot >= w->n_slots)
		return;
	n = ++w->slots[slot].cancels;
	(void)board_whole(w);
	r = board_write_both(w, at, &n, sizeof(n));
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

const struct board_slot *worker_board_look(struct workers *w, int slot)
{
	struct board_slot *s = &w->board_seen;
	ssize_t n = 0;

	if (!worker_board_has(w, slot))
		return NULL;
	if (w->board_fd >= 0)
		n = TEMP_FAILURE_RETRY(pread(w->board_fd, s, sizeof(*s), slot_at(slot)));
	if (n == (ssize_t)sizeof(*s) && s->token)
		return s;
	n = TEMP_FAILURE_RETRY(pread(w->board_file_fd, s, sizeof(*s), slot_at(slot)));
	if (n == (ssize_t)sizeof(*s))
		return s;
	(void)board_whole(w);
	return NULL;
}
