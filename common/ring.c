/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory: a page in which each end has a line of words that it alone writes, then the bytes of
 * the answers and those of the requests.
 *
 * No wake-up is lost, since in each pair of words one end stores the first and then loads the
 * second, and the other end the other way round, all in one order (seq_cst): one of them sees what
 * the other has stored.
 *   The server sleeps: it stores `waits`, then loads the client's `sent`; the client stores `sent`,
 *   then loads `waits`. Either the server finds the bytes, or the client finds it asleep.
 *   The client sleeps: it stores `waits`, then loads `news`, then looks at all else; the server
 *   stores all else, then `news`, then loads `waits`. Either the client finds what is new, or the
 *   server finds it asleep and rings a bell. The kernel compares `news` with what the client has
 *   seen of it once more, in one step with its going to sleep: a bell in between is found there.
 */
#include "common/ring.h"
#include "common/memory_file.h"
#include "common/spin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define RING_MAGIC UINT64_C(0x31676e69726c65) /* "elring1" */
#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

enum { LINE = 128, HEADER = 4096 };

/* What one end says to the other. */
struct ring_line {
	_Alignas(LINE) _Atomic uint32_t sent;	  /* bytes, which run free */
	_Atomic uint32_t taken;			  /* of what the other end has sent */
	_Atomic uint32_t waits;			  /* client: an enum ring_wait; server: it sleeps */
	_Atomic uint32_t news;			  /* counts all that the other end may wait for */
	_Atomic uint32_t spills, closed, crowded; /* the server's */
};

struct ring_memory {
	uint64_t magic;
	uint32_t version, bytes;
	struct ring_line server, client;
	_Alignas(HEADER) unsigned char answers[RING_BYTES];
	unsigned char requests[RING_BYTES];
};

_Static_assert(sizeof(struct ring_memory) == HEADER + 2 * RING_BYTES, "a page, and the bytes");
_Static_assert(sizeof(struct ring_line) == LINE, "no line has words of both ends");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "words are shared between processes");

static void ring_init(struct ring *r, struct ring_memory *m, bool server)
{
	*r = (struct ring){
		.memory = m,
		.own = server ? &m->server : &m->client,
		.other = server ? &m->client : &m->server,
		.out = server ? m->answers : m->requests,
		.in = server ? m->requests : m->answers,
	};
}

void ring_fini(struct ring *r)
{
	if (r->memory)
		munmap(r->memory, sizeof(*r->memory));
	*r = (struct ring){ .memory = NULL };
}

int ring_room(const struct ring *r)
{
	uint32_t used = r->sent - atomic_load_explicit(&r->other->taken, memory_order_acquire);

	return used > RING_BYTES ? -EBADMSG : (int)(RING_BYTES - used);
}

/* Behind what was stored. */
static void tell_news(struct ring *r)
{
	atomic_store(&r->own->news, ++r->news);
}

int ring_write(struct ring *r, const void *data, size_t len)
{
	const uint32_t at = r->sent % RING_BYTES;
	const size_t whole = RING_BYTES - at, n = len < whole ? len : whole;
	int room = ring_room(r);

	if (room < 0)
		return room;
	if (len > (size_t)room)
		return -EAGAIN;
	memcpy(r->out + at, data, n);
	memcpy(r->out, (const unsigned char *)data + n, len - n);
	r->sent += (uint32_t)len;
	atomic_store(&r->own->sent, r->sent);
	tell_news(r);
	return 0;
}

int ring_ready(const struct ring *r)
{
	uint32_t n = atomic_load_explicit(&r->other->sent, memory_order_acquire) - r->taken;

	return n > RING_BYTES ? -EBADMSG : (int)n;
}

int ring_read(struct ring *r, void *data, size_t len)
{
	const uint32_t at = r->taken % RING_BYTES;
	const size_t whole = RING_BYTES - at;
	int ready = ring_ready(r);
	size_t n;

	if (ready <= 0)
		return ready;
	if (len > (size_t)ready)
		len = (size_t)ready;
	n = len < whole ? len : whole;
	memcpy(data, r->in + at, n);
	memcpy((unsigned char *)data + n, r->in, len - n);
	r->taken += (uint32_t)len;
	atomic_store_explicit(&r->own->taken, r->taken, memory_order_release);
	return (int)len;
}

/* --- the server's end */

/* All its room is there from the beginning. */
static int memory_new(void)
{
	const off_t bytes = sizeof(struct ring_memory);
	_cleanup_close_ int fd = memory_file_new("elasticd-ring", bytes, bytes);
	int r = fd < 0 ? fd : memory_file_seal(fd, F_SEAL_SEAL);

	return r < 0 ? r : TAKE_FD(fd);
}

/* A child of fork() has none of it. */
static int memory_map(int fd, struct ring_memory **ret)
{
	struct ring_memory *m =
		mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	int r;

	if (m == MAP_FAILED)
		return -errno;
	if (madvise(m, sizeof(*m), MADV_DONTFORK) < 0) {
		r = -errno;
		munmap(m, sizeof(*m));
		return r;
	}
	*ret = m;
	return 0;
}

