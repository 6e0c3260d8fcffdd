/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/private_dir.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static char top[] = "/tmp/private-dir-XXXXXX", dir[64];
static struct error err;

static void setup(void)
{
	strcpy(top, "/tmp/private-dir-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/d", top);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
}

static void teardown(void)
{
	rmdir(dir);
	rmdir(top);
}

/* With these modes of dir and of the one that it is in. */
static int check(mode_t mode, mode_t above)
{
	err = (struct error){ 0 };
	ck_assert_int_eq(chmod(dir, mode), 0);
	ck_assert_int_eq(chmod(top, above), 0);
	return private_dir_check(dir, &err);
}

START_TEST(a_directory_that_only_its_user_can_write_is_private)
{
	ck_assert_int_eq(check(0700, 0700), 0);
	ck_assert_int_eq(check(0755, 0755), 0);
	ck_assert_int_eq(private_dir_check("/", &err), 0);
}
END_TEST

START_TEST(where_others_may_write_nothing_is_private)
{
	ck_assert_int_eq(check(0770, 0700), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "other users may write there (mode 770)"));
	ck_assert_int_eq(check(0702, 0700), -EPERM);
	/* A sticky one keeps others from what is there, not from putting something there. */
	ck_assert_int_eq(check(01777, 0700), -EPERM);
	ck_assert_int_eq(private_dir_check("/tmp", &err), -EPERM);
}
END_TEST

START_TEST(a_directory_that_others_could_replace_is_not_private)
{
	ck_assert_int_eq(check(0700, 0777), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, top));
	ck_assert_int_eq(check(0700, 0770), -EPERM);
	ck_assert_int_eq(check(0700, 01777), 0);
}
END_TEST

START_TEST(a_link_is_followed_to_what_is_there)
{
	char link[80];

	snprintf(link, sizeof(link), "%s/l", top);
	ck_assert_int_eq(symlink("/tmp", link), 0);
	ck_assert_int_eq(private_dir_check(link, &err), -EPERM);
	unlink(link);
	ck_assert_int_eq(symlink(dir, link), 0);
	ck_assert_int_eq(private_dir_check(link, &err), 0);
	unlink(link);
}
END_TEST

START_TEST(a_missing_path_is_not_another_users)
{
	ck_assert_int_eq(private_dir_check("/tmp/private-dir-none/x", &err), -ENOENT);
	ck_assert_int_eq(private_dir_check("/proc/self/status", &err), -ENOTDIR);
}
END_TEST

START_TEST(one_of_another_user_is_named_with_its_owner)
{
	if (geteuid() != 0)
		return;
	ck_assert_int_eq(chown(dir, 12345, 0), 0);
	ck_assert_int_eq(check(0700, 0700), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "belongs to user 12345, expected root (0)"));
	ck_assert_int_eq(chown(dir, 0, 0), 0);
	ck_assert_int_eq(chown(top, 12345, 0), 0);
	ck_assert_int_eq(check(0700, 01777), -EPERM);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("private_dir");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_directory_that_only_its_user_can_write_is_private);
	tcase_add_test(t, where_others_may_write_nothing_is_private);
	tcase_add_test(t, a_directory_that_others_could_replace_is_not_private);
	tcase_add_test(t, a_link_is_followed_to_what_is_there);
	tcase_add_test(t, a_missing_path_is_not_another_users);
	tcase_add_test(t, one_of_another_user_is_named_with_its_owner);
	suite_add_tcase(s, t);
	return suite_run(s);
}
