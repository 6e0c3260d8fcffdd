/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory as a file without a name, to be shared with other processes, who cannot cut it short. */

#include "common/cleanup.h"

#include <sys/types.h>

/* Of so many bytes, the first filled of which have their memory. A descriptor, close-on-exec, or a
 * negative errno. Nobody else can open it by its name in /proc. */
_must_check_ int memory_file_new(const char *name, off_t bytes, off_t filled);
/* Has memory for some bytes of a file of any kind, which may make it longer: a store to a hole can
 * be a deadly signal where there is none to be had. 0 or a negative errno. */
_must_check_ int memory_file_fill(int fd, off_t begin, off_t len);
/* It stays as long as it is. more: other seals (F_SEAL_...), too. 0 or a negative errno. */
_must_check_ int memory_file_seal(int fd, int more);
