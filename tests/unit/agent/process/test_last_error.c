/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/last_error.h"

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
	strcpy(dir, "/tmp/test_last_error.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static bool is_there(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

/* Whether an agent that cannot begin because of code leaves a verdict. */
static bool is_verdict(int code)
{
	char path[128];

	last_error_cannot_begin(dir, code, "text");
	snprintf(path, sizeof(path), "%s/verdict.json", dir);
	return !unlink(path);
}

START_TEST(a_passing_error_is_tried_again)
{
	static const int passing[] = { ENOMEM, EMFILE, ENOSPC, EIO, EAGAIN, EADDRINUSE };
	static const int lasting[] = { EACCES, EPERM, EROFS, ENOTDIR, ENOENT, EINVAL, ELOOP,
		ENAMETOOLONG };

	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
		ck_assert(!is_verdict(-passing[i]));
	for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++)
		ck_assert(is_verdict(-lasting[i]));
}
END_TEST

START_TEST(a_lasting_error_is_the_verdict)
{
	_cleanup_json_ json_t *verdict = NULL;
	char path[128];

	last_error_cannot_begin(dir, -EACCES, "logs.dir: /x: Permission denied");
	ck_assert(!is_there("last_error"));
	snprintf(path, sizeof(path), "%s/verdict.json", dir);
	ck_assert_int_eq(json_read_file(path, 1 << 20, &verdict, NULL), 0);
	ck_assert_str_eq(json_get_string(verdict, "result", ""), "failed");
	ck_assert_int_eq(json_get_int(verdict, "exit_status", 0), 125);
	ck_assert_str_eq(
		json_get_string(verdict, "message", ""), "logs.dir: /x: Permission denied");
}
END_TEST

START_TEST(a_passing_error_is_kept_for_the_next_agent_and_taken_once)
{
	_cleanup_free_ char *text = NULL;

	last_error_cannot_begin(dir, -ENOSPC, "logs.dir: /x: No space left on device");
	ck_assert(!is_there("verdict.json"));
	text = last_error_take(dir);
	ck_assert_str_eq(text, "logs.dir: /x: No space left on device");
	ck_assert_ptr_null(last_error_take(dir));
}
END_TEST

START_TEST(a_link_in_place_of_the_file_is_not_followed)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/last_error", dir);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	ck_assert_ptr_null(last_error_take(dir));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_ptr_null(last_error_take(dir));
	ck_assert_ptr_null(last_error_take(NULL));
	last_error_cannot_begin(NULL, -EACCES, "in the foreground nothing is kept");
	last_error_save(NULL, "nor here");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("last_error");
	TCase *t = tcase_create("last_error");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_passing_error_is_tried_again);
	tcase_add_test(t, a_lasting_error_is_the_verdict);
	tcase_add_test(t, a_passing_error_is_kept_for_the_next_agent_and_taken_once);
	tcase_add_test(t, a_link_in_place_of_the_file_is_not_followed);
	suite_add_tcase(s, t);
	return suite_run(s);
}
