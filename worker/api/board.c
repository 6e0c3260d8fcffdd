/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/api/board.h"
#include "worker/api/environment.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static enum elasticd_status board_check(const struct board_header *b, const char *path)
{
	if (b->magic != BOARD_MAGIC || b->version != BOARD_VERSION || b->slots != BOARD_SLOTS ||
		b->header_bytes != BOARD_HEADER_BYTES || b->slot_bytes != BOARD_SLOT_BYTES)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_BOARD: %s is not a board of version %d", path, BOARD_VERSION);
	return ELASTICD_STATUS_OK;
}

/* A regular file that is large enough (an access behind its end would be a SIGBUS) and begins as a
 * board does. */
static bool board_looks_right(int fd)
{
	struct stat st;
	uint64_t magic;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= BOARD_BYTES &&
	       pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       magic == BOARD_MAGIC;
}

/* A descriptor, or -errno; -EINVAL where this is not a board. The flags keep what else may be there
 * from blocking, and from becoming the terminal of this process. */
static int board_try(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);

	if (fd < 0)
		return -errno;
	if (board_looks_right(fd))
		return fd;
	close(fd);
	return -EINVAL;
}

/* The path names a process of the agent's, which in another namespace does not exist or is another
 * one; there the file beside it is used. */
static int board_descriptor(const char *path)
{
	int fd = board_try(path, 0), other;
	char *file;

	if (fd >= 0 || asprintf(&file, "%s" BOARD_FILE_SUFFIX, path) < 0)
		return fd;
	other = board_try(file, O_NOFOLLOW);
	free(file);
	return other < 0 ? fd : other;
}

static enum elasticd_status board_map(struct elasticd *h, const char *path)
{
	_cleanup_close_ int fd = board_descriptor(path);
	void *at;

	if (fd == -EINVAL)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT, "ELASTICD_BOARD: %s is not a board",
			path);
	if (fd < 0)
		return fail(fd == -ENOENT ? ELASTICD_STATUS_UNAVAILABLE
					  : ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_BOARD: %s: %s", path, strerror(-fd));
	at = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return fail(ELASTICD_STATUS_RESOURCE_EXHAUSTED,
			"ELASTICD_BOARD: %s: cannot map: %s", path, strerror(errno));
	h->board = at;
	h->board_mapped = true;
	return board_check(at, path);
}

enum elasticd_status board_open(struct elasticd *h)
{
	const char *path = env_text("ELASTICD_BOARD");
	enum elasticd_status status;
	int slot = -1;

	if (!path)
		return handle_own_board(h);
	status = env_int("ELASTICD_SLOT", BOARD_SLOTS - 1, &slot);
	if (!status && slot < 0)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_SLOT: expected a number beside ELASTICD_BOARD, got nothing");
	if (!status)
		status = board_map(h, path);
	if (status)
		return status;
	h->header = h->board;
	h->slot = board_slot(h->board, (unsigned)slot);
	return ELASTICD_STATUS_OK;
}
