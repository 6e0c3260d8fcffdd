/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/connection.h"
#include "worker/base/private_agent.h"

#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* An agent that is alive answers at once; one that is stopped must not keep every worker. */
enum { OPEN_TIMEOUT_MS = 60000, SILENCE_MS = 60000 };

/* A variable's text, NULL where it is unset or empty. */
static const char *env_text(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* 0, or the status of a number that makes no sense; untouched where it is unset. */
static int env_int(const char *name, int max, int *ret)
{
	const char *v = env_text(name);
	char *end;
	long n;

	if (!v)
		return 0;
	errno = 0;
	n = strtol(v, &end, 10);
	if (*end || errno || n < 0 || n > max)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected 0 to %d, got \"%.64s\"", name,
			max, v);
	*ret = (int)n;
	return 0;
}

static int env_token(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (*text < '1' || *text > '9' || *end || errno)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"ELASTICD_TOKEN: expected a number above 0, got \"%.64s\"", text);
	return 0;
}

/* NULL stays NULL. False where there is no memory. */
static bool copy_text(const char *text, char **ret)
{
	*ret = text ? strdup(text) : NULL;
	return !text || *ret;
}

/* --- the board */

/* Without a board, a private one of one slot. */
int board_private(struct elasticd *h)
{
	h->board = calloc(1, BOARD_HEADER_BYTES + BOARD_SLOT_BYTES);
	if (!h->board)
		return fail_memory();
	h->header = h->board;
	h->slot = board_slot(h->board, 0);
	return 0;
}

static int board_check(const struct board_header *b, const char *path)
{
	if (b->magic != BOARD_MAGIC || b->version != BOARD_VERSION || b->slots != BOARD_SLOTS ||
		b->header_bytes != BOARD_HEADER_BYTES || b->slot_bytes != BOARD_SLOT_BYTES)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"ELASTICD_BOARD: %s is no board of version %d", path, BOARD_VERSION);
	return 0;
}

/* A regular file with room for a board (what lies behind its end must not be touched: SIGBUS) that
 * begins as one. */
static bool board_looks_right(int fd)
{
	struct stat st;
	uint64_t magic;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= BOARD_BYTES &&
	       pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       magic == BOARD_MAGIC;
}

/* A descriptor, or -errno; -EINVAL where this is no board. It is not waited for, and no terminal is
 * taken, where the path leads to something else. */
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

/* The path, or the file beside it where that leads nowhere from here, or to a descriptor of a
 * stranger: it names a process, which in another namespace is another one. */
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

static int board_map(struct elasticd *h, const char *path)
{
	_cleanup_close_ int fd = board_descriptor(path);
	void *at;

	if (fd == -EINVAL)
		return fail(ELASTICD_INVALID_ARGUMENT, "ELASTICD_BOARD: %s is no board", path);
	if (fd < 0)
		return fail(fd == -ENOENT ? ELASTICD_UNAVAILABLE : ELASTICD_INVALID_ARGUMENT,
			"ELASTICD_BOARD: %s: %s", path, strerror(-fd));
	at = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return fail(ELASTICD_RESOURCE_EXHAUSTED, "ELASTICD_BOARD: %s: cannot map: %s", path,
			strerror(errno));
	h->board = at;
	h->board_mapped = true;
	return board_check(at, path);
}

static int board_open(struct elasticd *h)
{
	const char *path = env_text("ELASTICD_BOARD");
	int slot = -1, r;

	if (!path)
		return board_private(h);
	r = env_int("ELASTICD_SLOT", BOARD_SLOTS - 1, &slot);
	if (!r && slot < 0)
		r = fail(ELASTICD_INVALID_ARGUMENT,
			"ELASTICD_SLOT: expected a number beside ELASTICD_BOARD, got nothing");
	if (!r)
		r = board_map(h, path);
	if (r)
		return r;
	h->header = h->board;
	h->slot = board_slot(h->board, (unsigned)slot);
	return 0;
}

/* --- who this is */

static int who_texts(struct elasticd *h, const char *job, const char *run, const char *role)
{
	struct who *w = &h->who;

	if (!copy_text(job, &w->job) || !copy_text(run, &w->run) || !copy_text(role, &w->role) ||
		asprintf(&w->task, "%s:%d", role, w->index) < 0)
		return fail_memory();
	return 0;
}

static int open_files(struct elasticd *h)
{
	if (!copy_text(env_text("ELASTICD_LOG_FILE"), &h->log_file) ||
		!copy_text(env_text("TORCHELASTIC_ERROR_FILE"), &h->error_file))
		return fail_memory();
	return 0;
}

