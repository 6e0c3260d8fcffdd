/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/safe_files.h"

#include "common/base/file.h"
#include "common/base/random.h"
#include "common/base/safe_open.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The largest tree that the loop may remove itself, and the most JSON values that it may read from
 * a file: see json_units(). */
enum { TREE_FILES = 256, TREE_BYTES = 64 << 20, JSON_UNITS = 512 << 10 };

int files_open_dir(int dirfd, const char *name, struct error *err)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, -errno, "%s: %s", name, strerror(errno));
	return fd;
}

/* Removes path in a process that only init waits for. */
static void remove_beside(const char *path)
{
	pid_t pid = fork();

	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (pid != 0)
		return;
	if (fork() != 0)
		_exit(0);
	signals_reset();
	prctl(PR_SET_NAME, "elasticd-remove");
	/* The child must not keep locks and connections open. */
	close_range(0, ~0U, 0);
	setpriority(PRIO_PROCESS, 0, 19);
	_exit(file_rm_rf(path) < 0);
}

int files_remove_tree(const char *path)
{
	_cleanup_free_ char *gone = NULL;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int r = file_rm_rf_some(path, TREE_FILES, TREE_BYTES);
	char random[17];

	if (r != -EAGAIN)
		return r;
	if (!strncmp(name, FILES_GONE, strlen(FILES_GONE))) {
		remove_beside(path);
		return 0;
	}
	if (random_letters(random, sizeof(random) - 1) < 0 ||
		asprintf(&gone, "%.*s" FILES_GONE "%s", (int)(name - path), path, random) < 0) {
		gone = NULL;
		return -ENOMEM;
	}
	if (rename(path, gone) < 0)
		return -errno;
	remove_beside(gone);
	return 0;
}

int files_make_dirs(const char *path, mode_t mode, struct error *err)
{
	_cleanup_free_ char *parent = strdup(path);
	char *slash;
	int r;

	if (!parent)
		return error_set(err, -ENOMEM, "out of memory");
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		r = file_mkdir_p(parent, 0755);
		if (r < 0)
			return error_set(err, r, "%s cannot be made: %s", parent, strerror(-r));
	}
	/* chmod() because the umask must not change the mode. */
	if (!mkdir(path, mode) && !chmod(path, mode))
		return 0;
	if (errno != EEXIST)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

int files_read(int dirfd, const char *name, size_t max, uid_t owner, char **ret_text,
	size_t *ret_len, struct error *err)
{
	_cleanup_close_ int fd = safe_open(dirfd, name, O_RDONLY, 0);
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, fd == -ENOTSUP || fd == -EISDIR ? -EBADMSG : fd, "%s: %s",
			name, safe_open_text(fd));
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "%s: %s", name, strerror(errno));
	if (st.st_uid != owner && st.st_uid != geteuid())
		return error_set(err, -EPERM, "%s: belongs to user %u, expected %u", name,
			(unsigned)st.st_uid, (unsigned)owner);
	if (st.st_size > (off_t)max)
		return error_set(err, -EFBIG, "%s: has %lld bytes, expected at most %zu", name,
			(long long)st.st_size, max);
	r = file_read_fd(fd, max, ret_text, ret_len);
	if (r < 0)
		return error_set(err, r, "%s: %s", name, strerror(-r));
	return 0;
}

int files_read_json(
	int dirfd, const char *name, size_t max, uid_t owner, json_t **ret, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r;

	r = files_read(dirfd, name, max, owner, &text, &len, err);
	if (r < 0)
		return r;
	if (json_units(text, len) > JSON_UNITS)
		return error_set(err, -EBADMSG, "%s: too many values", name);
	r = json_parse_object(text, len, ret, err);
	if (r < 0) {
		error_prefix(err, "%s", name);
		return r == -EINVAL ? -EBADMSG : r;
	}
	return 0;
}

static int write_temporary(
	int dirfd, const char *temporary, uid_t owner, const char *text, size_t len, mode_t mode)
{
	_cleanup_close_ int fd = -1;
	int r;

	/* An unfinished file of an earlier process, or another user's file: remove it. */
	if (unlinkat(dirfd, temporary, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* The file changes its owner while it is empty. */
	if (fd < 0 || (owner != geteuid() && fchown(fd, owner, -1) < 0))
		return -errno;
	r = file_write_all(fd, text, len);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return -errno;
	return 0;
}

int files_write(int dirfd, const char *name, uid_t owner, const char *text, size_t len, mode_t mode,
	struct error *err)
{
	_cleanup_free_ char *temporary = NULL;
	int r;

	if (asprintf(&temporary, ".%s.new", name) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = write_temporary(dirfd, temporary, owner, text, len, mode);
	if (!r && renameat(dirfd, temporary, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dirfd, temporary, 0);
		return error_set(err, r, "%s: %s", name, strerror(-r));
	}
	return 0;
}
