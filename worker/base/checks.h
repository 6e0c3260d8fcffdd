/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks of what the program passes: OK, or INVALID_ARGUMENT with a message that names it. */

#include "worker/elasticd_queue.h"

/* Text of at most max bytes, in UTF-8. */
enum elasticd_status check_text(const char *what, const char *text, size_t max);
/* n names; NULL: all are meant. */
enum elasticd_status check_names(const char *what, const char *const *names, size_t n);
/* ret_key: the key, normalised and owned. empty: "" is accepted. */
enum elasticd_status check_key(const char *key, bool empty, char **ret_key);
enum elasticd_status check_value(const void *value, size_t len);
enum elasticd_status check_put(const void *value, size_t len, int flags);
/* The code of an error. */
enum elasticd_status check_code(enum elasticd_status code);
/* Bits of flags that are none of known. */
enum elasticd_status check_flags(int flags, int known);
/* A payload or value; NULL is accepted. */
enum elasticd_status check_bytes(const char *what, const struct elasticd_queue_bytes *b);
