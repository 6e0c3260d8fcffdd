/* SPDX-License-Identifier: Apache-2.0 */
/* The handle: environment, board, files. */
#include "tests/unit/alone_agent.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/resource.h>
#include <sys/stat.h>

START_TEST(a_supervised_worker_knows_its_identity)
{
	int fd;
	struct elasticd *h = handle_open(&fd);

	ck_assert_int_eq(elasticd_supervised(h), 1);
	ck_assert_str_eq(elasticd_job(h), "digits");
	ck_assert_str_eq(elasticd_run(h), "digits_0123abcd");
	ck_assert_str_eq(elasticd_role(h), "worker");
	ck_assert_int_eq(elasticd_index(h), 3);
	ck_assert_int_eq(elasticd_rank(h), 4);
	ck_assert_int_eq(elasticd_local_rank(h), 3);
	ck_assert_int_eq(elasticd_world_size(h), 5);
	ck_assert_int_eq(elasticd_attempt(h), 2);
	ck_assert_int_eq(elasticd_start(h), 1);
	elasticd_close(h);
	ck_assert_str_eq(agent_hear(fd), "");
	close(fd);
}
END_TEST

START_TEST(the_agent_knows_what_the_environment_does_not)
{
	struct elasticd *h;
	int fd;

	unsetenv("LOCAL_RANK");
	unsetenv("WORLD_SIZE");
	h = handle_open(&fd);
	ck_assert_int_eq(elasticd_local_rank(h), 4);
	ck_assert_int_eq(elasticd_world_size(h), 5);
	elasticd_close(h);
	close(fd);
}
END_TEST

