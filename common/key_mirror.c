/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key can be in the few places of one set, which its hash names. What is in none of them leaves a
 * trace all the same: each set has a floor, the newest revision of all that was dropped from it,
 * and nothing older is put there again, whosever it is. So there are no tombstones to be kept.
 *
 * A place counts while its generation is that of the header: to forget everything is to count that
 * up. The epoch, which readers remember, counts up when the memory begins anew.
 *
 * Words are read with acquire and written with release, so that the counter of a place, which is
 * odd while the others change, needs no fence beside it: who reads a word that is being written
 * finds the counter changed. In the same way who finds one key as it became finds all that was
 * written, dropped and cleared before that.
 */
#include "common/key_mirror.h"
#include "common/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define KEY_MIRROR_MAGIC UINT64_C(0x31726f7272696d65) /* "emirror1" */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif

enum {
	KEY_MIRROR_HEADER_BYTES = 4096,
	KEY_MIRROR_BYTES = KEY_MIRROR_HEADER_BYTES + KEY_MIRROR_PLACES * KEY_MIRROR_PLACE_BYTES,
	KEY_MIRROR_SETS = KEY_MIRROR_PLACES / KEY_MIRROR_WAYS,
	KEY_MIRROR_SET_BYTES = KEY_MIRROR_WAYS * KEY_MIRROR_PLACE_BYTES,
	KEY_MIRROR_WORDS = KEY_MIRROR_ENTRY_MAX / 8,
	KEY_MIRROR_TRIES = 16, /* of a place that is being written */
};

struct key_mirror_header {
	uint64_t magic;
	uint32_t version, places, ways, place_bytes;
	uint64_t spare[5];
	_Atomic uint64_t epoch, generation;
};

struct key_mirror_place {
	_Atomic uint64_t count;	     /* odd while it is being written */
	_Atomic uint64_t generation; /* 0: nothing is here */
	_Atomic uint64_t revision;
	_Atomic uint64_t tag; /* 32 bits of the hash, and the lengths of key and value */
	_Atomic uint64_t words[KEY_MIRROR_WORDS]; /* key and value, one behind the other */
};

_Static_assert(sizeof(struct key_mirror_place) == KEY_MIRROR_PLACE_BYTES, "a place has its bytes");
_Static_assert(
	sizeof(struct key_mirror_header) <= KEY_MIRROR_HEADER_BYTES, "the header has a page");
_Static_assert(KEY_MIRROR_HEADER_BYTES % KEY_MIRROR_SET_BYTES == 0, "no set is in two pages");

struct key_mirror {
	struct key_mirror_header *header;
	int fd;
	int64_t floor;	/* nothing older is shown */
	int64_t newest; /* that was ever shown */
	int64_t floors[KEY_MIRROR_SETS];
};

struct key_mirror_reader {
	const struct key_mirror_header *header;
	uint64_t epoch;
};

static const struct key_mirror_place *places_of(const struct key_mirror_header *h, unsigned set)
{
	const char *at = (const char *)h + KEY_MIRROR_HEADER_BYTES;

	return (const struct key_mirror_place *)(at + (size_t)set * KEY_MIRROR_SET_BYTES);
}

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static uint64_t hash_of(const char *key, size_t len)
{
	uint64_t h = len, word = 0;

	for (; len >= 8; key += 8, len -= 8) {
		memcpy(&word, key, 8);
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, key, len);
	return mix(mix(h, word), 0);
}

static unsigned set_of(uint64_t hash)
{
	return (unsigned)(hash % KEY_MIRROR_SETS);
}

static uint64_t tag_of(uint64_t hash, size_t key_len, size_t len)
{
	return hash >> 32 << 32 | (uint64_t)key_len << 16 | (uint64_t)len;
}

/* Of what is in a place, whose key it may be. */
static bool tag_fits(uint64_t tag, uint64_t hash, size_t key_len)
{
	return tag >> 16 == tag_of(hash, key_len, 0) >> 16;
}

static size_t tag_len(uint64_t tag)
{
	return (size_t)(tag & 0xffff);
}

/* --- the writer ---------------------------------------------------------------------------------
 */

