/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/base64.h"

#include <errno.h>
#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_length(size_t len)
{
	return (len + 2) / 3 * 4;
}

void base64_encode(const void *data, size_t len, char *out)
{
	const uint8_t *p = data;

	for (; len >= 3; p += 3, len -= 3) {
		*out++ = digits[p[0] >> 2];
		*out++ = digits[(p[0] & 3) << 4 | p[1] >> 4];
		*out++ = digits[(p[1] & 15) << 2 | p[2] >> 6];
		*out++ = digits[p[2] & 63];
	}
	if (!len)
		return;
	*out++ = digits[p[0] >> 2];
	*out++ = digits[(p[0] & 3) << 4 | (len > 1 ? p[1] >> 4 : 0)];
	*out++ = len > 1 ? digits[(p[1] & 15) << 2] : '=';
	*out = '=';
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode_into(const char *text, size_t len, void *out, size_t *ret_len)
{
	uint8_t *to = out;
	size_t pad, n = 0;
	uint32_t word = 0;

	if (len % 4)
		return -EINVAL;
	pad = len && text[len - 1] == '=' ? 1 + (text[len - 2] == '=') : 0;
	for (size_t i = 0; i < len; i++) {
		int v = i >= len - pad ? 0 : value_of(text[i]);

		if (v < 0)
			return -EINVAL;
		word = word << 6 | (uint32_t)v;
		if (i % 4 != 3)
			continue;
		to[n++] = (uint8_t)(word >> 16);
		to[n++] = (uint8_t)(word >> 8);
		to[n++] = (uint8_t)word;
		/* Bits that no byte has are zero: one text for each value. */
		if (i + 1 == len && pad && (word & (pad == 1 ? 0xff : 0xffff)))
			return -EINVAL;
		word = 0;
	}
	n -= pad;
	to[n] = 0;
	*ret_len = n;
	return 0;
}

int base64_decode(const char *text, size_t len, void **ret, size_t *ret_len)
{
	_cleanup_free_ void *out = len % 4 ? NULL : malloc(BASE64_ROOM(len));
	int r;

	if (len % 4)
		return -EINVAL;
	if (!out)
		return -ENOMEM;
	r = base64_decode_into(text, len, out, ret_len);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(out);
	return 0;
}
