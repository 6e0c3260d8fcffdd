/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: whatever the pieces in which a stream comes, the messages are those between its NULs, up
 * to the first that is too long. The first byte is the length of the pieces, the second the limit.
 */
#include "common/varlink/frame.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* Takes all messages that are ready; *at is where the next must begin. False once one is too long.
 */
static int take_all(struct varlink_frame *f, const char *stream, size_t fed, size_t *at)
{
	char *text;
	size_t len;
	int r;

	for (;;) {
		int ready = varlink_frame_ready(f);

		r = varlink_frame_next(f, &text, &len);
		EXPECT(ready == (r != 0));
		if (r <= 0)
			break;
		EXPECT(len <= f->max_bytes && *at + len < fed);
		EXPECT(!memcmp(text, stream + *at, len + 1) && strlen(text) == len);
		*at += len + 1;
	}
	if (r == 0) {
		EXPECT(!memchr(stream + *at, '\0', fed - *at) && fed - *at <= f->max_bytes);
		return 1;
	}
	EXPECT(r == -EMSGSIZE && strnlen(stream + *at, fed - *at) > f->max_bytes);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *stream = (const char *)data + 2;
	struct varlink_frame f;
	size_t at = 0, fed = 0, piece;

	if (size < 3)
		return 0;
	piece = data[0] + 1;
	varlink_frame_init(&f, data[1]);
	size -= 2;
	while (fed < size) {
		if (piece > size - fed)
			piece = size - fed;
		EXPECT(varlink_frame_feed(&f, stream + fed, piece) == 0);
		fed += piece;
		if (!take_all(&f, stream, fed, &at))
			break;
	}
	varlink_frame_fini(&f);
	return 0;
}
