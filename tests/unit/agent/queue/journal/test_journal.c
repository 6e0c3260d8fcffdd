/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/journal_world.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

static const char *const needs[] = { "table", "model" };

/* One record of each kind, with all parts. */
static size_t some_records(struct queue_record *r)
{
	size_t n = 0;

	r[n] = record(QUEUE_REC_RESOURCE, 0);
	r[n].queue = "table";
	r[n++].payload = (struct queue_bytes){ "rows", 4, "text" };
	r[n] = record(QUEUE_REC_SUBMIT, 7);
	r[n].queue = "fit";
	r[n].payload = (struct queue_bytes){ "{\"a\":1}", 7, "json" };
	r[n].needs = needs;
	r[n].n_needs = 2;
	r[n].limit_ms = 60000;
	r[n++].flag = true;
	r[n] = record(QUEUE_REC_SUBMIT, INT64_C(1) << 53);
	r[n++].limit_ms = -1;
	r[n] = record(QUEUE_REC_TRY, 7);
	r[n].number = 2;
	r[n].limit_ms = 1;
	r[n++].error.worker = 3;
	r[n] = record(QUEUE_REC_SUCCEED, 7);
	r[n].number = 3;
	r[n++].payload = (struct queue_bytes){ "ok", 2, "" };
	r[n] = record(QUEUE_REC_FAIL, 8);
	r[n].flag = true;
	r[n++].error = (struct queue_error){ STATUS_INTERNAL, "broken", "line 1\nline 2", 4, 8 };
	r[n] = record(QUEUE_REC_CANCEL, 9);
	r[n++].error = (struct queue_error){ STATUS_CANCELLED, "8 failed", "", -1, 8 };
	r[n] = record(QUEUE_REC_RAISED, 0);
	r[n++].queue = "fit";
	r[n++] = record(QUEUE_REC_RELEASE, 7);
	r[n] = record(QUEUE_REC_DROP, 0);
	r[n++].queue = "table";
	r[n++] = record(QUEUE_REC_CLOSE, 0);
	r[n] = record(QUEUE_REC_LOSS, 0);
	r[n].queue = "fit";
	r[n].number = 77;
	r[n++].error = (struct queue_error){ STATUS_UNAVAILABLE, "ps:0 is gone", "", 4, -1 };
	r[n] = record(QUEUE_REC_LOSS_TOLD, 0);
	r[n++].queue = "fit";
	r[n] = record(QUEUE_REC_KEEP, 0);
	r[n++].queue = "fit";
	return n;
}

/* The events of a machine that reads all records; lines has the end of each line. */
static void expect(const struct queue_record *r, size_t n, char *all, size_t *lines)
{
	forget();
	for (size_t i = 0; i < n; i++) {
		struct queue_record copy = r[i];

		if (copy.error.worker == 4)
			copy.error.worker = 14; /* the same name has another number */
		tell_it(&copy);
		lines[i] = told_len;
	}
	strcpy(all, told);
}

START_TEST(each_record_is_decoded_as_it_was_encoded)
{
	struct queue_record r[16];
	size_t n = some_records(r), lines[16];
	char all[4096];

	for (size_t i = 0; i < n; i++)
		journal_add(j, &r[i]);
	journal_commit(j);
	expect(r, n, all, lines);
	must_reopen();
	ck_assert_str_eq(told, all);
	ck_assert_str_eq(events, "journal-read ");
	must_reopen();
	ck_assert_str_eq(told, all);
}
END_TEST

START_TEST(committed_records_are_in_the_file_at_once)
{
	char *text = NULL;
	size_t len = 0;

	happen(QUEUE_REC_SUBMIT, 1, 5);
	ck_assert_int_eq(size_of(path), JOURNAL_MAGIC_BYTES);
	happen(QUEUE_REC_SUBMIT, 2, 5);
	journal_commit(j);
	ck_assert_int_eq(file_read(path, 0, &text, &len), 0);
	ck_assert_ptr_nonnull(memmem(text, len, "bbbbb", 5));
	free(text);
	journal_commit(j);
	ck_assert_int_eq(size_of(path), (off_t)len);
}
END_TEST

