/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The last part of the descriptors that this process may have, which is kept for administrators and
 * for the daemon itself: the kernel gives the lowest free number. */

#include <stdbool.h>

/* How many come before the last part. */
int descriptors_for_all(void);
/* Whether fd, which was just opened, is in the last part. */
bool descriptor_is_reserved(int fd);
