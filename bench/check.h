/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/elasticd.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program where a call of the library has failed. */
static inline void check(enum elasticd_status status)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", elasticd_status_name(status), elasticd_error_text());
	exit(1);
}
