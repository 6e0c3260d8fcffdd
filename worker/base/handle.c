/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/handle.h"
#include "worker/base/failure.h"
#include "worker/base/fences.h"
#include "worker/base/pool.h"
#include "worker/base/process_id.h"

#include <sys/mman.h>
#include <unistd.h>

enum { SILENCE_MS = 60000 };

struct elasticd *handle_new(void)
{
	struct elasticd *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	atomic_store(&h->exit_code, WORKER_EXIT_CODE);
	fences_register();
	h->fences = fences_needed();
	h->silence_ms = SILENCE_MS;
	return h;
}

static void handle_close_pool(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool);

	/* A parent's connections are left to the parent. */
	if (!p || !pool_is_ours(p))
		return;
	pool_close(p);
	pool_unref(p);
}

/* In a child of fork() the number may be of another file. */
static void handle_close_log(struct elasticd *h)
{
	uint64_t log = atomic_load(&h->log_fd);

	if (log >> 32 == (uint64_t)process_id())
		close((int)(uint32_t)log);
}

void handle_free(struct elasticd *h)
{
	struct identity *i = &h->identity;

	handle_close_pool(h);
	if (h->board_mapped)
		munmap(h->board, BOARD_BYTES);
	else
		free(h->board);
	handle_close_log(h);
	free(i->job);
	free(i->run);
	free(i->role);
	free(i->worker);
	free(h->socket);
	free(h->token_text);
	free(h->log_file);
	free(h->error_file);
	free(h);
}

enum elasticd_status handle_own_board(struct elasticd *h)
{
	h->board = calloc(1, BOARD_HEADER_BYTES + BOARD_SLOT_BYTES);
	if (!h->board)
		return fail_memory();
	h->header = h->board;
	h->slot = board_slot(h->board, 0);
	return ELASTICD_STATUS_OK;
}
