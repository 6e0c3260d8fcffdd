/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/checkpoint.h"

#include "examples/digits/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "DIGITS2"

struct file {
	char magic[8];
	struct checkpoint begin;
	uint64_t params;
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

bool checkpoint_load(const char *path, struct checkpoint *c, struct net *n)
{
	FILE *in = fopen(path, "re");
	static struct file f;
	size_t got;

	if (!in && errno == ENOENT)
		return false;
	if (!in)
		fail("cannot read the checkpoint %s: %s", path, strerror(errno));
	got = fread(&f, 1, sizeof(f), in);
	fclose(in);
	if (got != sizeof(f) || memcmp(f.magic, MAGIC, sizeof(f.magic)) != 0 ||
		f.params != NET_PARAMS || f.sum != checksum(&f))
		fail("the checkpoint %s is damaged, or not one of this program: remove it to begin"
		     " again",
			path);
	if (f.begin.seed != c->seed || f.begin.batch != c->batch)
		fail("the checkpoint %s was made with --seed %llu --batch %llu", path,
			(unsigned long long)f.begin.seed, (unsigned long long)f.begin.batch);
	*c = f.begin;
	*n = f.net;
	return true;
}

/* Puts the new name of a file on the disk, too: a machine that is taken away takes the rest. */
static int sync_directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[4096];
	int fd, r;

	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path + 1) : 1,
		slash ? path : ".");
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = fsync(fd);
	close(fd);
	return r;
}

void checkpoint_save(const char *path, const struct checkpoint *c, const struct net *n)
{
	static struct file f;
	char temporary[4096];
	FILE *out;

	f = (struct file){ .magic = MAGIC, .begin = *c, .params = NET_PARAMS, .net = *n };
	f.sum = checksum(&f);
	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
		fail("the name of the checkpoint is too long: %s", path);
	out = fopen(temporary, "we");
	if (!out)
		fail("cannot write the checkpoint %s: %s", temporary, strerror(errno));
	/* On the disk before it gets its name, or a crash of the machine could leave an empty one.
	 */
	if (fwrite(&f, sizeof(f), 1, out) != 1 || fflush(out) != 0 || fsync(fileno(out)) < 0 ||
		fclose(out) != 0 || rename(temporary, path) < 0 || sync_directory_of(path) < 0)
		fail("cannot write the checkpoint %s: %s", path, strerror(errno));
}
