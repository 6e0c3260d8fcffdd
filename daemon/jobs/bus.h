/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An sd-bus connection in the loop: its descriptor, its time-outs, its end. Never blocks, and wakes
 * the process only when something comes. The owner adds slots by bus_sd(). Only built with systemd.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#if HAVE_SYSTEMD
#include <systemd/sd-bus.h>

struct bus;

enum bus_kind {
	BUS_SYSTEM,
	BUS_USER,
	BUS_SYSTEMD, /* systemd's own socket, without the bus; for root */
};

/* The connection is lost. Runs from the loop or within a handler. May free the bus. */
typedef void (*bus_failed_fn)(void *arg, int code);

_must_check_ int bus_new(
	struct loop *loop, enum bus_kind kind, bus_failed_fn failed, void *arg, struct bus **ret);
/* The owner frees its slots first. May be called from within a handler. */
struct bus *bus_free(struct bus *b);

/* Borrowed, for calls and matches; what was queued goes out after bus_send(). */
sd_bus *bus_sd(struct bus *b);
/* Sends what can be sent and handles what came. Call it from the loop. 0 or -ENOMEM. */
_must_check_ int bus_send(struct bus *b);
#endif
