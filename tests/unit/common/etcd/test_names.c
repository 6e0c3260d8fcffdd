/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints by name: libcurl looks them up beside the loop. */
#include "tests/unit/etcd_stub.h"
#include "tests/unit/etcd_test.h"
#include "tests/unit/run.h"

#include <dirent.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>

/* In place of the C library's: waits until it is let go, and knows one host. */

static sem_t asked, go;

int getaddrinfo(
	const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	struct {
		struct addrinfo info;
		struct sockaddr_in at;
	} * a;

	sem_post(&asked);
	while (sem_wait(&go) < 0)
		continue;
	if (strcmp(name, "etcd.example") != 0)
		return EAI_NONAME;
	a = calloc(1, sizeof(*a));
	if (!a)
		return EAI_MEMORY;
	a->at = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(service ? service : "0")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	a->info = (struct addrinfo){ .ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&a->at,
		.ai_addrlen = sizeof(a->at) };
	*ret = &a->info;
	return 0;
}

void freeaddrinfo(struct addrinfo *a)
{
	free(a);
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static const char *well(int stub, const char *path, const char *request, const char *body)
{
	return http(200, "{\"header\":{\"revision\":\"7\"},\"succeeded\":true,"
			 "\"responses\":[{\"response_put\":{}}]}");
}

static void client_start(const char *name)
{
	char endpoint[64];
	const char *const endpoints[] = { endpoint };
	struct etcd_options o = { .endpoints = endpoints, .n = 1 };

	snprintf(endpoint, sizeof(endpoint), "%s:%d", name, stubs[0].port);
	ck_assert_int_eq(etcd_new(loop, &o, &etcd, NULL), 0);
}

static void setup(void)
{
	ck_assert_int_eq(loop_new(&loop), 0);
	sem_init(&asked, 0, 0);
	sem_init(&go, 0, 0);
	stub_answer = well;
	stub_bind(&stubs[0], loop);
	stub_listen(&stubs[0]);
	ck_assert_int_eq(threads(), 1);
}

static void teardown(void)
{
	etcd = etcd_free(etcd);
	stub_end(&stubs[0]);
	loop = loop_free(loop);
	/* The thread of a look-up ends with that. */
	while (threads() > 1)
		sched_yield();
}

static void on_tick(void *arg)
{
	sem_post(&go);
}

START_TEST(a_name_is_looked_up_while_the_loop_runs)
{
	struct loop_timer *tick;

	client_start("etcd.example");
	ck_assert_int_eq(loop_timer_new(loop, on_tick, NULL, &tick), 0);
	loop_timer_arm(tick, 20);
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	loop_timer_free(tick);
}
END_TEST

START_TEST(an_unknown_name_is_an_error)
{
	client_start("nowhere.example");
	sem_post(&go);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "nowhere.example"));
}
END_TEST

START_TEST(a_look_up_that_does_not_end_delays_nothing)
{
	struct etcd_call *c;

	client_start("etcd.example");
	put_within("a", "b", 0, 100);
	ck_assert_status(STATUS_DEADLINE_EXCEEDED);
	ck_assert(!got.maybe);
	ck_assert_int_eq(etcd_status(etcd, PATIENT_MS, on_answer, NULL, &c), 0);
	loop_run_once(loop, true);
	if (_i)
		etcd_cancel(c);
	etcd = etcd_free(etcd);
	ck_assert_int_eq(got.answers, 1);
	for (int i = 0; i < 2; i++)
		sem_post(&go);
}
END_TEST

int main(void)
{
	Suite *s;
	TCase *t;
	const char *const endpoints[] = { "h" };
	struct etcd_options o = { .endpoints = endpoints, .n = 1 };
	struct error err = { 0 };

	if (loop_new(&loop) < 0 || etcd_new(loop, &o, &etcd, &err) < 0) {
		puts(err.text);
		return 77;
	}
	etcd = etcd_free(etcd);
	loop = loop_free(loop);
	s = suite_create("etcd names");
	t = tcase_create("names");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_name_is_looked_up_while_the_loop_runs);
	tcase_add_test(t, an_unknown_name_is_an_error);
	tcase_add_loop_test(t, a_look_up_that_does_not_end_delays_nothing, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
