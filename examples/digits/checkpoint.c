/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/checkpoint.h"

#include "examples/digits/fail.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "DIGITS1"

struct file {
	char magic[8];
	uint64_t seed;
	uint32_t epoch;
	uint32_t params;
	struct net net;
	uint64_t sum; /* over everything before it */
};

/* FNV-1a: tells a torn or flipped file from a whole one. */
static uint64_t checksum(const struct file *f)
{
	const unsigned char *p = (const unsigned char *)f;
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < offsetof(struct file, sum); i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

int checkpoint_load(const char *path, uint64_t seed, struct net *n)
{
	FILE *in = fopen(path, "re");
	static struct file f;
	size_t got;

	if (!in && errno == ENOENT)
		return 0;
	if (!in)
		fail("cannot read the checkpoint %s: %s", path, strerror(errno));
	got = fread(&f, 1, sizeof(f), in);
	fclose(in);
	if (got != sizeof(f) || memcmp(f.magic, MAGIC, sizeof(f.magic)) != 0 ||
		f.params != NET_PARAMS || f.sum != checksum(&f))
		fail("the checkpoint %s is damaged, or not one of this program: remove it to start"
		     " anew",
			path);
	if (f.seed != seed)
		fail("the checkpoint %s was made with --seed %llu", path,
			(unsigned long long)f.seed);
	*n = f.net;
	return (int)f.epoch;
}

void checkpoint_save(const char *path, uint64_t seed, int epoch, const struct net *n)
{
	static struct file f;
	char temporary[4096];
	FILE *out;

	f = (struct file){ .magic = MAGIC,
		.seed = seed,
		.epoch = (uint32_t)epoch,
		.params = NET_PARAMS,
		.net = *n };
	f.sum = checksum(&f);
	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
		fail("the name of the checkpoint is too long: %s", path);
	out = fopen(temporary, "we");
	if (!out)
		fail("cannot write the checkpoint %s: %s", temporary, strerror(errno));
	/* On the disk before it gets its name, or a crash of the machine could leave an empty one.
	 */
	if (fwrite(&f, sizeof(f), 1, out) != 1 || fflush(out) != 0 || fsync(fileno(out)) < 0 ||
		fclose(out) != 0 || rename(temporary, path) < 0)
		fail("cannot write the checkpoint %s: %s", path, strerror(errno));
}
