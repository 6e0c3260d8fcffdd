/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes text that a worker wrote fit to show to people: it must never steer their terminal. Pure
 * but for the stream that it writes to.
 */

#include <stdio.h>

/*
 * Writes len bytes of text to f: colour sequences (ESC [ ... m) vanish, other control characters
 * become ^X, bytes that are not UTF-8 become U+FFFD. Tabs stay; a carriage return before a newline
 * or the end vanishes; a newline is written as ^J (callers split lines themselves).
 */
void printable_write(FILE *f, const char *text, size_t len);

/* The same into owned text; NULL without memory. */
char *printable_dup(const char *text);

/*
 * Length in bytes of the valid UTF-8 sequence at s (n bytes are there), its code point in ret_c; 0
 * when there is none. Overlong forms, surrogates and what is beyond U+10FFFF are none.
 */
int printable_utf8(const char *s, size_t n, unsigned *ret_c);
