/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/progress.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static char dir[64], path[2][96], other[96];
static struct progress p;

static void setup(void)
{
	strcpy(dir, "/tmp/test-progress-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path[0], sizeof(path[0]), "%s/stdout.log", dir);
	snprintf(path[1], sizeof(path[1]), "%s/stderr.log", dir);
	snprintf(other, sizeof(other), "%s/checkpoint", dir);
}

static void teardown(void)
{
	progress_fini(&p);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void append(const char *file, const char *text)
{
	FILE *f = fopen(file, "a");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

static void begin(const regex_t *pattern, bool fresh)
{
	const char *logs[2] = { path[0], path[1] };

	ck_assert_int_eq(progress_init(&p, logs, other, pattern, fresh), 0);
}

START_TEST(only_a_log_that_grows_is_a_change)
{
	append(path[0], "before\n");
	begin(NULL, false);
	progress_check(&p);
	progress_check(&p);
	ck_assert_uint_eq(p.log_changes, 0);
	append(path[0], "x");
	append(path[1], "");
	progress_check(&p);
	ck_assert_uint_eq(p.log_changes, 1);
	append(path[1], "appears\n");
	append(path[0], "y");
	progress_check(&p);
	ck_assert_uint_eq(p.log_changes, 3);
	progress_check(&p);
	ck_assert_uint_eq(p.log_changes, 3);
	ck_assert_uint_eq(p.file_changes, 0);
}
END_TEST

START_TEST(lines_that_match_are_counted_once_however_they_come)
{
	regex_t re;

	ck_assert_int_eq(regcomp(&re, "^(step|loss) [0-9]+$", REG_EXTENDED | REG_NOSUB), 0);
	append(path[0], "step 0\n");
	begin(&re, false);
	append(path[0], "step 1\nnothing\nste");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 1);
	append(path[0], "p 2");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 1);
	append(path[0], "\nloss 3\rloss 4\rloss x\r");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 4);
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 4);
	append(path[1], "loss 9\n");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 5);
	regfree(&re);
}
END_TEST

START_TEST(output_before_the_first_check_counts)
{
	regex_t re;

	ck_assert_int_eq(regcomp(&re, "ready", REG_EXTENDED | REG_NOSUB), 0);
	append(path[0], "ready\n");
	begin(&re, true);
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 1);
	ck_assert_uint_eq(p.log_changes, 1);
	regfree(&re);
}
END_TEST

START_TEST(the_first_group_of_the_pattern_is_a_number)
{
	regex_t re;

	ck_assert_int_eq(regcomp(&re, "step ([0-9a-z]+)", REG_EXTENDED), 0);
	begin(&re, true);
	append(path[0], "step x\n");
	progress_check(&p);
	ck_assert_int_eq(p.first_number, -1);
	append(path[0], "step 7\nstep 8");
	progress_check(&p);
	ck_assert(p.matches == 2 && p.first_number == 7 && p.last_number == 7);
	append(path[0], "\rstep 99999999999999999999\nstep 12\n");
	progress_check(&p);
	ck_assert(p.matches == 5 && p.first_number == 7 && p.last_number == 12);
	regfree(&re);
}
END_TEST

START_TEST(a_file_that_was_replaced_or_cut_is_read_from_its_beginning)
{
	regex_t re;

	ck_assert_int_eq(regcomp(&re, "step", REG_EXTENDED | REG_NOSUB), 0);
	begin(&re, true);
	append(path[0], "step 1\nstep 2\nstep 3\n");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 3);
	ck_assert_int_eq(truncate(path[0], 0), 0);
	append(path[0], "step 4\n");
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 4);
	/* Another file under the name, longer than what was read. */
	append(other, "step 5\nstep 6\nstep 7\nstep 8\n");
	ck_assert_int_eq(rename(other, path[0]), 0);
	progress_check(&p);
	ck_assert_uint_eq(p.matches, 8);
	regfree(&re);
}
END_TEST

START_TEST(over_long_lines_and_binary_bytes_are_no_trouble)
{
	_cleanup_free_ char *long_line = malloc(100001);
	regex_t re;
	FILE *f;

	ck_assert_int_eq(regcomp(&re, "xx$", REG_EXTENDED | REG_NOSUB), 0);
	memset(long_line, 'x', 100000);
	long_line[100000] = '\0';
	begin(&re, true);
	append(path[0], long_line);
	append(path[0], "\nyy\n");
	f = fopen(path[0], "a");
	for (int i = 0; i < 70000; i++)
		fputc(i * 31 & 0xff ? i * 31 & 0xff : '\0', f);
	fclose(f);
	progress_check(&p);
	ck_assert_uint_ge(p.matches, 1);
	regfree(&re);
}
END_TEST

START_TEST(a_checkpoint_that_is_overwritten_is_a_change)
{
	append(other, "one");
	begin(NULL, true);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 0);
	append(path[1], "two");
	ck_assert_int_eq(rename(path[1], other), 0);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 1);
	ck_assert_int_eq(unlink(other), 0);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 1);
	append(other, "three");
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 2);
}
END_TEST

START_TEST(a_change_below_a_directory_is_a_change_of_it)
{
	const char *logs[2] = { NULL, NULL };
	char sub[128], file[160];

	snprintf(sub, sizeof(sub), "%s/ckpt/epoch_1", dir);
	snprintf(file, sizeof(file), "%s/model.pt", sub);
	ck_assert_int_eq(file_mkdir_p(sub, 0755), 0);
	append(file, "weights");
	*strrchr(sub, '/') = '\0';
	ck_assert_int_eq(progress_init(&p, logs, sub, NULL, true), 0);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 0);
	append(file, "more"); /* in place: no directory changes */
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 1);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 1);
	ck_assert_int_eq(unlink(file), 0);
	progress_check(&p);
	ck_assert_uint_eq(p.file_changes, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("progress");
	TCase *t = tcase_create("progress");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, only_a_log_that_grows_is_a_change);
	tcase_add_test(t, lines_that_match_are_counted_once_however_they_come);
	tcase_add_test(t, output_before_the_first_check_counts);
	tcase_add_test(t, the_first_group_of_the_pattern_is_a_number);
	tcase_add_test(t, a_file_that_was_replaced_or_cut_is_read_from_its_beginning);
	tcase_add_test(t, over_long_lines_and_binary_bytes_are_no_trouble);
	tcase_add_test(t, a_checkpoint_that_is_overwritten_is_a_change);
	tcase_add_test(t, a_change_below_a_directory_is_a_change_of_it);
	suite_add_tcase(s, t);
	return suite_run(s);
}
