/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes foreign text safe to show, in an error message or as a word of a shell command. */

#include <stdbool.h>
#include <stddef.h>

enum { QUOTE_MAX = 64 };

/*
 * text in double quotes with control characters escaped, cut with "..." where it is long. Written
 * to buf, which is returned.
 */
const char *quote_text(const char *text, char buf[QUOTE_MAX]);

/* words joined so that a shell reads them back, on one line. Returns owned, NULL without memory. */
char *quote_shell(char *const *words);