int ring_new(struct ring *ret, int *ret_fd)
{
	_cleanup_close_ int fd = memory_new();
	struct ring_memory *m;
	int r = fd < 0 ? fd : memory_map(fd, &m);

	if (r < 0)
		return r;
	m->magic = RING_MAGIC;
	m->version = RING_VERSION;
	m->bytes = RING_BYTES;
	atomic_store(&m->server.waits, 1);
	ring_init(ret, m, true);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool ring_tell(struct ring *r)
{
	switch (atomic_load(&r->other->waits)) {
	case RING_ON_BELL:
		syscall(SYS_futex, &r->own->news, FUTEX_WAKE, 1, NULL, NULL, 0);
		return false;
	case RING_ON_SOCKET:
		return true;
	default:
		return false;
	}
}

void ring_spill(struct ring *r)
{
	atomic_store(&r->own->spills, ++r->spills);
	tell_news(r);
}

bool ring_sleep(struct ring *r)
{
	atomic_store(&r->own->waits, 1);
	if (atomic_load(&r->other->sent) == r->taken)
		return true;
	ring_wake(r);
	return false;
}

void ring_wake(struct ring *r)
{
	atomic_store_explicit(&r->own->waits, 0, memory_order_relaxed);
}

void ring_crowd(struct ring *r, bool crowded)
{
	atomic_store_explicit(&r->own->crowded, crowded, memory_order_relaxed);
}

void ring_close(struct ring *r)
{
	atomic_store(&r->own->closed, 1);
	tell_news(r);
}

/* --- the client's end */

int ring_open(struct ring *ret, int fd)
{
	struct ring_memory *m;
	struct stat st;
	int seals, r;

	if (fstat(fd, &st) < 0)
		return -errno;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & RING_SEALS) != RING_SEALS || st.st_size != sizeof(*m))
		return -EPROTO;
	r = memory_map(fd, &m);
	if (r < 0)
		return r;
	if (m->magic != RING_MAGIC || m->version != RING_VERSION || m->bytes != RING_BYTES) {
		munmap(m, sizeof(*m));
		return -EPROTO;
	}
	ring_init(ret, m, false);
	return 0;
}

bool ring_bell_due(struct ring *r)
{
	return atomic_load(&r->other->waits) != 0;
}

bool ring_spilled(struct ring *r)
{
	uint32_t spills = atomic_load_explicit(&r->other->spills, memory_order_acquire);
	bool news = spills != r->spills;

	r->spills = spills;
	return news;
}

bool ring_closed(const struct ring *r)
{
	return atomic_load_explicit(&r->other->closed, memory_order_acquire) != 0;
}

bool ring_crowded(const struct ring *r)
{
	return atomic_load_explicit(&r->other->crowded, memory_order_relaxed) != 0;
}

bool ring_untouched(const struct ring *r, size_t len)
{
	int room = ring_room(r);

	return room >= 0 && RING_BYTES - (size_t)room >= len;
}

/* Whether there is something to be done. */
static bool has_news(const struct ring *r)
{
	const struct ring_line *o = r->other;

	return atomic_load_explicit(&o->sent, memory_order_acquire) != r->taken ||
	       atomic_load_explicit(&o->spills, memory_order_acquire) != r->spills ||
	       ring_closed(r);
}

/* 0: look again. 1: the kernel cannot do it, which is no reason to ask it again and again. */
static int await_change(struct ring *r, uint32_t seen, int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (syscall(SYS_futex, &r->other->news, FUTEX_WAIT, seen, &ts, NULL, 0) == 0)
		return 0;
	if (errno == EINTR)
		return -EINTR;
	return errno == EAGAIN || errno == ETIMEDOUT ? 0 : 1;
}

static int await_news(struct ring *r, int64_t ns)
{
	const int64_t end = now_ns() + ns;
	int q = 0;

	while (q == 0) {
		uint32_t seen = atomic_load(&r->other->news);

		if (has_news(r))
			return 1;
		ns = end - now_ns();
		if (ns <= 0)
			return 0;
		q = await_change(r, seen, ns);
	}
	return q < 0 ? q : has_news(r);
}

int ring_await(struct ring *r, unsigned spin, int64_t timeout_us)
{
	int q;

	if (has_news(r))
		return 1;
	for (unsigned i = 0; i < spin; i++) {
		pause_cpu();
		if (has_news(r))
			return 1;
	}
	if (timeout_us <= 0)
		return 0;
	if (timeout_us > INT64_MAX / 4000)
		timeout_us = INT64_MAX / 4000;
	atomic_store(&r->own->waits, RING_ON_BELL);
	q = await_news(r, timeout_us * 1000);
	ring_runs(r);
	return q;
}

bool ring_on_socket(struct ring *r)
{
	atomic_store(&r->own->waits, RING_ON_SOCKET);
	(void)atomic_load(&r->other->news);
	if (!has_news(r))
		return true;
	ring_runs(r);
	return false;
}

void ring_runs(struct ring *r)
{
	atomic_store_explicit(&r->own->waits, RING_RUNS, memory_order_relaxed);
}
