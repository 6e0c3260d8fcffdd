/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/parts.h"

#include "agent/files/file_system.h"
#include "common/base/scan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number in a name "<base>.N" or "<base>.N.zst", or 0. */
static int number_of(const char *name, const char *base)
{
	size_t n = strlen(base), len = strlen(name);
	char digits[16];
	uint64_t value;

	if (strncmp(name, base, n) != 0 || name[n] != '.')
		return 0;
	name += n + 1;
	len -= n + 1;
	if (len > 4 && !strcmp(name + len - 4, ".zst"))
		len -= 4;
	if (len == 0 || len >= sizeof(digits))
		return 0;
	memcpy(digits, name, len);
	digits[len] = '\0';
	return scan_whole(digits, INT_MAX, &value) == 0 ? (int)value : 0;
}

static int compare_numbers(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Sorts, and drops the duplicate of a part that exists both plain and compressed. */
static void sort_unique(struct log_parts *s)
{
	size_t n = 0;

	if (s->n > 0)
		qsort(s->numbers, s->n, sizeof(int), compare_numbers);
	for (size_t i = 0; i < s->n; i++)
		if (n == 0 || s->numbers[n - 1] != s->numbers[i])
			s->numbers[n++] = s->numbers[i];
	s->n = n;
}

int log_parts_list(const char *path, struct log_parts *ret)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = slash ? strndup(path, slash - path) : strdup(".");
	_cleanup_strings_ char **names = NULL;
	struct log_parts s = { 0 };
	int r = dir ? log_fs_names(dir, &names) : -ENOMEM;

	if (r < 0)
		return r;
	for (char **name = names; *name; name++) {
		int number = number_of(*name, slash ? slash + 1 : path);
		int *p;

		if (number <= 0)
			continue;
		p = reallocarray(s.numbers, s.n + 1, sizeof(int));
		if (!p) {
			log_parts_fini(&s);
			return -ENOMEM;
		}
		s.numbers = p;
		s.numbers[s.n++] = number;
	}
	sort_unique(&s);
	*ret = s;
	return 0;
}

void log_parts_fini(struct log_parts *s)
{
	free(s->numbers);
	*s = (struct log_parts){ 0 };
}

int log_parts_open(const char *path, int number, int *ret_compressed)
{
	char name[PATH_MAX];
	int fd = -ENOENT;

	/* The compressed file may replace the plain one between two tries, so try plain twice. */
	for (int i = 0; i < 3; i++) {
		int zst = i == 1;

		if (snprintf(name, sizeof(name), "%s.%d%s", path, number, zst ? ".zst" : "") >=
			(int)sizeof(name))
			return -ENAMETOOLONG;
		fd = log_fs_open(name, O_RDONLY, 0);
		if (fd >= 0) {
			*ret_compressed = zst;
			return fd;
		}
		if (fd != -ENOENT)
			break;
	}
	return fd;
}

bool log_parts_beside(const char *path, const char *kind, int number, char buf[PATH_MAX])
{
	size_t n = strlen(path);
	char part[16] = "";

	if (number > 0)
		snprintf(part, sizeof(part), ".%d", number);
	return n > 4 && !strcmp(path + n - 4, ".log") &&
	       snprintf(buf, PATH_MAX, "%.*s.%s%s", (int)(n - 4), path, kind, part) < PATH_MAX;
}

void log_parts_prune(const char *path, int first, int last)
{
	char name[PATH_MAX];
	struct log_parts s;

	if (first > last || log_parts_list(path, &s) < 0)
		return;
	for (size_t i = 0; i < s.n; i++) {
		int n = s.numbers[i];

		if (n < first || n > last)
			continue;
		if (snprintf(name, sizeof(name), "%s.%d", path, n) < (int)sizeof(name))
			log_fs_unlink(name);
		if (snprintf(name, sizeof(name), "%s.%d.zst", path, n) < (int)sizeof(name))
			log_fs_unlink(name);
		if (log_parts_beside(path, "idx", n, name))
			log_fs_unlink(name);
	}
	log_parts_fini(&s);
}
