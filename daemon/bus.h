/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An sd-bus connection in the loop: its descriptor, its time-outs, its end. Never blocks, and wakes
 * nobody while nothing comes. Who owns one adds slots by bus_sd(). Only built with systemd.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#if HAVE_SYSTEMD
#include <systemd/sd-bus.h>

struct bus;

enum bus_kind {
	BUS_SYSTEM,
	BUS_USER,
	BUS_SYSTEMD, /* systemd itself, without a bus between; for root */
};

/* The connection is lost; from the loop or from a handler's turn. May free the bus. */
typedef void (*bus_failed_fn)(void *arg, int code);

_must_check_ int bus_new(
	struct loop *loop, enum bus_kind kind, bus_failed_fn failed, void *arg, struct bus **ret);
/* Slots are the owner's, and go first. Also from within a handler. */
struct bus *bus_free(struct bus *b);

/* Borrowed, for calls and matches; what was queued goes out after bus_send(). */
sd_bus *bus_sd(struct bus *b);
/* From the loop: what can be sent is, and what came is handled. 0 or -ENOMEM. */
_must_check_ int bus_send(struct bus *b);
#endif
