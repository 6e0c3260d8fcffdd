/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/size.h"

#include "common/base/quote.h"
#include "common/base/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char letters[] = "KMGTPE";

int size_parse(const char *text, const char *field, int64_t *ret_bytes, struct error *err)
{
	const char *p = text, *letter;
	char q[QUOTE_MAX];
	uint64_t value = 0;
	int shift = 0, r = scan_u64(&p, &value);

	if (r == -EINVAL)
		goto malformed;
	if (*p && (letter = strchr(letters, *p)) != NULL) {
		shift = 10 * (int)(letter - letters + 1);
		p++;
		if (!strcmp(p, "B"))
			return error_field(err, -EINVAL, field,
				"%s is ambiguous, write %ciB (powers of 1024) or the number of bytes",
				quote_text(text, q), *letter);
		if (!strcmp(p, "iB"))
			p += 2;
	} else if (!strcmp(p, "B")) {
		p++;
	}
	if (*p)
		goto malformed;
	if (r < 0 || value > (uint64_t)INT64_MAX >> shift)
		return error_field(err, -EINVAL, field, "expected a size below 8E, got %s",
			quote_text(text, q));
	*ret_bytes = (int64_t)(value << shift);
	return 0;
malformed:
	return error_field(err, -EINVAL, field,
		"expected a size such as 4096, \"64K\", \"10M\" or \"1GiB\", got %s",
		quote_text(text, q));
}

const char *size_format(int64_t bytes, char buf[SIZE_TEXT_MAX])
{
	int i = -1;

	while (bytes && bytes % 1024 == 0 && letters[i + 1]) {
		bytes /= 1024;
		i++;
	}
	if (i < 0)
		snprintf(buf, SIZE_TEXT_MAX, "%" PRId64, bytes);
	else
		snprintf(buf, SIZE_TEXT_MAX, "%" PRId64 "%c", bytes, letters[i]);
	return buf;
}

const char *size_text(int64_t bytes, char buf[SIZE_TEXT_MAX])
{
	double value = (double)bytes;
	int i = -1;

	/* 1023.95 would be shown as 1024.0. */
	while (value >= 1023.95 && letters[i + 1]) {
		value /= 1024;
		i++;
	}
	if (i < 0)
		snprintf(buf, SIZE_TEXT_MAX, "%" PRId64 " B", bytes);
	else
		snprintf(buf, SIZE_TEXT_MAX, "%.1f %ciB", value, letters[i]);
	return buf;
}
