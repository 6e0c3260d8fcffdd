/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which process this is, mostly without asking the kernel. */

#include <sys/types.h>

pid_t process_id(void);
