/* SPDX-License-Identifier: Apache-2.0 */
#include "common/key_mirror.h"

#include "tests/unit/child.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* As common/key_mirror.c has them, for memory that is spoilt. */
enum { HEADER = 4096, BYTES = HEADER + KEY_MIRROR_PLACES * KEY_MIRROR_PLACE_BYTES };

static struct key_mirror *mirror;
static struct key_mirror_reader *reader;
static int fd;

static void setup(void)
{
	ck_assert_int_eq(key_mirror_new(&mirror), 0);
	fd = key_mirror_fd(mirror);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(key_mirror_open(fd, &reader), 0);
}

static void teardown(void)
{
	reader = key_mirror_close(reader);
	mirror = key_mirror_free(mirror);
	fd = close_fd(fd);
}

static void show(const char *key, const char *value, int64_t revision)
{
	key_mirror_show(mirror, key, value, strlen(value), revision);
}

/* What is found, or NULL. */
static const char *found_by(const struct key_mirror_reader *r, const char *key)
{
	static char value[KEY_MIRROR_ENTRY_MAX + 1];
	size_t len;

	if (!key_mirror_get(r, key, strlen(key), value, &len))
		return NULL;
	ck_assert_uint_le(len, KEY_MIRROR_ENTRY_MAX);
	value[len] = '\0';
	return value;
}

static const char *found(const char *key)
{
	return found_by(reader, key);
}

START_TEST(a_value_that_is_shown_is_found)
{
	ck_assert_ptr_null(found("a"));
	show("a", "one", 1);
	show("b/c", "", 2);
	ck_assert_str_eq(found("a"), "one");
	ck_assert_str_eq(found("b/c"), "");
	ck_assert_ptr_null(found("b"));
	ck_assert_ptr_null(found("b/cd"));
	ck_assert_ptr_null(found(""));
	show("a", "two and more", 3);
	ck_assert_str_eq(found("a"), "two and more");
	show("a", "3", 4);
	ck_assert_str_eq(found("a"), "3");
}
END_TEST

START_TEST(all_lengths_up_to_the_limit_fit)
{
	char key[KEY_MIRROR_ENTRY_MAX + 2], value[KEY_MIRROR_ENTRY_MAX + 2],
		got[KEY_MIRROR_ENTRY_MAX];
	size_t got_len;
	int64_t revision = 1;

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (char)(i * 7);
	for (size_t key_len = 1; key_len <= KEY_MIRROR_ENTRY_MAX + 1; key_len++) {
		size_t rest = key_len > KEY_MIRROR_ENTRY_MAX ? 0 : KEY_MIRROR_ENTRY_MAX - key_len;
		size_t lens[] = { 0, rest / 2, rest, rest + 1 };

		memset(key, 'k', key_len);
		key[key_len] = '\0';
		for (int i = 0; i < 4; i++) {
			bool fits = key_len + lens[i] <= KEY_MIRROR_ENTRY_MAX;

			if (lens[i] > sizeof(value))
				continue;
			key_mirror_show(mirror, key, value, lens[i], revision++);
			ck_assert_int_eq(key_mirror_get(reader, key, key_len, got, &got_len), fits);
			if (!fits)
				continue;
			ck_assert_uint_eq(got_len, lens[i]);
			ck_assert_int_eq(memcmp(got, value, got_len), 0);
		}
	}
}
END_TEST

START_TEST(what_is_older_is_not_shown)
{
	show("a", "new", 7);
	show("a", "old", 6);
	ck_assert_str_eq(found("a"), "new");
	show("a", "same", 7);
	ck_assert_str_eq(found("a"), "new");
	key_mirror_forget(mirror, "a", 7);
	ck_assert_str_eq(found("a"), "new");
	show("a", "newer", 8);
	ck_assert_str_eq(found("a"), "newer");
}
END_TEST

START_TEST(a_key_that_was_forgotten_comes_back_as_it_is_from_then_on)
{
	show("a", "old", 5);
	key_mirror_forget(mirror, "a", 7);
	ck_assert_ptr_null(found("a"));
	show("a", "older", 6);
	ck_assert_ptr_null(found("a"));
	key_mirror_forget(mirror, "a", 6);
	show("a", "then", 7);
	ck_assert_str_eq(found("a"), "then");
	/* One that was never shown, too. */
	key_mirror_forget(mirror, "b", 9);
	show("b", "old", 8);
	ck_assert_ptr_null(found("b"));
	show("b", "new", 9);
	ck_assert_str_eq(found("b"), "new");
}
END_TEST