START_TEST(a_stale_token_is_a_failed_precondition)
{
	struct worker w;
	int fd;

	worker_start(&w, worker_opens, NULL);
	fd = agent_accept();
	agent_hears(fd, "Hello", "'token':'77'");
	agent_refuses(fd, "FailedPrecondition", "'message':'worker:3 has ended'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_str_eq(w.text, "worker:3 has ended");
	close(fd);
}
END_TEST

static void refused(const char *name, const char *value, int status, const char *text)
{
	struct elasticd *h = NULL;
	char *before = strdup(getenv(name));

	setenv(name, value, 1);
	ck_assert_int_eq(elasticd_open(&h), status);
	ck_assert_msg(strstr(elasticd_error_text(), text) != NULL, "%s", elasticd_error_text());
	ck_assert_ptr_null(h);
	setenv(name, before, 1);
	free(before);
}

START_TEST(an_environment_that_makes_no_sense_is_refused_by_name)
{
	refused("ELASTICD_TOKEN", "", ELASTICD_STATUS_INVALID_ARGUMENT,
		"ELASTICD_TOKEN: expected one");
	refused("ELASTICD_TOKEN", "x7", ELASTICD_STATUS_INVALID_ARGUMENT, "got \"x7\"");
	refused("ELASTICD_TOKEN", "0", ELASTICD_STATUS_INVALID_ARGUMENT, "ELASTICD_TOKEN");
	refused("ELASTICD_TOKEN", "007", ELASTICD_STATUS_INVALID_ARGUMENT, "got \"007\"");
	refused("ELASTICD_SLOT", "8192", ELASTICD_STATUS_INVALID_ARGUMENT,
		"ELASTICD_SLOT: expected 0 to 8191, got \"8192\"");
	refused("ELASTICD_SLOT", "", ELASTICD_STATUS_INVALID_ARGUMENT,
		"ELASTICD_SLOT: expected a number");
	refused("ELASTICD_BOARD", "/dev/null", ELASTICD_STATUS_INVALID_ARGUMENT,
		"/dev/null is not a board");
	refused("ELASTICD_BOARD", "/none", ELASTICD_STATUS_UNAVAILABLE,
		"ELASTICD_BOARD: /none: No such");
	board->version = 2;
	refused("ELASTICD_SLOT", "3", ELASTICD_STATUS_INVALID_ARGUMENT, "not a board of version 1");
	board->version = 1;
	refused("ELASTICD_WORKER_SOCKET", "/none", ELASTICD_STATUS_UNAVAILABLE,
		"/none: cannot connect");
}
END_TEST

START_TEST(beats_steps_and_notices_are_words_of_the_board)
{
	struct board_slot *slot = board_slot(board, 3);
	struct elasticd *h;
	int fd;

	board->attempt = 2;
	h = handle_open(&fd);
	ck_assert_uint_eq(slot->token, 0);
	elasticd_beat(h);
	ck_assert_uint_eq(slot->token, 77);
	ck_assert_uint_eq(slot->beats, 1);
	ck_assert_uint_eq(slot->steps, 0);
	elasticd_step(h, 12, NULL);
	elasticd_step(h, 12, NULL);
	ck_assert_int_eq(slot->step, 12);
	ck_assert_uint_eq(slot->steps, 2);
	ck_assert_uint_eq(slot->beats, 3);

	ck_assert_int_eq(elasticd_notice(h), 0);
	board->notice = 1;
	ck_assert_int_eq(elasticd_notice(h), 1);
	board->notice = 2;
	ck_assert_int_eq(elasticd_notice(h), 0);

	ck_assert_int_eq(elasticd_stopping(h), 0);
	board->stopping = 2; /* of the attempt before */
	ck_assert_int_eq(elasticd_stopping(h), 0);
	board->stopping = 3;
	ck_assert_int_eq(elasticd_stopping(h), 1);

	/* The worker has a new process: this one is stale, and each of its beats shows that. */
	slot->token = 78;
	elasticd_beat(h);
	ck_assert_uint_eq(slot->token, 77);
	elasticd_close(h);
	close(fd);
}
END_TEST

START_TEST(a_board_that_cannot_be_reached_is_the_file_beside_it)
{
	char file[160];
	struct elasticd *h;
	int conn;

	snprintf(file, sizeof(file), "%s" BOARD_FILE_SUFFIX, agent_board);
	ck_assert_int_eq(rename(agent_board, file), 0);
	ck_assert_int_eq(symlink("/proc/0/fd/7", agent_board), 0);
	h = handle_open(&conn);
	elasticd_step(h, 5, NULL);
	ck_assert_int_eq(board_slot(board, 3)->step, 5);
	elasticd_close(h);
	close(conn);
}
END_TEST

/* The path names a process by its number, which in another namespace is another process. */
START_TEST(a_board_of_another_process_is_the_file_beside_it)
{
	static const char *const strangers[] = { "/dev/null", "/dev", "fifo", "short", "large" };
	char file[160];
	struct elasticd *h;
	int conn;

	snprintf(file, sizeof(file), "%s" BOARD_FILE_SUFFIX, agent_board);
	ck_assert_int_eq(rename(agent_board, file), 0);
	for (size_t i = 0; i < sizeof(strangers) / sizeof(*strangers); i++) {
		const char *what = strangers[i];
		bool large = !strcmp(what, "large");

		if (!strcmp(what, "fifo")) {
			ck_assert_int_eq(mkfifo(agent_board, 0600), 0);
		} else if (*what == '/') {
			ck_assert_int_eq(symlink(what, agent_board), 0);
		} else {
			conn = open(agent_board, O_CREAT | O_WRONLY | O_EXCL, 0600);
			ck_assert_int_ge(conn, 0);
			ck_assert_int_eq(ftruncate(conn, large ? (off_t)BOARD_BYTES : 1), 0);
			close(conn);
		}
		h = handle_open(&conn);
		elasticd_step(h, 10 + (int)i, NULL);
		ck_assert_int_eq(board_slot(board, 3)->step, 10 + (int)i);
		elasticd_close(h);
		close(conn);
		ck_assert_int_eq(unlink(agent_board), 0);
	}
}
END_TEST

START_TEST(without_a_board_beats_have_no_effect)
{
	struct elasticd *h;
	int fd;

	unsetenv("ELASTICD_BOARD");
	h = handle_open(&fd);
	elasticd_step(h, 1, NULL);
	ck_assert_int_eq(elasticd_notice(h) || elasticd_stopping(h), 0);
	elasticd_close(h);
	close(fd);
}
END_TEST

/* --- files */

static char file[256];

static json_t *read_json(void)
{
	json_t *j = json_load_file(file, 0, NULL);

	ck_assert_ptr_nonnull(j);
	return j;
}

START_TEST(the_first_error_file_stays)
{
	struct elasticd *h;
	json_t *j, *message;
	const char *text;
	char *end;

	alone_environment();
	snprintf(file, sizeof(file), "%s/error.json", agent_dir);
	setenv("TORCHELASTIC_ERROR_FILE", file, 1);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_write_error(h, "ValueError: bad", "line 1\nline 2"), 0);
	ck_assert_int_eq(elasticd_write_error(h, "another", NULL), 0);
	ck_assert_int_eq(elasticd_report_error(h, ELASTICD_STATUS_ABORTED, "a third"), 0);
	j = read_json();
	message = json_object_get(j, "message");
	ck_assert_str_eq(json_string_value(json_object_get(message, "message")), "ValueError: bad");
	message = json_object_get(message, "extraInfo");
	ck_assert_str_eq(
		json_string_value(json_object_get(message, "py_callstack")), "line 1\nline 2");
	text = json_string_value(json_object_get(message, "timestamp"));
	ck_assert(strtoll(text, &end, 10) > 1500000000 && !*end);
	json_decref(j);
	elasticd_close(h);

	setenv("TORCHELASTIC_ERROR_FILE", "/proc/none/error.json", 1);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_ne(elasticd_write_error(h, "no room", NULL), 0);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "/proc/none/error.json: "));
	elasticd_close(h);
}
END_TEST

