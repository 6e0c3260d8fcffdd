/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists of strings that end with NULL, as argv does. strings_free() of cleanup.h frees one. */

#include "common/base/cleanup.h"

#include <stddef.h>

/* NULL counts as empty. */
size_t strings_count(char *const *list);
/* The text behind "NAME=" in a list of variables, which may be NULL; NULL without it. Borrowed. */
const char *strings_value(char *const *list, const char *name);
/* An owned copy, which is empty for NULL; NULL without memory. */
char **strings_copy(char *const *list);
/* Adds a copy of word to the n of *list, which is owned and may be NULL. Returns 0 or -ENOMEM. */
_must_check_ int strings_add(char ***list, size_t *n, const char *word);
