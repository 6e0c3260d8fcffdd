/* SPDX-License-Identifier: Apache-2.0 */
/* A notice on its way to an agent, which is a socket here. */
#include "daemon/host/notice_delivery.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[64];
static struct loop *loop;
static struct job_host host;
static struct job *job;
static struct notice_delivery *delivery;
static int notice_target, answers;
static char last_error[128];

static void on_changed(void *arg, struct job *j)
{
}

static void on_told(void *arg, const char *error, json_t *parameters)
{
	answers++;
	snprintf(last_error, sizeof(last_error), "%s", error ? error : "");
	delivery = notice_delivery_free(delivery);
}

static void setup(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct job_record rec = { .name = strdup("a"), .run = strdup("a_run") };
	char path[96];

	answers = 0;
	snprintf(dir, sizeof(dir), "/tmp/test-delivery-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/jobs", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/jobs/a", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/jobs/a/agent.sock", dir);
	notice_target = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(notice_target, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(notice_target, 8), 0);
	ck_assert_int_eq(loop_new(&loop), 0);
	host = (struct job_host){ .loop = loop, .runtime_dir = dir, .changed = on_changed };
	ck_assert_int_eq(job_new(&host, &rec, &job), 0);
	job->life = LIFE_STARTING;
	job->mirror.state = MIRROR_RUNNING;
}

static void teardown(void)
{
	delivery = notice_delivery_free(delivery);
	job = job_free(job);
	close(notice_target);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void tell(void)
{
	const struct notice_delivery_notice n = { .source = "operator",
		.reason = "a new kernel",
		.grace_ms = SPEC_UNSET,
		.deadline_us = SPEC_UNSET };

	ck_assert_int_eq(notice_delivery_new(job, &n, on_told, NULL, &delivery), 0);
}

static void turns(int n)
{
	while (n--)
		loop_run_once(loop, false);
}

static int asked(void)
{
	return accept4(notice_target, NULL, NULL, SOCK_CLOEXEC);
}

static void answer(int fd, const char *text)
{
	char buf[4096] = "";

	while (recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT) < 0)
		loop_run_once(loop, false);
	ck_assert_ptr_nonnull(strstr(buf, "io.elasticd.Manager.Preempt"));
	ck_assert_ptr_nonnull(strstr(buf, "a new kernel"));
	ck_assert_int_eq(write(fd, text, strlen(text) + 1), (ssize_t)strlen(text) + 1);
	while (!answers)
		loop_run_once(loop, true);
	close(fd);
}

START_TEST(an_agent_that_answers_before_the_first_turn_is_asked_once)
{
	int fd;

	tell();
	job->life = LIFE_LINKED;
	job_notify(job, JOB_ATTACHED);
	turns(3);
	fd = asked();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_lt(asked(), 0);
	answer(fd, "{\"parameters\":{\"runs\":[\"a_run\"]}}");
	ck_assert_int_eq(answers, 1);
	ck_assert_str_eq(last_error, "");
	turns(3);
	ck_assert_int_eq(answers, 1);
}
END_TEST

START_TEST(a_connection_that_breaks_is_made_again)
{
	int fd;

	tell();
	job->life = LIFE_LINKED;
	for (int i = 0; i < 2; i++) {
		while ((fd = asked()) < 0)
			loop_run_once(loop, false);
		close(fd);
	}
	while ((fd = asked()) < 0)
		loop_run_once(loop, false);
	answer(fd, "{\"error\":\"io.elasticd.Manager.FailedPrecondition\",\"parameters\":{}}");
	ck_assert_str_eq(last_error, "FailedPrecondition");
}
END_TEST

START_TEST(an_agent_that_always_hangs_up_is_given_up)
{
	tell();
	job->life = LIFE_LINKED;
	while (!answers) {
		int fd = asked();

		if (fd >= 0)
			close(fd);
		loop_run_once(loop, false);
	}
	ck_assert_str_eq(last_error, "Unavailable");
}
END_TEST

START_TEST(a_job_that_goes_takes_the_notice_along)
{
	int fd;

	tell();
	job->life = LIFE_LINKED;
	while ((fd = asked()) < 0)
		loop_run_once(loop, false);
	job = job_free(job);
	ck_assert_int_eq(answers, 1);
	ck_assert_str_eq(last_error, "NotFound");
	close(fd);
	turns(3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("delivery");
	TCase *t = tcase_create("delivery");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, an_agent_that_answers_before_the_first_turn_is_asked_once);
	tcase_add_test(t, a_connection_that_breaks_is_made_again);
	tcase_add_test(t, an_agent_that_always_hangs_up_is_given_up);
	tcase_add_test(t, a_job_that_goes_takes_the_notice_along);
	suite_add_tcase(s, t);
	return suite_run(s);
}
