/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one connection to the system bus, only while the lock is wanted. On it: logind's
 * PrepareForShutdown, the coming and going of logind itself, and three requests, made again
 * whenever logind appears: is the host going down already, how long does logind wait, and the lock.
 * A connection that breaks is opened again a few times with growing pauses; after that only when
 * the bus's socket appears again. Requests that cannot be sent and a lock that is refused are
 * retried with such pauses for as long as the lock is wanted.
 */
#include "daemon/host/shutdown_inhibitor.h"

#include "common/base/log.h"
#include "daemon/host/path_watch.h"
#include "daemon/jobs/bus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#if HAVE_SYSTEMD
#define LOGIND "org.freedesktop.login1"
#define LOGIND_PATH "/org/freedesktop/login1"
#define LOGIND_MANAGER "org.freedesktop.login1.Manager"
#define BUS_SOCKET "/run/dbus/system_bus_socket"

enum {
	TRIES_MAX = 8,
	RETRY_FIRST_MS = 100,
	DELAY_DEFAULT_MS = 5000, /* logind's own */
};

struct inhibit {
	struct loop *loop;
	inhibit_fn fn;
	void *arg;
	bool wanted;
	bool down;	    /* as logind last said */
	bool reported_down; /* to the owner */
	bool released;	    /* the owner does not need the lock until the host stays */
	bool complained;
	bool unasked; /* send the requests again when retry fires */
	int lock_fd;
	int64_t delay_ms;
	struct bus *bus;
	sd_bus_slot *prepare, *owner, *lock;
	struct loop_timer *retry;
	int tries;
	struct path_watch *socket;
	char text[256];
};

static void try_again(struct inhibit *i);

static void disconnect(struct inhibit *i)
{
	i->prepare = sd_bus_slot_unref(i->prepare);
	i->owner = sd_bus_slot_unref(i->owner);
	i->lock = sd_bus_slot_unref(i->lock);
	i->bus = bus_free(i->bus);
	i->unasked = false;
}

static void release_lock(struct inhibit *i)
{
	if (i->lock_fd >= 0)
		log_notice("logind: the shutdown is no longer held up");
	i->lock_fd = close_fd(i->lock_fd);
}

/* Logs a problem once, until it is solved. */
static void log_problem(struct inhibit *i, const char *what, const char *why)
{
	snprintf(i->text, sizeof(i->text), "%s: %.150s", what, why);
	if (!i->complained)
		log_warning("logind: %s; a shutdown would not wait for checkpoints", i->text);
	i->complained = true;
}

static void ask_again(struct inhibit *i)
{
	i->unasked = true;
	loop_timer_arm(i->retry, (uint64_t)RETRY_FIRST_MS << i->tries);
	if (i->tries < TRIES_MAX)
		i->tries++;
}

static void on_bus_failed(void *arg, int code)
{
	struct inhibit *i = arg;

	disconnect(i);
	log_problem(i, "the system bus", strerror(-code));
	try_again(i);
}

static void report_down(void *arg)
{
	struct inhibit *i = arg;

	if (i->down == i->reported_down || !i->wanted)
		return;
	i->reported_down = i->down;
	i->fn(i->arg, i->down, i->down ? i->delay_ms : 0);
}

/* Runs the owner's fn from the loop, where it may free i. */
static void set_down(struct inhibit *i, bool down)
{
	i->down = down;
	if (!down)
		i->released = false;
	if (loop_defer(i->loop, report_down, i) < 0)
		log_error("logind: out of memory");
}

static int on_lock(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct inhibit *i = arg;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	int fd = -1;
	int r = e ? -EIO : sd_bus_message_read(m, "h", &fd);

	if (r >= 0)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (e || r < 0 || fd < 0) {
		/* logind gives no locks while the host goes down: that is no error. */
		if (!i->down) {
			log_problem(i, "no lock",
				e ? e->message ? e->message : e->name : strerror(EIO));
			ask_again(i);
		}
		return 0;
	}
	i->complained = false;
	i->tries = 0;
	if (i->released) {
		close(fd);
		return 0;
	}
	if (i->lock_fd < 0)
		log_info("logind: a shutdown waits for checkpoints, up to %lld ms",
			(long long)i->delay_ms);
	close_fd(i->lock_fd);
	i->lock_fd = fd;
	return 0;
}