START_TEST(its_bytes_can_be_read_before_they_are_written)
{
	char all[256], part[256];
	_cleanup_free_ char *text = NULL;
	size_t len = 0, size;

	happen(QUEUE_REC_SUBMIT, 1, 5);
	journal_commit(j);
	happen(QUEUE_REC_SUBMIT, 2, 5);
	size = (size_t)journal_size(j);
	ck_assert_int_gt(size, size_of(path));
	ck_assert_uint_le(size, sizeof(all));
	ck_assert_int_eq(journal_bytes(j, 0, all, size), 0);
	for (size_t at = 0; at < size; at++) {
		ck_assert_int_eq(journal_bytes(j, at, part, size - at), 0);
		ck_assert_mem_eq(part, all + at, size - at);
	}
	journal_commit(j);
	ck_assert_int_eq(file_read(path, 0, &text, &len), 0);
	ck_assert_uint_eq(len, size);
	ck_assert_mem_eq(text, all, size);
	ck_assert_uint_eq(journal_size(j), size);
}
END_TEST

START_TEST(all_sizes_of_numbers_and_the_longest_payload_are_decoded)
{
	static const int64_t numbers[] = { 0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192,
		INT64_C(1) << 53, INT64_MAX, INT64_MIN };
	struct journal_buffer b = { .data = NULL };
	struct journal_decoded d = { .text = NULL };
	size_t n, at = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct queue_record r = record(QUEUE_REC_SUBMIT, numbers[i]);

		r.limit_ms = r.number = numbers[i];
		ck_assert_int_eq(journal_encode(&b, &r, NULL), 0);
		ck_assert_int_gt(journal_decode(b.data + at, b.len - at, &d, &n), 0);
		at += n;
		ck_assert(d.record.task == numbers[i]);
		ck_assert(d.record.limit_ms == numbers[i]);
		ck_assert(d.record.number == numbers[i]);
	}
	for (size_t extra = 0; extra < 2; extra++) {
		struct queue_record r = record(QUEUE_REC_SUCCEED, 1);
		size_t before = b.len;

		r.payload = (struct queue_bytes){ big, QUEUE_VALUE_MAX, "json" };
		r.error.details = extra ? big : ""; /* the only NUL is the one at the end */
		big[QUEUE_VALUE_MAX] = '\0';
		ck_assert_int_eq(journal_encode(&b, &r, NULL), extra ? -E2BIG : 0);
		ck_assert(extra ? b.len == before : b.len > before);
	}
	ck_assert_int_gt(journal_decode(b.data + at, b.len - at, &d, &n), 0);
	ck_assert_uint_eq(d.record.payload.len, QUEUE_VALUE_MAX);
	ck_assert_str_eq(d.record.payload.format, "json");
	ck_assert_int_eq(journal_decode(b.data, 0, &d, &n), 0);
	journal_buffer_fini(&b);
	journal_decoded_fini(&d);
}
END_TEST

/* A file of these bytes, and nothing else in the directory. */
static void put_file(const char *text, size_t len)
{
	char name[80];

	j = journal_free(j);
	snprintf(name, sizeof(name), "%s.broken", path);
	unlink(name);
	ck_assert_int_eq(file_write_atomic(path, text, len, 0640, false), 0);
}

/* Records that are added after reading are found again. */
static void check_goes_on(const char *before)
{
	char all[8192];
	struct queue_record r = record(QUEUE_REC_CLOSE, 4711);

	journal_add(j, &r);
	journal_commit(j);
	strcpy(all, before);
	must_reopen();
	ck_assert_ptr_nonnull(strstr(told, " 4711 "));
	ck_assert_ptr_null(strstr(events, "broken"));
}