/* What the agent says goes; what it does not say is in the environment. */
static int who_learn(struct elasticd *h, const json_t *hello)
{
	_cleanup_free_ char *role = text_take(hello, "worker");
	char *colon = role ? strrchr(role, ':') : NULL;
	struct who *w = &h->who;
	int code = WORKER_EXIT_CODE, r;

	if (!role)
		return fail_memory();
	if (!colon)
		return fail(ELASTICD_INTERNAL, "the agent says that this is \"%s\", no task", role);
	*colon = '\0';
	w->index = atoi(colon + 1);
	w->rank = (int)json_get_int(hello, "rank", 0);
	w->attempt = (int)json_get_int(hello, "attempt", 0);
	w->incarnation = (int)json_get_int(hello, "start", 0);
	w->local_rank = w->rank;
	w->world_size = (int)json_array_size(json_get_array(hello, "members"));
	h->attempt = (uint64_t)w->attempt;
	r = env_int("LOCAL_RANK", 1 << 30, &w->local_rank);
	if (!r)
		r = env_int("WORLD_SIZE", 1 << 30, &w->world_size);
	if (!r)
		r = env_int("ELASTICD_PREEMPTION_EXIT_CODE", 255, &code);
	atomic_store(&h->exit_code, code);
	if (r)
		return r;
	return who_texts(
		h, json_get_string(hello, "job", ""), json_get_string(hello, "run", ""), role);
}

static int open_remote(struct elasticd *h, const char *socket)
{
	_cleanup_json_ json_t *hello = NULL;
	const struct wait wait = { .timeout_ms = OPEN_TIMEOUT_MS };
	const char *token = env_text("ELASTICD_TOKEN");
	struct args a = ARGS_EMPTY;
	int r;

	h->side = &side_remote;
	if (!token)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"ELASTICD_TOKEN: expected one beside ELASTICD_WORKER_SOCKET, got nothing");
	r = env_token(token, &h->token);
	if (r)
		return r;
	if (!copy_text(socket, &h->socket) || !copy_text(token, &h->token_text))
		return fail_memory();
	r = board_open(h);
	if (r)
		return r;
	args_text(&a, "token", token);
	r = remote_call(h, "Hello", &a, wait, &hello);
	if (r == ELASTICD_DEADLINE_EXCEEDED)
		r = fail(ELASTICD_UNAVAILABLE, "%s: the agent does not answer", socket);
	return r ? r : who_learn(h, hello);
}

void handle_free(struct elasticd *h)
{
	struct who *w = &h->who;

	if (h->side)
		h->side->close(h);
	if (h->board_mapped)
		munmap(h->board, BOARD_BYTES);
	else
		free(h->board);
	close_fd(atomic_load(&h->log_fd));
	free(w->job);
	free(w->run);
	free(w->role);
	free(w->task);
	free(h->socket);
	free(h->token_text);
	free(h->log_file);
	free(h->error_file);
	free(h);
}

struct elasticd *handle_new(void)
{
	struct elasticd *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	atomic_store(&h->log_fd, -1);
	atomic_store(&h->exit_code, WORKER_EXIT_CODE);
	preempt_register();
	h->fences = preempt_fences();
	h->silence_ms = SILENCE_MS;
	return h;
}

int elasticd_open(struct elasticd **ret)
{
	const char *socket = env_text("ELASTICD_WORKER_SOCKET");
	struct elasticd *h = handle_new();
	int r;

	if (!h)
		return fail_memory();
	r = open_files(h);
	if (!r)
		r = socket ? open_remote(h, socket) : alone_open(h);
	if (r)
		handle_free(h);
	else
		*ret = h;
	return r;
}

void elasticd_interruptible(struct elasticd *h, int on)
{
	atomic_store(&h->interruptible, on != 0);
	h->side->forget(h);
}

void elasticd_cancel(struct elasticd *h)
{
	h->side->cancel(h);
}

void elasticd_close(struct elasticd *h)
{
	if (h)
		handle_free(h);
}

int elasticd_supervised(const struct elasticd *h)
{
	return h->socket && !h->control;
}

const char *elasticd_job(const struct elasticd *h)
{
	return h->who.job;
}

const char *elasticd_run(const struct elasticd *h)
{
	return h->who.run;
}

const char *elasticd_role(const struct elasticd *h)
{
	return h->who.role;
}

int elasticd_index(const struct elasticd *h)
{
	return h->who.index;
}

int elasticd_rank(const struct elasticd *h)
{
	return h->who.rank;
}

int elasticd_local_rank(const struct elasticd *h)
{
	return h->who.local_rank;
}

int elasticd_world_size(const struct elasticd *h)
{
	return h->who.world_size;
}

int elasticd_attempt(const struct elasticd *h)
{
	return h->who.attempt;
}

int elasticd_incarnation(const struct elasticd *h)
{
	return h->who.incarnation;
}