static int ask_lock(struct inhibit *i)
{
	i->lock = sd_bus_slot_unref(i->lock);
	return sd_bus_call_method_async(bus_sd(i->bus), &i->lock, LOGIND, LOGIND_PATH,
		LOGIND_MANAGER, "Inhibit", on_lock, i, "ssss", "shutdown", "elasticd",
		"Training jobs save a checkpoint first", "delay");
}

static int on_delay(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct inhibit *i = arg;
	uint64_t us = 0;

	if (!sd_bus_message_is_method_error(m, NULL) &&
		sd_bus_message_enter_container(m, 'v', "t") > 0 &&
		sd_bus_message_read(m, "t", &us) > 0 && us / 1000 < INT32_MAX)
		i->delay_ms = (int64_t)(us / 1000);
	return 0;
}

static int on_preparing(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	int down = 0;

	if (!sd_bus_message_is_method_error(m, NULL) &&
		sd_bus_message_enter_container(m, 'v', "b") > 0 &&
		sd_bus_message_read(m, "b", &down) > 0)
		set_down(arg, down);
	return 0;
}

static int get_property(struct inhibit *i, const char *name, sd_bus_message_handler_t fn)
{
	return sd_bus_call_method_async(bus_sd(i->bus), NULL, LOGIND, LOGIND_PATH,
		"org.freedesktop.DBus.Properties", "Get", fn, i, "ss", LOGIND_MANAGER, name);
}

/* In this order, so that the other two answers are known when the lock's is read. */
static void ask_all(struct inhibit *i)
{
	int r = get_property(i, "InhibitDelayMaxUSec", on_delay);

	if (r >= 0)
		r = get_property(i, "PreparingForShutdown", on_preparing);
	if (r >= 0 && !i->released)
		r = ask_lock(i);
	if (r >= 0)
		r = bus_send(i->bus);
	if (r < 0) {
		log_problem(i, "cannot ask", strerror(-r));
		ask_again(i);
	}
}

static int on_prepare(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	struct inhibit *i = arg;
	int down = 0;

	if (sd_bus_message_read(m, "b", &down) < 0)
		return 0;
	set_down(i, down);
	if (!down && i->lock_fd < 0)
		ask_all(i);
	return 0;
}

static int on_owner(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	const char *name, *before, *now;

	if (sd_bus_message_read(m, "sss", &name, &before, &now) >= 0 && *now)
		ask_all(arg);
	return 0;
}

static int connect_bus(struct inhibit *i)
{
	int r = bus_new(i->loop, BUS_SYSTEM, on_bus_failed, i, &i->bus);

	if (r < 0)
		return r;
	r = sd_bus_match_signal_async(bus_sd(i->bus), &i->prepare, LOGIND, LOGIND_PATH,
		LOGIND_MANAGER, "PrepareForShutdown", on_prepare, NULL, i);
	if (r >= 0)
		r = sd_bus_add_match_async(bus_sd(i->bus), &i->owner,
			"type='signal',sender='org.freedesktop.DBus',"
			"interface='org.freedesktop.DBus',member='NameOwnerChanged',"
			"arg0='" LOGIND "'",
			on_owner, NULL, i);
	if (r >= 0)
		ask_all(i);
	else
		disconnect(i);
	return r;
}

static void on_socket(void *arg)
{
	struct inhibit *i = arg;

	i->socket = path_watch_free(i->socket);
	i->tries = 0;
	try_again(i);
}

