/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host/shutdown_query.h"

#include "common/base/log.h"
#include "daemon/jobs/bus.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

enum { LIMIT_MS = 3000 };

struct shutdown_query {
	struct loop *loop;
	shutdown_query_fn fn;
	void *arg;
	struct loop_timer *limit;
#if HAVE_SYSTEMD
	struct bus *bus;
#endif
};

static void on_limit(void *arg)
{
	struct shutdown_query *g = arg;

	g->fn(g->arg, false);
}

struct shutdown_query *shutdown_query_free(struct shutdown_query *g)
{
	if (!g)
		return NULL;
	loop_timer_free(g->limit);
#if HAVE_SYSTEMD
	bus_free(g->bus);
#endif
	free(g);
	return NULL;
}

#if HAVE_SYSTEMD
static int on_state(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct shutdown_query *g = arg;
	const char *state = "";

	if (sd_bus_message_is_method_error(m, NULL) ||
		sd_bus_message_enter_container(m, 'v', "s") < 0 ||
		sd_bus_message_read(m, "s", &state) < 0)
		log_warning("systemd does not say whether the host goes down");
	g->fn(g->arg, !strcmp(state, "stopping"));
	return 0;
}

static void on_failed(void *arg, int code)
{
	struct shutdown_query *g = arg;

	log_warning("systemd does not say whether the host goes down: %s", strerror(-code));
	g->fn(g->arg, false);
}

static int ask_systemd(struct shutdown_query *g)
{
	bool root = geteuid() == 0;
	int r;

	if (sd_booted() <= 0)
		return -EOPNOTSUPP;
	r = bus_new(g->loop, root ? BUS_SYSTEMD : BUS_SYSTEM, on_failed, g, &g->bus);
	if (r >= 0)
		r = sd_bus_call_method_async(bus_sd(g->bus), NULL,
			root ? NULL : "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
			"org.freedesktop.DBus.Properties", "Get", on_state, g, "ss",
			"org.freedesktop.systemd1.Manager", "SystemState");
	return r < 0 ? r : bus_send(g->bus);
}
#else
static int ask_systemd(struct shutdown_query *g)
{
	return -EOPNOTSUPP;
}
#endif

int shutdown_query_ask(
	struct loop *loop, shutdown_query_fn fn, void *arg, struct shutdown_query **ret)
{
	struct shutdown_query *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	*g = (struct shutdown_query){ .loop = loop, .fn = fn, .arg = arg };
	r = loop_timer_new(loop, on_limit, g, &g->limit);
	if (r < 0) {
		shutdown_query_free(g);
		return r;
	}
	r = ask_systemd(g);
	if (r < 0 && r != -EOPNOTSUPP)
		log_warning("systemd cannot be asked whether the host goes down: %s", strerror(-r));
	loop_timer_arm(g->limit, r < 0 ? 0 : LIMIT_MS);
	*ret = g;
	return 0;
}