START_TEST(too_long_a_value_drops_the_shorter_one)
{
	char value[KEY_MIRROR_ENTRY_MAX];

	memset(value, 'v', sizeof(value));
	show("a", "short", 1);
	key_mirror_show(mirror, "a", value, sizeof(value), 2);
	ck_assert_ptr_null(found("a"));
	show("a", "older", 1);
	ck_assert_ptr_null(found("a"));
	show("a", "short", 3);
	ck_assert_str_eq(found("a"), "short");
	key_mirror_show(mirror, "a", value, sizeof(value), 2);
	ck_assert_str_eq(found("a"), "short");
}
END_TEST

START_TEST(all_can_be_forgotten_at_a_revision)
{
	show("a", "1", 5);
	key_mirror_forget_all(mirror, 7);
	ck_assert_ptr_null(found("a"));
	ck_assert(!key_mirror_over(reader));
	show("a", "2", 6);
	ck_assert_ptr_null(found("a"));
	show("a", "3", 7);
	ck_assert_str_eq(found("a"), "3");
	/* At one that is older than what was shown: that is not shown as it was before. */
	show("a", "4", 9);
	key_mirror_forget_all(mirror, 3);
	ck_assert_ptr_null(found("a"));
	show("a", "3", 8);
	ck_assert_ptr_null(found("a"));
	show("a", "4", 9);
	ck_assert_str_eq(found("a"), "4");
}
END_TEST

START_TEST(who_has_opened_it_before_it_was_cleared_finds_nothing_ever_again)
{
	struct key_mirror_reader *second;

	show("a", "1", 1);
	ck_assert(!key_mirror_over(reader));
	key_mirror_clear(mirror);
	ck_assert(key_mirror_over(reader));
	ck_assert_ptr_null(found("a"));
	ck_assert_int_eq(key_mirror_open(fd, &second), 0);
	ck_assert(!key_mirror_over(second));
	ck_assert_ptr_null(found_by(second, "a"));
	show("a", "2", 2);
	show("b", "2", 2);
	ck_assert_ptr_null(found("a"));
	ck_assert_ptr_null(found("b"));
	ck_assert_str_eq(found_by(second, "a"), "2");
	ck_assert_str_eq(found_by(second, "b"), "2");
	key_mirror_clear(mirror);
	ck_assert(key_mirror_over(second));
	ck_assert_ptr_null(found_by(second, "a"));
	key_mirror_close(second);
}
END_TEST

/* --- against a plain map ------------------------------------------------------------------------
 */

enum { KEYS = 20000, STEPS = 100000 };

/* The value of a key at a revision is the revision's number. */
struct known {
	int64_t revision, floor; /* shown at; forgotten at */
};

static struct known known[KEYS];
static unsigned random_state = 1;

static unsigned draw(unsigned n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % n;
}

static void key_of(char *key, int i)
{
	sprintf(key, i % 3 ? "%d" : "some/longer/key/%d/of/many", i);
}

/* Whatever is found of a key is the newest that was shown of it, and nothing has forgotten that. */
static int check_key(int i)
{
	const struct known *k = &known[i];
	char key[64], expected[32];
	const char *value;

	key_of(key, i);
	value = found(key);
	if (!value)
		return 0;
	sprintf(expected, "%lld", (long long)k->revision);
	ck_assert_str_eq(value, expected);
	ck_assert_int_ge(k->revision, k->floor);
	return 1;
}

static void step_key(int i, int64_t now)
{
	struct known *k = &known[i];
	int64_t revision = now - draw(100);
	char key[64], value[32];

	key_of(key, i);
	sprintf(value, "%lld", (long long)revision);
	if (draw(8) == 0) {
		key_mirror_forget(mirror, key, revision);
		if (revision > k->floor && revision > k->revision)
			k->floor = revision;
	} else {
		show(key, value, revision);
		if (revision > k->revision && revision >= k->floor)
			k->revision = revision;
	}
	check_key(i);
}

START_TEST(it_shows_what_a_map_has_or_nothing)
{
	const int steps = walk_length(STEPS, STEPS / 4, STEPS / 10);
	int64_t floor = 0;
	int hits = 0;

	memset(known, 0, sizeof(known));
	for (int step = 1; step < steps; step++) {
		int64_t now = 1000 + step / 4;

		/* A few are used much, so that they are found; many drive each other out. */
		step_key((int)draw(draw(2) ? 500 : KEYS), now);
		hits += check_key((int)draw(draw(2) ? 500 : KEYS));
		if (draw(steps / 8) == 0) {
			floor = now - draw(100);
			key_mirror_forget_all(mirror, floor);
			for (int i = 0; i < KEYS; i++)
				if (known[i].floor < floor)
					known[i].floor = floor;
		}
	}
	ck_assert_int_gt(hits, steps / 40);
}
END_TEST