START_TEST(a_file_cut_off_anywhere_is_read)
{
	struct queue_record r[16];
	size_t n = some_records(r), lines[16], len, step, seen = 0;
	_cleanup_free_ char *text = NULL;
	char all[4096], had[8192];

	for (size_t i = 0; i < n; i++)
		journal_add(j, &r[i]);
	journal_commit(j);
	expect(r, n, all, lines);
	ck_assert_int_eq(file_read(path, 0, &text, &len), 0);
	step = (size_t)walk_length(1, 3, 61);
	for (size_t cut = len % step; cut <= len; cut += step) {
		put_file(text, cut);
		must_reopen();
		ck_assert_int_eq(strncmp(told, all, told_len), 0);
		for (seen = 0; seen < n && lines[seen] <= told_len; seen++)
			;
		ck_assert_uint_eq(told_len, seen ? lines[seen - 1] : 0);
		ck_assert_ptr_null(strstr(events, "broken"));
		strcpy(had, told);
		check_goes_on(had);
	}
	ck_assert_uint_eq(seen, n);
}
END_TEST

START_TEST(a_file_with_any_wrong_byte_is_read)
{
	struct queue_record r[16];
	size_t n = some_records(r), lines[16], len;
	_cleanup_free_ char *text = NULL;
	char all[4096], had[8192], name[80];

	for (size_t i = 0; i < n; i++)
		journal_add(j, &r[i]);
	journal_commit(j);
	expect(r, n, all, lines);
	ck_assert_int_eq(file_read(path, 0, &text, &len), 0);
	snprintf(name, sizeof(name), "%s.broken", path);
	for (size_t at = 0; at < len; at += (size_t)walk_length(1, 3, 101)) {
		char *line, *next;

		text[at] ^= 0x41;
		put_file(text, len);
		text[at] ^= 0x41;
		must_reopen();
		/* Records are missing, none is new, and an event says so. */
		ck_assert_uint_lt(told_len, strlen(all));
		strcpy(had, told);
		for (line = had; *line; line = next + 1) {
			next = strchr(line, '\n');
			*next = '\0';
			ck_assert_msg(strstr(all, line), "%s", line);
			*next = '\n';
		}
		ck_assert_ptr_nonnull(strstr(events, "journal-"));
		ck_assert(strstr(events, "journal-cut") || size_of(name) == (off_t)len);
		check_goes_on(had);
	}
}
END_TEST

START_TEST(only_the_broken_record_is_lost)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	for (int i = 0; i < 100; i++)
		happen(QUEUE_REC_SUBMIT, i, 100);
	journal_commit(j);
	ck_assert_int_eq(file_read(path, 0, &text, &len), 0);
	text[len / 2] ^= 1;
	put_file(text, len);
	must_reopen();
	ck_assert_uint_eq(live, 99 * 100);
	ck_assert_str_eq(events, "journal-broken journal-read ");
}
END_TEST

START_TEST(a_file_of_another_version_is_kept_aside)
{
	static const char other[] = "edqueue\002more";
	char name[80];

	put_file(other, sizeof(other));
	must_reopen();
	ck_assert_str_eq(events, "journal-broken journal-read ");
	snprintf(name, sizeof(name), "%s.broken", path);
	ck_assert_int_eq(size_of(name), sizeof(other));
	check_goes_on("");
}
END_TEST

START_TEST(a_journal_without_memory_is_an_error)
{
	happen(QUEUE_REC_SUBMIT, 1, 5);
	happen(QUEUE_REC_SUBMIT, 2, 5);
	journal_commit(j);
	j = journal_free(j);
	nomem_at = 2;
	ck_assert_int_eq(reopen(), -ENOMEM);
	must_reopen();
	ck_assert_uint_eq(live, 10);
}
END_TEST

/* --- a full disk --- */

/* Check's own files must fit, too. */
static void limit_files(rlim_t bytes)
{
	struct rlimit rl;

	getrlimit(RLIMIT_FSIZE, &rl);
	rl.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &rl), 0);
	if (j)
		j->most = 0;
}

