/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block of a log with a time index was written within one second. In a stamped log each line has
 * its own time, so the next line's stamp is always read ahead.
 */
#include "agent/logs/input.h"

#include "agent/logs/timestamp.h"

#include <errno.h>
#include <string.h>

/* Small enough for the JSON of one piece to fit into one reply. */
#define BLOCK_BYTES 8192

int log_input_init(struct log_input *in, const char *path, bool stamped)
{
	int r;

	*in = (struct log_input){ .stamped = stamped };
	in->time_us = in->next_us = -1;
	r = log_source_init(&in->source, path);
	in->block = malloc(BLOCK_BYTES);
	return in->block ? r : -ENOMEM;
}

void log_input_fini(struct log_input *in)
{
	log_source_fini(&in->source);
	free(in->block);
	in->block = NULL;
}

void log_input_reset(struct log_input *in)
{
	in->at = in->end = 0;
	in->within = in->over = false;
	in->time_us = in->next_us = -1;
}

/* Finds the time of the next line. */
static void read_next_time(struct log_input *in)
{
	int64_t from = in->source.offset - (int64_t)(in->end - in->at);
	int64_t us = log_index_order(&in->source.index, from);

	if (in->stamped && in->end - in->at >= LOG_STAMP_LEN &&
		log_stamp_read(in->block + in->at, &us) < 0)
		us = in->time_us;
	if (!in->within && us > in->next_us)
		in->next_us = us;
}

bool log_input_ready(const struct log_input *in)
{
	size_t n = in->end - in->at;

	return n > 0 && (in->within || in->over || !in->stamped || n >= LOG_STAMP_LEN);
}

int log_input_fill(struct log_input *in)
{
	ssize_t n;

	if (in->at > 0)
		memmove(in->block, in->block + in->at, in->end - in->at);
	in->end -= in->at;
	in->at = 0;
	n = log_source_read(&in->source, in->block + in->end, BLOCK_BYTES - in->end, &in->time_us,
		&in->range_us);
	if (n < 0 && n != -EBADMSG)
		return n;
	in->over = n <= 0;
	if (n > 0)
		in->end += n;
	if (in->end > 0) {
		read_next_time(in);
		return 1;
	}
	return log_source_next(&in->source);
}

size_t log_input_take(struct log_input *in, const char **ret)
{
	const char *piece = in->block + in->at;
	const char *nl = memchr(piece, '\n', in->end - in->at);
	size_t n = nl ? (size_t)(nl + 1 - piece) : in->end - in->at;

	*ret = piece;
	in->within = !nl;
	in->at += n;
	if (in->at < in->end)
		read_next_time(in);
	return n;
}
