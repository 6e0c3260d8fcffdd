/* SPDX-License-Identifier: Apache-2.0 */
/* The client while memory is short: each call has one answer, and all goes on when there is some.
 */
#include "common/base/curl.h"
#include "tests/unit/etcd_stub.h"
#include "tests/unit/etcd_test.h"
#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <dlfcn.h>
#include <errno.h>

enum { LIMIT_MS = 2000 };

#define HEADER "\"header\":{\"cluster_id\":\"9\",\"revision\":\"7\"}"

static const char *well(int stub, const char *path, const char *request, const char *body)
{
	static char stream[16384];

	if (!strcmp(path, "/v3/auth/authenticate"))
		return http(200, "{" HEADER ",\"token\":\"new\"}");
	if (!strcmp(path, "/v3/lease/grant"))
		return http(200, "{" HEADER ",\"ID\":\"5\",\"TTL\":\"9\"}");
	if (!strcmp(path, "/v3/lease/keepalive"))
		return http(200, "{\"result\":{" HEADER ",\"ID\":\"5\",\"TTL\":\"9\"}}");
	if (!strcmp(path, "/v3/watch")) {
		snprintf(stream, sizeof(stream), STREAM "%s",
			chunk("{\"result\":{" HEADER ",\"created\":true}}{\"result\":{" HEADER
			      ",\"events\":[{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"8\"}}]}}"));
		return stream;
	}
	return http(200, "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}");
}

static long kept;

static void on_work(bool begins)
{
	if (begins) {
		kept = fail_at;
		fail_at = 0;
	} else {
		fail_at = kept;
	}
}

static void setup(void)
{
	ck_assert_int_eq(loop_new(&loop), 0);
	stub_answer = well;
	stub_work = on_work;
	stub_bind(&stubs[0], loop);
	stub_listen(&stubs[0]);
}

static void teardown(void)
{
	etcd = etcd_free(etcd);
	stub_end(&stubs[0]);
	loop = loop_free(loop);
}

static int answers, fine;

static void on_any(void *arg, const struct etcd_answer *a)
{
	answers++;
	fine += a->status == STATUS_OK;
}

static int news_n;

static void on_any_news(void *arg, const struct etcd_news *n)
{
	news_n += n->kind == ETCD_WATCH_EVENTS;
}

/* How many calls were taken. */
static int calls(void)
{
	struct etcd_op op = op_put("a", "b", 5);
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };
	const int64_t lease = 5;
	int n = 0;

	n += etcd_txn(etcd, &t, LIMIT_MS, on_any, NULL, NULL) == 0;
	n += etcd_grant(etcd, 9, LIMIT_MS, on_any, NULL, NULL) == 0;
	n += etcd_keep_alive(etcd, &lease, 1, LIMIT_MS, on_any, NULL, NULL) == 0;
	return n;
}

static bool round_of(long n)
{
	char endpoint[32];
	const char *const endpoints[] = { endpoint };
	struct etcd_options o = { .endpoints = endpoints, .n = 1, .user = "u", .password = "p" };
	struct etcd_watch *w = NULL;
	bool reached;
	int taken;

	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", stubs[0].port);
	answers = news_n = 0;
	allocations = 0;
	which = ALONE;
	fail_at = n;
	if (etcd_new(loop, &o, &etcd, NULL) < 0)
		etcd = NULL;
	if (etcd) {
		taken = calls();
		if (etcd_watch_new(etcd, "a", NULL, 8, on_any_news, NULL, &w) < 0)
			w = NULL;
		while (answers < taken || (w && !news_n))
			loop_run_once(loop, true);
	}
	reached = allocations >= n;
	fail_at = 0;
	if (etcd) {
		answers = fine = 0;
		taken = calls();
		ck_assert_int_eq(taken, 3);
		while (answers < 3)
			loop_run_once(loop, true);
		ck_assert_int_eq(fine, 3);
	}
	etcd_watch_free(w);
	etcd = etcd_free(etcd);
	return reached;
}

START_TEST(each_allocation_may_fail)
{
	long n = 1;

	round_of(1000000);
	while (round_of(n)) {
		stub_end(&stubs[0]);
		stub_bind(&stubs[0], loop);
		stub_listen(&stubs[0]);
		n++;
	}
	ck_assert_int_gt(n, 100);
}
END_TEST

#if HAVE_CURL && !defined(__SANITIZE_ADDRESS__)
static void *of_curl(void *p, size_t n)
{
	return __libc_realloc(p, n);
}

static void *new_of_curl(size_t n)
{
	return __libc_malloc(n);
}

static void *zeroed_of_curl(size_t n, size_t size)
{
	return __libc_calloc(n, size);
}

static char *text_of_curl(const char *text)
{
	char *copy = __libc_malloc(strlen(text) + 1);

	return copy ? strcpy(copy, text) : NULL;
}

static bool feed_curl(void)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	void *function = library ? dlsym(library, "curl_global_init_mem") : NULL;
	__typeof__(curl_global_init_mem) *init;

	memcpy(&init, &function, sizeof(init));
	return init &&
	       !init(CURL_GLOBAL_NOTHING, new_of_curl, free, of_curl, text_of_curl, zeroed_of_curl);
}
#else
static bool feed_curl(void)
{
	return false;
}
#endif

int main(void)
{
	Suite *s;
	TCase *t;
	const char *const endpoints[] = { "h" };
	struct etcd_options o = { .endpoints = endpoints, .n = 1 };
	struct error err = { 0 };

	if (!feed_curl()) {
		puts("no libcurl here, or allocations that cannot fail");
		return 77;
	}
	if (loop_new(&loop) < 0 || etcd_new(loop, &o, &etcd, &err) < 0) {
		puts(err.text);
		return 77;
	}
	etcd = etcd_free(etcd);
	loop = loop_free(loop);
	s = suite_create("etcd without memory");
	t = tcase_create("nomem");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_allocation_may_fail);
	suite_add_tcase(s, t);
	return suite_run(s);
}
