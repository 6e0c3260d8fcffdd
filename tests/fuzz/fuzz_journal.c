/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/journal/codec.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * The journal of a work queue, as a disk may give it back. Each record that is read must lie
 * within the data, and must be the same once it was written and read again. The checksum is made
 * right first, where there is one, so that what is behind it is reached.
 */

static bool same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static void check_again(const struct journal_decoded *d)
{
	struct journal_buffer b = { .data = NULL };
	struct journal_decoded again = { .text = NULL };
	const struct queue_record *x = &d->record, *y = &again.record;
	size_t n;

	if (journal_encode(&b, x, d->worker) < 0)
		abort();
	if (journal_decode(b.data, b.len, &again, &n) != (int64_t)b.len)
		abort();
	if (x->kind != y->kind || x->task != y->task || x->limit_ms != y->limit_ms ||
		x->number != y->number || x->flag != y->flag || !same(x->queue, y->queue) ||
		!same(x->payload.format, y->payload.format) || x->payload.len != y->payload.len ||
		memcmp(x->payload.data, y->payload.data, x->payload.len) != 0 ||
		x->n_needs != y->n_needs || x->error.code != y->error.code ||
		!same(x->error.message, y->error.message) ||
		!same(x->error.details, y->error.details) || !same(d->worker, again.worker))
		abort();
	for (size_t i = 0; i < x->n_needs; i++)
		if (!same(x->needs[i], y->needs[i]))
			abort();
	journal_buffer_fini(&b);
	journal_decoded_fini(&again);
}

/* CRC-32 once more, a bit at a time. */
static uint32_t checksum(const uint8_t *frame, size_t len)
{
	uint32_t c = ~0U;

	for (size_t i = 0; i < len + 8; i++) {
		if (i >= 4 && i < 8)
			continue;
		c ^= frame[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
	}
	return ~c;
}

static void make_right(uint8_t *data, size_t size)
{
	size_t at = 0;

	while (size - at >= JOURNAL_FRAME_BYTES) {
		size_t n = (size_t)data[at] | (size_t)data[at + 1] << 8;
		uint32_t c;

		data[at + 2] = data[at + 3] = 0;
		if (n > size - at - JOURNAL_FRAME_BYTES)
			return;
		c = checksum(data + at, n);
		for (int i = 0; i < 4; i++)
			data[at + 4 + (size_t)i] = (uint8_t)(c >> 8 * i);
		at += JOURNAL_FRAME_BYTES + n;
	}
}

static void read_all(const char *data, size_t size)
{
	struct journal_decoded d = { .text = NULL };
	size_t at = 0, n;
	int64_t r;

	do {
		r = journal_decode(data + at, size - at, &d, &n);
		if (n > size - at || (r > 0 && (size_t)r != n) || (r == -EBADMSG && n))
			abort();
		if (r > 0)
			check_again(&d);
		at += n;
	} while (n);
	journal_decoded_fini(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	if (!copy)
		return 0;
	read_all((const char *)data, size);
	memcpy(copy, data, size);
	make_right(copy, size);
	read_all((const char *)copy, size);
	free(copy);
	return 0;
}
