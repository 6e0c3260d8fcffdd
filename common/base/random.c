/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* Random bytes, each in place of one character. */
static int random_bytes(char *text, size_t n)
{
	return getrandom(text, n, 0) == (ssize_t)n ? 0 : -EIO;
}

int random_letters(char *text, size_t n)
{
	int r = random_bytes(text, n);

	for (size_t i = 0; i < n && r == 0; i++)
		text[i] = RANDOM_LETTERS[(unsigned char)text[i] % (sizeof(RANDOM_LETTERS) - 1)];
	text[n] = '\0';
	return r;
}

int random_hex(char *text, size_t n)
{
	int r = random_bytes(text, n);

	for (size_t i = 0; i < n && r == 0; i++)
		text[i] = "0123456789abcdef"[(unsigned char)text[i] % 16];
	text[n] = '\0';
	return r;
}
