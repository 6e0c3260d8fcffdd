/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a ring, one step after the other; test_ring_waits.c has them run side by side. */
#include "common/ring.h"

#include "tests/unit/child.h"
#include "tests/unit/random.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where things are in the memory, which is what processes of two versions agree on. */
enum {
	MEMORY = 4096 + 2 * RING_BYTES,
	SERVER = 128,
	CLIENT = 256,
	ANSWERS = 4096,
	REQUESTS = ANSWERS + RING_BYTES,
	SENT = 0,
	TAKEN = 4,
	WAITS = 8,
	NEWS = 12,
	SPILLS = 16,
	CLOSED = 20,
	LINE = 128,
};

static struct ring server, client;
static int fd;
static unsigned char *raw; /* the memory, as one sees it who keeps to no rule */

static uint32_t word_at(int at)
{
	return atomic_load((_Atomic uint32_t *)(raw + at));
}

static void set_word(int at, uint32_t value)
{
	atomic_store((_Atomic uint32_t *)(raw + at), value);
}

static void setup(void)
{
	ck_assert_int_eq(ring_new(&server, &fd), 0);
	ck_assert_int_eq(ring_open(&client, fd), 0);
	raw = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(raw != MAP_FAILED);
}

static void teardown(void)
{
	ring_fini(&server);
	ring_fini(&client);
	munmap(raw, MEMORY);
	close(fd);
}

static void begin_anew(void)
{
	teardown();
	setup();
}

/* Both ends have passed so many bytes. */
static void pass(uint32_t n)
{
	server.sent = server.taken = client.sent = client.taken = n;
	for (int i = SERVER; i <= CLIENT; i += LINE) {
		set_word(i + SENT, n);
		set_word(i + TAKEN, n);
	}
}

static const char *read_text(struct ring *r)
{
	static char text[RING_BYTES + 1];
	int n = ring_read(r, text, RING_BYTES);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	return text;
}

START_TEST(a_new_ring_is_empty_and_its_server_sleeps)
{
	char byte;

	ck_assert_int_eq(ring_ready(&server), 0);
	ck_assert_int_eq(ring_ready(&client), 0);
	ck_assert_int_eq(ring_read(&server, &byte, 1), 0);
	ck_assert_int_eq(ring_read(&client, &byte, 1), 0);
	ck_assert_int_eq(ring_room(&server), RING_BYTES);
	ck_assert_int_eq(ring_room(&client), RING_BYTES);
	ck_assert(ring_bell_due(&client));
	ck_assert(!ring_spilled(&client));
	ck_assert(!ring_closed(&client));
	ck_assert(!ring_tell(&server));
	ck_assert_int_eq(ring_await(&client, 3, 0), 0);
}
END_TEST

START_TEST(its_memory_is_sealed_and_ends_with_exec)
{
	struct stat st;

	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(ftruncate(fd, MEMORY + 1), -1);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, MEMORY);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	ck_assert_int_ge(st.st_blocks * 512, MEMORY);
}
END_TEST

START_TEST(a_child_has_none_of_it)
{
	unsigned char in_core[MEMORY / 4096];
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(mincore(server.memory, MEMORY, in_core) == -1 && errno == ENOMEM &&
					mincore(client.memory, MEMORY, in_core) == -1 &&
					errno == ENOMEM
				? 0
				: 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(an_empty_one_can_be_released)
{
	struct ring r = { .memory = NULL };

	ring_fini(&r);
	ring_fini(&r);
}
END_TEST

/* A copy of the memory in a file of its own. */
static int copy_of_memory(off_t size, int seals)
{
	int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(copy, 0);
	ck_assert_int_eq(pwrite(copy, raw, MEMORY, 0), MEMORY);
	ck_assert_int_eq(ftruncate(copy, size), 0);
	ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, seals), 0);
	return copy;
}

static int try_open(int copy)
{
	struct ring r;
	int q = ring_open(&r, copy);

	if (q == 0)
		ring_fini(&r);
	close(copy);
	return q;
}

