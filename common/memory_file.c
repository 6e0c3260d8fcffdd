/* SPDX-License-Identifier: Apache-2.0 */
#include "common/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { NOEXEC_SEAL = 0x8 }; /* MFD_NOEXEC_SEAL, which libraries' headers may not have yet */

int memory_file_fill(int fd, off_t begin, off_t len)
{
	int r;

	do
		r = len ? posix_fallocate(fd, begin, len) : 0;
	while (r == EINTR);
	return -r;
}

int memory_file_new(const char *name, off_t bytes, off_t filled)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	_cleanup_close_ int fd = memfd_create(name, flags | NOEXEC_SEAL);
	int r;

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0 || ftruncate(fd, bytes) < 0 || fchmod(fd, 0600) < 0)
		return -errno;
	r = memory_file_fill(fd, 0, filled);
	return r < 0 ? r : TAKE_FD(fd);
}

int memory_file_seal(int fd, int more)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | more) < 0 ? -errno : 0;
}