START_TEST(a_reported_error_writes_the_file_where_there_is_none)
{
	struct elasticd *h;
	json_t *j;

	alone_environment();
	snprintf(file, sizeof(file), "%s/error.json", agent_dir);
	setenv("TORCHELASTIC_ERROR_FILE", file, 1);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_report_error(h, ELASTICD_STATUS_ABORTED, "told"), 0);
	j = read_json();
	ck_assert_str_eq(
		json_string_value(json_object_get(json_object_get(j, "message"), "message")),
		"told");
	json_decref(j);
	elasticd_close(h);
}
END_TEST

START_TEST(log_lines_are_json_with_their_fields)
{
	struct elasticd *h;
	json_t *j;
	int fd;

	snprintf(file, sizeof(file), "%s/log.jsonl", agent_dir);
	setenv("ELASTICD_LOG_FILE", file, 1);
	h = handle_open(&fd);
	ck_assert_int_eq(elasticd_log(h, "warn", "no\nnewline", "{\"loss\": 0.5}"), 0);
	j = read_json();
	ck_assert_str_eq(json_string_value(json_object_get(j, "level")), "warn");
	ck_assert_str_eq(json_string_value(json_object_get(j, "message")), "no\nnewline");
	ck_assert_int_eq(json_integer_value(json_object_get(j, "rank")), 4);
	ck_assert_int_eq(json_integer_value(json_object_get(j, "attempt")), 2);
	ck_assert(json_integer_value(json_object_get(j, "time_us")) > 0);
	ck_assert(json_real_value(json_object_get(j, "loss")) > 0.4);
	json_decref(j);
	ck_assert_int_eq(elasticd_log(h, "x", "y", "[1]"), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_log(h, "x", "y", "{"), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(
		elasticd_log(h, "x", "y", "{\"rank\":9}"), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "\"rank\""));
	elasticd_close(h);
	close(fd);
}
END_TEST