START_TEST(what_drove_another_key_out_does_not_let_it_come_back_older)
{
	char key[64];

	/* So many that each set has had its floor raised by all of these. */
	for (int i = 0; i < KEYS; i++) {
		key_of(key, i);
		show(key, "new", 100);
	}
	for (int i = 0; i < KEYS; i++) {
		key_of(key, i);
		show(key, "old", 99);
	}
	for (int i = 0; i < KEYS; i++) {
		key_of(key, i);
		ck_assert(!found(key) || strcmp(found(key), "new") == 0);
	}
}
END_TEST

START_TEST(thousands_of_keys_have_a_place)
{
	int n = 0;
	char key[64];

	for (int i = 0; i < 2000; i++) {
		key_of(key, i);
		show(key, "v", i + 1);
	}
	for (int i = 0; i < 2000; i++) {
		key_of(key, i);
		n += found(key) != NULL;
	}
	ck_assert_int_gt(n, 1900);
}
END_TEST

/* --- the memory ---------------------------------------------------------------------------------
 */

START_TEST(it_has_all_its_memory_before_anybody_looks)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, BYTES);
	ck_assert_int_ge(st.st_blocks * 512, BYTES);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
}
END_TEST

/* How often the memory is mapped here. */
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024];
	int n = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "elasticd-mirror") != NULL;
	fclose(f);
	return n;
}

