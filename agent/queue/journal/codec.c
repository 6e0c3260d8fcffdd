/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/journal/codec.h"
#include "common/base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char journal_magic[JOURNAL_MAGIC_BYTES] = { 'e', 'd', 'q', 'u', 'e', 'u', 'e', 1 };

/* The parts of a content, as bits. */
enum part {
	PART_TASK = 1,
	PART_LIMIT = 2,
	PART_NUMBER = 4,
	PART_QUEUE = 8,
	PART_PAYLOAD = 16,
	PART_NEEDS = 32,
	PART_ERROR = 64,
	PART_FLAG = 128,
};

/* --- checksum --- */

/* CRC-32 as of ISO 3309, eight bytes at a time: records may be long. */
static uint32_t crc32_add(uint32_t crc, const void *data, size_t len)
{
	static uint32_t table[8][256];
	const unsigned char *p = data;

	if (!table[0][1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int k = 0; k < 8; k++)
				c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
			table[0][i] = c;
		}
		for (uint32_t i = 0; i < 256; i++)
			for (int t = 1; t < 8; t++)
				table[t][i] =
					table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
	}
	crc = ~crc;
	for (; len >= 8; len -= 8, p += 8) {
		crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
		crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^
		      table[4][crc >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
		      table[0][p[7]];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
	return ~crc;
}

static void store32(char *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (char)(v >> 8 * i);
}

static uint32_t load32(const char *at)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v |= (uint32_t)(unsigned char)at[i] << 8 * i;
	return v;
}

/* --- out --- */

void journal_buffer_fini(struct journal_buffer *b)
{
	free(b->data);
	*b = (struct journal_buffer){ .data = NULL };
}

