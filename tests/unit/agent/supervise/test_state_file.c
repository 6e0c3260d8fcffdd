/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/state_file.h"

#include "common/base/file.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[128], spare[128];

static void setup(void)
{
	strcpy(dir, "/tmp/test_state_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/state.json", dir);
	snprintf(spare, sizeof(spare), "%s/state.spare0", dir);
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void put(const char *file, const char *text)
{
	ck_assert_int_eq(file_write_atomic(file, text, strlen(text), 0600, false), 0);
}

static void writes(struct state_file *s, int seq)
{
	_cleanup_json_ json_t *doc = json_pack("{s:i}", "seq", seq);

	ck_assert_int_eq(state_file_write(s, doc), 0);
}

/* The newest state has this seq; -1: there is no state. */
static void reads(int seq)
{
	_cleanup_json_ json_t *doc = NULL;
	struct error err = { 0 };
	int r = state_file_read(dir, &doc, &err);

	ck_assert_int_eq(r < 0 ? -1 : json_get_int(doc, "seq", 0), seq);
}

START_TEST(the_room_for_a_full_disk_is_taken_before_it_is_needed)
{
	struct state_file *s = state_file_new(dir);
	struct stat st;

	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(stat(spare, &st), 0);
	ck_assert_int_eq(st.st_size, STATE_FILE_SPARE_BYTES);
	ck_assert_int_ge(st.st_blocks * 512, STATE_FILE_SPARE_BYTES);
	reads(-1);
	writes(s, 7);
	reads(7);
	state_file_done(s);
	ck_assert_int_eq(stat(spare, &st), -1);
	reads(7);
	state_file_free(s);
}
END_TEST

START_TEST(the_highest_version_that_is_complete_is_the_state)
{
	struct state_file *s;
	char other[128];

	snprintf(other, sizeof(other), "%s/state.spare1", dir);
	put(path, "{\"version\": 4, \"seq\": 7, \"complete\": 4}");
	put(spare, "{\"version\": 6, \"seq\": 9, \"complete\": 6}\n\n\n");
	reads(9);
	/* A write is under way: the end of the file is of an older state. */
	put(other, "{\"version\": 7, \"seq\": 10, \"complete\": 5}");
	reads(9);
	put(other, "{\"version\": 5, \"seq\": 8, \"complete\": 5}");
	reads(9);
	s = state_file_new(dir);
	reads(9);
	writes(s, 10); /* the disk has room again */
	reads(10);
	writes(s, 11);
	reads(11);
	state_file_free(s);
}
END_TEST

START_TEST(a_spare_that_is_damaged_or_another_thing_is_passed_over)
{
	struct state_file *s;

	put(path, "{\"seq\": 7}");
	put(spare, "{\"version\": 9");
	reads(7);
	ck_assert_int_eq(unlink(spare), 0);
	ck_assert_int_eq(mkdir(spare, 0700), 0);
	s = state_file_new(dir);
	ck_assert_ptr_nonnull(s);
	writes(s, 8);
	reads(8);
	state_file_free(s);
	ck_assert_ptr_null(state_file_free(NULL));
	ck_assert_int_eq(unlink(path), 0);
	reads(-1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("state_file");
	TCase *t = tcase_create("state_file");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_room_for_a_full_disk_is_taken_before_it_is_needed);
	tcase_add_test(t, the_highest_version_that_is_complete_is_the_state);
	tcase_add_test(t, a_spare_that_is_damaged_or_another_thing_is_passed_over);
	suite_add_tcase(s, t);
	return suite_run(s);
}