START_TEST(what_is_no_ring_is_not_opened)
{
	const int seals = F_SEAL_GROW | F_SEAL_SHRINK;
	int p[2];

	ck_assert_int_eq(try_open(copy_of_memory(MEMORY, seals)), 0);
	ck_assert_int_eq(try_open(copy_of_memory(MEMORY, F_SEAL_GROW)), -EPROTO);
	ck_assert_int_eq(try_open(copy_of_memory(MEMORY, F_SEAL_SHRINK)), -EPROTO);
	ck_assert_int_eq(try_open(copy_of_memory(MEMORY - 4096, seals)), -EPROTO);
	ck_assert_int_eq(try_open(copy_of_memory(MEMORY + 1, seals)), -EPROTO);
	ck_assert_int_eq(try_open(copy_of_memory(0, seals)), -EPROTO);
	for (int i = 0; i < 16; i++) {
		raw[i] ^= 1;
		ck_assert_int_eq(try_open(copy_of_memory(MEMORY, seals)), -EPROTO);
		raw[i] ^= 1;
	}
	ck_assert_int_eq(pipe(p), 0);
	ck_assert_int_eq(try_open(p[0]), -EPROTO);
	close(p[1]);
	ck_assert_int_eq(try_open(open("/dev/null", O_RDWR | O_CLOEXEC)), -EPROTO);
	ck_assert_int_eq(try_open(-1), -EBADF);
}
END_TEST

START_TEST(a_ring_that_cannot_be_written_is_not_opened)
{
	char path[64];
	struct ring r;
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(reader, 0);
	ck_assert_int_eq(ring_open(&r, reader), -EACCES);
	close(reader);
}
END_TEST

START_TEST(the_words_are_where_other_processes_look_for_them)
{
	ck_assert_int_eq(ring_write(&client, "request", 7), 0);
	ck_assert_int_eq(ring_write(&server, "answer", 6), 0);
	ck_assert_int_eq(memcmp(raw, "elring1", 8), 0);
	ck_assert_uint_eq(word_at(8), RING_VERSION);
	ck_assert_uint_eq(word_at(12), RING_BYTES);
	ck_assert_int_eq(memcmp(raw + REQUESTS, "request", 7), 0);
	ck_assert_int_eq(memcmp(raw + ANSWERS, "answer", 6), 0);
	ck_assert_uint_eq(word_at(CLIENT + SENT), 7);
	ck_assert_uint_eq(word_at(SERVER + SENT), 6);
	ck_assert_uint_eq(word_at(SERVER + NEWS), 1);
	ck_assert_str_eq(read_text(&server), "request");
	ck_assert_str_eq(read_text(&client), "answer");
	ck_assert_uint_eq(word_at(CLIENT + TAKEN), 6);
	ck_assert_uint_eq(word_at(SERVER + TAKEN), 7);
	ck_assert_uint_eq(word_at(SERVER + WAITS), 1);
	ring_wake(&server);
	ck_assert_uint_eq(word_at(SERVER + WAITS), 0);
	ck_assert(ring_on_socket(&client));
	ck_assert_uint_eq(word_at(CLIENT + WAITS), RING_ON_SOCKET);
	ring_spill(&server);
	ck_assert_uint_eq(word_at(SERVER + SPILLS), 1);
	ck_assert_uint_eq(word_at(SERVER + NEWS), 2);
	ring_close(&server);
	ck_assert_uint_eq(word_at(SERVER + CLOSED), 1);
	ck_assert_uint_eq(word_at(SERVER + NEWS), 3);
}
END_TEST

/* --- bytes */

START_TEST(what_is_written_at_one_end_is_read_at_the_other)
{
	char some[4];

	ck_assert_int_eq(ring_write(&client, "abcdef", 6), 0);
	ck_assert_int_eq(ring_ready(&server), 6);
	ck_assert_int_eq(ring_ready(&client), 0);
	ck_assert_int_eq(ring_read(&server, some, 4), 4);
	ck_assert_int_eq(memcmp(some, "abcd", 4), 0);
	ck_assert_int_eq(ring_ready(&server), 2);
	ck_assert_int_eq(ring_write(&client, "gh", 2), 0);
	ck_assert_str_eq(read_text(&server), "efgh");
	ck_assert_int_eq(ring_write(&server, "back", 4), 0);
	ck_assert_str_eq(read_text(&client), "back");
	ck_assert_str_eq(read_text(&client), "");
}
END_TEST

