/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker_dir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

bool worker_dir_fits(const char *dir)
{
	struct sockaddr_un address;

	return strlen(dir) + strlen("/worker.sock") < sizeof(address.sun_path);
}

/* Below base, in a directory sub of it (NULL: none) that is made where it is missing. */
static int dir_try(const char *base, const char *sub, char **ret)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!base || base[0] != '/')
		return -ENOENT;
	if (sub) {
		if (asprintf(&path, "%s/%s", base, sub) < 0)
			path = NULL;
		if (!path || (mkdir(path, 0700) < 0 && errno != EEXIST))
			return path ? -errno : -ENOMEM;
		free(path);
		r = asprintf(&path, "%s/%s/run-XXXXXX", base, sub);
	} else {
		r = asprintf(&path, "%s/elasticd-XXXXXX", base);
	}
	if (r < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (!worker_dir_fits(path))
		return -ENAMETOOLONG;
	if (!mkdtemp(path))
		return -errno;
	*ret = TAKE_PTR(path);
	return 0;
}

int worker_dir_new(char **ret, struct error *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	int r = dir_try(runtime, "elasticd", ret);

	if (r < 0)
		r = dir_try(tmp, NULL, ret);
	if (r < 0)
		r = dir_try("/tmp", NULL, ret);
	if (r < 0)
		return error_set(err, r,
			"no place for the workers' socket: XDG_RUNTIME_DIR (%s), TMPDIR (%s), /tmp: %s",
			runtime ? runtime : "unset", tmp ? tmp : "unset", strerror(-r));
	return 0;
}