static const char *socket_path(void)
{
	const char *address = getenv("DBUS_SYSTEM_BUS_ADDRESS");
	static const char unix_path[] = "unix:path=";

	if (address && !strncmp(address, unix_path, sizeof(unix_path) - 1) &&
		!strpbrk(address + sizeof(unix_path) - 1, ",;%"))
		return address + sizeof(unix_path) - 1;
	return BUS_SOCKET;
}

static void on_retry(void *arg)
{
	struct inhibit *i = arg;
	int r = i->wanted && !i->bus ? connect_bus(i) : 0;

	if (r < 0) {
		log_problem(i, "the system bus", strerror(-r));
		try_again(i);
	} else if (i->bus && i->unasked) {
		i->unasked = false;
		ask_all(i);
	}
}

static void try_again(struct inhibit *i)
{
	int r;

	if (i->tries < TRIES_MAX) {
		loop_timer_arm(i->retry, (uint64_t)RETRY_FIRST_MS << i->tries++);
		return;
	}
	if (i->socket)
		return;
	r = path_watch_new(i->loop, socket_path(), on_socket, i, &i->socket);
	if (r < 0)
		log_warning("logind: %s: %s; it is not tried again", socket_path(), strerror(-r));
	else
		/* The socket may have appeared before it was watched. */
		loop_timer_arm(i->retry, 0);
}

int inhibit_new(struct loop *loop, inhibit_fn fn, void *arg, struct inhibit **ret)
{
	struct inhibit *i = calloc(1, sizeof(*i));
	int r;

	if (!i)
		return -ENOMEM;
	*i = (struct inhibit){
		.loop = loop, .fn = fn, .arg = arg, .lock_fd = -1, .delay_ms = DELAY_DEFAULT_MS
	};
	r = loop_timer_new(loop, on_retry, i, &i->retry);
	if (r < 0) {
		free(i);
		return r;
	}
	*ret = i;
	return 0;
}

static void reset(struct inhibit *i)
{
	loop_timer_disarm(i->retry);
	loop_cancel(i->loop, report_down, i);
	i->socket = path_watch_free(i->socket);
	disconnect(i);
	i->lock_fd = close_fd(i->lock_fd);
	i->down = i->reported_down = i->released = i->complained = false;
	i->tries = 0;
	i->text[0] = '\0';
}

struct inhibit *inhibit_free(struct inhibit *i)
{
	if (!i)
		return NULL;
	reset(i);
	loop_timer_free(i->retry);
	free(i);
	return NULL;
}

void inhibit_want(struct inhibit *i, bool wanted)
{
	if (i->wanted == wanted)
		return;
	i->wanted = wanted;
	if (wanted)
		loop_timer_arm(i->retry, 0);
	else
		reset(i);
}

void inhibit_release(struct inhibit *i)
{
	i->released = true;
	release_lock(i);
}

const char *inhibit_state(const struct inhibit *i, const char **ret_text)
{
	*ret_text = "no active job asks for it";
	if (!i->wanted)
		return "off";
	if (i->down) {
		*ret_text = "the host is going down";
		return "notice";
	}
	if (i->lock_fd >= 0) {
		*ret_text = "a shutdown waits for checkpoints";
		return "watching";
	}
	*ret_text = i->text;
	return i->complained ? "failing" : "waiting";
}

#else

struct inhibit {
	bool wanted;
};

int inhibit_new(struct loop *loop, inhibit_fn fn, void *arg, struct inhibit **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct inhibit *inhibit_free(struct inhibit *i)
{
	free(i);
	return NULL;
}

void inhibit_want(struct inhibit *i, bool wanted)
{
	if (wanted && !i->wanted)
		log_warning(
			"logind: built without systemd; a shutdown does not wait for checkpoints");
	i->wanted = wanted;
}

void inhibit_release(struct inhibit *i)
{
}

const char *inhibit_state(const struct inhibit *i, const char **ret_text)
{
	*ret_text = "built without systemd";
	return i->wanted ? "failing" : "off";
}

#endif
