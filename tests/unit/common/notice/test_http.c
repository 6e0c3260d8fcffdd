/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/http.h"
#include "tests/unit/http_server.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <fcntl.h>

#if HAVE_CURL

static struct loop *loop;
static struct http *http;
static char url[64], seen[SERVER_BYTES];
static const char *reply;

/* The last answer. */
static int answers, status;
static char body[HTTP_BODY_MAX + 1], why[256], etag[64];

static const char *on_request(const char *request)
{
	snprintf(seen, sizeof(seen), "%s", request);
	return reply;
}

static void setup(void)
{
	answers = 0;
	seen[0] = body[0] = why[0] = etag[0] = '\0';
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(http_new(loop, &http, NULL), 0);
	server_start(loop, on_request);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/some/path?x=1", server.port);
}

static void teardown(void)
{
	http = http_free(http);
	server_stop();
	loop = loop_free(loop);
}

static void on_answer(void *arg, const struct http_answer *a)
{
	const char *tag = http_header(a, "ETag");

	answers++;
	status = a->status;
	ck_assert_int_eq(!a->status, a->error != NULL);
	ck_assert_uint_eq(strlen(a->body), a->len);
	snprintf(body, sizeof(body), "%s", a->body);
	snprintf(why, sizeof(why), "%s", a->error ? a->error : "");
	snprintf(etag, sizeof(etag), "%s", tag ? tag : "");
}

static struct http_request request(void)
{
	return (struct http_request){ .url = url, .timeout_ms = 600000, .connect_ms = 600000 };
}

static void start(const struct http_request *q)
{
	ck_assert_int_eq(http_start(http, q, on_answer, NULL, NULL), 0);
	ck_assert_int_eq(answers, 0);
}

static void run_until(int n)
{
	while (answers < n)
		loop_run_once(loop, true);
	ck_assert_int_eq(answers, n);
}

START_TEST(an_answer_comes_with_its_body_and_headers)
{
	struct http_request q = request();

	q.headers[0] = "Metadata-Flavor: Google";
	q.headers[1] = "X-Other: 2";
	reply = "HTTP/1.1 200 OK\r\nETag: ab\r\nContent-Length: 5\r\n\r\nhello";
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 200);
	ck_assert_str_eq(body, "hello");
	ck_assert_str_eq(etag, "ab");
	ck_assert_ptr_nonnull(strstr(seen, "GET /some/path?x=1 HTTP/1.1\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\nMetadata-Flavor: Google\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\nX-Other: 2\r\n"));
}
END_TEST

START_TEST(a_put_has_no_body_and_says_so)
{
	struct http_request q = request();

	q.put = true;
	reply = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 404);
	ck_assert_str_eq(body, "");
	ck_assert_ptr_nonnull(strstr(seen, "PUT /some/path?x=1 HTTP/1.1\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\nContent-Length: 0\r\n"));
}
END_TEST

static const char *const broken[] = { "", "nonsense\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" };

START_TEST(an_invalid_answer_is_an_error)
{
	struct http_request q = request();

	reply = broken[_i];
	q.timeout_ms = 300;
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 0);
	ck_assert(why[0]);
}
END_TEST

START_TEST(a_redirection_is_an_answer_and_not_followed)
{
	struct http_request q = request();

	reply = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 302);
	ck_assert_int_eq(server.requests, 1);
}
END_TEST

START_TEST(an_answer_that_is_too_large_is_cut_off)
{
	struct http_request q = request();
	static char large[HTTP_BODY_MAX + 256];
	size_t n = (size_t)snprintf(large, sizeof(large),
		"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", HTTP_BODY_MAX + _i);

	memset(large + n, 'x', HTTP_BODY_MAX + (size_t)_i);
	large[n + HTTP_BODY_MAX + (size_t)_i] = '\0';
	reply = large;
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, _i ? 0 : 200);
	if (_i)
		ck_assert_str_eq(why, "the answer is larger than 64 KiB");
	else
		ck_assert_uint_eq(strlen(body), HTTP_BODY_MAX);
}
END_TEST

START_TEST(a_silent_server_has_its_time)
{
	struct http_request q = request();

	reply = NULL;
	q.timeout_ms = 50;
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_missing_peer_is_an_error)
{
	struct http_request q = request();
	int port, nobody = server_bind(&port);

	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 0);
	close(nobody);
}
END_TEST

