/* SPDX-License-Identifier: Apache-2.0 */
/* The lock on the host's shutdown, with a bus and a logind that are this program, too. */
#include "daemon/host/shutdown_inhibitor.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if HAVE_SYSTEMD
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

enum { LOCKS = 16, DELAY_MS = 7000 };

static char dir[64];
static struct loop *loop;
static struct inhibit *inhibit;
static int listener;
static sd_bus *logind;
static bool refuses, preparing;
static int locks[LOCKS], n_locks; /* the ends that see a release */
static int downs, stays;
static int64_t delay;

static void on_inhibit(void *arg, bool down, int64_t delay_ms)
{
	downs += down;
	stays += !down;
	delay = delay_ms;
}

static int grant(sd_bus_message *m)
{
	int ends[2], r;

	if (refuses)
		return sd_bus_reply_method_errorf(m, "org.example.Refused", "not now");
	ck_assert_int_lt(n_locks, LOCKS);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	r = sd_bus_reply_method_return(m, "h", ends[1]);
	close(ends[1]);
	locks[n_locks++] = ends[0];
	return r;
}

static int property(sd_bus_message *m)
{
	const char *interface, *name;

	ck_assert_int_gt(sd_bus_message_read(m, "ss", &interface, &name), 0);
	if (!strcmp(name, "InhibitDelayMaxUSec"))
		return sd_bus_reply_method_return(m, "v", "t", (uint64_t)DELAY_MS * 1000);
	ck_assert_str_eq(name, "PreparingForShutdown");
	return sd_bus_reply_method_return(m, "v", "b", (int)preparing);
}

static int on_message(sd_bus_message *m, void *arg, sd_bus_error *ignored)
{
	int r;

	if (sd_bus_message_is_method_call(m, NULL, "Hello"))
		r = sd_bus_reply_method_return(m, "s", ":1.1");
	else if (sd_bus_message_is_method_call(m, NULL, "Get"))
		r = property(m);
	else if (sd_bus_message_is_method_call(m, NULL, "Inhibit"))
		r = grant(m);
	else
		r = sd_bus_reply_method_return(m, "");
	ck_assert_int_ge(r, 0);
	return 1;
}

static void serve(int fd)
{
	sd_id128_t id = { .qwords = { 1, 2 } };

	ck_assert_int_ge(sd_bus_new(&logind), 0);
	ck_assert_int_ge(sd_bus_set_fd(logind, fd, fd), 0);
	ck_assert_int_ge(sd_bus_set_server(logind, 1, id), 0);
	ck_assert_int_ge(sd_bus_negotiate_fds(logind, 1), 0);
	ck_assert_int_ge(sd_bus_add_filter(logind, NULL, on_message, NULL), 0);
	ck_assert_int_ge(sd_bus_start(logind), 0);
}

/* One turn of both sides. */
static void turn(void)
{
	int fd = logind ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		serve(fd);
	while (logind && sd_bus_process(logind, NULL) > 0)
		;
	loop_run_once(loop, false);
}

static const char *state(void)
{
	const char *text;

	return inhibit_state(inhibit, &text);
}

static void until_state(const char *name)
{
	while (strcmp(state(), name))
		turn();
}

static bool is_held(int i)
{
	char c;

	return read(locks[i], &c, 1) < 0;
}

static void bus_ends(void)
{
	sd_bus_close(logind);
	logind = sd_bus_unref(logind);
}

static void emit(sd_bus_message *m)
{
	ck_assert_int_ge(sd_bus_send(logind, m, NULL), 0);
	sd_bus_message_unref(m);
}

static void prepare(bool down)
{
	sd_bus_message *m = NULL;

	ck_assert_int_ge(sd_bus_message_new_signal(logind, &m, "/org/freedesktop/login1",
				 "org.freedesktop.login1.Manager", "PrepareForShutdown"),
		0);
	ck_assert_int_ge(sd_bus_message_set_sender(m, ":1.2"), 0);
	ck_assert_int_ge(sd_bus_message_append(m, "b", (int)down), 0);
	emit(m);
}

static void owner(const char *before, const char *now)
{
	sd_bus_message *m = NULL;

	ck_assert_int_ge(sd_bus_message_new_signal(logind, &m, "/org/freedesktop/DBus",
				 "org.freedesktop.DBus", "NameOwnerChanged"),
		0);
	ck_assert_int_ge(sd_bus_message_set_sender(m, "org.freedesktop.DBus"), 0);
	ck_assert_int_ge(sd_bus_message_append(m, "sss", "org.freedesktop.login1", before, now), 0);
	emit(m);
}