static void put(struct journal_buffer *b, const void *data, size_t len)
{
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void put_unsigned(struct journal_buffer *b, uint64_t v)
{
	do {
		b->data[b->len++] = (char)((v & 127) | (v > 127 ? 128 : 0));
		v >>= 7;
	} while (v);
}

static void put_signed(struct journal_buffer *b, int64_t v)
{
	put_unsigned(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_bytes(struct journal_buffer *b, const void *data, size_t len)
{
	put_unsigned(b, len);
	put(b, data, len);
}

static void put_string(struct journal_buffer *b, const char *text)
{
	put_bytes(b, text ? text : "", text ? strlen(text) : 0);
}

static bool has_error(const struct queue_record *r, const char *worker)
{
	const struct queue_error *e = &r->error;

	return e->code || (e->message && *e->message) || (e->details && *e->details) ||
	       e->task > 0 || (worker && *worker);
}

static unsigned parts_of(const struct queue_record *r, const char *worker)
{
	unsigned parts = 0;

	parts |= r->task ? PART_TASK : 0;
	parts |= r->limit_ms ? PART_LIMIT : 0;
	parts |= r->number ? PART_NUMBER : 0;
	parts |= r->queue && *r->queue ? PART_QUEUE : 0;
	parts |= r->payload.len || (r->payload.format && *r->payload.format) ? PART_PAYLOAD : 0;
	parts |= r->n_needs ? PART_NEEDS : 0;
	parts |= has_error(r, worker) ? PART_ERROR : 0;
	parts |= r->flag ? PART_FLAG : 0;
	return parts;
}

/* At least as many bytes as the content takes. */
static size_t content_most(const struct queue_record *r, const char *worker)
{
	size_t n = 2 + 16 * 10 + r->payload.len;

	n += r->queue ? strlen(r->queue) : 0;
	n += r->payload.format ? strlen(r->payload.format) : 0;
	for (size_t i = 0; i < r->n_needs; i++)
		n += 10 + strlen(r->needs[i]);
	n += r->error.message ? strlen(r->error.message) : 0;
	n += r->error.details ? strlen(r->error.details) : 0;
	n += worker ? strlen(worker) : 0;
	return n;
}

static void put_content(struct journal_buffer *b, const struct queue_record *r, const char *worker)
{
	unsigned parts = parts_of(r, worker);
	const char head[2] = { (char)r->kind, (char)parts };

	put(b, head, sizeof(head));
	if (parts & PART_TASK)
		put_signed(b, r->task);
	if (parts & PART_LIMIT)
		put_signed(b, r->limit_ms);
	if (parts & PART_NUMBER)
		put_signed(b, r->number);
	if (parts & PART_QUEUE)
		put_string(b, r->queue);
	if (parts & PART_PAYLOAD) {
		put_string(b, r->payload.format);
		put_bytes(b, r->payload.data, r->payload.len);
	}
	if (parts & PART_NEEDS) {
		put_unsigned(b, r->n_needs);
		for (size_t i = 0; i < r->n_needs; i++)
			put_string(b, r->needs[i]);
	}
	if (parts & PART_ERROR) {
		put_unsigned(b, (uint64_t)r->error.code);
		put_string(b, r->error.message);
		put_string(b, r->error.details);
		put_string(b, worker);
		put_signed(b, r->error.task);
	}
}

int journal_encode(struct journal_buffer *b, const struct queue_record *r, const char *worker)
{
	size_t most = content_most(r, worker), begin = b->len;
	char *frame;
	uint32_t len;
	int k;

	if (most > JOURNAL_CONTENT_MAX || r->n_needs > QUEUE_NEEDS_MAX)
		return -E2BIG;
	k = array_reserve((void **)&b->data, &b->room, b->len + JOURNAL_FRAME_BYTES + most, 1);
	if (k < 0)
		return k;
	b->len += JOURNAL_FRAME_BYTES;
	put_content(b, r, worker);
	frame = b->data + begin;
	len = (uint32_t)(b->len - begin - JOURNAL_FRAME_BYTES);
	store32(frame, len);
	store32(frame + 4, crc32_add(crc32_add(0, frame, 4), frame + JOURNAL_FRAME_BYTES, len));
	return 0;
}

/* --- in --- */

void journal_decoded_fini(struct journal_decoded *d)
{
	free(d->text);
	*d = (struct journal_decoded){ .text = NULL };
}

struct reader {
	const char *at, *end;
	char *text; /* where the next string is copied to */
	bool bad;
};

static uint64_t get_unsigned(struct reader *r)
{
	uint64_t v = 0;

	for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		unsigned char c = (unsigned char)*r->at++;

		v |= (uint64_t)(c & 127) << shift;
		if (!(c & 128))
			return v;
	}
	r->bad = true;
	return 0;
}

static int64_t get_signed(struct reader *r)
{
	uint64_t v = get_unsigned(r);

	return (int64_t)(v >> 1 ^ (~(v & 1) + 1));
}

static const char *get_bytes(struct reader *r, size_t *ret_len)
{
	uint64_t len = get_unsigned(r);
	const char *data = r->at;

	*ret_len = 0;
	if (r->bad || len > (uint64_t)(r->end - r->at)) {
		r->bad = true;
		return "";
	}
	r->at += len;
	*ret_len = (size_t)len;
	return data;
}

/* The length before a string takes at least one byte, so text has room for the NUL. */
static const char *get_string(struct reader *r)
{
	size_t len;
	const char *data = get_bytes(r, &len);
	char *copy = r->text;

	if (r->bad || memchr(data, '\0', len)) {
		r->bad = true;
		return "";
	}
	memcpy(copy, data, len);
	copy[len] = '\0';
	r->text += len + 1;
	return copy;
}

static void get_needs(struct reader *r, struct journal_decoded *d)
{
	uint64_t n = get_unsigned(r);

	if (n > QUEUE_NEEDS_MAX) {
		r->bad = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		d->needs[i] = get_string(r);
	d->record.needs = d->needs;
	d->record.n_needs = (size_t)n;
}

static void get_error(struct reader *r, struct journal_decoded *d)
{
	uint64_t code = get_unsigned(r);

	if (code > STATUS_UNAUTHENTICATED)
		r->bad = true;
	d->record.error.code = (enum status)code;
	d->record.error.message = get_string(r);
	d->record.error.details = get_string(r);
	d->worker = get_string(r);
	d->record.error.task = get_signed(r);
}

static void get_content(struct reader *r, unsigned parts, struct journal_decoded *d)
{
	struct queue_record *q = &d->record;

	if (parts & PART_TASK)
		q->task = get_signed(r);
	if (parts & PART_LIMIT)
		q->limit_ms = get_signed(r);
	if (parts & PART_NUMBER)
		q->number = get_signed(r);
	if (parts & PART_QUEUE)
		q->queue = get_string(r);
	if (parts & PART_PAYLOAD) {
		q->payload.format = get_string(r);
		q->payload.data = get_bytes(r, &q->payload.len);
	}
	if (parts & PART_NEEDS)
		get_needs(r, d);
	if (parts & PART_ERROR)
		get_error(r, d);
	q->flag = parts & PART_FLAG;
}

size_t journal_content_length(const char *frame)
{
	return load32(frame);
}

/* The content's length; 0 if the frame or its checksum is wrong. */
static size_t check_frame(const char *data, size_t len)
{
	size_t n;

	if (len < JOURNAL_FRAME_BYTES)
		return 0;
	n = journal_content_length(data);
	if (n < 2 || n > JOURNAL_CONTENT_MAX || n > len - JOURNAL_FRAME_BYTES)
		return 0;
	if (load32(data + 4) != crc32_add(crc32_add(0, data, 4), data + JOURNAL_FRAME_BYTES, n))
		return 0;
	return n;
}

int64_t journal_decode(const char *data, size_t len, struct journal_decoded *d, size_t *ret_bytes)
{
	size_t n = check_frame(data, len);
	const char *content = data + JOURNAL_FRAME_BYTES;
	struct reader r = { .bad = false };

	*ret_bytes = n ? n + JOURNAL_FRAME_BYTES : 0;
	if (!len)
		return 0;
	if (!n)
		return -EBADMSG;
	if (d->room < n) {
		char *grown = realloc(d->text, n);

		if (!grown)
			return -ENOMEM;
		d->text = grown;
		d->room = n;
	}
	r.at = content + 2;
	r.end = content + n;
	r.text = d->text;
	d->worker = "";
	d->record = (struct queue_record){ .kind = (enum queue_record_kind)content[0],
		.queue = "",
		.payload = { .data = "", .format = "" },
		.error = { .message = "", .details = "", .worker = -1, .task = -1 } };
	if ((unsigned char)content[0] >= QUEUE_REC_N)
		return -EPROTO;
	get_content(&r, (unsigned char)content[1], d);
	return r.bad || r.at != r.end ? -EPROTO : (int64_t)*ret_bytes;
}
