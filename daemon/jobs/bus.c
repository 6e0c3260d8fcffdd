/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/bus.h"

#if HAVE_SYSTEMD
#include <errno.h>
#include <poll.h>

struct bus {
	struct loop *loop;
	sd_bus *bus;
	struct loop_fd *watch;
	struct loop_timer *timer; /* the bus's own time-outs */
	bus_failed_fn failed;
	void *arg;
	bool *freed; /* where to say that this is gone, while handlers run */
};

static void on_turn(void *arg);

struct bus *bus_free(struct bus *b)
{
	if (!b)
		return NULL;
	if (b->freed)
		*b->freed = true;
	loop_cancel(b->loop, on_turn, b);
	loop_fd_free(b->watch);
	loop_timer_free(b->timer);
	if (b->bus)
		sd_bus_close(b->bus);
	sd_bus_unref(b->bus);
	free(b);
	return NULL;
}

sd_bus *bus_sd(struct bus *b)
{
	return b->bus;
}

int bus_send(struct bus *b)
{
	return loop_defer(b->loop, on_turn, b);
}

/* Tells the loop what the bus waits for now. */
static int update_events(struct bus *b)
{
	int events = sd_bus_get_events(b->bus);
	uint64_t until_us = UINT64_MAX;
	uint64_t now_ms = loop_now_ms();
	int r;

	if (events < 0)
		return events;
	r = loop_fd_set(
		b->watch, (events & POLLIN ? LOOP_READ : 0) | (events & POLLOUT ? LOOP_WRITE : 0));
	loop_timer_disarm(b->timer);
	if (!r && sd_bus_get_timeout(b->bus, &until_us) >= 0 && until_us != UINT64_MAX)
		loop_timer_arm(
			b->timer, until_us / 1000 > now_ms ? until_us / 1000 - now_ms + 1 : 0);
	return r;
}

static void on_turn(void *arg)
{
	struct bus *b = arg;
	/* A handler may free b: keep the bus itself until this returns. */
	sd_bus *bus = sd_bus_ref(b->bus);
	bool freed = false;
	int r;

	b->freed = &freed;
	do
		r = sd_bus_process(bus, NULL);
	while (r > 0 && !freed);
	sd_bus_unref(bus);
	if (freed)
		return;
	b->freed = NULL;
	if (r >= 0)
		r = update_events(b);
	if (r < 0)
		b->failed(b->arg, r);
}

static void on_ready(int fd, int events, void *arg)
{
	on_turn(arg);
}

/* As systemctl does it: systemd's own socket answers also while the bus is being stopped. */
static int open_systemd(sd_bus **ret)
{
	int r = sd_bus_new(ret);

	if (r >= 0)
		r = sd_bus_set_address(*ret, "unix:path=/run/systemd/private");
	return r < 0 ? r : sd_bus_start(*ret);
}

static int open_kind(enum bus_kind kind, sd_bus **ret)
{
	switch (kind) {
	case BUS_SYSTEM:
		return sd_bus_open_system(ret);
	case BUS_USER:
		return sd_bus_open_user(ret);
	case BUS_SYSTEMD:
		return open_systemd(ret);
	}
	return -EINVAL;
}

int bus_new(
	struct loop *loop, enum bus_kind kind, bus_failed_fn failed, void *arg, struct bus **ret)
{
	struct bus *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	*b = (struct bus){ .loop = loop, .failed = failed, .arg = arg };
	r = open_kind(kind, &b->bus);
	if (r >= 0)
		r = loop_timer_new(loop, on_turn, b, &b->timer);
	if (r >= 0)
		r = loop_fd_new(loop, sd_bus_get_fd(b->bus), LOOP_READ, on_ready, b, &b->watch);
	if (r < 0) {
		bus_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

#endif