static void setup(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char bus[128];

	refuses = preparing = false;
	n_locks = downs = stays = 0;
	snprintf(dir, sizeof(dir), "/tmp/test-inhibit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/bus", dir);
	snprintf(bus, sizeof(bus), "unix:path=%s", address.sun_path);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", bus, 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 8), 0);
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(inhibit_new(loop, on_inhibit, NULL, &inhibit), 0);
	ck_assert_str_eq(state(), "off");
	inhibit_want(inhibit, true);
}

static void teardown(void)
{
	inhibit = inhibit_free(inhibit);
	if (logind)
		bus_ends();
	while (n_locks)
		close(locks[--n_locks]);
	close(listener);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

START_TEST(a_host_that_stays_after_all_is_locked_again)
{
	until_state("watching");
	prepare(true);
	while (!downs)
		turn();
	ck_assert_int_eq(delay, DELAY_MS);
	ck_assert_str_eq(state(), "notice");
	ck_assert(is_held(0));
	inhibit_release(inhibit);
	ck_assert(!is_held(0));
	prepare(false);
	while (!stays)
		turn();
	until_state("watching");
	ck_assert_int_eq(n_locks, 2);
	ck_assert(is_held(1));
	prepare(true);
	while (downs < 2)
		turn();
}
END_TEST

START_TEST(a_lock_that_was_not_released_stays_where_the_host_does)
{
	until_state("watching");
	prepare(true);
	prepare(false);
	prepare(true);
	while (!downs)
		turn();
	prepare(false);
	while (!stays)
		turn();
	ck_assert_str_eq(state(), "watching");
	ck_assert_int_eq(n_locks, 1);
	ck_assert(is_held(0));
}
END_TEST

START_TEST(the_next_logind_gives_a_new_lock)
{
	until_state("watching");
	owner(":1.2", "");
	owner("", ":1.3");
	while (n_locks < 2 || is_held(0))
		turn();
	ck_assert(is_held(1));
	ck_assert_str_eq(state(), "watching");
	ck_assert_int_eq(downs + stays, 0);
}
END_TEST

START_TEST(a_logind_that_refused_is_asked_again_when_it_restarts)
{
	refuses = true;
	until_state("failing");
	refuses = false;
	owner("", ":1.3");
	until_state("watching");
	ck_assert_int_ge(n_locks, 1);
}
END_TEST

START_TEST(a_logind_that_refuses_is_asked_again_after_a_pause)
{
	refuses = true;
	until_state("failing");
	refuses = false;
	until_state("watching");
	ck_assert_int_ge(n_locks, 1);
}
END_TEST

START_TEST(a_listener_during_a_shutdown_hears_of_it)
{
	preparing = true;
	while (!downs)
		turn();
	ck_assert_int_eq(delay, DELAY_MS);
	ck_assert_str_eq(state(), "notice");
}
END_TEST

START_TEST(a_bus_that_breaks_is_opened_again_and_the_lock_is_kept)
{
	until_state("watching");
	bus_ends();
	while (n_locks < 2) {
		ck_assert(is_held(0));
		turn();
	}
	while (is_held(0))
		turn();
	ck_assert(is_held(1));
	ck_assert_str_eq(state(), "watching");
}
END_TEST

START_TEST(no_lock_is_held_without_a_user)
{
	until_state("watching");
	prepare(true);
	while (!downs)
		turn();
	inhibit_want(inhibit, false);
	ck_assert_str_eq(state(), "off");
	ck_assert(!is_held(0));
	bus_ends();
	inhibit_want(inhibit, true);
	until_state("watching");
	ck_assert(is_held(1));
	ck_assert_int_eq(stays, 0);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_host_that_stays_after_all_is_locked_again);
	tcase_add_test(t, a_lock_that_was_not_released_stays_where_the_host_does);
	tcase_add_test(t, the_next_logind_gives_a_new_lock);
	tcase_add_test(t, a_logind_that_refused_is_asked_again_when_it_restarts);
	tcase_add_test(t, a_logind_that_refuses_is_asked_again_after_a_pause);
	tcase_add_test(t, a_listener_during_a_shutdown_hears_of_it);
	tcase_add_test(t, a_bus_that_breaks_is_opened_again_and_the_lock_is_kept);
	tcase_add_test(t, no_lock_is_held_without_a_user);
}

#else

START_TEST(without_systemd_it_fails_and_says_why)
{
	struct inhibit *i = NULL;
	const char *text;

	ck_assert_int_eq(inhibit_new(NULL, NULL, NULL, &i), 0);
	ck_assert_str_eq(inhibit_state(i, &text), "off");
	inhibit_want(i, true);
	ck_assert_str_eq(inhibit_state(i, &text), "failing");
	ck_assert_str_eq(text, "built without systemd");
	inhibit_free(i);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, without_systemd_it_fails_and_says_why);
}

#endif

int main(void)
{
	Suite *s = suite_create("inhibit");
	TCase *t = tcase_create("inhibit");

	add(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