START_TEST(what_does_not_fit_is_not_written)
{
	static char data[RING_BYTES + 1];

	memset(data, 'x', sizeof(data));
	ck_assert_int_eq(ring_write(&client, data, RING_BYTES + 1), -EAGAIN);
	ck_assert_int_eq(ring_write(&client, data, SIZE_MAX), -EAGAIN);
	ck_assert_int_eq(ring_ready(&server), 0);
	ck_assert_int_eq(ring_write(&client, data, RING_BYTES), 0);
	ck_assert_int_eq(ring_room(&client), 0);
	ck_assert_int_eq(ring_write(&client, data, 1), -EAGAIN);
	ck_assert_int_eq(ring_ready(&server), RING_BYTES);
	ck_assert_int_eq(ring_read(&server, data, 10), 10);
	ck_assert_int_eq(ring_room(&client), 10);
	ck_assert_int_eq(ring_write(&client, data, 11), -EAGAIN);
	ck_assert_int_eq(ring_write(&client, data, 10), 0);
	ck_assert_int_eq(ring_room(&server), RING_BYTES);
}
END_TEST

START_TEST(nothing_at_all_can_be_written)
{
	ck_assert_int_eq(ring_write(&client, "", 0), 0);
	ck_assert_int_eq(ring_ready(&server), 0);
	ck_assert(ring_untouched(&client, 0));
}
END_TEST

/* One direction, beside what is to be in it. */
struct model {
	struct ring *from, *to;
	uint32_t written, read; /* byte i is i * 7 + i / 251 */
};

