/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board's memory is made before anybody writes to it: on a full file system a store to a hole
 * would be a deadly signal, to the agent as well.
 */
#include "agent/worker_private.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { RESERVE_STEP = 32 };

struct board_header *worker_board_header(struct workers *w)
{
	return w->board;
}

struct board_slot *worker_board_slot(const struct workers *w, int slot)
{
	return slot >= 0 && slot < w->board_slots ? board_slot(w->board, (unsigned)slot) : NULL;
}

static int board_fill(struct workers *w, off_t begin, off_t len)
{
	int r = posix_fallocate(w->board_fd, begin, len);

	return r == EINTR ? board_fill(w, begin, len) : -r;
}

int worker_board_open(struct workers *w, struct error *err)
{
	struct board_header *h;
	int r;

	/* One of an agent that was lost. */
	if (unlink(w->board_path) < 0 && errno != ENOENT)
		return error_set(err, -errno, "%s: %s", w->board_path, strerror(errno));
	w->board_fd = open(w->board_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->board_fd < 0 || ftruncate(w->board_fd, (off_t)BOARD_BYTES) < 0)
		return error_set(err, -errno, "%s: %s", w->board_path, strerror(errno));
	r = board_fill(w, 0, BOARD_HEADER_BYTES);
	if (r < 0)
		return error_set(err, r, "%s: %s", w->board_path, strerror(-r));
	h = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->board_fd, 0);
	if (h == MAP_FAILED)
		return error_set(err, -errno, "%s: %s", w->board_path, strerror(errno));
	w->board = h;
	h->version = BOARD_VERSION;
	h->slots = BOARD_SLOTS;
	h->header_bytes = BOARD_HEADER_BYTES;
	h->slot_bytes = BOARD_SLOT_BYTES;
	h->magic = BOARD_MAGIC;
	return 0;
}

void worker_board_reserve(struct workers *w, int n)
{
	off_t begin = BOARD_HEADER_BYTES + (off_t)w->board_slots * BOARD_SLOT_BYTES;
	int r;

	if (n <= w->board_slots)
		return;
	n = (n + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
	if (n > BOARD_SLOTS)
		n = BOARD_SLOTS;
	r = board_fill(w, begin, (off_t)(n - w->board_slots) * BOARD_SLOT_BYTES);
	if (r < 0) {
		log_error("%s: %s: tasks from the %dth on have no slot", w->board_path,
			strerror(-r), w->board_slots + 1);
		return;
	}
	for (int i = w->board_slots; i < n; i++)
		atomic_store_explicit(
			&board_slot(w->board, (unsigned)i)->step, -1, memory_order_relaxed);
	w->board_slots = n;
}

void worker_board_close(struct workers *w)
{
	if (w->board)
		munmap(w->board, BOARD_BYTES);
	w->board = NULL;
	w->board_slots = 0;
	if (w->board_fd >= 0)
		unlink(w->board_path);
	w->board_fd = close_fd(w->board_fd);
}
