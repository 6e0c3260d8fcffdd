/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirror of a pool. One whose agent is gone stays as it was for ever, so it is used only while
 * a connection lasts that came with it: that is looked at now and then, and after each new
 * connection, behind which there may be another agent.
 */
#include "worker/pool.h"

#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { LOOK_MS = 50 };

/* Good enough for that, and quicker to be had than clock_ms(). */
static int64_t coarse_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static bool hung_up(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

static bool lasts_in(const struct pool *p, const struct conns *conns)
{
	const struct conn *c;

	TAILQ_FOREACH (c, conns, entry)
		if (c->share.mirror == p->mirror_number && !hung_up(c))
			return true;
	return false;
}

/* With the lock. */
static void drop(struct pool *p)
{
	p->mirror = key_mirror_close(p->mirror);
}

/* Whether its agent is there. With the lock. */
static bool is_kept(struct pool *p)
{
	int64_t now = coarse_ms();

	if (p->mirror_looked_ms >= 0 && now - p->mirror_looked_ms < LOOK_MS)
		return true;
	p->mirror_looked_ms = now;
	return lasts_in(p, &p->idle) || lasts_in(p, &p->busy) || lasts_in(p, &p->halted);
}

void share_mirror(struct pool *p, struct conn *c, int fd)
{
	struct key_mirror_reader *m = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	if (!p->mirror || p->mirror_file != st.st_ino || key_mirror_over(p->mirror)) {
		if (key_mirror_open(fd, &m) == 0) {
			drop(p);
			p->mirror = m;
			p->mirror_file = st.st_ino;
			p->mirror_number++;
		}
	}
	if (p->mirror && p->mirror_file == st.st_ino)
		c->share.mirror = p->mirror_number;
	pthread_mutex_unlock(&p->lock);
}

/* With the lock, and the pool is not being closed: until it is, the board is there. */
static int get(struct elasticd *h, struct pool *p, const char *key, void *value, size_t *ret_len)
{
	int r = key_mirror_get(p->mirror, key, strlen(key), value, ret_len);

	if (atomic_load(&h->header->error) || atomic_load(&h->slot->expected) != h->token)
		return 0;
	return r;
}

int share_get(struct elasticd *h, struct pool *p, const char *key, void *value, size_t *ret_len)
{
	int r = 0;

	pthread_mutex_lock(&p->lock);
	if (p->mirror && !is_kept(p))
		drop(p);
	if (p->mirror && !p->closing)
		r = get(h, p, key, value, ret_len);
	pthread_mutex_unlock(&p->lock);
	return r;
}
