/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/event_log.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { RING = 128 }; /* events in memory */

static char dir[2][80];
static char name[PATH_MAX];
static struct events *events;
static int heard, warnings;
static int64_t last_heard;

static void on_event(void *arg, const json_t *event)
{
	heard += arg == &heard;
	last_heard = json_get_int(event, "seq", -1);
}

static void on_log(int level, const char *text, const struct log_field *fields)
{
	warnings += level <= LOG_WARNING;
}

static const char *in_dir(int which)
{
	snprintf(name, sizeof(name), "%s/events.jsonl", dir[which]);
	return name;
}

/* The events of a new agent, which writes to both directories. */
static void begin(int64_t seq)
{
	const char *const dirs[2] = { dir[0], dir[1] };

	events = events_free(events);
	ck_assert_int_eq(events_new("train", "train_x", dirs, seq, on_event, &heard, &events), 0);
	ck_assert_int_eq(events_last_seq(events), seq);
}

static void setup(void)
{
	for (int i = 0; i < 2; i++) {
		strcpy(dir[i], "/tmp/test_events.XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dir[i]));
	}
	events = NULL;
	heard = warnings = 0;
	log_set_sink(on_log, 1);
	begin(0);
}

static void teardown(void)
{
	events_free(events);
	log_set_sink(NULL, 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(file_rm_rf(dir[i]), 0);
}

static void add(int n)
{
	while (n-- > 0)
		events_add(
			events, "test", 0, 1, NULL, "number %d", (int)events_last_seq(events) + 1);
}

static void put(int which, const char *text)
{
	ck_assert_int_eq(file_write_atomic(in_dir(which), text, strlen(text), 0600, false), 0);
}

/* The list is seq first..last without a gap. */
static void assert_range(json_t *list, int64_t first, int64_t last)
{
	_cleanup_json_ json_t *owned = list;
	json_t *event;
	size_t i;

	ck_assert_int_eq((int64_t)json_array_size(list), last - first + 1);
	json_array_foreach (list, i, event)
		ck_assert_int_eq(json_get_int(event, "seq", -1), first + (int64_t)i);
}

static void assert_file(int which, int64_t first, int64_t last)
{
	assert_range(events_read_file(in_dir(which), 0, SIZE_MAX), first, last);
}

START_TEST(an_event_has_its_members_in_memory_and_in_both_files)
{
	_cleanup_json_ json_t *list = NULL;
	_cleanup_free_ char *line = NULL;
	char *texts[2];
	json_t *e;

	events_add(events, "worker-failed", 2, 3, json_pack("{s:i}", "x", 1), "worker %d\xff", 3);
	list = events_since(events, 0, 10);
	ck_assert_uint_eq(json_array_size(list), 1);
	e = json_array_get(list, 0);
	ck_assert_int_eq(json_get_int(e, "seq", -1), 1);
	ck_assert_int_gt(json_get_int(e, "time_us", -1), 1600000000000000);
	ck_assert_str_eq(json_get_string(e, "event", ""), "worker-failed");
	ck_assert_str_eq(json_get_string(e, "job", ""), "train");
	ck_assert_str_eq(json_get_string(e, "run", ""), "train_x");
	ck_assert_int_eq(json_get_int(e, "attempt", -1), 2);
	ck_assert_int_eq(json_get_int(e, "rank", -1), 3);
	ck_assert_str_eq(json_get_string(e, "text", ""), "worker 3\xef\xbf\xbd");
	ck_assert_int_eq(json_get_int(json_get_object(e, "data"), "x", -1), 1);
	line = json_dumps(e, JSON_COMPACT);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(file_read(in_dir(i), 0, &texts[i], NULL), 0);
		ck_assert_uint_eq(strlen(texts[i]), strlen(line) + 1);
		ck_assert_int_eq(strncmp(texts[i], line, strlen(line)), 0);
		free(texts[i]);
	}
	ck_assert_int_eq(heard, 1);
	ck_assert_int_eq(last_heard, 1);
}
END_TEST

START_TEST(attempt_rank_and_data_are_left_out_where_they_do_not_apply)
{
	_cleanup_json_ json_t *list = NULL;

	events_add(events, "ended", -1, -1, NULL, "%s", "");
	list = events_since(events, 0, 10);
	ck_assert_uint_eq(json_object_size(json_array_get(list, 0)), 6);
}
END_TEST

START_TEST(a_long_text_is_cut_and_stays_valid)
{
	_cleanup_json_ json_t *list = NULL;
	char text[4096];

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? '\xa4' : '\xc3';
	text[sizeof(text) - 1] = '\0';
	events_add(events, "long", -1, -1, NULL, "%s", text);
	list = events_since(events, 0, 10);
	ck_assert_uint_gt(strlen(json_get_string(json_array_get(list, 0), "text", "")), 1000);
	assert_file(0, 1, 1);
}
END_TEST

START_TEST(memory_and_file_together_give_all_events)
{
	add(3 * RING);
	ck_assert_int_eq(heard, 3 * RING);
	for (int since = 0; since <= 3 * RING; since += under_valgrind() ? 29 : 1)
		assert_range(events_since(events, since, SIZE_MAX), since + 1, 3 * RING);
	assert_range(events_since(events, 3 * RING + 5, SIZE_MAX), 1, 0);
	assert_range(events_since(events, -7, SIZE_MAX), 1, 3 * RING);
	assert_file(0, 1, 3 * RING);
	assert_file(1, 1, 3 * RING);
}
END_TEST

START_TEST(pages_follow_each_other_without_a_gap)
{
	add(3 * RING);
	for (int page = under_valgrind() ? 38 : 1; page < 300; page += 37)
		for (int64_t since = 0; since < 3 * RING; since += page) {
			int64_t last = since + page < 3 * RING ? since + page : 3 * RING;

			assert_range(events_since(events, since, (size_t)page), since + 1, last);
		}
	assert_range(events_since(events, 0, 0), 1, 0);
}
END_TEST

START_TEST(the_memory_alone_serves_where_there_are_no_files)
{
	const char *const none[2] = { NULL, NULL };

	events = events_free(events);
	ck_assert_int_eq(events_new("a", "b", none, 0, NULL, NULL, &events), 0);
	add(RING + 10);
	assert_range(events_since(events, 0, SIZE_MAX), 11, RING + 10);
	assert_range(events_since(events, RING, SIZE_MAX), RING + 1, RING + 10);
}
END_TEST

START_TEST(the_next_agent_goes_on_where_the_last_one_ended)
{
	add(5);
	begin(5);
	assert_range(events_since(events, 0, SIZE_MAX), 1, 5);
	add(3);
	assert_range(events_since(events, 0, SIZE_MAX), 1, 8);
	assert_range(events_since(events, 6, SIZE_MAX), 7, 8);
	assert_file(0, 1, 8);
	assert_file(1, 1, 8);
}
END_TEST

START_TEST(a_line_that_an_earlier_writer_left_torn_costs_only_itself)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;

	add(3);
	ck_assert_int_eq(stat(in_dir(1), &st), 0);
	ck_assert_int_eq(truncate(name, st.st_size - 10), 0);
	begin(3);
	add(2);
	ck_assert_int_eq(file_read(in_dir(1), 0, &text, NULL), 0);
	{
		_cleanup_json_ json_t *list = events_read_file(name, 0, SIZE_MAX);

		ck_assert_uint_eq(json_array_size(list), 4);
		ck_assert_int_eq(json_get_int(json_array_get(list, 1), "seq", 0), 2);
		ck_assert_int_eq(json_get_int(json_array_get(list, 2), "seq", 0), 4);
	}
	assert_file(0, 1, 5);
}
END_TEST

