/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/socket_dir.h"

#include "common/base/file.h"
#include "common/base/paths.h"
#include "common/base/private_dir.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int dir_make(const char *base, char **ret, struct error *err)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/elasticd-XXXXXX", base) < 0) {
		path = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (!paths_socket_fits(path, WORKER_SOCKET))
		return error_set(
			err, -ENAMETOOLONG, "%s/" WORKER_SOCKET ": too long for a socket", path);
	if (!mkdtemp(path))
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	r = private_dir_check(path, err);
	if (r < 0)
		rmdir(path);
	else
		*ret = TAKE_PTR(path);
	return r;
}

static int dir_try(const char *base, char **ret, struct error *err)
{
	int r = base && base[0] == '/' ? private_dir_check(base, err) : -ENOENT;

	return r < 0 ? r : dir_make(base, ret, err);
}

/* Tries $XDG_STATE_HOME/elasticd/run, and makes it if it does not exist. */
static int state_try(char **ret, struct error *err)
{
	_cleanup_free_ char *dir = paths_run_dir();
	int r = dir ? file_mkdir_p(dir, 0700) : -ENOMEM;

	return r < 0 ? error_set(err, r, "%s: %s", dir ? dir : "", strerror(-r))
		     : dir_try(dir, ret, err);
}

int sharing_dir_new(char **ret, struct error *err)
{
	char own[64] = "/run";
	int r = dir_try(getenv("XDG_RUNTIME_DIR"), ret, err);

	if (geteuid() != 0)
		snprintf(own, sizeof(own), "/run/user/%u", (unsigned)geteuid());
	if (r < 0)
		r = dir_try(own, ret, err);
	if (r < 0)
		r = dir_try(getenv("TMPDIR"), ret, err);
	if (r < 0)
		r = state_try(ret, err);
	if (r < 0)
		r = dir_make("/tmp", ret, err);
	if (r < 0)
		error_prefix(err, "%s",
			"XDG_RUNTIME_DIR: expected a private directory for worker.sock, found none");
	return r;
}