START_TEST(a_full_disk_fails_only_the_log_line)
{
	struct elasticd *h;

	unsetenv("ELASTICD_WORKER_SOCKET");
	setenv("ELASTICD_LOG_FILE", "/dev/full", 1);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_log(h, "info", "lost", NULL), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	elasticd_close(h);
	unsetenv("ELASTICD_LOG_FILE");
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_log(h, "info", "nowhere", NULL), 0);
	elasticd_close(h);
}
END_TEST

START_TEST(a_line_that_was_cut_short_does_not_spoil_the_next)
{
	char path[160], text[4096] = "";
	struct rlimit all, little = { .rlim_cur = 300 };
	struct elasticd *h;
	int lines = 0, cut = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/log.jsonl", agent_dir);
	unsetenv("ELASTICD_WORKER_SOCKET");
	setenv("ELASTICD_LOG_FILE", path, 1);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &all), 0);
	little.rlim_max = all.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
	while (elasticd_log(h, "info", "it fits", NULL) == 0)
		lines++;
	ck_assert_int_ne(elasticd_log(h, "info", "nor does this", NULL), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &all), 0);
	ck_assert_int_eq(elasticd_log(h, "info", "there is room again", NULL), 0);
	ck_assert_int_eq(elasticd_log(h, "info", "and on it goes", NULL), 0);
	elasticd_close(h);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(text, sizeof(text), f)) {
		lines -= text[0] == '{' && !strcmp(text + strlen(text) - 2, "}\n");
		cut += text[0] == '{' && strcmp(text + strlen(text) - 2, "}\n") != 0;
	}
	fclose(f);
	ck_assert_int_eq(cut, 1);
	ck_assert_int_eq(lines, -2);
}
END_TEST

/* The numbers in the header must be those of the library. */
_Static_assert(sizeof(void *) != 8 || (sizeof(struct elasticd_entry) == 32 &&
					      sizeof(struct elasticd_error) == 32 &&
					      sizeof(struct elasticd_worker) == 40 &&
					      sizeof(struct elasticd_event) == 32),
	"the structures of the interface never change");

START_TEST(status_names_are_the_canonical_ones)
{
	ck_assert_str_eq(elasticd_status_name(ELASTICD_STATUS_OK), "OK");
	ck_assert_str_eq(
		elasticd_status_name(ELASTICD_STATUS_DEADLINE_EXCEEDED), "DeadlineExceeded");
	ck_assert_str_eq(elasticd_status_name(ELASTICD_STATUS_INTERRUPTED), "Interrupted");
	ck_assert_str_eq(elasticd_status_name(-5), "Unknown");
	ck_assert_str_eq(elasticd_version(), VERSION);
	ck_assert_str_eq(elasticd_error_text(), "");
	ck_assert_str_eq(elasticd_error_missing(), "");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("open");

	tcase_add_checked_fixture(t, agent_start, agent_stop);
	tcase_add_test(t, a_supervised_worker_knows_its_identity);
	tcase_add_test(t, the_agent_knows_what_the_environment_does_not);
	tcase_add_test(t, a_stale_token_is_a_failed_precondition);
	tcase_add_test(t, an_environment_that_makes_no_sense_is_refused_by_name);
	tcase_add_test(t, beats_steps_and_notices_are_words_of_the_board);
	tcase_add_test(t, a_board_that_cannot_be_reached_is_the_file_beside_it);
	tcase_add_test(t, a_board_of_another_process_is_the_file_beside_it);
	tcase_add_test(t, without_a_board_beats_have_no_effect);
	tcase_add_test(t, the_first_error_file_stays);
	tcase_add_test(t, a_reported_error_writes_the_file_where_there_is_none);
	tcase_add_test(t, log_lines_are_json_with_their_fields);
	tcase_add_test(t, a_full_disk_fails_only_the_log_line);
	tcase_add_test(t, a_line_that_was_cut_short_does_not_spoil_the_next);
	tcase_add_test(t, status_names_are_the_canonical_ones);
	return tests_run(t);
}