static unsigned char model_byte(uint32_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

static void model_write(struct model *m, size_t len)
{
	static unsigned char data[2 * RING_BYTES];
	uint32_t room = RING_BYTES - (m->written - m->read);
	int r;

	for (size_t i = 0; i < len; i++)
		data[i] = model_byte(m->written + (uint32_t)i);
	ck_assert_int_eq(ring_room(m->from), (int)room);
	r = ring_write(m->from, data, len);
	ck_assert_int_eq(r, len > room ? -EAGAIN : 0);
	if (r == 0)
		m->written += (uint32_t)len;
}

static void model_read(struct model *m, size_t len)
{
	static unsigned char data[2 * RING_BYTES];
	uint32_t ready = m->written - m->read;
	int r;

	ck_assert_int_eq(ring_ready(m->to), (int)ready);
	r = ring_read(m->to, data, len);
	ck_assert_int_eq(r, (int)(len < ready ? len : ready));
	for (int i = 0; i < r; i++)
		if (data[i] != model_byte(m->read + (uint32_t)i))
			ck_abort_msg("byte %u is wrong", m->read + (uint32_t)i);
	m->read += (uint32_t)r;
}

START_TEST(a_model_knows_each_byte)
{
	static const uint32_t most[] = { 4, 200, 5000, RING_BYTES, 2 * RING_BYTES };
	uint32_t seed = (uint32_t)_i + 1;
	struct model m[] = { { &server, &client, 0, 0 }, { &client, &server, 0, 0 } };

	/* The counters come over their end, too. */
	pass(UINT32_MAX - 100000);
	for (int i = 0; i < 4000; i++) {
		struct model *d = &m[next_random(&seed) & 1];
		size_t len = next_random(&seed) % (most[next_random(&seed) % 5] + 1);

		if (next_random(&seed) & 1)
			model_write(d, len);
		else
			model_read(d, len);
	}
	ck_assert_uint_gt(m[0].read, 200000);
	ck_assert_uint_gt(m[1].read, 200000);
}
END_TEST

START_TEST(what_the_server_has_not_begun_to_take_is_untouched)
{
	char byte;

	for (uint32_t n = 0; n < 2; n++) {
		pass(n ? UINT32_MAX - 2 : 0);
		ck_assert_int_eq(ring_write(&client, "older", 5), 0);
		ck_assert_int_eq(ring_write(&client, "call", 4), 0);
		ck_assert(ring_untouched(&client, 4));
		ck_assert(ring_untouched(&client, 9));
		for (int i = 0; i < 5; i++) {
			ck_assert(ring_untouched(&client, 4));
			ck_assert_int_eq(ring_read(&server, &byte, 1), 1);
			ck_assert(!ring_untouched(&client, 9));
		}
		ck_assert(ring_untouched(&client, 4));
		ck_assert_int_eq(ring_read(&server, &byte, 1), 1);
		ck_assert(!ring_untouched(&client, 4));
		read_text(&server);
		ck_assert(!ring_untouched(&client, 4));
		ck_assert(!ring_untouched(&client, 1));
	}
}
END_TEST

/* --- who is told what */

START_TEST(a_server_sleeps_only_where_nothing_has_come)
{
	ring_wake(&server);
	ck_assert(!ring_bell_due(&client));
	ck_assert(ring_sleep(&server));
	ck_assert(ring_bell_due(&client));
	ring_wake(&server);
	ck_assert_int_eq(ring_write(&client, "x", 1), 0);
	ck_assert(!ring_bell_due(&client));
	ck_assert(!ring_sleep(&server));
	ck_assert(!ring_bell_due(&client));
	read_text(&server);
	ck_assert(ring_sleep(&server));
}
END_TEST

START_TEST(a_bell_is_due_for_who_waits_for_its_socket)
{
	ck_assert_int_eq(ring_write(&server, "x", 1), 0);
	ck_assert(!ring_tell(&server));
	read_text(&client);
	ck_assert(ring_on_socket(&client));
	ck_assert_int_eq(ring_write(&server, "x", 1), 0);
	ck_assert(ring_tell(&server));
	ck_assert(ring_tell(&server));
	ring_runs(&client);
	ck_assert(!ring_tell(&server));
	set_word(CLIENT + WAITS, RING_ON_BELL);
	ck_assert(!ring_tell(&server));
	set_word(CLIENT + WAITS, 77);
	ck_assert(!ring_tell(&server));
}
END_TEST

START_TEST(a_spill_is_seen_once)
{
	ring_spill(&server);
	ck_assert(ring_spilled(&client));
	ck_assert(!ring_spilled(&client));
	ring_spill(&server);
	ring_spill(&server);
	ck_assert(ring_spilled(&client));
	ck_assert(!ring_spilled(&client));
}
END_TEST

static void write_answer(void)
{
	ck_assert_int_eq(ring_write(&server, "x", 1), 0);
}

static void spill_answer(void)
{
	ring_spill(&server);
}

static void close_it(void)
{
	ring_close(&server);
}

static void (*const news[])(void) = { write_answer, spill_answer, close_it };

START_TEST(who_would_wait_finds_what_is_there)
{
	ck_assert_int_eq(ring_await(&client, 0, 0), 0);
	ck_assert_int_eq(ring_await(&client, 100, 0), 0);
	ck_assert_int_eq(ring_await(&client, 0, 1000), 0);
	ck_assert_int_eq(ring_await(&client, 0, -1), 0);
	ck_assert(ring_on_socket(&client));
	ring_runs(&client);
	news[_i]();
	ck_assert_int_eq(ring_await(&client, 0, 0), 1);
	ck_assert_int_eq(ring_await(&client, 0, INT64_MAX), 1);
	ck_assert(!ring_on_socket(&client));
	ck_assert_uint_eq(word_at(CLIENT + WAITS), RING_RUNS);
	ck_assert_int_eq(ring_closed(&client), _i == 2);
	ck_assert_int_eq(ring_spilled(&client), _i == 1);
	ck_assert_int_eq(ring_ready(&client), _i == 0);
	if (_i == 2)
		return;
	read_text(&client);
	ck_assert_int_eq(ring_await(&client, 0, 1000), 0);
	ck_assert(ring_on_socket(&client));
}
END_TEST

/* Until the other end says that it waits. */
static void await_waiter(void)
{
	while (word_at(CLIENT + WAITS) != RING_ON_BELL)
		sched_yield();
}

static void *tell_later(void *arg)
{
	await_waiter();
	news[*(int *)arg]();
	ring_tell(&server);
	return NULL;
}

START_TEST(who_waits_is_told)
{
	pthread_t thread;

	for (int i = 0; i < 100; i++) {
		begin_anew();
		ck_assert_int_eq(pthread_create(&thread, NULL, tell_later, &_i), 0);
		ck_assert_int_eq(ring_await(&client, 0, INT64_MAX), 1);
		pthread_join(thread, NULL);
		ck_assert_uint_eq(word_at(CLIENT + WAITS), RING_RUNS);
	}
}
END_TEST

static pthread_t waiter;
static atomic_bool waited;

static void on_signal(int signo)
{
}

static void *signal_waiter(void *arg)
{
	await_waiter();
	while (!atomic_load(&waited)) {
		pthread_kill(waiter, SIGUSR1);
		sched_yield();
	}
	return NULL;
}

START_TEST(a_signal_ends_a_wait)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = _i ? SA_RESTART : 0 };
	pthread_t thread;
	int r;

	waiter = pthread_self();
	sigaction(SIGUSR1, &action, NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, signal_waiter, NULL), 0);
	r = ring_await(&client, 0, INT64_MAX);
	atomic_store(&waited, true);
	pthread_join(thread, NULL);
	ck_assert_int_eq(r, -EINTR);
	ck_assert_uint_eq(word_at(CLIENT + WAITS), RING_RUNS);
}
END_TEST

