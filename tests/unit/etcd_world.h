/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A client of etcd and servers in the place of etcds, for each test. */

#include "tests/unit/etcd_stub.h"
#include "tests/unit/etcd_test.h"

/* Where libcurl waits for a silent server. A read that may take twice as long gives this server
 * half of its time, and the next one the other half. */
enum { SHORT_MS = 500 };

#define HEADER "\"header\":{\"cluster_id\":\"9\",\"revision\":\"7\"}"
#define PUT_DONE "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}"
#define GET_DONE "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_range\":{}}]}"

static char names[STUBS][32];

static inline void client_start_with(int n, struct etcd_options o)
{
	const char *endpoints[STUBS];
	struct error err = { 0 };

	for (int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "127.0.0.1:%d", stubs[i].port);
		endpoints[i] = names[i];
	}
	o.endpoints = endpoints;
	o.n = (size_t)n;
	ck_assert_msg(etcd_new(loop, &o, &etcd, &err) == 0, "%s", err.text);
}

static inline void client_start(int n, stub_fn fn)
{
	stub_answer = fn;
	client_start_with(n, (struct etcd_options){ 0 });
}

static inline void setup(void)
{
	ck_assert_int_eq(loop_new(&loop), 0);
	for (int i = 0; i < STUBS; i++) {
		stub_bind(&stubs[i], loop);
		stub_listen(&stubs[i]);
	}
}

static inline void teardown(void)
{
	etcd = etcd_free(etcd);
	for (int i = 0; i < STUBS; i++)
		stub_end(&stubs[i]);
	loop = loop_free(loop);
}

static inline int requests(void)
{
	return stubs[0].requests + stubs[1].requests + stubs[2].requests;
}

static inline const char *well(int stub, const char *path, const char *request, const char *body)
{
	if (!strcmp(path, "/v3/lease/keepalive"))
		return http(200, "{\"result\":{" HEADER ",\"ID\":\"5\",\"TTL\":\"9\"}}");
	if (!strcmp(path, "/v3/maintenance/status"))
		return http(200, "{" HEADER ",\"version\":\"3.6.1\",\"leader\":\"3\"}");
	if (!strcmp(path, "/v3/auth/authenticate"))
		return http(200, "{" HEADER ",\"token\":\"new\"}");
	return http(200, strstr(body, "request_put") ? PUT_DONE : GET_DONE);
}

/* --- Servers that are bad --- */

static int bad_stubs; /* so many of them are bad: those that are asked first */
static const char *bad_answer;
static int asked_first[STUBS], n_asked;

static inline bool is_bad(int stub)
{
	for (int i = 0; i < n_asked; i++)
		if (asked_first[i] == stub)
			return i < bad_stubs;
	asked_first[n_asked++] = stub;
	return n_asked <= bad_stubs;
}

static inline const char *first_bad(
	int stub, const char *path, const char *request, const char *body)
{
	return is_bad(stub) ? bad_answer : well(stub, path, request, body);
}

/* Loads libcurl once, before Check forks for each test; false: there is none. */
static inline bool world_load(void)
{
	const char *const endpoints[] = { "h" };
	struct etcd_options o = { .endpoints = endpoints, .n = 1 };
	struct error err = { 0 };

	if (loop_new(&loop) < 0 || etcd_new(loop, &o, &etcd, &err) < 0) {
		puts(err.text);
		return false;
	}
	etcd = etcd_free(etcd);
	loop = loop_free(loop);
	return true;
}
