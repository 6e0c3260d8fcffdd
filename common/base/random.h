/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Random texts, for names that must differ and for secrets. */

#include "common/base/cleanup.h"

#include <stddef.h>

/* The characters of random_letters(). */
#define RANDOM_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

/* Writes n random characters and a NUL to text. Returns 0, or -EIO where the kernel gives none. */
_must_check_ int random_letters(char *text, size_t n);

/* The same of lower-case hexadecimal digits. */
_must_check_ int random_hex(char *text, size_t n);
