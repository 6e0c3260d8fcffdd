/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of ended runs: which are killed when they get nothing done, and how many there may be. */
#include "daemon/api/helper.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { IDLE_MS = 100, OF_USER = 16, OF_ALL = 64 };

/* In place of elastic-agent. */
#define WAITS "#!/bin/sh\nexec sleep 1000\n"
#define STOPS "#!/bin/sh\nkill -STOP $$\n"
#define COMPUTES "#!/bin/sh\nwhile :; do :; done\n"

static char dir[64], program[96], run_name[] = "run";
static struct record_store store = { .fd = -1, .path = dir };
static struct loop *loop;
static struct job_host host;
static struct job job;
static struct helpers *all;

struct reader {
	struct helper *helper;
	int fd;
};

static void quiet(int level, const char *text, const struct log_field *fields)
{
}

/* A file of its own: another one's shell may not have read its own yet. */
static void write_program(const char *text)
{
	static int n;

	snprintf(program, sizeof(program), "%s/agent%d", dir, n++);
	ck_assert_int_eq(file_write_atomic(program, text, strlen(text), 0700, false), 0);
}

static void begin(uint64_t idle_ms)
{
	all = helpers_free(all);
	ck_assert_int_eq(helpers_new(&host, idle_ms, &all), 0);
}

static void setup(void)
{
	log_set_sink(quiet, 1);
	strcpy(dir, "/tmp/test-helper-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	write_program(WAITS);
	ck_assert_int_eq(loop_new(&loop), 0);
	host = (struct job_host){ .loop = loop, .store = &store, .agent_program = program };
	job = (struct job){ .host = &host, .rec = { .run = run_name, .uid = geteuid() } };
	begin(IDLE_MS);
}

static void teardown(void)
{
	all = helpers_free(all);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static int try_reader(uint64_t user, bool trusted, struct reader *ret, size_t *ret_limit)
{
	const struct varlink_account caller = { .key = user, .trusted = trusted };
	struct error err = { 0 };

	*ret = (struct reader){ .fd = -1 };
	return helper_new(all, &job, &caller, &ret->helper, &ret->fd, ret_limit, &err);
}

static struct reader new_reader(uint64_t user)
{
	struct reader r;
	size_t limit;

	ck_assert_int_eq(try_reader(user, false, &r, &limit), 0);
	return r;
}

static bool ended(const struct reader *r)
{
	char byte;

	return recv(r->fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void wait_for_end(const struct reader *r)
{
	while (!ended(r))
		loop_run_once(loop, true);
}

static void drop(struct reader *r)
{
	r->helper = helper_free(r->helper);
	close(r->fd);
}

START_TEST(an_idle_helper_is_killed_unless_its_reader_delays_it)
{
	struct reader held = new_reader(1), idle;

	helper_await(held.helper, false);
	idle = new_reader(1);
	wait_for_end(&idle);
	ck_assert_ptr_nonnull(strstr(helper_why(idle.helper), "got nothing done, and was killed"));
	/* Its time would have been over before. */
	ck_assert(!ended(&held));
	helper_await(held.helper, true);
	wait_for_end(&held);
	drop(&held);
	drop(&idle);
}
END_TEST

START_TEST(a_helper_stopped_by_its_user_is_killed_too)
{
	struct reader r;

	write_program(STOPS);
	r = new_reader(1);
	wait_for_end(&r);
	drop(&r);
}
END_TEST

START_TEST(a_helper_that_computes_is_not_killed)
{
	struct reader busy, idle;

	begin(1000);
	write_program(COMPUTES);
	busy = new_reader(1);
	write_program(WAITS);
	idle = new_reader(1);
	wait_for_end(&idle);
	ck_assert(!ended(&busy));
	drop(&busy);
	drop(&idle);
}
END_TEST

START_TEST(a_helper_that_ended_by_itself_says_so)
{
	struct reader r;

	begin(600 * IDLE_MS); /* a busy host may not let it begin for long */
	write_program("#!/bin/sh\nexit 0\n");
	r = new_reader(1);
	wait_for_end(&r);
	ck_assert_str_eq(helper_why(r.helper), "the process that reads the run's files ended");
	drop(&r);
}
END_TEST

START_TEST(a_user_has_a_share_and_one_counts_until_its_process_is_gone)
{
	struct reader readers[OF_USER], more, other;
	size_t limit = 0;

	begin(60000);
	for (int i = 0; i < OF_USER; i++)
		readers[i] = new_reader(1);
	ck_assert_int_eq(try_reader(1, false, &more, &limit), -EDQUOT);
	ck_assert_uint_eq(limit, OF_USER);
	other = new_reader(2);
	drop(&readers[0]);
	ck_assert_int_eq(try_reader(1, false, &more, &limit), -EDQUOT);
	while (try_reader(1, false, &more, &limit) < 0)
		loop_run_once(loop, true);
	drop(&more);
	drop(&other);
	for (int i = 1; i < OF_USER; i++)
		drop(&readers[i]);
}
END_TEST

START_TEST(where_all_are_taken_a_user_with_many_gives_one_up_and_administrators_have_their_own)
{
	struct reader readers[OF_ALL - OF_USER], late, admin;
	size_t limit = 0;
	int n = 0;

	begin(60000);
	for (int i = 0; i < OF_ALL - OF_USER; i++)
		readers[i] = new_reader(1 + (uint64_t)i / OF_USER);
	ck_assert_int_eq(try_reader(0, true, &admin, &limit), 0);
	late = new_reader(9);
	while (n == 0) {
		loop_run_once(loop, true);
		for (int i = 0; i < OF_ALL - OF_USER; i++)
			n += ended(&readers[i]) &&
			     strstr(helper_why(readers[i].helper), "other users need its place");
	}
	ck_assert_int_eq(n, 1);
	ck_assert_msg(!ended(&admin), "%s", helper_why(admin.helper));
	drop(&admin);
	drop(&late);
	for (int i = 0; i < OF_ALL - OF_USER; i++)
		drop(&readers[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("helper");
	TCase *t = tcase_create("helper");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_idle_helper_is_killed_unless_its_reader_delays_it);
	tcase_add_test(t, a_helper_stopped_by_its_user_is_killed_too);
	tcase_add_test(t, a_helper_that_computes_is_not_killed);
	tcase_add_test(t, a_helper_that_ended_by_itself_says_so);
	tcase_add_test(t, a_user_has_a_share_and_one_counts_until_its_process_is_gone);
	tcase_add_test(t,
		where_all_are_taken_a_user_with_many_gives_one_up_and_administrators_have_their_own);
	suite_add_tcase(s, t);
	return suite_run(s);
}