enum { FILLED = 4 << 18 };

/* Makes a file that is longer than Check's. */
static void fill_file(void)
{
	for (int64_t i = 100; i < 104; i++)
		happen(QUEUE_REC_SUBMIT, i, FILLED / 4);
	journal_commit(j);
	ck_assert_int_ge(size_of(path), FILLED);
}

START_TEST(a_full_disk_refuses_tasks_and_loses_none)
{
	fill_file();
	ck_assert_int_eq(journal_room(j, 100, &err), STATUS_OK);
	happen(QUEUE_REC_SUBMIT, 1, 100);
	journal_commit(j);
	limit_files(FILLED + 300);
	ck_assert_int_eq(journal_room(j, 100, &err), STATUS_RESOURCE_EXHAUSTED);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	ck_assert_ptr_nonnull(strstr(err.text, strerror(EFBIG)));
	ck_assert_str_eq(events, "");
	/* Tasks that were accepted before still end. */
	happen(QUEUE_REC_SUBMIT, 2, 100);
	journal_commit(j);
	happen(QUEUE_REC_SUCCEED, 1, 100);
	journal_commit(j);
	ck_assert_str_eq(events, "journal-failed ");
	ck_assert_int_lt(size_of(path), FILLED + 300);
	limit_files(RLIM_INFINITY);
	while (size_of(path) < FILLED + 350)
		loop_run_once(loop, true);
	ck_assert_str_eq(events, "journal-failed journal-written ");
	ck_assert_int_eq(journal_room(j, 100, &err), STATUS_OK);
	must_reopen();
	ck_assert(tasks[1].there && tasks[1].over && tasks[2].there && !tasks[2].over);
}
END_TEST

START_TEST(room_is_found_again_when_the_disk_has_it)
{
	fill_file();
	limit_files(FILLED);
	happen(QUEUE_REC_SUBMIT, 1, 100);
	journal_commit(j);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_RESOURCE_EXHAUSTED);
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_OK);
	must_reopen();
	ck_assert(tasks[1].there);
}
END_TEST