/* --- an other end that keeps to no rule */

static const uint32_t lies[] = { 0, 1, 2, 7, RING_BYTES - 1, RING_BYTES, RING_BYTES + 1, 0x7fffffff,
	0x80000000, UINT32_MAX, (uint32_t)-RING_BYTES, (uint32_t)-RING_BYTES - 1 };
enum { N_LIES = sizeof(lies) / sizeof(*lies) };

static unsigned char buffer[2 * RING_BYTES];

/* What any end may be told, whatever is in the memory. */
static void use_end(struct ring *r, uint32_t len)
{
	uint32_t sent = r->sent, taken = r->taken;
	int n = ring_room(r);

	ck_assert(n == -EBADMSG || (n >= 0 && n <= RING_BYTES));
	n = ring_write(r, buffer, len % RING_BYTES);
	ck_assert(n == 0 || n == -EAGAIN || n == -EBADMSG);
	ck_assert_uint_eq(r->sent, n == 0 ? sent + len % RING_BYTES : sent);
	n = ring_ready(r);
	ck_assert(n == -EBADMSG || (n >= 0 && n <= RING_BYTES));
	n = ring_read(r, buffer, len);
	ck_assert(n == -EBADMSG || (n >= 0 && n <= RING_BYTES && (uint32_t)n <= len));
	ck_assert_uint_eq(r->taken, n > 0 ? taken + (uint32_t)n : taken);
}

static void use_both(uint32_t len)
{
	int r;

	use_end(&server, len);
	use_end(&client, len);
	ring_tell(&server);
	ring_sleep(&server);
	ring_wake(&server);
	ring_spill(&server);
	ring_bell_due(&client);
	ring_spilled(&client);
	ring_closed(&client);
	ring_untouched(&client, len);
	r = ring_await(&client, 2, len % 16 == 1);
	ck_assert(r == 0 || r == 1);
	ring_on_socket(&client);
	ring_runs(&client);
}

START_TEST(a_counter_that_cannot_be_is_found)
{
	/* The server's view, then the client's. */
	for (int i = 0; i < 2; i++) {
		struct ring *r = i ? &client : &server;
		int at = i ? SERVER : CLIENT;

		begin_anew();
		set_word(at + SENT, RING_BYTES + 1);
		ck_assert_int_eq(ring_ready(r), -EBADMSG);
		ck_assert_int_eq(ring_read(r, buffer, 1), -EBADMSG);
		set_word(at + SENT, UINT32_MAX);
		ck_assert_int_eq(ring_ready(r), -EBADMSG);
		set_word(at + SENT, RING_BYTES);
		ck_assert_int_eq(ring_ready(r), RING_BYTES);
		set_word(at + TAKEN, 1);
		ck_assert_int_eq(ring_room(r), -EBADMSG);
		ck_assert_int_eq(ring_write(r, "x", 1), -EBADMSG);
		ck_assert(!ring_untouched(&client, 1));
		set_word(at + TAKEN, (uint32_t)-RING_BYTES);
		ck_assert_int_eq(ring_room(r), 0);
		set_word(at + TAKEN, (uint32_t)-RING_BYTES - 1);
		ck_assert_int_eq(ring_room(r), -EBADMSG);
		set_word(at + TAKEN, 0);
		ck_assert_int_eq(ring_write(r, "x", 1), 0);
	}
}
END_TEST

START_TEST(a_word_that_is_scribbled_on_does_no_harm)
{
	for (int at = 0; at < ANSWERS; at += at < CLIENT + LINE ? 4 : 256) {
		begin_anew();
		for (int i = 0; i < N_LIES; i++) {
			set_word(at, lies[i]);
			use_both(lies[i] / 3);
			use_both((uint32_t)i);
			set_word(at, word_at(at) + lies[i]);
			use_both((uint32_t)i);
		}
	}
}
END_TEST

