/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ends a text of any length that was written to a stream of open_memstream(). */

#include <stdio.h>
#include <stdlib.h>

/* Closes f and returns *text, which it was writing (owned), or NULL without memory for all of it.
 */
static inline char *memstream_end(FILE *f, char **text)
{
	if (fclose(f) == 0)
		return *text;
	free(*text);
	return NULL;
}