START_TEST(a_missing_directory_is_named)
{
	const struct journal_options opt = { .loop = loop, .dir = "/nonexistent/dir" };
	struct journal *other = NULL;

	ck_assert_int_eq(journal_new(&opt, &other, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/dir"));
}
END_TEST

START_TEST(only_a_regular_file_is_opened)
{
	j = journal_free(j);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink("elsewhere", path), 0);
	ck_assert_int_eq(reopen(), -ELOOP);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(reopen(), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	ck_assert_int_eq(unlink(path), 0);
	must_reopen();
}
END_TEST

/* --- rewritten --- */

/* Turns the loop until the new file has replaced the old one. */
static void wait_for_rewrite(ino_t before)
{
	struct stat st;

	do {
		loop_run_once(loop, true);
		ck_assert_int_eq(stat(path, &st), 0);
	} while (st.st_ino == before);
}

static ino_t inode(void)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_ino;
}

/* Most of the file is about forgotten tasks. */
static void make_garbage(void)
{
	for (int64_t i = 0; i < 1000; i++)
		happen(QUEUE_REC_SUBMIT, i, 1200);
	journal_commit(j);
	for (int64_t i = 0; i < 900; i++)
		happen(QUEUE_REC_RELEASE, i, 0);
	/* As much as the file grows between two checks. */
	for (int64_t i = 4000; i < 4400; i++) {
		happen(QUEUE_REC_SUBMIT, i, 1200);
		happen(QUEUE_REC_RELEASE, i, 0);
	}
	journal_commit(j);
}

/* Turns the loop until the disk is asked to keep the new file. */
static void begin_rewrite(void)
{
	atomic_store(&new_held, true);
	while (j->rewrite.fd < 0)
		loop_run_once(loop, true);
	ck_assert(j->sync.running);
}

START_TEST(garbage_is_removed_while_records_are_added)
{
	ino_t before = inode();
	char other[80];
	off_t was, dumped;
	size_t had;

	make_garbage();
	ck_assert_uint_eq(inode(), before);
	begin_rewrite();
	snprintf(other, sizeof(other), "%s.new", path);
	was = size_of(path);
	dumped = size_of(other);
	ck_assert_int_lt(dumped, was / 5);
	/* Records that are added meanwhile go to the old file, and are copied to the new one. */
	for (int64_t n = 1000; n < 3000; n++) {
		happen(QUEUE_REC_SUBMIT, n, 1200);
		happen(QUEUE_REC_SUCCEED, n - 2, 10);
		happen(QUEUE_REC_RELEASE, n - 50, 0);
		if (n < 2990)
			journal_commit(j);
	}
	ck_assert_int_eq(size_of(other), dumped);
	ck_assert_int_gt(size_of(path), was + 1900 * 1200);
	disk_go();
	n_replaced = 0;
	wait_for_rewrite(before);
	ck_assert_int_eq(n_replaced, 1);
	journal_commit(j);
	had = live;
	must_reopen();
	ck_assert_uint_eq(live, had);
	for (int64_t i = 900; i < 3000; i++) {
		bool there = i >= 2950 || i < 950;

		ck_assert_int_eq(tasks[i].there, there);
		ck_assert_int_eq(there && tasks[i].over, i >= 2950 && i < 2998);
	}
	ck_assert_str_eq(events, "journal-read ");
}
END_TEST

START_TEST(the_next_agent_begins_with_a_short_file)
{
	ino_t before = inode();

	make_garbage();
	must_reopen();
	ck_assert_uint_eq(inode(), before);
	wait_for_rewrite(before);
	ck_assert_int_lt(size_of(path), 110 * 1200);
	must_reopen();
	ck_assert_uint_eq(n_there, 100);
}
END_TEST

static void copy_file(const char *from, const char *to)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;

	if (size_of(from) < 0) {
		unlink(to);
		return;
	}
	ck_assert_int_eq(file_read(from, 0, &text, &len), 0);
	ck_assert_int_eq(file_write_atomic(to, text, len, 0640, false), 0);
}

/* Reads a copy of the file, as the next agent would. */
static void check_what_the_next_one_finds(const char *other)
{
	static typeof(tasks) had;
	const size_t n[] = { told_len, live, n_there, n_over };
	const struct journal_options opt = { .loop = loop, .dir = other };
	struct journal *next = NULL;
	char from[80], to[80];

	snprintf(to, sizeof(to), "%s/queue.journal", other);
	copy_file(path, to);
	snprintf(from, sizeof(from), "%s.new", path);
	snprintf(to, sizeof(to), "%s/queue.journal.new", other);
	copy_file(from, to);
	memcpy(had, tasks, sizeof(had));
	forget();
	ck_assert_int_eq(journal_new(&opt, &next, &err), 0);
	for (size_t i = 0; i < TASKS; i++) {
		ck_assert_int_eq(tasks[i].there, had[i].there);
		ck_assert(!tasks[i].there || tasks[i].over == had[i].over);
	}
	ck_assert_int_eq(size_of(to), -1);
	journal_free(next);
	memcpy(tasks, had, sizeof(had));
	told_len = n[0], live = n[1], n_there = n[2], n_over = n[3];
}

START_TEST(a_kill_during_a_rewrite_loses_no_record)
{
	char other[] = "/tmp/test-journal-XXXXXX";
	ino_t before = inode();

	ck_assert_ptr_nonnull(mkdtemp(other));
	make_garbage();
	check_what_the_next_one_finds(other);
	begin_rewrite();
	for (int64_t i = 1000; i < 1100; i++) {
		happen(QUEUE_REC_SUBMIT, i, 10);
		happen(QUEUE_REC_SUCCEED, i - 99, 10);
		happen(QUEUE_REC_RELEASE, i - 100, 0);
		journal_commit(j);
		if (i % walk_length(4, 16, 32) == 0)
			check_what_the_next_one_finds(other);
	}
	disk_go();
	while (inode() == before) {
		loop_run_once(loop, true);
		check_what_the_next_one_finds(other);
	}
	ck_assert_int_eq(file_rm_rf(other), 0);
}
END_TEST

