/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/noticer.h"

#include "common/base/file.h"
#include "common/notice/http.h"
#include "common/text/json.h"
#include "tests/unit/http_server.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <limits.h>

static struct loop *loop;
static struct noticer *noticer;
static char dir[64], endpoint[64], platform[32], details[512], source[16], last_said[512];
static int notices, told, said;
static bool frees;
static int64_t deadline_us;

static bool preempted, google, amazon;

/* GCE's server, and AWS's, as far as these tests have them. */
static const char *on_request(const char *request)
{
	static char text[256];
	const char *value = strstr(request, "/instance/id") ? "4711" : "NONE";

	if (!strncmp(request, "PUT /latest/api/token", 21))
		return amazon ? "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"
			      : "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
	if (!google || !strstr(request, "/computeMetadata/"))
		return "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
	if (strstr(request, "wait_for_change") && !preempted)
		return NULL;
	if (strstr(request, "/preempted"))
		value = preempted ? "TRUE" : "FALSE";
	snprintf(text, sizeof(text),
		"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nETag: %d\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		preempted, strlen(value), value);
	return text;
}

static void on_notice(void *arg, const struct notice *n)
{
	ck_assert_ptr_eq(arg, &notices);
	notices++;
	snprintf(source, sizeof(source), "%s", n->source);
	deadline_us = n->deadline_us;
	if (frees)
		noticer = noticer_free(noticer);
}

static void on_message(void *arg, int level, const char *of, const char *text)
{
	said++;
	snprintf(last_said, sizeof(last_said), "%s: %s", of, text);
}

static void on_platform(void *arg, const char *p, const char *d)
{
	told++;
	snprintf(platform, sizeof(platform), "%s", p);
	snprintf(details, sizeof(details), "%s", d);
}

static void vendor(const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys_vendor", dir);
	ck_assert_int_eq(file_write_atomic(path, text, strlen(text), 0644, false), 0);
}

static void setup(void)
{
	struct noticer_options opt = { .gce_endpoint = endpoint,
		.aws_endpoint = endpoint,
		.azure_endpoint = endpoint,
		.dmi_dir = dir,
		.poll_ms = 10,
		.message = on_message };

	notices = told = said = 0;
	frees = preempted = amazon = false;
	google = true;
	snprintf(dir, sizeof(dir), "/tmp/test-noticer-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(loop_new(&loop), 0);
	server_start(loop, on_request);
	snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", server.port);
	ck_assert_int_eq(noticer_new(loop, &opt, on_notice, &notices, &noticer), 0);
}

static void teardown(void)
{
	noticer = noticer_free(noticer);
	server_stop();
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void turns(int n)
{
	while (n--)
		loop_run_once(loop, false);
}

static const char *state_of(const char *of)
{
	static char state[32];
	_cleanup_json_ json_t *list = noticer_watches_json(noticer);
	const json_t *j;
	size_t i;

	ck_assert_uint_eq(json_array_size(list), 3);
	json_array_foreach (list, i, j)
		if (!strcmp(json_get_string(j, "source", ""), of))
			snprintf(state, sizeof(state), "%s", json_get_string(j, "state", "?"));
	return state;
}

static void wait_platform(void)
{
	while (!told)
		loop_run_once(loop, true);
}

START_TEST(no_server_is_asked_before_a_source_is_wanted)
{
	turns(5);
	ck_assert_int_eq(server.requests, 0);
	ck_assert_str_eq(state_of("gce"), "off");
	ck_assert_ptr_null(noticer_platform_known(noticer));
}
END_TEST

START_TEST(the_firmware_decides_without_the_network)
{
	vendor("Dell Inc.");
	ck_assert_int_eq(noticer_platform(noticer, on_platform, NULL), 0);
	ck_assert_int_eq(told, 0);
	wait_platform();
	ck_assert_str_eq(platform, "other");
	ck_assert_ptr_nonnull(strstr(details, "Dell"));
	ck_assert_int_eq(server.requests, 0);
	ck_assert_str_eq(noticer_platform_known(noticer), "other");
	ck_assert_int_eq(noticer_platform(noticer, on_platform, NULL), 0);
	ck_assert_int_eq(told, 1);
	turns(3);
	ck_assert_int_eq(told, 2);
}
END_TEST

START_TEST(a_listener_that_forgets_hears_no_more)
{
	int one, two;

	vendor("Dell Inc.");
	ck_assert_int_eq(noticer_platform(noticer, on_platform, &one), 0);
	ck_assert_int_eq(noticer_platform(noticer, on_platform, &two), 0);
	noticer_platform_forget(noticer, &one);
	turns(5);
	ck_assert_int_eq(told, 1);
}
END_TEST

#if HAVE_CURL

START_TEST(where_the_firmware_is_silent_all_are_asked)
{
	google = _i == 0;
	amazon = _i == 1;
	ck_assert_int_eq(noticer_platform(noticer, on_platform, NULL), 0);
	wait_platform();
	ck_assert_str_eq(platform, _i == 0 ? "gce" : _i == 1 ? "aws" : "other");
	ck_assert_int_eq(server.requests, 3);
}
END_TEST

START_TEST(a_wanted_source_is_watched_and_reported_once)
{
	noticer_want(noticer, _i ? SPEC_NOTICE_CLOUD : SPEC_NOTICE_GCE);
	ck_assert_str_eq(state_of("gce"), "waiting");
	while (strcmp(state_of("gce"), "watching"))
		loop_run_once(loop, true);
	ck_assert_int_eq(notices, 0);
	preempted = true;
	noticer_want(noticer, 0);
	ck_assert_str_eq(state_of("gce"), "off");
	noticer_want(noticer, _i ? SPEC_NOTICE_CLOUD : SPEC_NOTICE_GCE);
	while (!notices)
		loop_run_once(loop, true);
	ck_assert_str_eq(source, "gce");
	ck_assert_int_eq(deadline_us, SPEC_UNSET); /* it was up before the first request */
	ck_assert_str_eq(state_of("gce"), "notice");
	ck_assert_str_eq(state_of("aws"), "off");
	while (server.requests < 20)
		loop_run_once(loop, true);
	ck_assert_int_eq(notices, 1);
	ck_assert_int_eq(said, 0);
}
END_TEST

START_TEST(a_cloud_whose_server_comes_later_is_found_with_one_warning)
{
	google = false;
	noticer_want(noticer, SPEC_NOTICE_CLOUD);
	ck_assert_str_eq(state_of("gce"), "waiting");
	while (server.requests < 6) {
		loop_run_once(loop, true);
		if (said)
			ck_assert_str_eq(state_of("gce"), "failing");
	}
	ck_assert_int_eq(said, 1);
	ck_assert_ptr_nonnull(strstr(last_said, "cloud: no cloud's metadata server answers"));
	google = true;
	while (strcmp(state_of("gce"), "watching"))
		loop_run_once(loop, true);
	ck_assert_str_eq(noticer_platform_known(noticer), "gce");
	ck_assert_int_eq(said, 2);
	ck_assert_str_eq(state_of("aws"), "off");
}
END_TEST

START_TEST(an_unwanted_cloud_is_not_detected_again)
{
	google = false;
	noticer_want(noticer, SPEC_NOTICE_CLOUD);
	while (!said)
		loop_run_once(loop, true);
	noticer_want(noticer, 0);
	ck_assert_str_eq(state_of("gce"), "off");
	google = true;
	/* A new listener need not wait for the pause, and gets the present state. */
	noticer_want(noticer, SPEC_NOTICE_CLOUD);
	while (strcmp(state_of("gce"), "watching"))
		loop_run_once(loop, true);
	ck_assert_int_ge(server.requests, 6);
}
END_TEST

START_TEST(a_later_listener_hears_of_notices_that_are_up)
{
	preempted = true;
	noticer_want(noticer, SPEC_NOTICE_GCE);
	while (!notices)
		loop_run_once(loop, true);
	noticer_repeat(noticer);
	ck_assert_int_eq(notices, 1);
	turns(2);
	ck_assert_int_eq(notices, 2);
}
END_TEST

START_TEST(a_callback_of_a_notice_may_free_all)
{
	frees = true;
	preempted = true;
	noticer_want(noticer, SPEC_NOTICE_GCE | SPEC_NOTICE_AWS | SPEC_NOTICE_AZURE);
	while (!notices)
		loop_run_once(loop, true);
	ck_assert_ptr_null(noticer);
	turns(3);
	ck_assert_int_eq(notices, 1);
}
END_TEST

START_TEST(a_server_that_is_gone_fails_and_is_said)
{
	const struct noticer_options opt = {
		.azure_endpoint = endpoint, .dmi_dir = dir, .message = on_message
	};
	int port, nobody = server_bind(&port);

	snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
	noticer_free(noticer);
	ck_assert_int_eq(noticer_new(loop, &opt, on_notice, &notices, &noticer), 0);
	noticer_want(noticer, SPEC_NOTICE_AZURE);
	while (strcmp(state_of("azure"), "failing"))
		loop_run_once(loop, true);
	ck_assert_int_eq(said, 1);
	ck_assert_ptr_nonnull(strstr(last_said, "azure: http://127.0.0.1:"));
	close(nobody);
}
END_TEST

START_TEST(a_local_problem_is_logged_once_for_a_cloud)
{
	const struct noticer_options opt = {
		.gce_endpoint = "http://nobody", .dmi_dir = dir, .message = on_message
	};
	struct noticer *n = NULL;

	ck_assert_int_eq(noticer_new(loop, &opt, on_notice, &notices, &n), 0);
	noticer_want(n, SPEC_NOTICE_GCE);
	while (!said)
		loop_run_once(loop, true);
	turns(5);
	ck_assert_int_eq(said, 1);
	ck_assert_ptr_nonnull(strstr(last_said, "nobody"));
	noticer_free(n);
}
END_TEST

START_TEST(it_may_go_at_any_time)
{
	preempted = true;
	noticer_want(noticer, SPEC_NOTICE_GCE | SPEC_NOTICE_CLOUD);
	ck_assert_int_eq(noticer_platform(noticer, on_platform, NULL), 0);
	for (int i = 0; i < _i; i++)
		loop_run_once(loop, false);
	noticer = noticer_free(noticer);
	turns(3);
}
END_TEST

static void add_curl(TCase *t)
{
	tcase_add_loop_test(t, where_the_firmware_is_silent_all_are_asked, 0, 3);
	tcase_add_loop_test(t, a_wanted_source_is_watched_and_reported_once, 0, 2);
	tcase_add_test(t, a_cloud_whose_server_comes_later_is_found_with_one_warning);
	tcase_add_test(t, an_unwanted_cloud_is_not_detected_again);
	tcase_add_test(t, a_later_listener_hears_of_notices_that_are_up);
	tcase_add_test(t, a_callback_of_a_notice_may_free_all);
	tcase_add_test(t, a_server_that_is_gone_fails_and_is_said);
	tcase_add_test(t, a_local_problem_is_logged_once_for_a_cloud);
	tcase_add_loop_test(t, it_may_go_at_any_time, 0, 8);
}

/* The library is loaded once, before Check forks for each test. */
static void load(void)
{
	struct loop *l = NULL;
	struct http *h = NULL;

	if (loop_new(&l) == 0 && http_new(l, &h, NULL) == 0)
		http_free(h);
	loop_free(l);
}

#else

START_TEST(without_libcurl_wanted_sources_fail_with_a_message)
{
	noticer_want(noticer, SPEC_NOTICE_GCE);
	while (strcmp(state_of("gce"), "failing"))
		loop_run_once(loop, true);
	ck_assert_ptr_nonnull(strstr(last_said, "without libcurl"));
	/* Of the two things that GCE is asked. */
	for (int i = 0; i < 5; i++)
		loop_run_once(loop, false);
	ck_assert_int_eq(said, 1);
	ck_assert_int_eq(noticer_platform(noticer, on_platform, NULL), 0);
	wait_platform();
	ck_assert_str_eq(platform, "other");
	noticer_want(noticer, SPEC_NOTICE_CLOUD);
	while (said < 2)
		loop_run_once(loop, true);
	ck_assert_ptr_nonnull(strstr(last_said, "cloud: "));
	ck_assert_ptr_nonnull(strstr(last_said, "without libcurl"));
	ck_assert_str_eq(state_of("aws"), "failing");
}
END_TEST

static void add_curl(TCase *t)
{
	tcase_add_test(t, without_libcurl_wanted_sources_fail_with_a_message);
}

static void load(void)
{
}

#endif

int main(void)
{
	Suite *s = suite_create("noticer");
	TCase *t = tcase_create("noticer");

	setenv("ELASTICD_METADATA_TIMEOUT", "10m", 1);
	load();
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, no_server_is_asked_before_a_source_is_wanted);
	tcase_add_test(t, the_firmware_decides_without_the_network);
	tcase_add_test(t, a_listener_that_forgets_hears_no_more);
	add_curl(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
