/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/core_dump.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

static const struct {
	const char *pattern;
	bool uses_pid;
	const char *dir, *name; /* NULL: it is not looked for */
} rows[] = {
	{ "core", false, "", "core" },
	{ "core", true, "", "core.71" },
	{ "core.%p", true, "", "core.71" },
	{ "/var/crash/core-%e-%p-%t", false, "/var/crash", "core-train-71-1700000000" },
	{ "/core.%P", false, "/", "core.4711" },
	{ "cores/%h.%%[%i]", false, "cores", "node7.%[9]" },
	{ "/var/%u/core", false, NULL, NULL },
	{ "core%", false, "", "core" },
};

START_TEST(a_pattern_says_where_core_dumps_are)
{
	char dir[64], name[128];
	int r = core_dump_name(
		rows[_i].pattern, rows[_i].uses_pid, 71, dir, sizeof(dir), name, sizeof(name));

	ck_assert_int_eq(r, rows[_i].dir ? 0 : -ENAMETOOLONG);
	if (!rows[_i].dir)
		return;
	ck_assert_str_eq(dir, rows[_i].dir);
	ck_assert_int_eq(fnmatch(name, rows[_i].name, 0), 0);
	ck_assert_int_eq(fnmatch(name, "else", 0), FNM_NOMATCH);
}
END_TEST

START_TEST(a_pattern_that_is_too_long_is_refused)
{
	char dir[8], name[32];

	ck_assert_int_eq(
		core_dump_name("/var/crash/core", false, 71, dir, 8, name, 32), -ENAMETOOLONG);
	ck_assert_int_eq(
		core_dump_name("core-of-%e-%p-%t-%u-%g-%s-%h", false, 71, dir, 8, name, 32),
		-ENAMETOOLONG);
}
END_TEST

START_TEST(a_program_that_gets_them_is_named)
{
	char text[64] = "";

	ck_assert(core_dump_program("|/usr/lib/systemd/systemd-coredump %P %u", 71, text, 64));
	ck_assert_str_eq(text, "coredumpctl info 71");
	ck_assert(core_dump_program("|/usr/share/apport/apport -p%p", 71, text, 64));
	ck_assert_str_eq(text, "handed to /usr/share/apport/apport");
	ck_assert(!core_dump_program("core", 71, text, 64));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_dump");
	TCase *t = tcase_create("core_dump");

	tcase_add_loop_test(
		t, a_pattern_says_where_core_dumps_are, 0, (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(t, a_pattern_that_is_too_long_is_refused);
	tcase_add_test(t, a_program_that_gets_them_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