START_TEST(a_rewrite_helps_on_a_full_disk)
{
	ino_t before = inode();

	fill_file();
	limit_files(FILLED + 300);
	happen(QUEUE_REC_SUBMIT, 1, 1000);
	journal_commit(j);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_RESOURCE_EXHAUSTED);
	for (int64_t i = 100; i < 104; i++)
		happen(QUEUE_REC_RELEASE, i, 0);
	journal_commit(j);
	begin_rewrite();
	/* A record that is in neither file. */
	happen(QUEUE_REC_SUBMIT, 2, 1000);
	journal_commit(j);
	disk_go();
	wait_for_rewrite(before);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_OK);
	ck_assert_str_eq(events, "journal-failed journal-written ");
	limit_files(RLIM_INFINITY);
	ck_assert_int_lt(size_of(path), 2200);
	must_reopen();
	ck_assert(tasks[1].there && tasks[2].there);
	ck_assert_uint_eq(n_there, 2);
}
END_TEST

START_TEST(a_failing_disk_is_not_retried_at_once)
{
	ino_t before = inode();

	atomic_store(&sync_error, EIO);
	happen(QUEUE_REC_SUBMIT, 1, 10);
	journal_commit(j);
	/* The old file, and the one that will replace it. */
	while (!strstr(events, "journal-failed journal-failed "))
		loop_run_once(loop, true);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, false);
	ck_assert_int_eq(atomic_load(&n_syncs), 2);
	ck_assert_str_eq(events, "journal-failed journal-failed ");
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_RESOURCE_EXHAUSTED);
	ck_assert_ptr_nonnull(strstr(err.text, strerror(EIO)));
	ck_assert(loop_timer_armed(j->timer));
	/* The disk works again. */
	atomic_store(&sync_error, 0);
	j->rewrite.not_before_ms = 0;
	happen(QUEUE_REC_SUBMIT, 2, 10);
	journal_commit(j);
	wait_for_rewrite(before);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_OK);
	must_reopen();
	ck_assert(tasks[1].there && tasks[2].there);
}
END_TEST

START_TEST(a_lost_record_is_rewritten_after_a_failed_rewrite)
{
	fill_file();
	limit_files(FILLED);
	journal_lost(j, ENOMEM);
	while (!events[0])
		loop_run_once(loop, true);
	ck_assert_str_eq(events, "journal-failed ");
	ck_assert(loop_timer_armed(j->timer));
	journal_lost(j, ENOMEM);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, false);
	ck_assert(loop_timer_armed(j->timer));
	limit_files(RLIM_INFINITY);
}
END_TEST

START_TEST(an_early_retry_does_not_wait_for_a_late_one)
{
	uint64_t begun = loop_now_ms();

	happen(QUEUE_REC_SUBMIT, 1, 10);
	journal_commit(j);
	while (j->sync.running)
		loop_run_once(loop, true);
	ck_assert_uint_ge(j->sync_next_ms, begun + JOURNAL_SYNC_MS);
	/* The rewrite follows, however long that takes. */
	j->sync_next_ms = begun + 600 * 1000;
	journal_wake(j, 3600 * 1000);
	happen(QUEUE_REC_SUCCEED, 1, 10);
	journal_commit(j);
	ck_assert(loop_timer_armed(j->timer));
	ck_assert_uint_lt(j->wake_ms, begun + 1800 * 1000);
	ck_assert_int_eq(atomic_load(&n_syncs), 1);
	j->sync_next_ms = loop_now_ms() + 20;
	happen(QUEUE_REC_RELEASE, 1, 0);
	journal_commit(j);
	while (atomic_load(&n_syncs) == 1)
		loop_run_once(loop, true);
}
END_TEST

