/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.events has oom_kill, the processes killed in the group and below it whatever the reason,
 * and oom, how often a limit was the reason. memory.events.local has the same without the groups
 * below. So the lowest group above the victim whose own oom has grown had the limit; where none
 * has, the host was out of memory. Version 1 counts kills in memory.oom_control, and in
 * memory.failcnt how often the limit was reached.
 */
#include "agent/process/oom.h"

#include "common/base/cgroup_dir.h"
#include "common/base/file.h"
#include "common/base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OOM_LEVELS = 16 };

struct oom_level {
	char *dir;
	int64_t reached; /* how often its limit was, when the attempt began */
};

struct oom {
	char *dir; /* of version 2; NULL: there is none */
	bool v1;
	struct oom_level levels[OOM_LEVELS]; /* the lowest first */
	size_t n_levels;
	bool begun;
	int64_t kills; /* when the attempt began, and those explained since */
};

/* The number in dir/file: after key, or, without key, the first. -1: there is none. */
static int64_t oom_number(const char *dir, const char *file, const char *key)
{
	_cleanup_free_ char *path = paths_join(dir, file);
	_cleanup_file_ FILE *f = path ? fopen(path, "re") : NULL;
	char name[64];
	long long n;

	if (!f)
		return -1;
	if (!key)
		return fscanf(f, "%lld", &n) == 1 ? n : -1;
	while (fscanf(f, "%63s %lld", name, &n) == 2)
		if (!strcmp(name, key))
			return n;
	return -1;
}

static int64_t oom_reached(const struct oom *o, size_t level)
{
	const char *dir = o->levels[level].dir;
	int64_t n = -1;

	if (o->v1)
		return oom_number(dir, "memory.failcnt", NULL);
	/* Groups that the job itself has made count as the job's. */
	if (level)
		n = oom_number(dir, "memory.events.local", "oom");
	return n < 0 ? oom_number(dir, "memory.events", "oom") : n;
}

/* The kills in a group and below it; -1: they are not counted there. */
static int64_t oom_kills(const char *dir, bool v1)
{
	return oom_number(dir, v1 ? "memory.oom_control" : "memory.events", "oom_kill");
}

static int64_t oom_count(const struct oom *o)
{
	return o->n_levels ? oom_kills(o->levels[0].dir, o->v1)
			   : oom_number("/proc", "vmstat", "oom_kill");
}

struct oom *oom_new(const char *dir)
{
	_cleanup_(oom_freep) struct oom *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->dir = dir ? strdup(dir) : cgroup_dir_of(getpid(), NULL);
	return o->dir || !dir ? TAKE_PTR(o) : NULL;
}

static void oom_forget(struct oom *o)
{
	while (o->n_levels)
		free(o->levels[--o->n_levels].dir);
}

struct oom *oom_free(struct oom *o)
{
	if (!o)
		return NULL;
	oom_forget(o);
	free(o->dir);
	free(o);
	return NULL;
}

/* Notes dir and the groups above it that count. */
static void oom_climb(struct oom *o, const char *dir, bool v1)
{
	_cleanup_free_ char *at = dir && !o->n_levels ? strdup(dir) : NULL;
	char *slash;

	o->v1 = o->n_levels ? o->v1 : v1;
	for (; at && *at && o->n_levels < OOM_LEVELS; *slash = '\0') {
		struct oom_level *l = &o->levels[o->n_levels];

		if (oom_kills(at, v1) >= 0 && (l->dir = strdup(at)))
			l->reached = oom_reached(o, o->n_levels++);
		slash = strrchr(at, '/');
		if (!slash)
			break;
	}
}

void oom_begin(struct oom *o)
{
	_cleanup_free_ char *own = NULL;

	oom_forget(o);
	oom_climb(o, o->dir, false);
	oom_climb(o, o->dir, true);
	if (!o->n_levels)
		own = cgroup_dir_of(getpid(), "memory");
	oom_climb(o, own, true);
	o->kills = oom_count(o);
	o->begun = o->kills >= 0;
}

static void oom_find_limit(const struct oom *o, struct oom_reading *s)
{
	for (size_t i = 0; i < o->n_levels; i++) {
		const struct oom_level *l = &o->levels[i];
		const char *name = strrchr(l->dir, '/');

		if (l->reached < 0 || oom_reached(o, i) <= l->reached)
			continue;
		s->limit = oom_number(l->dir, o->v1 ? "memory.limit_in_bytes" : "memory.max", NULL);
		snprintf(s->group, sizeof(s->group), "%s", name ? name + 1 : l->dir);
		return;
	}
}

void oom_read(const struct oom *o, struct oom_reading *ret)
{
	int64_t now = o->begun ? oom_count(o) : 0;

	*ret = (struct oom_reading){ .limit = -1 };
	if (!o->begun || now <= o->kills)
		return;
	ret->kills = now - o->kills;
	ret->sure = o->n_levels > 0;
	oom_find_limit(o, ret);
}

void oom_explained(struct oom *o, int64_t n)
{
	o->kills += n;
}
