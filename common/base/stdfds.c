/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/stdfds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int stdfds_open(bool reveal_stdout)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int flags = O_RDWR;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (reveal_stdout && fd == STDOUT_FILENO)
			flags = O_RDONLY | O_CLOEXEC;
		/* open() returns the lowest free number: those below are open. */
		if (open("/dev/null", flags) < 0)
			return -errno;
	}
	return 0;
}

void stdfds_inherit(void)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFD);

	if (flags < 0 || !(flags & FD_CLOEXEC))
		return;
	close(STDOUT_FILENO);
	(void)!open("/dev/null", O_RDWR);
}
