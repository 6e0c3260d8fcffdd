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

static int dir_try(const char *base, char **ret)
{
	_cleanup_free_ char *path = NULL;

	if (!base || base[0] != '/')
		return -ENOENT;
	if (asprintf(&path, "%s/elasticd-XXXXXX", base) < 0) {
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
	int r = dir_try(runtime, ret);

	if (r < 0)
		r = dir_try(tmp, ret);
	if (r < 0)
		r = dir_try("/tmp", ret);
	if (r < 0)
		return error_set(err, r,
			"no place for the workers' socket: XDG_RUNTIME_DIR (%s), TMPDIR (%s), /tmp: %s",
			runtime ? runtime : "unset", tmp ? tmp : "unset", strerror(-r));
	return 0;
}