START_TEST(a_rewrite_on_a_full_disk_keeps_the_old_file)
{
	char name[80];
	off_t was;

	for (int64_t i = 0; i < 1000; i++)
		happen(QUEUE_REC_SUBMIT, i, 1200);
	for (int64_t i = 0; i < 525; i++)
		happen(QUEUE_REC_RELEASE, i, 0);
	limit_files(1 << 20);
	journal_commit(j); /* neither the old nor the new one can be written */
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, false);
	ck_assert_str_eq(events, "journal-failed ");
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_OK);
	snprintf(name, sizeof(name), "%s.new", path);
	was = size_of(path);
	ck_assert_int_gt(was, 1 << 20);
	limit_files(1 << 20);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, false);
	limit_files(RLIM_INFINITY);
	ck_assert_int_le(size_of(path), was);
	must_reopen();
	ck_assert_int_eq(size_of(name), -1);
	ck_assert_uint_eq(live, 475 * 1200);
}
END_TEST

START_TEST(a_record_that_cannot_be_added_causes_a_rewrite)
{
	ino_t before = inode();
	struct queue_record r = record(QUEUE_REC_SUBMIT, 5);

	happen(QUEUE_REC_SUBMIT, 4, 10);
	journal_commit(j);
	/* too long: it fails as without memory */
	tasks[5].there = true;
	tasks[5].len = 10;
	r.payload.data = big;
	r.payload.len = sizeof(big);
	r.error.details = big;
	big[sizeof(big) - 1] = '\0';
	journal_add(j, &r);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_RESOURCE_EXHAUSTED);
	wait_for_rewrite(before);
	ck_assert_int_eq(journal_room(j, 1, &err), STATUS_OK);
	must_reopen();
	ck_assert(tasks[4].there && tasks[5].there);
}
END_TEST

START_TEST(the_end_of_the_run_removes_the_file)
{
	happen(QUEUE_REC_SUBMIT, 1, 10);
	journal_commit(j);
	journal_discard(j);
	j = journal_free(j);
	ck_assert_int_eq(size_of(path), -1);
	must_reopen();
	ck_assert_str_eq(events, "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 600);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_record_is_decoded_as_it_was_encoded);
	tcase_add_test(t, committed_records_are_in_the_file_at_once);
	tcase_add_test(t, its_bytes_can_be_read_before_they_are_written);
	tcase_add_test(t, all_sizes_of_numbers_and_the_longest_payload_are_decoded);
	tcase_add_test(t, a_file_cut_off_anywhere_is_read);
	tcase_add_test(t, a_file_with_any_wrong_byte_is_read);
	tcase_add_test(t, only_the_broken_record_is_lost);
	tcase_add_test(t, a_file_of_another_version_is_kept_aside);
	tcase_add_test(t, a_journal_without_memory_is_an_error);
	tcase_add_test(t, a_full_disk_refuses_tasks_and_loses_none);
	tcase_add_test(t, room_is_found_again_when_the_disk_has_it);
	tcase_add_test(t, a_missing_directory_is_named);
	tcase_add_test(t, only_a_regular_file_is_opened);
	tcase_add_test(t, garbage_is_removed_while_records_are_added);
	tcase_add_test(t, the_next_agent_begins_with_a_short_file);
	tcase_add_test(t, a_kill_during_a_rewrite_loses_no_record);
	tcase_add_test(t, a_rewrite_on_a_full_disk_keeps_the_old_file);
	tcase_add_test(t, a_rewrite_helps_on_a_full_disk);
	tcase_add_test(t, a_failing_disk_is_not_retried_at_once);
	tcase_add_test(t, a_lost_record_is_rewritten_after_a_failed_rewrite);
	tcase_add_test(t, an_early_retry_does_not_wait_for_a_late_one);
	tcase_add_test(t, a_record_that_cannot_be_added_causes_a_rewrite);
	tcase_add_test(t, the_end_of_the_run_removes_the_file);
	suite_add_tcase(s, t);
	return suite_run(s);
}