START_TEST(a_last_line_that_lacks_only_its_newline_is_kept)
{
	struct stat st;

	add(3);
	ck_assert_int_eq(stat(in_dir(1), &st), 0);
	ck_assert_int_eq(truncate(name, st.st_size - 1), 0);
	assert_file(1, 1, 3);
	begin(3);
	add(1);
	assert_file(1, 1, 4);
}
END_TEST

START_TEST(lines_that_are_no_events_are_passed_over)
{
	put(0, "{\"seq\":1,\"event\":\"a\"}\n\nnot json\n[1]\n7\n{\"seq\":2}\n"
	       "{\"seq\":\"3\",\"event\":\"a\"}\n{\"seq\":4,\"event\":5}\n"
	       "\x01\xff\xfe\n{\"seq\":2,\"event\":\"b\"}\n{\"seq\":3,\"eve");
	assert_file(0, 1, 2);
	ck_assert_int_eq(unlink(in_dir(0)), 0);
	assert_file(0, 1, 0);
}
END_TEST

/* Adds n events while no file can grow by more than bytes. No assertion meanwhile: Check writes to
 * a file, too. */
static void add_on_full_disk(int n, off_t bytes)
{
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	struct rlimit before, full;
	struct stat st;

	ck_assert_int_eq(stat(in_dir(1), &st), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = before;
	full.rlim_cur = (rlim_t)(st.st_size + bytes);
	setrlimit(RLIMIT_FSIZE, &full);
	add(n);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, handler);
}

