/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes compressed log files, and reads them as a stream. Without libzstd all of it returns
 * -ENOTSUP. */

#include "common/base/cleanup.h"

#include <stddef.h>
#include <sys/types.h>

/* Compresses the file at from into the new file to. Returns 0 or a negative errno. */
_must_check_ int log_zstd_compress(const char *from, const char *to);

struct log_zstd;

/* fd is borrowed, and read from its start. Returns 0 or a negative errno. */
_must_check_ int log_zstd_new(int fd, struct log_zstd **ret);
struct log_zstd *log_zstd_free(struct log_zstd *z);
/* Fills buf. Returns bytes, 0 at the end, or a negative errno (-EBADMSG: damaged). */
_must_check_ ssize_t log_zstd_read(struct log_zstd *z, char *buf, size_t len);
