/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers map the board; the agent reads and writes it as a file. Any of them may cut it short, and
 * an access to a mapping behind the end of its file is a deadly signal. A board that was cut is
 * made anew in its place: what workers said there is gone until they say it again.
 *
 * Its memory is made before anybody writes to it: on a full file system a store to a hole would be
 * such a signal to a worker.
 */
#include "agent/worker_private.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESERVE_STEP = 32 };

static off_t slot_at(int slot)
{
	return BOARD_HEADER_BYTES + (off_t)slot * BOARD_SLOT_BYTES;
}

static int board_write(const struct workers *w, off_t at, const void *data, size_t len)
{
	ssize_t n = TEMP_FAILURE_RETRY(pwrite(w->board_fd, data, len, at));

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

static int board_fill(struct workers *w, off_t begin, off_t len)
{
	int r = posix_fallocate(w->board_fd, begin, len);

	return r == EINTR ? board_fill(w, begin, len) : -r;
}

static int write_header(struct workers *w)
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

	return board_write(w, 0, &h, sizeof(h));
}

/* A slot whose task has said nothing yet. */
static int write_slot(struct workers *w, int slot, uint64_t token)
{
	struct board_slot s = { .step = -1, .expected = token };

	return board_write(w, slot_at(slot), &s, sizeof(s));
}

/* The whole size, with the memory of n slots. */
static int board_size(struct workers *w, int n)
{
	if (ftruncate(w->board_fd, (off_t)BOARD_BYTES) < 0)
		return -errno;
	return board_fill(w, 0, slot_at(n));
}

/* --- a board that was cut -----------------------------------------------------------------------
 */

static int board_make_anew(struct workers *w)
{
	int r = board_size(w, w->board_slots);

	if (r == 0)
		r = write_header(w);
	for (int i = 0; r == 0 && i < w->board_slots; i++)
		r = write_slot(w, i, i < w->n_slots ? w->slots[i].token : 0);
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
	log_warning("%s: a worker has cut it short: %s", w->board_path, anew);
	events_add(a->events, "board-damaged", a->attempt, -1, NULL,
		"a worker has cut the board short: %s", anew);
}

/* Has the whole board there. False where it was not: all that workers said there is gone. */
static bool board_whole(struct workers *w)
{
	struct stat st;

	if (w->board_fd < 0)
		return false;
	if (fstat(w->board_fd, &st) == 0 && st.st_size >= (off_t)BOARD_BYTES)
		return true;
	tell_damage(w, board_make_anew(w));
	return false;
}

/* --- life ---------------------------------------------------------------------------------------
 */

int worker_board_open(struct workers *w, struct error *err)
{
	int r;

	/* One of an agent that was lost. */
	if (unlink(w->board_path) < 0 && errno != ENOENT)
		return error_set(err, -errno, "%s: %s", w->board_path, strerror(errno));
	w->board_fd = open(w->board_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->board_fd < 0)
		return error_set(err, -errno, "%s: %s", w->board_path, strerror(errno));
	r = board_size(w, 0);
	if (r == 0)
		r = write_header(w);
	if (r < 0)
		return error_set(err, r, "%s: %s", w->board_path, strerror(-r));
	return 0;
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
	r = board_fill(w, slot_at(w->board_slots), slot_at(n) - slot_at(w->board_slots));
	for (int i = w->board_slots; r == 0 && i < n; i++)
		r = write_slot(w, i, 0);
	if (r == 0)
		w->board_slots = n;
	else
		log_error("%s: %s: tasks from the %dth on have no slot", w->board_path,
			strerror(-r), w->board_slots + 1);
}

void worker_board_close(struct workers *w)
{
	w->board_slots = 0;
	if (w->board_fd >= 0)
		unlink(w->board_path);
	w->board_fd = close_fd(w->board_fd);
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
	r = board_whole(w) ? write_header(w) : 0;
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

/* One word of the header by itself: workers read the others meanwhile. */
static int write_word(struct workers *w, size_t at, uint64_t value)
{
	return board_write(w, (off_t)at, &value, sizeof(value));
}

void worker_board_notice(struct workers *w, uint64_t notice, int64_t save_at)
{
	int r;

	w->board_notice = notice;
	w->board_save_at = save_at;
	if (!board_whole(w))
		return;
	r = write_word(w, offsetof(struct board_header, save_at), (uint64_t)save_at);
	if (r == 0)
		r = write_word(w, offsetof(struct board_header, notice), notice);
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

void worker_board_error(struct workers *w, bool up)
{
	int r;

	w->board_error = up;
	if (!board_whole(w))
		return;
	r = write_word(w, offsetof(struct board_header, error), up);
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

void worker_board_expect(struct workers *w, int slot, uint64_t token)
{
	off_t at = slot_at(slot) + (off_t)offsetof(struct board_slot, expected);
	int r = 0;

	if (!worker_board_has(w, slot) || !board_whole(w))
		return;
	r = token ? write_slot(w, slot, token) : board_write(w, at, &token, sizeof(token));
	if (r < 0)
		log_error("%s: %s", w->board_path, strerror(-r));
}

const struct board_slot *worker_board_look(struct workers *w, int slot)
{
	struct board_slot *s = &w->board_seen;
	ssize_t n;

	if (!worker_board_has(w, slot))
		return NULL;
	n = TEMP_FAILURE_RETRY(pread(w->board_fd, s, sizeof(*s), slot_at(slot)));
	if (n == (ssize_t)sizeof(*s))
		return s;
	(void)board_whole(w);
	return NULL;
}