START_TEST(a_full_disk_is_logged_once_and_loses_only_lines_of_the_file)
{
	add(2);
	add_on_full_disk(3, 20);
	ck_assert_int_eq(heard, 5);
	ck_assert_int_eq(warnings, 2); /* one for each file */
	assert_range(events_since(events, 0, SIZE_MAX), 1, 5);
	assert_file(1, 1, 2);
}
END_TEST

START_TEST(writing_goes_on_when_there_is_room_again)
{
	_cleanup_json_ json_t *list = NULL;

	add(2);
	add_on_full_disk(3, 20);
	add(2);
	list = events_read_file(in_dir(1), 0, SIZE_MAX);
	ck_assert_uint_eq(json_array_size(list), 4);
	ck_assert_int_eq(json_get_int(json_array_get(list, 2), "seq", 0), 6);
	ck_assert_int_eq(warnings, 2);
	add_on_full_disk(1, 0);
	ck_assert_int_eq(warnings, 4);
	assert_range(events_since(events, 0, SIZE_MAX), 1, 8);
}
END_TEST

START_TEST(events_that_the_disk_lost_come_from_memory_beside_older_ones_from_the_file)
{
	add(RING);
	add_on_full_disk(20, 0);
	/* Memory no longer has 1 to 20, and only memory has 129 to 148. */
	assert_range(events_since(events, 0, SIZE_MAX), 1, RING + 20);
	add(5);
	assert_range(events_since(events, 0, SIZE_MAX), 1, RING + 25);
	assert_range(events_since(events, 0, 30), 1, 30);
	assert_range(events_since(events, 10, SIZE_MAX), 11, RING + 25);
}
END_TEST

START_TEST(a_directory_that_vanished_does_not_hurt)
{
	ck_assert_int_eq(file_rm_rf(dir[1]), 0);
	add(RING + 5);
	ck_assert_int_eq(warnings, 1);
	/* The other file has all events. */
	assert_range(events_since(events, 0, SIZE_MAX), 1, RING + 5);
}
END_TEST

START_TEST(a_symbolic_link_in_the_file_s_place_is_not_followed)
{
	char target[128];

	snprintf(target, sizeof(target), "%.60s/target", dir[0]);
	ck_assert_int_eq(symlink(target, in_dir(1)), 0);
	add(1);
	ck_assert_int_eq(warnings, 1);
	ck_assert_int_eq(access(target, F_OK), -1);
}
END_TEST

static void failed(int attempt, const char *what)
{
	events_add(events, "worker-failed", attempt, 0, json_pack("{s:s}", "message", what), "x");
}

static void assert_failures(int attempt, const char *expected)
{
	_cleanup_json_ json_t *list = events_failures(in_dir(1), attempt);
	_cleanup_free_ char *text = json_dumps(list, JSON_COMPACT);

	ck_assert_str_eq(text, expected);
}

START_TEST(failures_are_those_of_one_attempt_or_of_the_newest)
{
	assert_failures(-1, "[]");
	failed(0, "a");
	failed(0, "b");
	add(1);
	failed(2, "c");
	events_add(events, "worker-failed", 3, 0, NULL, "without data");
	assert_failures(0, "[{\"message\":\"a\"},{\"message\":\"b\"}]");
	assert_failures(1, "[]");
	assert_failures(2, "[{\"message\":\"c\"}]");
	assert_failures(-1, "[{\"message\":\"c\"}]");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("events");
	TCase *t = tcase_create("events");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, an_event_has_its_members_in_memory_and_in_both_files);
	tcase_add_test(t, attempt_rank_and_data_are_left_out_where_they_do_not_apply);
	tcase_add_test(t, a_long_text_is_cut_and_stays_valid);
	tcase_add_test(t, memory_and_file_together_give_all_events);
	tcase_add_test(t, pages_follow_each_other_without_a_gap);
	tcase_add_test(t, the_memory_alone_serves_where_there_are_no_files);
	tcase_add_test(t, the_next_agent_goes_on_where_the_last_one_ended);
	tcase_add_test(t, a_line_that_an_earlier_writer_left_torn_costs_only_itself);
	tcase_add_test(t, a_last_line_that_lacks_only_its_newline_is_kept);
	tcase_add_test(t, lines_that_are_no_events_are_passed_over);
	tcase_add_test(t, a_full_disk_is_logged_once_and_loses_only_lines_of_the_file);
	tcase_add_test(t, writing_goes_on_when_there_is_room_again);
	tcase_add_test(
		t, events_that_the_disk_lost_come_from_memory_beside_older_ones_from_the_file);
	tcase_add_test(t, a_directory_that_vanished_does_not_hurt);
	tcase_add_test(t, a_symbolic_link_in_the_file_s_place_is_not_followed);
	tcase_add_test(t, failures_are_those_of_one_attempt_or_of_the_newest);
	suite_add_tcase(s, t);
	return suite_run(s);
}