/* The memory, mapped. */
static int make(struct key_mirror *m)
{
	void *map;

	m->fd = memory_file_new("elasticd-mirror", KEY_MIRROR_BYTES, KEY_MIRROR_BYTES);
	if (m->fd < 0)
		return m->fd;
	map = mmap(NULL, KEY_MIRROR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	m->header = map;
	(void)madvise(map, KEY_MIRROR_BYTES, MADV_DONTFORK);
	/* Whatever is mapped from now on is for reading. */
	return memory_file_seal(m->fd, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

int key_mirror_new(struct key_mirror **ret)
{
	_cleanup_(key_mirror_freep) struct key_mirror *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	r = make(m);
	if (r < 0)
		return r;
	m->floor = m->newest = INT64_MIN;
	for (int i = 0; i < KEY_MIRROR_SETS; i++)
		m->floors[i] = INT64_MIN;
	m->header->magic = KEY_MIRROR_MAGIC;
	m->header->version = KEY_MIRROR_VERSION;
	m->header->places = KEY_MIRROR_PLACES;
	m->header->ways = KEY_MIRROR_WAYS;
	m->header->place_bytes = KEY_MIRROR_PLACE_BYTES;
	store(&m->header->generation, 1);
	store(&m->header->epoch, 1);
	*ret = TAKE_PTR(m);
	return 0;
}

struct key_mirror *key_mirror_free(struct key_mirror *m)
{
	if (!m)
		return NULL;
	if (m->header)
		munmap(m->header, KEY_MIRROR_BYTES);
	close_fd(m->fd);
	free(m);
	return NULL;
}

int key_mirror_fd(const struct key_mirror *m)
{
	int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

static bool is_live(const struct key_mirror *m, const struct key_mirror_place *p)
{
	return load(&p->generation) == load(&m->header->generation);
}

static int64_t revision_of(const struct key_mirror_place *p)
{
	return (int64_t)load(&p->revision);
}

static bool is_key(const struct key_mirror_place *p, const char *key, size_t key_len)
{
	const char *at = (const char *)p + offsetof(struct key_mirror_place, words);

	return memcmp(at, key, key_len) == 0;
}

/* Nobody else can have written to the memory, so that it is read as it is. */
static struct key_mirror_place *find(
	const struct key_mirror *m, const char *key, size_t key_len, uint64_t hash)
{
	struct key_mirror_place *p = (struct key_mirror_place *)places_of(m->header, set_of(hash));

	for (int i = 0; i < KEY_MIRROR_WAYS; i++)
		if (is_live(m, &p[i]) && tag_fits(load(&p[i].tag), hash, key_len) &&
			is_key(&p[i], key, key_len))
			return &p[i];
	return NULL;
}

static void raise_floor(int64_t *floor, int64_t revision)
{
	if (revision > *floor)
		*floor = revision;
}

/* A place for another key: an empty one, or that of the oldest. */
static struct key_mirror_place *take_place(struct key_mirror *m, unsigned set)
{
	struct key_mirror_place *p = (struct key_mirror_place *)places_of(m->header, set);
	struct key_mirror_place *oldest = p;

	for (int i = 0; i < KEY_MIRROR_WAYS; i++) {
		if (!is_live(m, &p[i]))
			return &p[i];
		if (revision_of(&p[i]) < revision_of(oldest))
			oldest = &p[i];
	}
	raise_floor(&m->floors[set], revision_of(oldest));
	return oldest;
}

static void write_words(
	struct key_mirror_place *p, const char *key, size_t key_len, const void *value, size_t len)
{
	uint64_t words[KEY_MIRROR_WORDS];
	size_t n = (key_len + len + 7) / 8;

	if (!n)
		return;
	words[n - 1] = 0;
	memcpy(words, key, key_len);
	if (len)
		memcpy((char *)words + key_len, value, len);
	for (size_t i = 0; i < n; i++)
		store(&p->words[i], words[i]);
}

void key_mirror_show(
	struct key_mirror *m, const char *key, const void *value, size_t len, int64_t revision)
{
	size_t key_len = strlen(key);
	uint64_t hash = hash_of(key, key_len);
	unsigned set = set_of(hash);
	struct key_mirror_place *p;
	uint64_t count;

	/* What cannot be shown is still known: nothing older is. */
	if (key_len > KEY_MIRROR_ENTRY_MAX || len > KEY_MIRROR_ENTRY_MAX - key_len ||
		revision < m->floor || revision < m->floors[set]) {
		key_mirror_forget(m, key, revision);
		return;
	}
	p = find(m, key, key_len, hash);
	if (p && revision_of(p) >= revision)
		return;
	if (!p)
		p = take_place(m, set);
	raise_floor(&m->newest, revision);
	count = load(&p->count);
	store(&p->count, count + 1);
	store(&p->generation, load(&m->header->generation));
	store(&p->revision, (uint64_t)revision);
	store(&p->tag, tag_of(hash, key_len, len));
	write_words(p, key, key_len, value, len);
	store(&p->count, count + 2);
}

void key_mirror_forget(struct key_mirror *m, const char *key, int64_t revision)
{
	size_t key_len = strlen(key);
	uint64_t hash = hash_of(key, key_len), count;
	struct key_mirror_place *p = find(m, key, key_len, hash);

	if (p && revision_of(p) >= revision)
		return;
	raise_floor(&m->floors[set_of(hash)], revision);
	if (!p)
		return;
	count = load(&p->count);
	store(&p->count, count + 1);
	store(&p->generation, 0);
	store(&p->count, count + 2);
}

void key_mirror_forget_all(struct key_mirror *m, int64_t revision)
{
	raise_floor(&m->floor, revision);
	raise_floor(&m->floor, m->newest);
	store(&m->header->generation, load(&m->header->generation) + 1);
}

void key_mirror_clear(struct key_mirror *m)
{
	/* Who opens it in between finds nothing of before, whichever time it takes it for. */
	key_mirror_forget_all(m, m->floor);
	store(&m->header->epoch, load(&m->header->epoch) + 1);
}

/* --- a reader -----------------------------------------------------------------------------------
 */

static bool is_mirror(const struct key_mirror_header *h)
{
	return h->magic == KEY_MIRROR_MAGIC && h->version == KEY_MIRROR_VERSION &&
	       h->places == KEY_MIRROR_PLACES && h->ways == KEY_MIRROR_WAYS &&
	       h->place_bytes == KEY_MIRROR_PLACE_BYTES;
}

/* Memory that nobody can cut short. */
static bool is_memory(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
	       st.st_size == KEY_MIRROR_BYTES;
}

int key_mirror_open(int fd, struct key_mirror_reader **ret)
{
	struct key_mirror_reader *r;
	void *map;

	if (!is_memory(fd))
		return -EPROTO;
	map = mmap(NULL, KEY_MIRROR_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	(void)madvise(map, KEY_MIRROR_BYTES, MADV_DONTFORK);
	if (!is_mirror(map)) {
		munmap(map, KEY_MIRROR_BYTES);
		return -EPROTO;
	}
	r = malloc(sizeof(*r));
	if (!r) {
		munmap(map, KEY_MIRROR_BYTES);
		return -ENOMEM;
	}
	r->header = map;
	r->epoch = load(&r->header->epoch);
	*ret = r;
	return 0;
}

struct key_mirror_reader *key_mirror_close(struct key_mirror_reader *r)
{
	if (r) {
		munmap((void *)r->header, KEY_MIRROR_BYTES);
		free(r);
	}
	return NULL;
}

bool key_mirror_over(const struct key_mirror_reader *r)
{
	return load(&r->header->epoch) != r->epoch;
}

/* Copies what is in a place of that key. False where it is another's, or changes all the time. */
static bool copy_place(const struct key_mirror_place *p, uint64_t hash, size_t key_len,
	uint64_t words[KEY_MIRROR_WORDS], uint64_t *ret_generation, size_t *ret_len)
{
	for (int tries = 0; tries < KEY_MIRROR_TRIES; tries++) {
		uint64_t count = load(&p->count), generation = load(&p->generation),
			 tag = load(&p->tag);
		size_t len = tag_len(tag);

		if (count & 1)
			continue;
		if (!tag_fits(tag, hash, key_len) || len > KEY_MIRROR_ENTRY_MAX - key_len)
			return false;
		for (size_t i = 0; i < (key_len + len + 7) / 8; i++)
			words[i] = load(&p->words[i]);
		*ret_generation = generation;
		*ret_len = len;
		if (load(&p->count) == count)
			return true;
	}
	return false;
}

int key_mirror_get(const struct key_mirror_reader *r, const char *key, size_t key_len, void *value,
	size_t *ret_len)
{
	uint64_t words[KEY_MIRROR_WORDS], hash, generation;
	const struct key_mirror_place *p;
	size_t len;

	if (key_len > KEY_MIRROR_ENTRY_MAX)
		return 0;
	hash = hash_of(key, key_len);
	p = places_of(r->header, set_of(hash));
	for (int i = 0; i < KEY_MIRROR_WAYS; i++) {
		if (!copy_place(&p[i], hash, key_len, words, &generation, &len) ||
			memcmp(words, key, key_len) != 0 ||
			generation != load(&r->header->generation))
			continue;
		if (key_mirror_over(r))
			return 0;
		if (len)
			memcpy(value, (const char *)words + key_len, len);
		*ret_len = len;
		return 1;
	}
	return 0;
}
