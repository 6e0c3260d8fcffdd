/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes foreign text safe to show to people: it must never steer their terminal. Pure but for the
 * stream that it writes to.
 */

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes len bytes of text to f: colour sequences (ESC [ ... m) vanish, other control characters
 * become ^X, bytes that are not UTF-8 become U+FFFD. Tabs stay; a carriage return before a newline
 * or the end vanishes; a newline is written as ^J (callers split lines themselves).
 */
void printable_write(FILE *f, const char *text, size_t len);

/* The same into room bytes at to, with a NUL; as much as fits. Returns its length. */
size_t printable_copy(char *to, size_t room, const char *text);

/* A stream of text that comes in parts, as a program prints it. Zeroed to begin with. */
enum { PRINTABLE_HELD_MAX = 32 };

struct printable_stream {
	char held[PRINTABLE_HELD_MAX + 1]; /* a beginning that the next part completes */
	size_t n_held;
	bool coloured;
};

/*
 * As printable_write(), for text of many lines that may have colours: newlines, also after a
 * carriage return, and colour sequences go through; no colour lasts longer than its line. Other
 * carriage returns become ^M.
 */
void printable_pass(struct printable_stream *p, FILE *f, const char *text, size_t len);

/* The same into owned text; NULL without memory. */
char *printable_dup(const char *text);

/*
 * Length in bytes of the valid UTF-8 sequence at s (n bytes are there), its code point in ret_c; 0
 * when there is none. Overlong forms, surrogates and what is beyond U+10FFFF are none.
 */
int printable_utf8(const char *s, size_t n, unsigned *ret_c);

/* Where to cut n bytes so that no UTF-8 sequence is torn: n, or up to 3 less. */
size_t printable_cut(const char *data, size_t n);
