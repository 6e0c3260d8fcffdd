/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compressed log files: writing one, and reading one as a stream. Without libzstd both say
 * -ENOTSUP. */

#include "common/cleanup.h"

#include <stddef.h>
#include <sys/types.h>

/* Compresses the file at from into a new one at to. Returns 0 or a negative errno. */
_must_check_ int log_zstd_compress(const char *from, const char *to);

struct log_zstd;

/* fd is borrowed, and read from its start. Returns 0 or a negative errno. */
_must_check_ int log_zstd_new(int fd, struct log_zstd **ret);
struct log_zstd *log_zstd_free(struct log_zstd *z);
/* Fills buf. Returns bytes, 0 at the end, or a negative errno (-EBADMSG: damaged). */
_must_check_ ssize_t log_zstd_read(struct log_zstd *z, char *buf, size_t len);