START_TEST(an_end_does_not_look_at_what_it_has_said_itself)
{
	for (int at = 0; at < LINE; at += 4)
		for (int i = 0; i < N_LIES; i++) {
			begin_anew();
			ck_assert_int_eq(ring_write(&client, "request", 7), 0);
			ck_assert_int_eq(ring_write(&server, "answer", 6), 0);
			set_word(SERVER + at, lies[i]);
			ck_assert_int_eq(ring_room(&server), RING_BYTES - 6);
			ck_assert_str_eq(read_text(&server), "request");
			ck_assert_int_eq(ring_write(&server, "more", 4), 0);
			ck_assert_int_eq(ring_room(&server), RING_BYTES - 10);
			begin_anew();
			ck_assert_int_eq(ring_write(&client, "request", 7), 0);
			ck_assert_int_eq(ring_write(&server, "answer", 6), 0);
			set_word(CLIENT + at, lies[i]);
			ck_assert_int_eq(ring_room(&client), RING_BYTES - 7);
			ck_assert_str_eq(read_text(&client), "answer");
			ck_assert_int_eq(ring_write(&client, "more", 4), 0);
			ck_assert_int_eq(ring_room(&client), RING_BYTES - 11);
		}
}
END_TEST

static int scribbles(void)
{
	return under_valgrind() ? 1000 : 20000;
}

START_TEST(random_scribbles_do_no_harm)
{
	uint32_t seed = (uint32_t)_i + 1;

	for (int i = 0; i < scribbles(); i++) {
		int at = (int)(next_random(&seed) % 96) * 4;

		if (i % 200 == 0)
			begin_anew();
		if (next_random(&seed) % 3 == 0)
			set_word(at, lies[next_random(&seed) % N_LIES]);
		else if (next_random(&seed) & 1)
			set_word(at, next_random(&seed) << (next_random(&seed) % 25));
		else
			set_word(at, word_at(at) + next_random(&seed) % 5 - 2);
		use_both(next_random(&seed) >> (next_random(&seed) % 24));
	}
}
END_TEST

static atomic_bool enough;

static void *scribble(void *arg)
{
	uint32_t seed = 99;

	for (unsigned i = 0; !atomic_load(&enough); i++) {
		int at = (int)(next_random(&seed) % 96) * 4;

		set_word(at, lies[next_random(&seed) % N_LIES]);
		set_word(ANSWERS + (int)(next_random(&seed) % (RING_BYTES / 2)) * 4, seed);
		/* valgrind runs one thread at a time, for as long as it likes. */
		if (i % 32 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 1 }, NULL);
	}
	return NULL;
}

START_TEST(scribbles_at_any_moment_do_no_harm)
{
	uint32_t seed = 5;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, scribble, NULL), 0);
	for (int i = 0; i < scribbles(); i++)
		use_both(next_random(&seed) >> (next_random(&seed) % 24));
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
}
END_TEST

/* Pages that are taken away come back as zeros. */
START_TEST(holes_do_no_harm)
{
	ck_assert_int_eq(ring_write(&client, "request", 7), 0);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MEMORY), 0);
	use_both(100);
	use_both(20000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring");
	TCase *t = tcase_create("ring");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_new_ring_is_empty_and_its_server_sleeps);
	tcase_add_test(t, its_memory_is_sealed_and_ends_with_exec);
	tcase_add_test(t, a_child_has_none_of_it);
	tcase_add_test(t, an_empty_one_can_be_released);
	tcase_add_test(t, what_is_no_ring_is_not_opened);
	tcase_add_test(t, a_ring_that_cannot_be_written_is_not_opened);
	tcase_add_test(t, the_words_are_where_other_processes_look_for_them);
	tcase_add_test(t, what_is_written_at_one_end_is_read_at_the_other);
	tcase_add_test(t, what_does_not_fit_is_not_written);
	tcase_add_test(t, nothing_at_all_can_be_written);
	tcase_add_loop_test(t, a_model_knows_each_byte, 0, 20);
	tcase_add_test(t, what_the_server_has_not_begun_to_take_is_untouched);
	tcase_add_test(t, a_server_sleeps_only_where_nothing_has_come);
	tcase_add_test(t, a_bell_is_due_for_who_waits_for_its_socket);
	tcase_add_test(t, a_spill_is_seen_once);
	tcase_add_loop_test(t, who_would_wait_finds_what_is_there, 0, 3);
	tcase_add_loop_test(t, who_waits_is_told, 0, 3);
	tcase_add_loop_test(t, a_signal_ends_a_wait, 0, 2);
	tcase_add_test(t, a_counter_that_cannot_be_is_found);
	tcase_add_test(t, a_word_that_is_scribbled_on_does_no_harm);
	tcase_add_test(t, an_end_does_not_look_at_what_it_has_said_itself);
	tcase_add_loop_test(t, random_scribbles_do_no_harm, 0, 4);
	tcase_add_test(t, scribbles_at_any_moment_do_no_harm);
	tcase_add_test(t, holes_do_no_harm);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