START_TEST(a_child_has_none_of_it)
{
	int status;
	pid_t pid;

	ck_assert_int_ge(mappings(), 2);
	pid = fork();
	if (pid == 0)
		_exit(mappings() == 0 ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(who_has_its_descriptor_can_only_read)
{
	_cleanup_close_ int again = -1;
	char path[64];
	void *map;

	show("a", "1", 1);
	ck_assert_ptr_eq(mmap(NULL, HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert(errno == EPERM || errno == EACCES);
	map = mmap(NULL, HEADER, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_lt(mprotect(map, HEADER, PROT_READ | PROT_WRITE), 0);
	munmap(map, HEADER);
	ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 2 * BYTES), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HEADER), 0);
	/* By way of /proc no more than by itself. */
	sprintf(path, "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0)
		ck_assert_ptr_eq(mmap(NULL, HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0),
			MAP_FAILED);
	ck_assert_str_eq(found("a"), "1");
	show("a", "2", 2);
	ck_assert_str_eq(found("a"), "2");
}
END_TEST

START_TEST(another_process_reads_it)
{
	int status;
	pid_t pid;

	show("a", "1", 1);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct key_mirror_reader *r;
		size_t len;
		char value[KEY_MIRROR_ENTRY_MAX];

		if (key_mirror_open(fd, &r) < 0)
			_exit(1);
		while (key_mirror_get(r, "a", 1, value, &len) != 1 || value[0] != '2')
			;
		key_mirror_close(r);
		_exit(0);
	}
	show("a", "2", 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Memory with the bytes of the mirror, changed by who asks, sealed so. */
static int copy_memory(unsigned char **ret, size_t size)
{
	int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unsigned char *bytes;

	ck_assert_int_ge(copy, 0);
	ck_assert_int_eq(ftruncate(copy, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	ck_assert_int_eq(pread(fd, bytes, HEADER, 0), HEADER);
	for (size_t at = HEADER; size == BYTES && at < BYTES; at += KEY_MIRROR_PLACE_BYTES)
		ck_assert_int_eq(pread(fd, bytes + at, KEY_MIRROR_PLACE_BYTES, (off_t)at),
			KEY_MIRROR_PLACE_BYTES);
	*ret = bytes;
	return copy;
}

static void open_fails(int other, int r)
{
	struct key_mirror_reader *none = NULL;

	ck_assert_int_eq(key_mirror_open(other, &none), r);
	ck_assert_ptr_null(none);
}

START_TEST(what_is_no_such_memory_is_not_opened)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	unsigned char *bytes;
	int copy;

	open_fails(null, -EPROTO);
	open_fails(-1, -EPROTO);
	copy = copy_memory(&bytes, HEADER);
	ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	open_fails(copy, -EPROTO);
	munmap(bytes, HEADER);
	close(copy);
	/* It may still be cut short. */
	copy = copy_memory(&bytes, BYTES);
	open_fails(copy, -EPROTO);
	ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	for (int i = 0; i < 24; i++) {
		bytes[i] ^= 1;
		open_fails(copy, -EPROTO);
		bytes[i] ^= 1;
	}
	munmap(bytes, BYTES);
	close(copy);
}
END_TEST

static struct key_mirror_reader *open_copy(int copy)
{
	struct key_mirror_reader *r;

	ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ck_assert_int_eq(key_mirror_open(copy, &r), 0);
	return r;
}

/* With room for no more than may be written, so that a tool sees one byte more. */
static void read_all(const struct key_mirror_reader *r)
{
	char *value = malloc(KEY_MIRROR_ENTRY_MAX), *name;
	char key[KEY_MIRROR_ENTRY_MAX + 1];

	ck_assert_ptr_nonnull(value);
	for (size_t len = 0; len <= KEY_MIRROR_ENTRY_MAX; len++) {
		size_t got = 0;

		memset(key, 'k', len);
		name = malloc(len + 1);
		ck_assert_ptr_nonnull(name);
		memcpy(name, key, len);
		name[len] = '\0';
		if (key_mirror_get(r, name, len, value, &got))
			ck_assert_uint_le(got + len, KEY_MIRROR_ENTRY_MAX);
		free(name);
	}
	free(value);
}

START_TEST(a_reader_of_spoilt_memory_stays_within_it)
{
	unsigned char *bytes;
	char key[KEY_MIRROR_ENTRY_MAX + 1];
	struct key_mirror_reader *r;
	int copy;

	for (size_t len = 0; len < KEY_MIRROR_ENTRY_MAX; len++) {
		memset(key, 'k', len);
		key[len] = '\0';
		show(key, "v", 1);
	}
	copy = copy_memory(&bytes, BYTES);
	r = open_copy(copy);
	for (int round = 0; round < 10; round++) {
		for (size_t at = HEADER; at < BYTES; at += KEY_MIRROR_PLACE_BYTES) {
			/* The lengths, the hash and all else in turn, and all at once. */
			size_t from = (size_t[]){ 24, 24, 0, 0, 8 }[round % 5];
			size_t n = (size_t[]){ 2, 4, 32, KEY_MIRROR_PLACE_BYTES, 8 }[round % 5];

			for (size_t i = from; i < n + from && i < KEY_MIRROR_PLACE_BYTES; i++)
				bytes[at + i] = round == 0 ? 0xff : (unsigned char)draw(256);
		}
		read_all(r);
	}
	memset(bytes, 0xff, BYTES);
	read_all(r);
	memset(bytes, 0, BYTES);
	read_all(r);
	key_mirror_close(r);
	munmap(bytes, BYTES);
	close(copy);
}
END_TEST

START_TEST(a_place_whose_writer_has_stopped_is_as_if_empty)
{
	unsigned char *bytes;
	struct key_mirror_reader *r;
	int copy;

	show("a", "1", 1);
	show("b", "1", 1);
	copy = copy_memory(&bytes, BYTES);
	r = open_copy(copy);
	ck_assert_str_eq(found_by(r, "a"), "1");
	for (size_t at = HEADER; at < BYTES; at += KEY_MIRROR_PLACE_BYTES)
		bytes[at] |= 1;
	ck_assert_ptr_null(found_by(r, "a"));
	ck_assert_ptr_null(found_by(r, "b"));
	for (size_t at = HEADER; at < BYTES; at += KEY_MIRROR_PLACE_BYTES)
		bytes[at]++;
	ck_assert_str_eq(found_by(r, "a"), "1");
	key_mirror_close(r);
	munmap(bytes, BYTES);
	close(copy);
}
END_TEST

/* --- at the same time ---------------------------------------------------------------------------
 */

enum { READERS = 3, ROUNDS = 4000 };

static atomic_bool done;

/* Lets others go on, also where a tool runs one thread at a time. */
static bool go_on(unsigned *turns)
{
	if (++*turns % 32 == 0)
		nanosleep(&(struct timespec){ .tv_nsec = 1 }, NULL);
	return !atomic_load(&done);
}

/* A value that says of each of its bytes and of its length which one it is. */
static size_t value_of(unsigned char *value, unsigned n)
{
	size_t len = 4 + n * 13 % 400;

	memcpy(value, &n, 4);
	memset(value + 4, (int)(n % 251), len - 4);
	return len;
}

/* The number of the value, 0 where there is none. */
static unsigned number_of(const struct key_mirror_reader *r, const char *key)
{
	unsigned char value[KEY_MIRROR_ENTRY_MAX], expected[KEY_MIRROR_ENTRY_MAX];
	size_t len;
	unsigned n;

	if (!key_mirror_get(r, key, strlen(key), value, &len))
		return 0;
	memcpy(&n, value, 4);
	ck_assert_uint_eq(len, value_of(expected, n));
	ck_assert_int_eq(memcmp(value, expected, len), 0);
	return n;
}

static void *read_on(void *arg)
{
	struct key_mirror_reader *r = arg;
	unsigned first = 0, second = 0, turns = 0;

	while (go_on(&turns)) {
		unsigned b = number_of(r, "second"), a = number_of(r, "first");

		/* They were written one after the other. */
		ck_assert(!a || !b || a >= b);
		ck_assert(!a || a >= first);
		ck_assert(!b || b >= second);
		first = a ? a : first;
		second = b ? b : second;
	}
	return NULL;
}

START_TEST(readers_find_whole_values_in_order_while_they_are_written)
{
	unsigned char value[KEY_MIRROR_ENTRY_MAX];
	struct key_mirror_reader *readers[READERS];
	pthread_t threads[READERS];

	for (int i = 0; i < READERS; i++) {
		ck_assert_int_eq(key_mirror_open(fd, &readers[i]), 0);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_on, readers[i]), 0);
	}
	for (unsigned n = 1; n <= ROUNDS; n++) {
		size_t len = value_of(value, n);

		if (n % 5 == 0)
			key_mirror_forget(mirror, "first", n);
		if (n % 500 == 0)
			key_mirror_forget_all(mirror, n);
		key_mirror_show(mirror, "first", value, len, n);
		key_mirror_show(mirror, "second", value, len, n);
	}
	atomic_store(&done, true);
	for (int i = 0; i < READERS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		ck_assert_uint_eq(number_of(readers[i], "first"), ROUNDS);
		key_mirror_close(readers[i]);
	}
}
END_TEST

static void *read_one_time(void *arg)
{
	struct key_mirror_reader *r = arg;
	unsigned turns = 0;
	bool over = false;

	while (go_on(&turns)) {
		unsigned n = number_of(r, "key");

		ck_assert_uint_le(n, 1);
		ck_assert(!over || !n);
		over = key_mirror_over(r);
	}
	return NULL;
}

START_TEST(nothing_of_a_new_time_is_found_by_a_reader_of_the_old_one)
{
	unsigned char value[KEY_MIRROR_ENTRY_MAX];
	pthread_t thread;

	key_mirror_show(mirror, "key", value, value_of(value, 1), 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, read_one_time, reader), 0);
	for (unsigned n = 2; n < ROUNDS; n++) {
		if (n == ROUNDS / 2)
			key_mirror_clear(mirror);
		key_mirror_show(mirror, "key", value, value_of(value, n < ROUNDS / 2 ? 1 : n), n);
	}
	atomic_store(&done, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(key_mirror_over(reader));
}
END_TEST

static TCase *cases(void)
{
	TCase *tc = tcase_create("key_mirror");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, a_value_that_is_shown_is_found);
	tcase_add_test(tc, all_lengths_up_to_the_limit_fit);
	tcase_add_test(tc, what_is_older_is_not_shown);
	tcase_add_test(tc, a_key_that_was_forgotten_comes_back_as_it_is_from_then_on);
	tcase_add_test(tc, too_long_a_value_drops_the_shorter_one);
	tcase_add_test(tc, all_can_be_forgotten_at_a_revision);
	tcase_add_test(tc, who_has_opened_it_before_it_was_cleared_finds_nothing_ever_again);
	tcase_add_test(tc, it_shows_what_a_map_has_or_nothing);
	tcase_add_test(tc, what_drove_another_key_out_does_not_let_it_come_back_older);
	tcase_add_test(tc, thousands_of_keys_have_a_place);
	tcase_add_test(tc, it_has_all_its_memory_before_anybody_looks);
	tcase_add_test(tc, a_child_has_none_of_it);
	tcase_add_test(tc, who_has_its_descriptor_can_only_read);
	tcase_add_test(tc, another_process_reads_it);
	tcase_add_test(tc, what_is_no_such_memory_is_not_opened);
	tcase_add_test(tc, a_reader_of_spoilt_memory_stays_within_it);
	tcase_add_test(tc, a_place_whose_writer_has_stopped_is_as_if_empty);
	tcase_add_test(tc, readers_find_whole_values_in_order_while_they_are_written);
	tcase_add_test(tc, nothing_of_a_new_time_is_found_by_a_reader_of_the_old_one);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("key_mirror");
	SRunner *runner;
	int failed;

	suite_add_tcase(suite, cases());
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
