/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Base64 as RFC 4648 has it in section 4: the usual alphabet, with padding. Pure. */

#include "common/base/cleanup.h"

#include <stddef.h>

/* How long the text of len bytes is, without a NUL. */
size_t base64_length(size_t len);
/* Writes base64_length(len) characters to out, and no NUL. */
void base64_encode(const void *data, size_t len, char *out);

/* Returns 0 with owned bytes (a NUL behind them), -EINVAL where text (len characters) is no
 * canonical base64, or -ENOMEM. */
_must_check_ int base64_decode(const char *text, size_t len, void **ret, size_t *ret_len);

/* The same into out, which has BASE64_ROOM(len) bytes. 0 or -EINVAL. */
#define BASE64_ROOM(len) ((len) / 4 * 3 + 1)
_must_check_ int base64_decode_into(const char *text, size_t len, void *out, size_t *ret_len);
