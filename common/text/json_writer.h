/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON text that is written in one pass, without a tree: calls and answers of which there are many.
 * It grows. Once memory was short it stays failed: its user checks that once, at the end. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_writer {
	char *data;
	size_t len, room;
	bool failed;
};
void json_writer_fini(struct json_writer *w);

/* Text that is JSON already. */
void json_write(struct json_writer *w, const char *text, size_t len);
__attribute__((format(printf, 2, 3))) void json_write_format(
	struct json_writer *w, const char *fmt, ...);
void json_write_int(struct json_writer *w, int64_t n);
/* A string; -EILSEQ where s is not UTF-8 or has a NUL, with w as before. */
int json_write_string(struct json_writer *w, const char *s, size_t len);
/* A string; each byte that is not UTF-8, and NUL, becomes U+FFFD. */
void json_write_lossy(struct json_writer *w, const char *s, size_t len);
void json_write_text(struct json_writer *w, const char *s);
/* A string of the bytes' base64. */
void json_write_base64(struct json_writer *w, const void *data, size_t len);