START_TEST(a_call_that_is_cancelled_says_nothing)
{
	struct http_request q = request();
	struct http_call *c;

	reply = NULL;
	ck_assert_int_eq(http_start(http, &q, on_answer, NULL, &c), 0);
	if (_i)
		while (!server.requests)
			loop_run_once(loop, true);
	ck_assert_ptr_null(http_cancel(c));
	reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 200);
}
END_TEST

START_TEST(a_client_takes_its_requests_with_it)
{
	struct http_request q = request();

	reply = NULL;
	for (int i = 0; i < 5; i++)
		start(&q);
	while (_i && server.requests < 5)
		loop_run_once(loop, true);
	http = http_free(http);
	loop_run_once(loop, false);
	ck_assert_int_eq(answers, 0);
}
END_TEST

static void on_answer_free(void *arg, const struct http_answer *a)
{
	answers++;
	http = http_free(http);
	/* Still the caller's to read. */
	ck_assert_str_eq(a->body, "hello");
	ck_assert_str_eq(http_header(a, "ETag"), "ab");
}

START_TEST(a_callback_of_an_answer_may_free_all)
{
	struct http_request q = request();

	reply = "HTTP/1.1 200 OK\r\nETag: ab\r\nContent-Length: 5\r\n\r\nhello";
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(http_start(http, &q, on_answer_free, NULL, NULL), 0);
	run_until(1);
	loop_run_once(loop, false);
	ck_assert_int_eq(answers, 1);
}
END_TEST

START_TEST(many_at_once_are_all_answered)
{
	struct http_request q = request();

	reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	for (int i = 0; i < 20; i++)
		start(&q);
	run_until(20);
}
END_TEST

START_TEST(no_descriptor_is_inherited)
{
	struct http_request q = request();
	int found = 0;

	reply = NULL;
	start(&q);
	while (!server.requests)
		loop_run_once(loop, true);
	for (int fd = 3; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0)
			continue;
		found++;
		ck_assert_msg(flags & FD_CLOEXEC, "descriptor %d", fd);
	}
	ck_assert_int_gt(found, 3);
}
END_TEST

START_TEST(only_plain_http_is_spoken)
{
	struct http_request q = request();
	char file[] = "file:///etc/hostname";

	q.url = file;
	start(&q);
	run_until(1);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* The library is loaded once, before Check forks for each test. */
static void load(void)
{
	struct loop *l = NULL;
	struct http *h = NULL;

	if (loop_new(&l) == 0 && http_new(l, &h, NULL) == 0)
		http_free(h);
	loop_free(l);
}

static void add(TCase *t)
{
	tcase_add_test(t, an_answer_comes_with_its_body_and_headers);
	tcase_add_test(t, a_put_has_no_body_and_says_so);
	tcase_add_loop_test(
		t, an_invalid_answer_is_an_error, 0, sizeof(broken) / sizeof(broken[0]));
	tcase_add_test(t, a_redirection_is_an_answer_and_not_followed);
	tcase_add_loop_test(t, an_answer_that_is_too_large_is_cut_off, 0, 2);
	tcase_add_test(t, a_silent_server_has_its_time);
	tcase_add_test(t, a_missing_peer_is_an_error);
	tcase_add_loop_test(t, a_call_that_is_cancelled_says_nothing, 0, 2);
	tcase_add_loop_test(t, a_client_takes_its_requests_with_it, 0, 2);
	tcase_add_test(t, a_callback_of_an_answer_may_free_all);
	tcase_add_test(t, many_at_once_are_all_answered);
	tcase_add_test(t, no_descriptor_is_inherited);
	tcase_add_test(t, only_plain_http_is_spoken);
}

#else

static void setup(void)
{
}

static void teardown(void)
{
}

START_TEST(without_libcurl_it_says_so)
{
	struct error err = { 0 };
	struct http *h;

	ck_assert_int_eq(http_new(NULL, &h, &err), -EOPNOTSUPP);
	ck_assert_str_eq(err.text, "built without libcurl");
}
END_TEST

static void load(void)
{
}

static void add(TCase *t)
{
	tcase_add_test(t, without_libcurl_it_says_so);
}

#endif

int main(void)
{
	Suite *s = suite_create("http");
	TCase *t = tcase_create("http");

	load();
	tcase_add_checked_fixture(t, setup, teardown);
	add(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
