/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/cgroup_dir.h"

#include "common/base/cleanup.h"
#include "common/base/paths.h"

#include <stdbool.h>
#include <string.h>

/* Whether list, words divided by commas, has word. */
static bool cgroup_dir_lists(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',') && (!p[n] || strchr(",: \n", p[n])))
			return true;
	return false;
}

/* Whether the group path is root or below it. */
static bool cgroup_dir_is_below(const char *path, const char *root)
{
	size_t n = strcmp(root, "/") != 0 ? strlen(root) : 0;

	return strncmp(path, root, n) == 0 && (!path[n] || path[n] == '/');
}

/* Where the hierarchy is mounted so that path can be seen, and which of its groups is the root
 * there; both owned. */
static bool cgroup_dir_mount(
	const char *controller, const char *path, char **ret_point, char **ret_root)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/mountinfo", "re");
	const char *type = controller ? " - cgroup " : " - cgroup2 ";
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		_cleanup_free_ char *options = NULL, *root = NULL, *point = NULL;
		const char *at = strstr(line, " - ");

		if (!at || strncmp(at, type, strlen(type)) != 0)
			continue;
		if (controller && (sscanf(at, " - %*s %*s %ms", &options) != 1 ||
					  !cgroup_dir_lists(options, controller)))
			continue;
		if (sscanf(line, "%*s %*s %*s %ms %ms", &root, &point) != 2 ||
			!cgroup_dir_is_below(path, root))
			continue;
		*ret_point = TAKE_PTR(point);
		*ret_root = TAKE_PTR(root);
		return true;
	}
	return false;
}

/* The path of a process's group in the hierarchy; owned, or NULL. */
static char *cgroup_dir_path(pid_t pid, const char *controller)
{
	char name[64];
	_cleanup_file_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	f = fopen(name, "re");
	while (f && (n = getline(&line, &cap, f)) > 0) {
		/* "0::/path" of version 2, "4:memory,cpu:/path" of version 1. */
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (path &&
			(controller ? cgroup_dir_lists(list + 1, controller) : path == list + 1))
			return strdup(path + 1);
	}
	return NULL;
}

char *cgroup_dir_of(pid_t pid, const char *controller)
{
	_cleanup_free_ char *path = cgroup_dir_path(pid, controller), *point = NULL, *root = NULL;
	const char *below = path;

	if (!path || !cgroup_dir_mount(controller, path, &point, &root))
		return NULL;
	if (strcmp(root, "/") != 0)
		below += strlen(root);
	return *below && strcmp(below, "/") != 0 ? paths_join(point, below + 1) : strdup(point);
}
